"""The SQLite file of an embedded store: making it, owning it, and reading what it holds.

One process owns a file at a time: it holds a lock on the file `<name>-owner` beside it, and its number, the epoch, is
in `meta`. Every transaction that writes checks the epoch, so an owner that was taken for dead can write nothing more.
"""

import fcntl
import gc
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

from tenure.core.clock import Now
from tenure.core.error import Error, Unavailable
from tenure.core.record import StreamItem
from tenure.core.token import SECRET_BYTES
from tenure.engine.engine import Engine
from tenure.engine.redo import Sections
from tenure.engine.restore import Restore

APPLICATION_ID = 0x54656E75  # "Tenu"
FORMAT = 1
PAGE_BYTES = 4096
BUSY_MS = 5_000
REWRITE_BYTES = 64 * 1024  # SQLite writes less than 128 KiB at once
NETWORK_KINDS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "glusterfs", "ceph", "lustre"})

_unpack = msgspec.msgpack.Decoder().decode


class Damaged(Error):
    """The file does not say what was written into it. Nothing is served from it."""

    status = 500


class StoreFile:
    """An open file that this process owns."""

    def __init__(self, path: Path, vfs: str | None = None) -> None:
        self.path = path
        self._vfs = vfs  # SQLite's way to the disk; None is the usual one
        self.secret = b""
        self.epoch = 0
        self.reserved_id = 0
        self.reserved_seq = 0
        self.fenced_epoch = 0  # the epoch in which this file was copied from another store's
        self.position = 0  # of the last record in the journal
        self.elapsed_from = 0  # what the store's elapsed time is ahead of the process's
        self._lock = -1

    # Opening.

    def open(self) -> None:
        refuse_network(self.path)
        self._take_ownership()
        try:
            db = self.connect()
            try:
                self._prepare(db)
            finally:
                db.close()
        except BaseException as error:
            self.release()
            if isinstance(error, apsw.Error):
                raise explained(self.path, error) from error
            if isinstance(error, KeyError | ValueError):
                raise Damaged(
                    f"{self.path} is damaged: its meta table lacks {error}; restore it from a backup"
                ) from error
            raise

    def _take_ownership(self) -> None:
        try:
            # Payloads, and the secret that makes tokens, are the owner's alone; SQLite gives its other files this mode.
            os.close(os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            lock = os.open(f"{self.path}-owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be opened: {error.strerror}; check its folder") from error
        if not lock_file(lock):
            os.close(lock)
            raise Unavailable(f"{self.path} is open in another process; close it there, or use a server")
        self._lock = lock

    def connect(self) -> apsw.Connection:
        db = apsw.Connection(str(self.path), vfs=self._vfs)
        db.set_busy_timeout(BUSY_MS)
        return db

    def rewrite_log(self) -> None:
        """Write the write-ahead log once more, as it is, and sync it; by the one thread that writes to it.

        After a sync has failed the system may count as written what it could not write, and the next sync succeeds
        without it. A log with a hole ends at the hole, whatever was synced behind it.
        """
        path = f"{self.path}-wal"
        if not os.path.exists(path):
            return
        log = apsw.VFSFile(self._vfs or "", path, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0])
        try:
            size = log.xFileSize()
            for at in range(0, size, REWRITE_BYTES):
                log.xWrite(log.xRead(min(REWRITE_BYTES, size - at), at), at)
            log.xSync(apsw.SQLITE_SYNC_NORMAL)
        finally:
            log.xClose()

    def _prepare(self, db: apsw.Connection) -> None:
        if one(db, "PRAGMA user_version") == 0 and one(db, "SELECT count(*) FROM sqlite_master") == 0:
            self._make(db)
        if one(db, "PRAGMA application_id") != APPLICATION_ID:
            raise Unavailable(f"{self.path} is a database of something else; choose another file")
        version = one(db, "PRAGMA user_version")
        if version != FORMAT:
            raise Unavailable(
                f"{self.path} has format {version}, this Tenure reads format {FORMAT}; use a newer Tenure"
            )
        db.execute("PRAGMA journal_mode=WAL")
        with db:
            meta = read_meta(db)
            self._learn(meta)
            self.epoch += 1
            self.position = last_position(db, meta)
            write_meta(db, {"epoch": self.epoch, "closed_cleanly": 0})

    def _learn(self, meta: dict[str, object]) -> None:
        self.secret = bytes_of(meta["secret"])
        self.epoch = int_of(meta["epoch"])
        self.reserved_id = int_of(meta["reserved_id"])
        self.reserved_seq = int_of(meta["reserved_seq"])
        self.fenced_epoch = int_of(meta.get("fenced_epoch", 0))

    def _make(self, db: apsw.Connection) -> None:
        db.execute(f"PRAGMA page_size={PAGE_BYTES}")
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("PRAGMA journal_mode=WAL")
        with db:
            db.execute(resources.files(__package__).joinpath("schema.sql").read_text())
            write_meta(
                db,
                {
                    "secret": secrets.token_bytes(SECRET_BYTES),
                    "epoch": 0,
                    "reserved_id": 0,
                    "reserved_seq": 0,
                    "closed_cleanly": 1,
                    "checkpoint": 0,
                    "head": b"",
                    "as_of": 0,
                },
            )
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={FORMAT}")

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # Reading.

    def restore(self, now: Now) -> Engine:
        """The engine that wrote the file, at the time it is now. What the machine slept has passed for leases too."""
        return self._read(self.connect(), lambda db: self._restore(db, now))

    def examine(self) -> Engine:
        """The engine as of its last record, from a file that nobody writes to and that stays as it is."""

        def read(db: apsw.Connection) -> Engine:
            self._learn(read_meta(db))
            return self._restore(db, Now(0, 0))

        return self._read(connect_to_still(self.path), read)

    def _read(self, db: apsw.Connection, read: Callable[[apsw.Connection], Engine]) -> Engine:
        collects = gc.isenabled()
        gc.disable()  # millions of objects are made here, and none of them is garbage
        try:
            db.execute("BEGIN")
            return read(db)
        except apsw.Error as error:
            raise explained(self.path, error) from error
        except (ValueError, IndexError, KeyError, msgspec.MsgspecError) as error:
            raise Damaged(f"{self.path} cannot be read: {error}; restore it from a backup") from error
        finally:
            if collects:
                gc.enable()
            db.close()

    def _restore(self, db: apsw.Connection, now: Now) -> Engine:
        restore = Restore(self.secret, self.epoch, self.fenced_epoch)
        meta = read_meta(db)
        head = bytes_of(meta["head"])
        if head:
            restore.head(Sections(head))
        for page, checksum, facts in db.execute("SELECT page, checksum, facts FROM pages"):
            self._check("page", page, checksum, facts)
            restore.page(facts)
        for page, at, tenants, codes, owners in db.execute("SELECT page, at, tenants, codes, owners FROM outcomes"):
            restore.outcomes(page * 1024, msgspec.json.decode(tenants, type=list[str]), codes, owners, at)
        for job, kind, item, at, data in db.execute("SELECT job, kind, item, at, data FROM output"):
            restore.output(job, kind, StreamItem(item, at, data))
        for name, fact in db.execute("SELECT name, fact FROM entities"):
            restore.entity(tuple(_unpack(name)), _unpack(fact))
        for n, checksum, record, events in self._records(db, int_of(meta["checkpoint"])):
            self._check("record", n, checksum, record + events)
            if record:
                restore.record(record)
        passed = max(now.wall_ms - restore.wall_ms, 0) if restore.wall_ms else 0
        self.elapsed_from = restore.elapsed_ms + passed - now.elapsed_ms
        told = "SELECT max(last_seq) FROM (SELECT last_seq FROM events UNION ALL SELECT last_seq FROM journal)"
        seq = max(restore.seq, int_of(one(db, told) or 0), self.reserved_seq)
        return restore.finish(Now(now.wall_ms, now.elapsed_ms + self.elapsed_from), seq, self.reserved_id)

    def _records(self, db: apsw.Connection, after: int) -> Iterator[tuple[int, int, bytes, bytes]]:
        expected = after + 1
        for n, checksum, record, events in db.execute(
            "SELECT n, checksum, record, events FROM journal WHERE n > ? ORDER BY n", (after,)
        ):
            if n != expected:
                raise Damaged(f"{self.path} misses record {expected} of its journal; restore it from a backup")
            expected += 1
            yield n, checksum, record, events

    def _check(self, what: str, number: int, checksum: int, data: object) -> None:
        if not isinstance(data, bytes) or zlib.crc32(data) != checksum:
            raise Damaged(f"{self.path} is damaged: {what} {number} is not as it was written; restore a backup")


def one(db: apsw.Connection, sql: str) -> object:
    row = db.execute(sql).fetchone()
    return None if row is None else row[0]


def int_of(value: object) -> int:
    if not isinstance(value, int):
        raise ValueError(f"a number is {value!r}")
    return value


def bytes_of(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError(f"a blob is {value!r}")
    return value


def last_position(db: apsw.Connection, meta: dict[str, object]) -> int:
    """Of the last record that was written, also if the checkpoint has made it needless."""
    return max(int_of(one(db, "SELECT coalesce(max(n), 0) FROM journal")), int_of(meta["checkpoint"]))


def lock_file(descriptor: int) -> bool:
    """Lock it until it is closed; False when another process has."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def connect_to_still(path: Path) -> apsw.Connection:
    """For reading a file that nobody writes to, without a log or a lock beside it."""
    name = f"file:{quote(str(path.absolute()))}?immutable=1"
    return apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def read_meta(db: apsw.Connection) -> dict[str, object]:
    return dict(db.execute("SELECT key, value FROM meta"))


def write_meta(db: apsw.Connection, values: dict[str, int | bytes | str]) -> None:
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))


class Fenced(Exception):
    """Another process has taken the file over."""


def check_epoch(db: apsw.Connection, epoch: int) -> None:
    if one(db, "SELECT value FROM meta WHERE key = 'epoch'") != epoch:
        raise Fenced


def explained(path: Path, error: apsw.Error) -> Error:
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Damaged(f"{path} is damaged: {error}; restore it from a backup")
    return Unavailable(f"{path} cannot be used: {error}")


def refuse_network(path: Path) -> None:
    """Locks and shared memory are not to be trusted on network file systems."""
    folder = str(path.resolve().parent)
    found = ("", "")
    with suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, mount, kind, *_ = line.split()
            if (folder == mount or folder.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(found[0]):
                found = (mount, kind)
    if found[1] in NETWORK_KINDS:
        raise Unavailable(
            f"{path} is on a network file system ({found[1]}), where a power cut or a second machine can damage it;"
            " use a local disk, or a server"
        )
