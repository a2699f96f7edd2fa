"""Where backups are kept: a folder, or a bucket of an object store. Objects have names, appear whole or not at all."""

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from tenure.core.error import Error, InvalidRequest, Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

BUCKETS = ("s3", "s3a", "gs", "az")
PARTIAL = "partial"
PATIENCE_S = 60.0
PART_BYTES = 8 * 1024 * 1024  # a request has half a minute
REASON_CHARS_MAX = 300
RULE = "it must be a folder, file:///folder, or a bucket such as s3://bucket/prefix"


@dataclass(frozen=True, slots=True)
class Stored:
    """An object in a listing."""

    name: str
    size_bytes: int
    at_ms: int  # when it was stored, by the clock of the place


class Missing(Error):
    """There is no such object."""

    status = 404


class Place:
    def __init__(self, store: "ObjectStore", title: str) -> None:
        self._store = store
        self.title = title

    def put(self, name: str, data: bytes) -> None:
        """What is large goes in parts, which are one object once the last has arrived."""
        with explained(self.title):
            obstore.put(self._store, name, data, use_multipart=len(data) > PART_BYTES, chunk_size=PART_BYTES)

    def get(self, name: str) -> bytes:
        with explained(self.title):
            try:
                return obstore.get(self._store, name).bytes().to_bytes()
            except FileNotFoundError:
                raise Missing(f"{self.title} has no {name}") from None

    def get_large(self, name: str, bytes_max: int) -> bytes:
        """In parts; no more than is asked for, and one byte."""
        with explained(self.title):
            try:
                size_bytes = min(obstore.head(self._store, name)["size"], bytes_max + 1)
                return b"".join(
                    obstore.get_range(self._store, name, start=at, length=min(PART_BYTES, size_bytes - at)).to_bytes()
                    for at in range(0, size_bytes, PART_BYTES)
                )
            except FileNotFoundError:
                raise Missing(f"{self.title} has no {name}") from None

    def list(self, prefix: str) -> list[Stored]:
        with explained(self.title):
            return sorted(
                (
                    Stored(found["path"], found["size"], int(found["last_modified"].timestamp() * 1000))
                    for page in obstore.list(self._store, prefix)
                    for found in page
                ),
                key=lambda stored: stored.name,
            )

    def delete(self, names: Iterable[str]) -> None:
        """One that is gone already is no error."""
        for name in names:
            with explained(self.title):
                try:
                    obstore.delete(self._store, name)
                except FileNotFoundError:
                    pass


class Folder(Place):
    """Objects are synced before they have their name: what a listing shows is there after a power cut."""

    partial = PARTIAL  # the folder of what is being written

    def __init__(self, root: Path) -> None:
        super().__init__(LocalStore(root), str(root))
        self._root = root

    def put(self, name: str, data: bytes) -> None:
        target = self._root / name
        partial = self._root / self.partial / secrets.token_hex(8)
        with explained(self.title):
            for folder in (partial.parent, target.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)
                os.rename(partial, target)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
            sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in it as lasting as what they name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_place(text: str, create: bool = False, patience_s: float = PATIENCE_S) -> Place:
    """The place that a path or URL names. Keys and endpoints of buckets come from the environment (AWS_*), not from it.

    A request that fails is repeated for `patience_s`.
    """
    parts = urlsplit(text)
    if parts.scheme in BUCKETS:
        return _open_bucket(text, patience_s)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return _open_folder(Path(unquote(parts.path)), create)
    if not text or "://" in text:
        raise InvalidRequest("destination", without_login(text), RULE)
    return _open_folder(Path(text), create)


def without_login(text: str) -> str:
    scheme, _, rest = text.partition("://")
    return f"{scheme}://...{rest[rest.rindex('@') :]}" if "@" in rest else text


def _open_folder(root: Path, create: bool) -> Place:
    with explained(str(root)):
        if create:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not root.is_dir():
            raise Unavailable(f"{root} is not a folder; name the folder or bucket that backups were made to")
    return Folder(root.absolute())


def _open_bucket(url: str, patience_s: float) -> Place:
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or not parts.netloc:
        rule = "it must be a bucket and a prefix alone; keys and endpoints are read from the environment (AWS_*)"
        raise InvalidRequest("destination", f"{parts.scheme}://...", rule)
    return Place(open_bucket(url, patience_s), url)


def open_bucket(url: str, patience_s: float) -> "ObjectStore":
    options: dict[str, Any] = {
        "retry_config": {
            "retry_timeout": timedelta(seconds=patience_s),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=5),
                "base": 2,
            },
        }
    }
    with explained(url):
        return from_url(url, **options)


@contextmanager
def explained(title: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise Unavailable(f"{title} may not be used: {error.strerror}; check its owner and mode") from error
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise Unavailable(f"{title} cannot be used: {reason}; check the disk, then try again") from error
    except BaseError as error:
        # What follows the first line is for those who debug the library.
        reason = str(error).split("\n")[0].strip()[:REASON_CHARS_MAX]
        hint = "check AWS_ENDPOINT, AWS_REGION and the keys, then try again" if title.startswith("s3") else "try again"
        raise Unavailable(f"{title} cannot be used: {reason}; {hint}") from error
