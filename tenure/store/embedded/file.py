"""The SQLite file of an embedded store: making it, owning it, and reading what it holds.

One process owns a file at a time: it holds a lock on the file `<name>-owner` beside it, and its number, the epoch, is
in `meta`. Every transaction that writes checks the epoch, so an owner that was taken for dead can write nothing more.
"""

import fcntl
import gc
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from urllib.parse import quote

import apsw
import msgspec

from tenure.core.clock import Now
from tenure.core.error import Error, Internal, Unavailable
from tenure.core.token import SECRET_BYTES
from tenure.engine.engine import Engine
from tenure.engine.redo import Sections
from tenure.engine.restore import Restore
from tenure.store.contract import Identity, Moved
from tenure.store.embedded import hold, mark
from tenure.store.embedded.content import (
    APPLICATION_ID,
    FORMAT,
    INCREMENTAL,
    Content,
    Damaged,
    Unreadable,
    damaged,
    is_damage,
    meta_checksum,
    read_meta,
    refuse_unreleased,
    schema_checksum,
    write_meta,
)
from tenure.store.embedded.home import identity_of
from tenure.store.embedded.hung import end_process
from tenure.store.embedded.inspection import inspect
from tenure.store.embedded.log import Log

PAGE_BYTES = 4096
BUSY_MS = 5_000
OVER_BUSY_MS = 1_000
NETWORK_KINDS = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "glusterfs", "ceph", "lustre"})

_unpack = msgspec.msgpack.Decoder().decode


class Owned(Unavailable):
    """Another process owns the file; whether it is still opening it, and its epoch once it is not."""

    def __init__(self, path: Path, pid: int, epoch: int, is_opening: bool) -> None:
        super().__init__(
            f"{path} is open in {f'process {pid}' if pid else 'another process'}; close it there, or join it"
        )
        self.epoch = epoch
        self.is_opening = is_opening


class TakenOver(Moved):
    """This process owned the file and was passed over. What it has not answered was not done."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another process has taken {path} over; open it again to join")


class Owner(msgspec.Struct):
    """What stands in the file that is locked."""

    pid: int
    epoch: int = 0
    serving: bool = False


class StoreFile:
    """An open file that this process owns."""

    def __init__(self, path: Path, vfs: str | None = None, with_blobs: bool = False) -> None:
        self.path = path
        self._with_blobs = with_blobs  # from now on jobs may have blobs
        self._vfs = vfs  # SQLite's way to the disk; None is the usual one
        self.secret = b""
        self.epoch = 0
        self.reserved_id = 0
        self.reserved_seq = 0
        self.fenced_epoch = 0  # the epoch in which this file was copied from another store's
        self.blob_home = ""  # the folder of its blobs inside their place
        self.position = 0  # of the last record in the journal
        self.last_event = 0  # in the file
        self.elapsed_from = 0  # what the store's elapsed time is ahead of the process's
        self.left_out_from = 0  # likewise, of the time that does not count for leases
        self._lock = -1
        self._mark = -1
        self._identity = b""

    # Opening.

    def open(self, over: int | None = None) -> None:
        """`over` is the epoch of an owner that hangs and is to be passed over; 0 when nobody knows it."""
        refuse_network(self.path)
        self._take_ownership(over is not None)
        try:
            with self._judging(self.connect):
                if over is None:
                    self._begin(None)
                else:
                    self._pass_over(over)
            self.tell(False)
        except BaseException:
            self.release()
            if over is not None:
                with suppress(FileNotFoundError):
                    os.unlink(self._new_lock_path())
            raise

    def _begin(self, over: int | None) -> None:
        db = self.connect()
        try:
            if over is not None:
                db.set_busy_timeout(OVER_BUSY_MS)
            self._prepare(db, over)
        finally:
            db.close()

    def _pass_over(self, epoch: int) -> None:
        try:
            self._begin(epoch)
        except apsw.BusyError:
            with open(self._lock_path(), "rb") as lock:
                owner = _read_owner(lock.fileno())
            if owner.epoch != epoch:  # another was faster
                raise Owned(self.path, owner.pid, owner.epoch, not owner.serving) from None
            if not end_process(owner.pid, self._lock_path()):
                raise Unavailable(
                    f"{self.path} is held by process {owner.pid}, which does not answer and cannot be ended from here;"
                    " end it"
                ) from None
            self._begin(epoch)
        os.rename(self._new_lock_path(), self._lock_path())

    def _lock_path(self) -> str:
        return f"{self.path}-owner"

    def _new_lock_path(self) -> str:
        return f"{self.path}-owner.{os.getpid()}"

    def _take_ownership(self, by_force: bool) -> None:
        """Lock the file of owners. By force: a new one, that takes its place once the epoch is ours."""
        path = self._new_lock_path() if by_force else self._lock_path()
        was_there = self.path.exists()
        try:
            # Payloads, and the secret that makes tokens, are the owner's alone; SQLite gives its other files this mode.
            os.close(os.open(self.path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(f"{self.path} cannot be opened: {error.strerror}; check its folder") from error
        if not lock_file(lock):
            owner = _read_owner(lock)
            os.close(lock)
            raise Owned(self.path, owner.pid, owner.epoch, not owner.serving)
        self._lock = lock
        self.tell(False)
        try:
            self._mark = os.open(f"{self.path}-mark", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if was_there and self.path.stat().st_size == 0 and (mark.was_made(self._mark) or self._has_log()):
                raise damaged(self.path, "it is empty, and was not; to begin anew remove it")
        except BaseException:
            self.release()
            raise

    def _has_log(self) -> bool:
        return bool(_size_of(f"{self.path}-wal"))

    def tell(self, serving: bool) -> None:
        """Let those who find the file locked know by whom."""
        text = msgspec.json.encode(Owner(os.getpid(), self.epoch, serving))
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text, 0)

    def is_mine(self) -> bool:
        """Whether the file of owners is still the one that this process has locked.

        Who passes an owner over raises the epoch and puts a new file of owners in its place, before it serves anybody.
        No database is opened for this, because the loop asks each second; a transaction checks the epoch itself.
        """
        try:
            there = os.stat(self._lock_path())
        except OSError:
            return True
        mine = os.fstat(self._lock)
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def connect(self) -> apsw.Connection:
        db = apsw.Connection(str(self.path), vfs=self._vfs)
        db.set_busy_timeout(BUSY_MS)
        return db

    def log(self) -> Log:
        return Log(self.path, self._vfs)

    def _prepare(self, db: apsw.Connection, over: int | None) -> None:
        if one(db, "PRAGMA user_version") == 0 and one(db, "SELECT count(*) FROM sqlite_master") == 0:
            if int_of(one(db, "PRAGMA page_count")) > 1:
                raise Unreadable(self.path, "it has no tables")
            self._make(db)
        self._check_head(db)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("BEGIN IMMEDIATE")  # after it nothing of an older epoch can be committed
        self._raise_epoch(db, over)
        db.execute("COMMIT")

    def _raise_epoch(self, db: apsw.Connection, over: int | None) -> None:
        meta = read_meta(self.path, db)
        if over and meta["epoch"] != over:
            raise Owned(self.path, 0, int_of(meta["epoch"]), False)
        if meta["schema"] != schema_checksum(db):
            raise Unreadable(self.path, "its schema is not as it was written")
        self._learn(meta)
        self.epoch += 1
        self.position = last_position(db, meta)
        if self.position < int_of(meta["position"]):
            raise Unreadable(self.path, f"it misses record {self.position + 1} of its journal")
        self._identity = mark.identity(self.path, self.secret)
        if (self.epoch - 1, self.position) < mark.reached(self._mark, self._identity):
            # File and mark are written apart from each other: this is the second look already.
            what = mark.cut(self.position)
            raise Damaged(f"{self.path} is damaged: {what}; restore a backup, and remove {self.path}-mark")
        write_meta(db, {"epoch": self.epoch, "position": self.position})
        if self._with_blobs and "blobs" not in meta:
            write_meta(db, {"blobs": 1})

    def _check_head(self, db: apsw.Connection) -> None:
        """What the head of the file says, against what `meta` does when it is ours."""
        version = one(db, "PRAGMA user_version")
        application = one(db, "PRAGMA application_id")
        is_ours = application == APPLICATION_ID
        vacuum = one(db, "PRAGMA auto_vacuum")
        if is_ours and version == FORMAT and vacuum == INCREMENTAL:
            return
        refuse_unreleased(self.path, application)
        if one(db, "SELECT count(*) FROM sqlite_master WHERE name IN ('meta', 'journal', 'sums')") == 3:
            row = db.execute("SELECT value, checksum FROM meta WHERE key = 'format'").fetchone()
            if row == (FORMAT, meta_checksum("format", FORMAT)):
                raise Unreadable(self.path, "its head is not as it was written")
        if not is_ours:
            raise Unavailable(f"{self.path} is a database of something else; choose another file")
        raise Unavailable(f"{self.path} has format {version}, this Tenure reads format {FORMAT}; use a newer Tenure")

    def _learn(self, meta: dict[str, object]) -> None:
        self.secret = bytes_of(meta["secret"])
        self.epoch = int_of(meta["epoch"])
        self.reserved_id = int_of(meta["reserved_id"])
        self.reserved_seq = int_of(meta["reserved_seq"])
        self.fenced_epoch = int_of(meta.get("fenced_epoch", 0))
        self.blob_home = str(meta.get("blob_home", ""))

    def _make(self, db: apsw.Connection) -> None:
        db.execute(f"PRAGMA page_size={PAGE_BYTES}")
        db.execute("PRAGMA auto_vacuum=INCREMENTAL")
        db.execute("PRAGMA journal_mode=WAL")
        with db:
            db.execute(resources.files(__package__).joinpath("schema.sql").read_text())
            write_meta(
                db,
                {
                    "format": FORMAT,
                    "schema": schema_checksum(db),
                    "secret": secrets.token_bytes(SECRET_BYTES),
                    "epoch": 0,
                    "position": 0,
                    "synced": 0,
                    "tidied": 0,
                    "reserved_id": 0,
                    "reserved_seq": 0,
                    "checkpoint": 0,
                    "head": b"",
                    "as_of": 0,
                },
            )
            db.execute(f"PRAGMA application_id={APPLICATION_ID}")
            db.execute(f"PRAGMA user_version={FORMAT}")
        mark.made(self._mark)

    def mark(self, position: int) -> None:
        """Note that the journal is on disk up to there."""
        mark.note(self._mark, self._identity, self.epoch, position)

    def is_held(self) -> bool:
        """Whether a backup reads the blobs: none may be deleted. Nobody knows of a file that is not open."""
        return self._mark < 0 or hold.is_held(self._mark)

    def release(self) -> None:
        for handle in (self._lock, self._mark):
            if handle >= 0:
                os.close(handle)
        self._lock = self._mark = -1

    # Reading.

    def identity(self) -> Identity:
        """Also of a file that another process owns."""
        with self.reading() as content:
            meta = content.meta()
            return identity_of(bytes_of(meta["secret"]), str(meta.get("store") or ""))

    def restore(self, now: Now) -> Engine:
        """The engine that wrote the file, at the time it is now. What the machine slept has passed for leases too."""
        return self._read(self.connect, lambda content: self._restore(content, now))

    def examine(self) -> Engine:
        """The engine as of its last record, from a file that nobody writes to and that stays as it is."""

        def read(content: Content) -> Engine:
            meta = content.meta()
            self._learn(meta)
            self.position = int_of(meta["position"])
            return self._restore(content, Now(0, 0))

        return self._read(lambda: connect_to_still(self.path), read)

    def _read(self, connect: Callable[[], apsw.Connection], read: Callable[[Content], Engine]) -> Engine:
        collects = gc.isenabled()
        gc.disable()  # millions of objects are made here, and none of them is garbage
        try:
            with self._judging(connect), self.reading(connect) as content:
                return read(content)
        finally:
            if collects:
                gc.enable()

    @contextmanager
    def reading(self, connect: Callable[[], apsw.Connection] | None = None) -> Iterator[Content]:
        """The rows as they are now; what is odd about them is Unreadable."""
        try:
            db = self.connect() if connect is None else connect()
            try:
                db.execute("BEGIN")
                yield Content(self.path, db)
            finally:
                db.close()
        except apsw.Error as error:
            raise explained(self.path, error) from error
        except UnicodeDecodeError as error:
            raise Unreadable(self.path, f"a text in it is none ({error})") from error

    @contextmanager
    def _judging(self, connect: Callable[[], apsw.Connection]) -> Iterator[None]:
        """What goes wrong in opening is damage if a second look agrees, and a bug of the readers otherwise."""
        try:
            yield
        except apsw.Error as error:
            refusal = explained(self.path, error)
            if isinstance(refusal, Unreadable):
                refusal = self._judge(refusal.what, connect)
            raise refusal from error
        except Unreadable as error:
            raise self._judge(error.what, connect) from error
        except (Error, OSError, MemoryError):
            raise
        except Exception as error:
            raise self._judge(f"{type(error).__name__}: {error}", connect) from error

    def _judge(self, what: str, connect: Callable[[], apsw.Connection]) -> Error:
        try:
            db = connect()
            try:
                db.execute("BEGIN")
                found = inspect(self.path, db)
            finally:
                db.close()
        except apsw.Error as error:
            if not is_damage(self.path, error):
                return explained(self.path, error)
            found = [str(error)]
        if found:
            return damaged(self.path, what if what in found else f"{what} ({found[0]})")
        return Internal(
            f"{self.path} was not opened: {what}. Every row in it is as it was written, so this is a bug in Tenure, or"
            " the file is of a newer one; the file is left as it is. Try another version, and report this traceback"
        )

    def _restore(self, content: Content, now: Now) -> Engine:
        restore = Restore(self.secret, self.epoch, self.fenced_epoch)
        meta = content.meta()
        head = bytes_of(meta["head"])
        if head:
            restore.head(Sections(head))
        for facts in content.pages():
            restore.page(facts)
        for first, tenants, codes, owners, at in content.outcomes():
            restore.outcomes(first, tenants, codes, owners, at)
        for job, kind, item in content.output():
            restore.output(job, kind, item)
        for name, fact in content.entities():
            restore.entity(tuple(_unpack(name)), _unpack(fact))
        for record in content.records(int_of(meta["checkpoint"]), self.position):
            if record:
                restore.record(record)
        passed = max(now.wall_ms - restore.wall_ms, 0) if restore.wall_ms else 0
        self.elapsed_from = restore.elapsed_ms + passed - now.elapsed_ms
        self.last_event = content.last_event()
        seq = max(restore.seq, self.last_event, self.reserved_seq)
        for _ in restore.finishing(Now(now.wall_ms, now.elapsed_ms + self.elapsed_from), seq, self.reserved_id):
            pass  # other threads have their turn here
        engine = restore.engine()
        self.left_out_from = engine.left_out() - now.left_out_ms
        return engine


def _read_owner(lock: int) -> Owner:
    """Who holds the lock; as if it were opening the file when that cannot be read."""
    try:
        return msgspec.json.decode(os.pread(lock, 1024, 0), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return Owner(0)


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


class Fenced(Exception):
    """Another process has taken the file over."""


def check_epoch(db: apsw.Connection, epoch: int) -> None:
    if one(db, "SELECT value FROM meta WHERE key = 'epoch'") != epoch:
        raise Fenced


def explained(path: Path, error: apsw.Error) -> Error:
    if is_damage(path, error):
        return Unreadable(path, str(error))
    return Unavailable(f"{path} cannot be used: {error}")


def _size_of(path: str) -> int:
    return os.stat(path).st_size if os.path.exists(path) else 0


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
