"""Blobs in a folder, one file each. The disk is touched in threads, never by the event loop."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Lock

from tenure.core.error import Unavailable
from tenure.store.blob.place import LIST_NAMES, Missing, Oversize

PART = ".part"  # ends the name of a file that is being written


class Folder:
    def __init__(self, path: Path, parent: "Folder | None" = None) -> None:
        self._path = path
        self._parent = parent  # to be made with it

    @property
    def is_remote(self) -> bool:
        return False

    def __str__(self) -> str:
        return str(self._path)

    async def put(self, name: str, data: bytes) -> None:
        await asyncio.to_thread(self._put, name, data)

    async def get(self, name: str, bytes_max: int) -> bytes:
        return await asyncio.to_thread(self._get, name, bytes_max)

    async def delete(self, names: list[str]) -> None:
        await asyncio.to_thread(self._delete, names)

    async def names(self) -> AsyncGenerator[list[str], None]:
        listing = _Listing(self._path)
        try:
            while names := await asyncio.to_thread(listing.next_names):
                yield names
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._trouble("read", error) from error
        finally:
            await asyncio.to_thread(listing.close)

    def within(self, folder: str) -> "Folder":
        return Folder(self._path / folder, self)

    def _put(self, name: str, data: bytes) -> None:
        """Under another name first; the folder is synced too, or a power cut could take the new name away."""
        part = self._path / f"{name}{PART}"
        try:
            self._make()
            file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(file, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, self._path / name)
            _sync_folder(self._path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(part)
            raise self._trouble("written", error) from error

    def _make(self) -> None:
        if not self._path.is_dir():
            if self._parent is not None:
                self._parent._make()
            self._path.mkdir(mode=0o700, exist_ok=True)
            _sync_folder(self._path.parent)

    def _get(self, name: str, bytes_max: int) -> bytes:
        try:
            with open(self._path / name, "rb") as file:
                if os.fstat(file.fileno()).st_size > bytes_max:
                    raise Oversize
                return file.read()
        except FileNotFoundError:
            raise Missing from None
        except OSError as error:
            raise self._trouble("read", error) from error

    def _delete(self, names: list[str]) -> None:
        try:
            for name in names:
                with suppress(FileNotFoundError):
                    os.unlink(self._path / name)
        except OSError as error:
            raise self._trouble("cleared", error) from error

    def _trouble(self, verb: str, error: OSError) -> Unavailable:
        return Unavailable(f"the blob folder {self._path} cannot be {verb}: {error.strerror}; check it and its disk")


class _Listing:
    """Who gives up waiting for names does not stop the thread that reads them: the folder is closed after it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._entries: os._ScandirIterator[str] | None = None
        self._is_closed = False

    def next_names(self) -> list[str]:
        with self._lock:
            if self._is_closed:
                return []
            if self._entries is None:
                self._entries = os.scandir(self._path)
            return [entry.name for entry in islice(self._entries, LIST_NAMES)]

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._entries is not None:
                self._entries.close()


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
