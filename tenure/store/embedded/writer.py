"""The one thread that writes: it takes groups in order, each one transaction, and says when they are on disk.

A group of requests is one INSERT in a transaction of its own: one call, so that the thread waits for the interpreter
once. The checkpoint's portions go the same way, between groups. Nothing is lost by an error: the group is tried again
until the disk takes it; meanwhile the store refuses writes. Nobody else writes to the file, in particular not the
loop: a disk that hangs stops this thread and nothing else.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

import apsw

from tenure.store.embedded import step
from tenure.store.embedded.content import events_checksum, record_checksum, write_meta
from tenure.store.embedded.file import PAGE_BYTES, Fenced, StoreFile, check_epoch

RETRY_FIRST_S = 0.05
RETRY_MOST_S = 2.0
WAL_BYTES = 4 * 1024 * 1024
WAL_BYTES_MAX = 64 * 1024 * 1024  # the room that the log keeps: what a load needed once need not be asked for again
LARGE_BYTES = 16 * 1024  # of events that go to their own table at once, and not by way of the journal
CACHE_KIB = 8 * 1024  # of pages: what a checkpoint changes it has read shortly before, and what it drops it has written
ROOM_BYTES = 4 * 1024 * 1024  # that the log is given at once
MARK_S = 0.05  # of quiet, after which what is on disk is noted: not between the groups of mode `relaxed`
MARK_GROUPS = 256  # after which it is noted without any quiet

# A group is tried again after an error that says it was not written; it may have been.
INSERT = f"""
INSERT OR REPLACE INTO journal (n, checksum, first_seq, last_seq, follows, at, events_checksum, record, events)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE {step.OWNED} = ?
"""


@dataclass(slots=True)
class Group:
    """Requests that are committed together."""

    position: int
    record: bytes
    events: bytes
    first_seq: int
    last_seq: int
    follows: int  # the last event before those of this group
    at_ms: int
    sync: bool  # else it is enough that the operating system has it
    done: "asyncio.Future[None] | None" = None

    def size(self) -> int:
        return len(self.record) + len(self.events)

    def write(self, db: apsw.Connection, epoch: int) -> None:
        checksum = record_checksum(self.position, self.record)
        numbers = (self.first_seq, self.last_seq, self.follows, self.at_ms)
        told = events_checksum(*numbers, self.events)
        if len(self.events) < LARGE_BYTES:
            group = (self.position, checksum, *numbers, told, self.record, self.events, epoch)
            step.change(db, INSERT, group, 1)
        else:
            checksums = (told, events_checksum(*numbers, b""))
            step.insert(
                db, "large_group", (epoch, self.position, checksum, *numbers, *checksums, self.record, self.events)
            )


@dataclass(slots=True)
class Portion:
    """Part of a checkpoint, or any other writing; the function checks the epoch in every transaction it makes."""

    write_to: Callable[[apsw.Connection, int], None]
    sync: bool = False
    position: int = 0
    reserves: tuple[int, int] = (0, 0)  # the ids and event numbers that are free to use once it is written
    done: "asyncio.Future[None] | None" = None

    def size(self) -> int:
        return 0

    def write(self, db: apsw.Connection, epoch: int) -> None:
        self.write_to(db, epoch)


def save_meta(values: dict[str, int]) -> Callable[[apsw.Connection, int], None]:
    return lambda db, epoch: step.save_meta(db, epoch, values)


Job = Group | Portion
# Told after every transaction: the job, and what went wrong (None when it is written).
Report = Callable[[Job, Exception | None], None]


class Writer:
    def __init__(self, file: StoreFile, report: Report) -> None:
        """`report` is called in the writer's thread."""
        self._file = file
        self._log_pages = 0  # in the write-ahead log
        self._report = report
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None is the end
        self._closing = threading.Event()
        self._db: apsw.Connection | None = None
        self._log = file.log()
        self._has_room = False
        self._synced = 0  # the last position that is on disk
        self._marked = 0  # the last one that was noted to be
        self._in_doubt = False  # whether a sync failed since the log was known to be on disk
        self._thread = threading.Thread(target=self._run, name="tenure-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, job: Job) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """Write what is there, then end."""
        self._jobs.put(None)

    def give_up(self) -> None:
        """Do not try again what the disk did not take."""
        self._closing.set()

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # In the thread.

    def _run(self) -> None:
        try:
            while True:
                job = self._next()
                if job is None or not self._write(job):
                    return
        finally:
            self._mark()
            self._log.close()
            if self._db is not None:
                with suppress(apsw.Error):  # the last to close moves the log into the file; else the next to open does
                    self._db.close()

    def _next(self) -> Job | None:
        if self._synced > self._marked:
            try:
                return self._jobs.get(timeout=MARK_S)
            except Empty:
                self._mark()
        return self._jobs.get()

    def _mark(self) -> None:
        """Not after each group: the caller waits for the interpreter meanwhile."""
        if self._synced > self._marked:
            self._marked = self._synced
            self._file.mark(self._marked)

    def _connected(self) -> apsw.Connection:
        if self._db is None:
            db = self._file.connect()
            try:
                # A crash while the file was made can leave a journal that takes it back to another mode.
                if db.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
                    raise OSError("SQLite keeps no write-ahead log here")
                db.execute("PRAGMA wal_autocheckpoint=0")
                db.execute("PRAGMA synchronous=NORMAL")  # the log is synced here, see `log`
                db.execute(f"PRAGMA journal_size_limit={WAL_BYTES_MAX}")
                db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
                step.prepare(db)
            except BaseException:
                db.close()
                raise
            db.set_wal_hook(self._count_pages)
            self._db = db
        return self._db

    def _count_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _keep_log_short(self, db: apsw.Connection) -> None:
        """Move the log into the file when nothing waits to be written, or when it has grown too long for that.

        By this thread: if another one's sync failed, this one would not know that the log has a hole.
        """
        size = self._log_pages * PAGE_BYTES
        if size > WAL_BYTES_MAX or (size > WAL_BYTES and self._jobs.empty()):
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            except apsw.BusyError:
                pass  # somebody reads the file; the next time
            except apsw.Error:
                self._in_doubt = True  # the next group meets the same trouble, and tells it

    def _write(self, job: Job) -> bool:
        """Until it is written; False when the thread has to end: nothing more is written by an owner that was one."""
        wait_s = RETRY_FIRST_S
        has_failed = False
        while True:
            try:
                db = self._connected()
                if self._in_doubt:
                    self._with_log(db, self._log.rewrite)
                    self._in_doubt = False
                job.write(db, self._file.epoch)
                if job.sync:
                    self._log.sync()
            except Fenced as error:
                self._report(job, error)
                return False
            except Exception as error:
                self._in_doubt = True
                if has_failed or self._closing.is_set():  # once may be chance: it is tried again before anybody is told
                    self._report(job, error)
                has_failed = True
                if self._closing.wait(wait_s):
                    return False
                wait_s = min(2 * wait_s, RETRY_MOST_S)
                continue
            self._report(job, None)
            if job.sync:
                self._synced = max(self._synced, job.position)
            if self._synced - self._marked >= MARK_GROUPS:
                self._mark()
            self._keep_log_short(db)
            self._make_room(db)
            return True

    def _make_room(self, db: apsw.Connection) -> None:
        """Once, when nothing waits to be written."""
        if self._has_room or not self._jobs.empty():
            return
        self._has_room = True
        try:
            self._with_log(db, lambda: self._log.extend(ROOM_BYTES))
        except Fenced:
            pass  # the next group is told
        except (apsw.Error, OSError):
            self._in_doubt = True

    def _with_log(self, db: apsw.Connection, do: Callable[[], None]) -> None:
        """Under SQLite's lock for writing, and as the owner: nobody else may be adding to the log meanwhile."""
        db.execute("BEGIN IMMEDIATE")
        try:
            check_epoch(db, self._file.epoch)
            do()
        finally:
            db.execute("ROLLBACK")


def close_cleanly(file: StoreFile, last_id: int, last_seq: int, position: int) -> None:
    """The last transaction: no number beyond these was given."""
    db = file.connect()
    try:
        db.execute("PRAGMA synchronous=FULL")
        with db:
            if db.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone() == (file.epoch,):
                write_meta(db, {"reserved_id": last_id, "reserved_seq": last_seq, "position": position})
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        db.close()
