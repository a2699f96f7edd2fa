"""Copies of a store's file: made while its owner goes on, examined, and made into stores of their own.

A copy shares its past with the file it was made from, not its future. So the store that it becomes has a secret of its
own, ends the leases it finds, and begins its numbers where the other store cannot have come.
"""

import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from tenure.core.bound import ID_MAX
from tenure.core.error import Error, Unavailable
from tenure.core.record import Event
from tenure.core.token import SECRET_BYTES
from tenure.engine.eventlog import read_runs
from tenure.engine.restore import Restore
from tenure.store.embedded import mark
from tenure.store.embedded.content import APPLICATION_ID, FORMAT, read_meta, refuse_unreleased, write_meta
from tenure.store.embedded.file import (
    BUSY_MS,
    StoreFile,
    bytes_of,
    connect_to_still,
    explained,
    int_of,
    last_position,
    one,
)
from tenure.store.embedded.home import home_of, identity_of, owner_of
from tenure.store.embedded.inspection import inspect

STEP_PAGES = 1_024
FINDINGS_MAX = 100
# More than the engine gives in a millisecond, in memory alone (docs/benchmarks.md); and a day more, for clocks that
# differ and for a store that still runs while its copy is being restored.
IDS_PER_MS = 5_000
SEQS_PER_MS = 10_000
MARGIN_MS = 86_400_000

# What has been done of how much, in bytes.
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class About:
    """What a file says of itself."""

    store: str  # the same for a store and for those made of its copies
    format: int
    epoch: int
    position: int
    page_bytes: int
    has_blobs: bool  # or may have
    blob_owner: str  # what the place of its blobs says
    blob_home: str  # where in that place they are


def copy_file(source: Path, to: Path, told: Told) -> None:
    """Into an empty file: the source as it is now, whole, though its owner writes on. One read transaction holds it.

    While it is held the owner's write-ahead log is not shortened. Copying to a disk takes less time than sending.
    """
    try:
        db = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error as error:
        raise explained(source, error) from error
    try:
        db.set_busy_timeout(BUSY_MS)
        db.execute("PRAGMA query_only=1")
        db.execute("BEGIN")
        _refuse_foreign(db, source)
        _copy(db, to, told)
    except apsw.Error as error:
        raise explained(source, error) from error
    finally:
        db.close()


def _refuse_foreign(db: apsw.Connection, path: Path) -> None:
    application = one(db, "PRAGMA application_id")
    refuse_unreleased(path, application)
    if application != APPLICATION_ID:
        raise Unavailable(f"{path} is not a store of Tenure; name the file that sqlite:/// names")
    version = one(db, "PRAGMA user_version")
    if version != FORMAT:
        raise Unavailable(f"{path} has format {version}, this Tenure reads format {FORMAT}; use a newer Tenure")


def _copy(db: apsw.Connection, to: Path, told: Told) -> None:
    page_bytes = int_of(one(db, "PRAGMA page_size"))
    out = apsw.Connection(str(to), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        out.execute("PRAGMA journal_mode=OFF")
        out.execute("PRAGMA synchronous=OFF")
        with out.backup("main", db, "main") as backup:
            while not backup.done:
                backup.step(STEP_PAGES)
                total = backup.page_count * page_bytes
                told(total - backup.remaining * page_bytes, total)
    finally:
        out.close()


def read_about(path: Path) -> About:
    """Of a copy, or of another file that nobody writes to."""
    db = connect_to_still(path)
    try:
        _refuse_foreign(db, path)
        meta = read_meta(path, db)
        return About(
            _store_of(meta),
            FORMAT,
            int_of(meta["epoch"]),
            last_position(db, meta),
            int_of(one(db, "PRAGMA page_size")),
            "blobs" in meta,
            owner_of(bytes_of(meta["secret"])),
            str(meta.get("blob_home", "")),
        )
    except apsw.Error as error:
        raise explained(path, error) from error
    finally:
        db.close()


def _store_of(meta: dict[str, object]) -> str:
    return identity_of(bytes_of(meta["secret"]), str(meta.get("store") or "")).store


def read_blobs(path: Path) -> dict[str, int]:
    """The names and sizes of all blobs that a copy needs. This takes the memory of opening it."""
    return StoreFile(path).examine().blob_sizes()


def find_damage(path: Path, thorough: bool = True) -> list[str]:
    """What is not as it was written in a file that nobody writes to: by SQLite, and thoroughly by checksums, too."""
    db = connect_to_still(path)
    try:
        if not thorough:
            return [str(said) for (said,) in db.execute(f"PRAGMA quick_check({FINDINGS_MAX})") if said != "ok"]
        _refuse_foreign(db, path)
        return inspect(path, db, "integrity_check")
    except apsw.Error as error:
        return [str(error)]
    finally:
        db.close()


def read_mark(source: Path) -> bytes:
    """What `find_cut` needs. The owner may write on while its file is copied, so this comes first."""
    return mark.read(source)


def find_cut(source: Path, noted: bytes, copy: Path) -> list[str]:
    """Whether the copy lacks what the mark beside its source said before it was copied."""
    db = connect_to_still(copy)
    try:
        meta = read_meta(copy, db)
        position = last_position(db, meta)
    finally:
        db.close()
    whose = mark.identity(source, bytes_of(meta["secret"]))
    return [mark.cut(position)] if (meta["epoch"], position) < mark.reached_in(noted, whose) else []


def find_disorder(path: Path) -> list[str]:
    """What the engine finds wrong with itself, made of a file in which nothing is damaged."""
    try:
        return StoreFile(path).examine().verify()
    except Error as error:
        return [str(error).removeprefix(f"{path} ")]


def find_undecodable(path: Path) -> list[str]:
    """Events and records of the journal that are as they were written, and cannot be decoded: they were written by a
    bug, or by a newer Tenure."""
    found: list[str] = []
    db = connect_to_still(path)
    try:
        for first, last, events in db.execute("SELECT first_seq, last_seq, events FROM events ORDER BY first_seq"):
            found += _undecodable_events(first, last, events)
        moved = int_of(one(db, "SELECT last FROM sums WHERE name = 'events'"))
        journal = Restore(bytes(SECRET_BYTES), 1)
        for n, first, last, events, record in db.execute(
            "SELECT n, first_seq, last_seq, events, record FROM journal ORDER BY n"
        ):
            if first > moved or events:
                found += _undecodable_events(first, last, events)
            found += _undecodable_record(journal, n, record)
    finally:
        db.close()
    return found[:FINDINGS_MAX]


def _undecodable_events(first: int, last: int, data: bytes) -> list[str]:
    decoded: list[Event] = []
    try:
        read_runs(data, 0, sys.maxsize, "", decoded)
    except Exception as error:
        return [f"events {first} to {last} cannot be decoded ({type(error).__name__}: {error})"]
    if [event.seq for event in decoded] != list(range(first, last + 1)):
        return [f"events {first} to {last} are not all there: {len(decoded)} were decoded"]
    return []


def _undecodable_record(journal: Restore, n: int, record: bytes) -> list[str]:
    """Records are absolute: each can be read without what was before it."""
    try:
        if record:
            journal.record(record)
    except Exception as error:
        return [f"record {n} cannot be decoded ({type(error).__name__}: {error})"]
    return []


def become_a_store(path: Path, passed_ms: int) -> None:
    """Make the copy a store of its own, `passed_ms` after it was made."""
    db = apsw.Connection(str(path))
    try:
        db.execute("PRAGMA journal_mode=DELETE")  # one file, with no log beside it
        with db:
            meta = read_meta(path, db)
            ahead_ms = max(passed_ms, 0) + MARGIN_MS
            id = int_of(meta["reserved_id"]) + ahead_ms * IDS_PER_MS
            seq = int_of(meta["reserved_seq"]) + ahead_ms * SEQS_PER_MS
            if max(id, seq) > ID_MAX // 2:
                raise Unavailable(f"{path.name} has no numbers left for another restore; begin a new store")
            secret = secrets.token_bytes(SECRET_BYTES)
            write_meta(
                db,
                {
                    "store": _store_of(meta),
                    "secret": secret,
                    "blob_home": home_of(secret),
                    "fenced_epoch": int_of(meta["epoch"]),
                    "reserved_id": id,
                    "reserved_seq": seq,
                },
            )
    except apsw.Error as error:
        raise explained(path, error) from error
    finally:
        db.close()
