"""The write-ahead log beside the file, as far as Tenure touches it itself: to sync it, and to write it once more.

SQLite syncs a log with fsync after each commit. What has to be on disk is the log's content and no more, so the commits
of the one thread that writes are left unsynced by SQLite and the log is synced here, with fdatasync: half the time of
a lone commit. SQLite goes on syncing what it needs for moving the log into the file.
"""

import fcntl
import os
from pathlib import Path

import apsw

REWRITE_BYTES = 64 * 1024  # SQLite writes less than 128 KiB at once


class Log:
    def __init__(self, path: Path, vfs: str | None) -> None:
        self._path = f"{path}-wal"
        self._vfs = vfs  # SQLite's way to the disk; None is the usual one
        self._handle = -1
        self._file: apsw.VFSFile | None = None

    def sync(self) -> None:
        """Everything that was committed is on disk afterwards; OSError or apsw.Error when that cannot be said."""
        if self._vfs is not None:
            if self._file is None:
                self._file = self._open()
            self._file.xSync(apsw.SQLITE_SYNC_NORMAL)
            return
        if self._handle < 0:
            self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._sync_folder()
        sync_data(self._handle)

    def _sync_folder(self) -> None:
        """A log that was made just now has to be found again."""
        folder = os.open(os.path.dirname(self._path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _open(self) -> apsw.VFSFile:
        return apsw.VFSFile(self._vfs or "", self._path, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0])

    def rewrite(self) -> None:
        """Write the log once more, as it is, and sync it; while nobody else may write to it.

        After a sync has failed the system may count as written what it could not write, and the next sync succeeds
        without it. A log with a hole ends at the hole, whatever was synced behind it.
        """
        if not os.path.exists(self._path):
            return
        log = self._open()
        try:
            size = log.xFileSize()
            for at in range(0, size, REWRITE_BYTES):
                log.xWrite(log.xRead(min(REWRITE_BYTES, size - at), at), at)
            log.xSync(apsw.SQLITE_SYNC_NORMAL)
        finally:
            log.xClose()

    def extend(self, size: int) -> None:
        """Fill it up to that size, behind what was written; while nobody else may write to it.

        A commit that finds room there changes neither the length of the log nor what it occupies, and its sync takes
        half the time. To SQLite a log ends at the first frame that is none.
        """
        log = self._open()
        try:
            for at in range(log.xFileSize(), size, REWRITE_BYTES):
                log.xWrite(bytes(min(REWRITE_BYTES, size - at)), at)
            log.xSync(apsw.SQLITE_SYNC_NORMAL)
        finally:
            log.xClose()

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._file is not None:
            self._file.xClose()
            self._file = None


def sync_data(handle: int) -> None:
    """The file's data is on disk afterwards. On macOS `fsync` alone leaves it in the disk's cache."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(handle)
    elif hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fsync(handle)
