"""What the file holds, row by row, each checked against the checksum that was written with it.

A row's checksum covers its key and everything that Tenure reads of it. `sums` holds the number of rows of a table and
the sum of their checksums; triggers keep it in the transaction that changes the table, so it is right at every commit,
in the middle of a checkpoint too, and a row that is lost, doubled or from elsewhere is noticed. See decision 13.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import msgspec

from tenure.core.error import Error, Unavailable
from tenure.core.record import StreamItem
from tenure.engine.page import page_checksum

# What SQLite's head of the file says.
APPLICATION_ID = 0x546E7265  # "Tnre"
UNRELEASED_ID = 0x54656E75  # "Tenu": files of builds before the first release, which had other formats
FORMAT = 1
INCREMENTAL = 2  # of PRAGMA auto_vacuum
SUM_MASK = (1 << 48) - 1
META_KEYS = (
    "as_of",
    "checkpoint",
    "epoch",
    "format",
    "head",
    "position",
    "reserved_id",
    "reserved_seq",
    "schema",
    "secret",
    "synced",
    "tidied",
)
# Errors of SQLite that say nothing about what the file holds.
NOT_THE_CONTENT = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.IOError,
    apsw.FullError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.NoMemError,
    apsw.InterruptError,
)
CUT_SHORT = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
EVENTS = "first_seq, last_seq, follows, at, events_checksum, events"
# Events after ?1, in order: those in their own table, beginning with the row that has it, so that none before is read;
# then those that are in the journal alone, behind ?2.
MOVED_AFTER = """
FROM events WHERE first_seq >= coalesce((SELECT max(first_seq) FROM events WHERE first_seq <= ?1 + 1), 0)
AND last_seq > ?1 AND last_seq >= first_seq ORDER BY first_seq
"""
UNMOVED_AFTER = "FROM journal WHERE first_seq > ?2 AND last_seq > ?1 AND last_seq >= first_seq ORDER BY n"

VERSION_BYTE = 18  # of the file: 1 or 2; SQLite takes any other for a file that it may only read

_two = struct.Struct("<qq").pack
_four = struct.Struct("<qqqq").pack
_pack = msgspec.msgpack.Encoder().encode
_names = msgspec.json.Decoder(list[str]).decode

Value = int | bytes | str


class Unreadable(Error):
    """A reader met something that it did not expect. Whether the file is damaged takes a second look (`inspection`)."""

    status = 500

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}; run tenure verify {path}, which finds out whether the file is damaged")
        self.what = what


class Damaged(Error):
    """The file does not say what was written into it, and a second look agrees. Nothing is served from it."""

    status = 500


def refuse_unreleased(path: Path, application: object) -> None:
    if application == UNRELEASED_ID:
        raise Unavailable(
            f"{path} was written by a build of Tenure from before its first release, which this one does not read;"
            " export its tenants with that build (tenure tenants export) and import them here"
        )


def damaged(path: Path, what: str) -> Damaged:
    return Damaged(f"{path} is damaged: {what}; restore it from a backup")


def is_damage(path: Path, error: apsw.Error) -> bool:
    """Whether SQLite complains of what the file holds, and not of the disk, the memory or a lock."""
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in CUT_SHORT:
        return True
    if isinstance(error, apsw.ReadOnlyError):
        return has_unknown_version(path)
    return not isinstance(error, NOT_THE_CONTENT)


def has_unknown_version(path: Path) -> bool:
    """Whether SQLite has to take the file for one that it may only read."""
    with path.open("rb") as file:
        return file.read(VERSION_BYTE + 1)[VERSION_BYTE:] not in (b"", b"\1", b"\2")


# Checksums.


def record_checksum(n: int, record: bytes) -> int:
    return crc32(record, crc32(_two(n, len(record))))


def events_checksum(first_seq: int, last_seq: int, follows: int, at: int, events: bytes) -> int:
    return crc32(events, crc32(_four(first_seq, last_seq, follows, at)))


def outcome_checksum(page: int, at: int, tenants: str, codes: bytes, owners: bytes) -> int:
    return crc32(owners, crc32(codes, crc32(tenants.encode(), crc32(_two(page, at)))))


def output_checksum(job: int, kind: int, item: int, at: int, data: bytes) -> int:
    return crc32(data, crc32(_four(job, kind, item, at)))


def entity_checksum(name: bytes, fact: bytes) -> int:
    return crc32(fact, crc32(name))


def meta_checksum(key: str, value: Value) -> int:
    return crc32(_pack([key, value]))


def schema_checksum(db: apsw.Connection) -> int:
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    return crc32(_pack(rows))


def is_as_written(told: object, checksum_of: Callable[..., int], *values: object) -> bool:
    """Whether the values have this checksum. Values of another type than was written do not."""
    try:
        return checksum_of(*values) == told
    except (TypeError, ValueError, AttributeError, OverflowError, struct.error):
        return False


# Meta.


def read_meta(path: Path, db: apsw.Connection) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value, checksum in db.execute("SELECT key, value, checksum FROM meta"):
        if not is_as_written(checksum, meta_checksum, key, value):
            raise Unreadable(path, f"{key!r} in its meta table is not as it was written")
        found[key] = value
    missing = [key for key in META_KEYS if key not in found]
    if missing:
        raise Unreadable(path, f"its meta table lacks {', '.join(missing)}")
    return found


def write_meta(db: apsw.Connection, values: dict[str, Value]) -> None:
    rows = [(key, value, meta_checksum(key, value)) for key, value in values.items()]
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", rows)


class Content:
    """The rows of an open file, in one transaction; whatever is not as it was written raises Unreadable."""

    def __init__(self, path: Path, db: apsw.Connection) -> None:
        self._path = path
        self._db = db
        self._sums: dict[str, tuple[int, int]] = {}
        self._moved = 0  # the last event in their own table; later ones are in the journal
        for name, rows, total, last in db.execute("SELECT name, rows, total, last FROM sums"):
            if not isinstance(last, int):
                raise self._fail("its table sums")
            self._sums[name] = (rows, total)
            self._moved = max(self._moved, last)

    def _fail(self, what: str) -> Unreadable:
        return Unreadable(self._path, f"{what} is not as it was written")

    def _balance(self, table: str, rows: int, total: int) -> None:
        if self._sums.get(table) != (rows, total & SUM_MASK):
            raise Unreadable(self._path, f"rows of its table {table} are missing, or come from elsewhere")

    def meta(self) -> dict[str, object]:
        return read_meta(self._path, self._db)

    # Rows come in the order of their keys. Where they do not, a search for one might not find it.

    def pages(self) -> Iterator[bytes]:
        rows = total = 0
        previous = -1
        for page, checksum, facts in self._db.execute("SELECT page, checksum, facts FROM pages"):
            if not is_as_written(checksum, page_checksum, page, facts) or page <= previous:
                raise self._fail(f"page {page}")
            previous = page
            rows += 1
            total += checksum
            yield facts
        self._balance("pages", rows, total)

    def outcomes(self) -> Iterator[tuple[int, list[str], bytes, bytes, int]]:
        """First id, tenants, codes, owners and time of each, see `engine.page.OutcomeSheet`."""
        rows = total = 0
        previous = -1
        for page, checksum, at, tenants, codes, owners in self._db.execute(
            "SELECT page, checksum, at, tenants, codes, owners FROM outcomes"
        ):
            if not is_as_written(checksum, outcome_checksum, page, at, tenants, codes, owners) or page <= previous:
                raise self._fail(f"page {page} of the outcomes")
            previous = page
            rows += 1
            total += checksum
            yield page * 1024, _names(tenants), codes, owners, at
        self._balance("outcomes", rows, total)

    def output(self) -> Iterator[tuple[int, int, StreamItem]]:
        rows = total = 0
        previous = (-1, 0, 0)
        for job, kind, item, checksum, at, data in self._db.execute(
            "SELECT job, kind, item, checksum, at, data FROM output"
        ):
            key = (job, kind, item)
            if not is_as_written(checksum, output_checksum, job, kind, item, at, data) or key <= previous:
                raise self._fail(f"output {item} of job {job}")
            previous = key
            rows += 1
            total += checksum
            yield job, kind, StreamItem(item, at, data)
        self._balance("output", rows, total)

    def entities(self) -> Iterator[tuple[bytes, bytes]]:
        rows = total = 0
        previous = b""
        for name, checksum, fact in self._db.execute("SELECT name, checksum, fact FROM entities"):
            if not is_as_written(checksum, entity_checksum, name, fact) or name <= previous:
                raise self._fail(f"the entity {name!r}")
            previous = name
            rows += 1
            total += checksum
            yield name, fact
        self._balance("entities", rows, total)

    def records(self, after: int, last: int) -> Iterator[bytes]:
        """The journal after one position; it reaches another one at least."""
        n = after
        for found, checksum, record, first_seq, last_seq, follows, at, told, events in self._db.execute(
            "SELECT n, checksum, record, first_seq, last_seq, follows, at, events_checksum, events FROM journal"
            " WHERE n > ? ORDER BY n",
            (after,),
        ):
            n += 1
            if found != n:
                raise Unreadable(self._path, f"it misses record {n} of its journal")
            if not is_as_written(checksum, record_checksum, n, record):
                raise self._fail(f"record {n}")
            if not is_as_written(told, events_checksum, first_seq, last_seq, follows, at, events):
                raise self._fail(f"what record {n} says of events")
            yield record
        if n < last:
            raise Unreadable(self._path, f"it misses record {n + 1} of its journal")

    def last_event(self) -> int:
        """The number of the last event that is on disk."""
        rows, _ = self._sums.get("events", (0, 0))
        if rows:
            found = self._db.execute("SELECT last_seq FROM events ORDER BY first_seq DESC LIMIT 1").fetchone()
            if found != (self._moved,):
                raise Unreadable(self._path, "rows of its table events are missing, or come from elsewhere")
        in_journal = self._db.execute(
            "SELECT first_seq, last_seq, follows, at, events_checksum, events FROM journal"
            " WHERE last_seq >= first_seq ORDER BY n DESC LIMIT 1"
        ).fetchone()
        if in_journal is None:
            return self._moved
        first_seq, last_seq, follows, at, checksum, events = in_journal
        if not is_as_written(checksum, events_checksum, first_seq, last_seq, follows, at, events):
            raise self._fail(f"the row of events {first_seq} to {last_seq}")
        return max(self._moved, int(last_seq))

    # Events, from any number on.

    def events(self, after: int) -> Iterator[tuple[int, int, bytes]]:
        """Rows of events that come after a number: the first and the last number and the runs of each. Rows are read
        as they are asked for."""
        previous = -1
        for first_seq, last_seq, follows, at, checksum, events in self._after(after, EVENTS):
            if not is_as_written(checksum, events_checksum, first_seq, last_seq, follows, at, events):
                raise self._fail(f"the row of events {first_seq} to {last_seq}")
            if (follows > after) if previous < 0 else (follows != previous):
                raise Unreadable(self._path, f"events before {first_seq} are missing")
            previous = last_seq
            yield first_seq, last_seq, events

    def oldest_event(self, before: int) -> int:
        """The first one on disk that is kept when those up to `before` are not; 0 when there is none."""
        found = next(self._after(before, "first_seq"), None)
        return 0 if found is None else int(found[0])

    def _after(self, seq: int, columns: str) -> Iterator[tuple[Any, ...]]:
        """All of them, one after another. Callers stop by themselves: with a LIMIT in each statement, rows of the
        journal would follow a part of the table."""
        yield from self._db.execute(f"SELECT {columns} {MOVED_AFTER}", (seq,))
        yield from self._db.execute(f"SELECT {columns} {UNMOVED_AFTER}", (seq, self._moved))
