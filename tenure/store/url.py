"""From a URL to a store. One of the few places that name a concrete one."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from tenure.core.error import InvalidRequest, Unsupported
from tenure.store.blob.place import Place, open_place
from tenure.store.contract import Store

PLANNED = ("postgresql", "redis", "fdb")


class SqliteUrl(NamedTuple):
    """What a URL of a store on disk says."""

    path: Path
    durability: str = "fsync"
    blobs: Place | None = None


def open_store(url: str) -> Store:
    """The store that the URL names, not yet opened. Its code is loaded here: a client of a server does without."""
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        from tenure.store.embedded.memory import MemoryStore

        return MemoryStore()
    if scheme == "sqlite":
        from tenure.store.embedded.shared import SharedStore

        found = read_sqlite(url)
        return SharedStore(found.path, found.durability, blobs=found.blobs)
    if scheme in PLANNED:
        raise Unsupported(f"{scheme}:// yet (memory:// and sqlite:// work)")
    raise InvalidRequest("url", url, "it must begin with memory:// or sqlite://")


def read_sqlite(url: str) -> SqliteUrl:
    """sqlite:///jobs.db is beside the process, sqlite:////var/lib/jobs.db at the root.

    ?durability=relaxed, and &blobs= with a folder or s3://bucket/prefix for what is over the payload cap.
    """
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidRequest("url", url, "it must be sqlite:/// and a file, as in sqlite:///jobs.db")
    fields = dict(parse_qsl(parts.query, keep_blank_values=True))
    durability = fields.pop("durability", "fsync")
    blobs = fields.pop("blobs", None)
    if fields:
        raise InvalidRequest("url", url, f"{', '.join(fields)} is not known; durability and blobs are")
    return SqliteUrl(Path(path), durability, None if blobs is None else open_place(blobs))
