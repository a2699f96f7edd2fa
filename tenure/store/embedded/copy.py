"""Copies of a store's file: made while its owner goes on, examined, and made into stores of their own.

A copy shares its past with the file it was made from, not its future. So the store that it becomes has a secret of its
own, ends the leases it finds, and begins its numbers where the other store cannot have come.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from tenure.core.bound import ID_MAX
from tenure.core.error import Error, Unavailable
from tenure.core.token import SECRET_BYTES
from tenure.store.embedded.content import NOT_AS_WRITTEN, damaged, read_meta, write_meta
from tenure.store.embedded.file import (
    APPLICATION_ID,
    BUSY_MS,
    FORMAT,
    StoreFile,
    bytes_of,
    connect_to_still,
    explained,
    int_of,
    last_position,
    one,
)
from tenure.store.embedded.home import home_of, identity_of, owner_of

STEP_PAGES = 1_024
FINDINGS_MAX = 100
ADVICE = "; restore it from a backup"
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
    if one(db, "PRAGMA application_id") != APPLICATION_ID:
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
    except NOT_AS_WRITTEN as error:
        raise damaged(path, f"it cannot be read ({error})") from error
    finally:
        db.close()


def _store_of(meta: dict[str, object]) -> str:
    return identity_of(bytes_of(meta["secret"]), str(meta.get("store") or "")).store


def read_blobs(path: Path) -> dict[str, int]:
    """The names and sizes of all blobs that a copy needs. This takes the memory of opening it."""
    return StoreFile(path).examine().blob_sizes()


def find_damage(path: Path, thorough: bool = True) -> list[str]:
    """What is wrong with a file that nobody writes to; nothing when it is sound.

    By SQLite: every page and index. Thoroughly also by Tenure: every checksum, every event, and everything the engine
    made of them.
    """
    try:
        found = _ask_sqlite(path, "integrity_check" if thorough else "quick_check")
        if found or not thorough:
            return found
        read_about(path)
        found = [*StoreFile(path).examine().verify(), *_read_events(path)]
    except apsw.Error as error:
        return [str(error)]
    except Error as error:
        found = [str(error)]
    return [_alone(path, text) for text in found]


def _alone(path: Path, text: str) -> str:
    """A finding without what every one of them says."""
    return text.removeprefix(f"{path} is damaged: ").removeprefix(f"{path} ").removesuffix(ADVICE)


def _ask_sqlite(path: Path, check: str) -> list[str]:
    db = connect_to_still(path)
    try:
        said = [str(row[0]) for row in db.execute(f"PRAGMA {check}({FINDINGS_MAX})")]
    finally:
        db.close()
    return [] if said == ["ok"] else said


def _read_events(path: Path) -> list[str]:
    with StoreFile(path).reading(lambda: connect_to_still(path)) as content:
        return content.verify()


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
