"""Where a lake is: a folder, or a bucket. It adds to the places of backups what a log of commits needs.

`create` decides between two who want the same name: one of them gets it, whole, and the other is told. Everything else
about exactly-once follows from it (docs/decisions/0022-event-lake.md). Large files are written into a draft first, on
the disk of the folder or in a nameless file, and get their name when they are complete.
"""

import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from tenure.core.error import InvalidRequest, Unavailable
from tenure.ops.place import Folder as BackupFolder
from tenure.ops.place import Missing, explained, open_bucket, sync_folder, without_login
from tenure.ops.place import Place as BackupPlace

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PARTIAL = "_partial"  # Spark passes over what begins with an underscore
PATIENCE_S = 10.0
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 2
NAMES = 1_000
RULE = "it must be a folder, file:///folder, or s3://bucket/prefix; keys and endpoint are read from AWS_* variables"

__all__ = ["Bucket", "Draft", "Folder", "Missing", "Place", "check_url", "open_place"]


class Draft(Protocol):
    """A file that has no name in the lake yet. It goes with whoever writes it, unless it is kept."""

    file: IO[bytes]

    def drop(self) -> None: ...


class Place(Protocol):
    """Names to bytes. Trouble with the disk or the network is `Unavailable`, and may pass."""

    title: str

    def create(self, name: str, data: bytes) -> bool:
        """Put it there unless there is something: then False, and nothing has changed."""

    def put(self, name: str, data: bytes) -> None: ...

    def get(self, name: str) -> bytes:
        """All of it, or `Missing`."""

    def draft(self) -> Draft: ...

    def keep(self, draft: Draft, name: str) -> None:
        """Give the draft its name, once it is safe. The name is nobody else's."""

    def fetch(self, name: str) -> IO[bytes]:
        """A file to read it from; the caller closes it."""

    def names(self, prefix: str) -> Iterator[str]:
        """All names in a folder of the lake, in no order; "" is all of it."""

    def delete(self, names: list[str]) -> None:
        """One that is gone already is no error."""

    def address(self, name: str) -> str:
        """What Spark and pyarrow open it by."""

    def clear_drafts(self, before_s: float) -> int:
        """Remove what was last written before that time, by those who were killed while they wrote; how many."""


class _FileDraft:
    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.file: IO[bytes] = open(descriptor, "w+b")  # noqa: SIM115 (closed by drop)

    def drop(self) -> None:
        self.file.close()
        self.path.unlink(missing_ok=True)


class Folder(BackupFolder):
    partial = PARTIAL

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._made: set[Path] = set()

    def create(self, name: str, data: bytes) -> bool:
        """By a hard link: it fails when the name is taken, and what it names is complete."""
        target = self._root / name
        with explained(self.title):
            self._make(target.parent)
            draft = self._draft()
            try:
                draft.file.write(data)
                draft.file.flush()
                os.fsync(draft.file.fileno())
                try:
                    os.link(draft.path, target)
                except FileExistsError:
                    return False
                finally:
                    sync_folder(target.parent)
            finally:
                draft.drop()
        return True

    def draft(self) -> Draft:
        with explained(self.title):
            return self._draft()

    def _draft(self) -> _FileDraft:
        self._make(self._root / PARTIAL)
        return _FileDraft(self._root / PARTIAL / secrets.token_hex(8))

    def keep(self, draft: Draft, name: str) -> None:
        assert isinstance(draft, _FileDraft)
        target = self._root / name
        with explained(self.title):
            self._make(target.parent)
            draft.file.flush()
            os.fsync(draft.file.fileno())
            draft.file.close()
            os.rename(draft.path, target)
            sync_folder(target.parent)

    def _make(self, folder: Path) -> None:
        """Also its own name is to last."""
        if folder in self._made and folder.is_dir():
            return
        if not folder.is_dir():
            folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
        self._made.add(folder)

    def fetch(self, name: str) -> IO[bytes]:
        with explained(self.title):
            try:
                return open(self._root / name, "rb")
            except FileNotFoundError:
                raise Missing(f"{self.title} has no {name}") from None

    def names(self, prefix: str) -> Iterator[str]:
        """Of a folder that goes or comes meanwhile, some names may be missing; one that stays is there."""
        with explained(self.title):
            yield from self._walk(prefix)

    def _walk(self, folder: str) -> Iterator[str]:
        try:
            entries = os.scandir(self._root / folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield name
                elif folder or entry.name != PARTIAL:
                    yield from self._walk(name)

    def address(self, name: str) -> str:
        return str(self._root / name)

    def clear_drafts(self, before_s: float) -> int:
        cleared = 0
        with explained(self.title):
            for name in list(self._walk(PARTIAL)):
                try:
                    if (self._root / name).stat().st_mtime < before_s:
                        (self._root / name).unlink()
                        cleared += 1
                except FileNotFoundError:
                    continue
        return cleared


def _nameless() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="tenure-lake-")


class _NamelessDraft:
    """Nothing is left of it when the process is killed."""

    def __init__(self) -> None:
        self.file = _nameless()

    def drop(self) -> None:
        self.file.close()


class Bucket(BackupPlace):
    """S3, by conditional writes (`If-None-Match: *`)."""

    def __init__(self, store: "ObjectStore", url: str) -> None:
        super().__init__(store, url.rstrip("/"))

    def create(self, name: str, data: bytes) -> bool:
        with explained(self.title):
            try:
                obstore.put(self._store, name, data, mode="create")
            except (AlreadyExistsError, PreconditionError, FileExistsError):
                return False
        return True

    def draft(self) -> Draft:
        with explained(tempfile.gettempdir()):
            return _NamelessDraft()

    def keep(self, draft: Draft, name: str) -> None:
        with explained(self.title):
            draft.file.flush()
            size = draft.file.seek(0, os.SEEK_END)
            draft.file.seek(0)
            obstore.put(
                self._store,
                name,
                draft.file,
                use_multipart=size > PART_BYTES,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_ONCE,
            )
        draft.drop()

    def fetch(self, name: str) -> IO[bytes]:
        found = _nameless()
        try:
            with explained(self.title):
                try:
                    for part in obstore.get(self._store, name).stream(min_chunk_size=1024 * 1024):
                        found.write(part)
                except FileNotFoundError:
                    raise Missing(f"{self.title} has no {name}") from None
        except BaseException:
            found.close()
            raise
        found.seek(0)
        return found

    def names(self, prefix: str) -> Iterator[str]:
        with explained(self.title):
            for page in obstore.list(self._store, prefix or None, chunk_size=NAMES):
                for found in page:
                    yield found["path"]

    def address(self, name: str) -> str:
        return f"{self.title}/{name}"

    def clear_drafts(self, before_s: float) -> int:  # noqa: ARG002 (they have no names)
        return 0


def check_url(url: str) -> None:
    """Whether it names a place at all, without a look at it."""
    _read_url(url)


def _read_url(url: str) -> Path | None:
    """The folder; None for a bucket."""
    parts = urlsplit(url)
    if parts.scheme in ("s3", "s3a"):
        if not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
            raise InvalidRequest("lake", f"{parts.scheme}://...", RULE)
        return None
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path)).absolute()
    if not url or "://" in url:
        raise InvalidRequest("lake", without_login(url), RULE)
    return Path(url).absolute()


def open_place(url: str, create: bool = False, patience_s: float = PATIENCE_S) -> Place:
    """The place that a path or URL names; a folder is made if `create` says so."""
    root = _read_url(url)
    if root is None:
        url = f"s3{url[url.index(':') :]}"
        return Bucket(open_bucket(url, patience_s), url)
    with explained(str(root)):
        if create:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not root.is_dir():
            raise Unavailable(f"{root} is not a folder; name the folder or bucket of the lake")
    return Folder(root)
