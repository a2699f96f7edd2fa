"""From a URL to a store. One of the few places that name a concrete one."""

from urllib.parse import parse_qsl, unquote, urlsplit

from tenure.core.error import InvalidRequest, Unsupported
from tenure.store.blob.place import open_place
from tenure.store.contract import Store
from tenure.store.embedded.memory import MemoryStore
from tenure.store.embedded.shared import SharedStore

PLANNED = ("postgresql", "redis", "fdb", "tenure", "tenure+unix")


def open_store(url: str) -> Store:
    """The store that the URL names, not yet opened."""
    scheme = urlsplit(url).scheme
    if scheme == "memory":
        return MemoryStore()
    if scheme == "sqlite":
        return _sqlite(url)
    if scheme in PLANNED:
        raise Unsupported(f"{scheme}:// yet (memory:// and sqlite:// work)")
    raise InvalidRequest("url", url, "it must begin with memory:// or sqlite://")


def sqlite_path(url: str) -> str:
    """sqlite:///jobs.db is beside the process, sqlite:////var/lib/jobs.db at the root."""
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidRequest("url", url, "it must be sqlite:/// and a file, as in sqlite:///jobs.db")
    return path


def _sqlite(url: str) -> Store:
    """?durability=relaxed, and &blobs= with a folder or s3://bucket/prefix for what is over the payload cap."""
    path = sqlite_path(url)
    fields = dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    durability = fields.pop("durability", "fsync")
    blobs = fields.pop("blobs", None)
    if fields:
        raise InvalidRequest("url", url, f"{', '.join(fields)} is not known; durability and blobs are")
    return SharedStore(path, durability, blobs=None if blobs is None else open_place(blobs))
