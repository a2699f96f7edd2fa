"""A second look at a file, before anybody is told that it is damaged.

Readers (`content`) stop at what surprises them, and the surprise may be their own fault. This shares no statement with
them: it asks SQLite about its structure, then goes over every table once, from its first row to its last, and holds
each row against its checksum, each table against its sum, and each row of events against the one before. It decodes
nothing: a file that passes says what was written into it.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from tenure.engine.page import page_checksum
from tenure.store.embedded.content import (
    APPLICATION_ID,
    FORMAT,
    INCREMENTAL,
    META_KEYS,
    SUM_MASK,
    entity_checksum,
    events_checksum,
    has_unknown_version,
    is_as_written,
    is_damage,
    meta_checksum,
    outcome_checksum,
    output_checksum,
    record_checksum,
    schema_checksum,
)

FINDINGS_MAX = 100

Row = tuple[Any, ...]
# Per table: its key, the columns that its checksum covers, the column of the checksum, and the checksum's function.
TABLES: dict[str, tuple[str, str, str, Callable[..., int]]] = {
    "pages": ("page", "page, facts", "checksum", page_checksum),
    "outcomes": ("page", "page, at, tenants, codes, owners", "checksum", outcome_checksum),
    "output": ("job, kind, item", "job, kind, item, at, data", "checksum", output_checksum),
    "entities": ("name", "name, fact", "checksum", entity_checksum),
    "events": ("first_seq", "first_seq, last_seq, follows, at, events", "events_checksum", events_checksum),
}
HEAD = {"application_id": APPLICATION_ID, "user_version": FORMAT, "auto_vacuum": INCREMENTAL}
JOURNAL = "n, record, checksum, first_seq, last_seq, follows, at, events, events_checksum"
IN_TABLE = "SELECT first_seq, last_seq, follows FROM events ORDER BY first_seq"
IN_JOURNAL = """
SELECT first_seq, last_seq, follows FROM journal WHERE last_seq >= first_seq AND first_seq > ? ORDER BY n
"""


def inspect(path: Path, db: apsw.Connection, check: str = "quick_check") -> list[str]:
    """The first findings of what is not as it was written. `check` is SQLite's own. Errors of SQLite that say nothing
    about what the file holds are raised."""
    found: list[str] = []
    try:
        found += islice(_findings(path, db, check), FINDINGS_MAX)
    except apsw.Error as error:
        if not is_damage(path, error):
            raise
        found.append(str(error))
    except UnicodeDecodeError as error:
        found.append(f"a text in it is none ({error})")
    return found


def _findings(path: Path, db: apsw.Connection, check: str) -> Iterator[str]:
    if has_unknown_version(path):
        yield "its head is not as it was written"
    yield from (str(said) for (said,) in db.execute(f"PRAGMA {check}({FINDINGS_MAX})") if said != "ok")
    if [db.execute(f"PRAGMA {name}").fetchone() for name in HEAD] != [(value,) for value in HEAD.values()]:
        yield "its head is not as it was written"
    meta: dict[str, Any] = {}
    for key, value, checksum in db.execute("SELECT key, value, checksum FROM meta"):
        if is_as_written(checksum, meta_checksum, key, value):
            meta[key] = value
        else:
            yield f"{key!r} in its meta table is not as it was written"
    missing = [key for key in META_KEYS if key not in meta]
    if missing:
        yield f"its meta table lacks {', '.join(missing)}"
        return
    if meta["schema"] != schema_checksum(db):
        yield "its schema is not as it was written"
    sums = {name: row for name, *row in db.execute("SELECT name, rows, total, last FROM sums")}
    for table in TABLES:
        yield from _findings_of_table(db, table, sums.get(table))
    yield from _findings_of_journal(db, meta["checkpoint"], meta["position"])
    yield from _findings_of_events(db, sums.get("events", [0, 0, 0])[2])


def _findings_of_table(db: apsw.Connection, table: str, told: list[Any] | None) -> Iterator[str]:
    key, columns, checksum_column, checksum_of = TABLES[table]
    count = len(key.split(", "))
    rows = total = 0
    previous: Row | None = None
    for checksum, *values in db.execute(f"SELECT {checksum_column}, {columns} FROM {table}"):
        rows += 1
        if not is_as_written(checksum, checksum_of, *values):
            yield f"row {_shown(values[:count])} of its table {table} is not as it was written"
            previous = None
            continue
        total += checksum
        place = tuple(values[:count])
        if previous is not None and place <= previous:
            yield f"row {_shown(place)} of its table {table} is out of order"
        previous = place
    if told is None or told[:2] != [rows, total & SUM_MASK]:
        yield f"rows of its table {table} are missing, or come from elsewhere"


def _findings_of_journal(db: apsw.Connection, checkpoint: int, position: int) -> Iterator[str]:
    last = checkpoint
    for n, record, checksum, *said, told in db.execute(f"SELECT {JOURNAL} FROM journal ORDER BY n"):
        if n > checkpoint:
            if n != last + 1:
                yield f"it misses record {last + 1} of its journal"
            last = n
        if not is_as_written(checksum, record_checksum, n, record):
            yield f"record {n} is not as it was written"
        if not is_as_written(told, events_checksum, *said):
            yield f"what record {n} says of events is not as it was written"
    if last < position:
        yield f"it misses record {last + 1} of its journal"


def _findings_of_events(db: apsw.Connection, moved: object) -> Iterator[str]:
    """Each row says which event it follows; retention takes the oldest. Harmed rows were found before."""
    previous: object = None
    for first_seq, last_seq, follows in db.execute(IN_TABLE):
        if previous is not None and follows != previous:
            yield f"events before {first_seq} are missing"
        previous = last_seq
    if previous is not None and previous != moved:
        yield f"events up to {moved} are missing"
    for first_seq, last_seq, follows in db.execute(IN_JOURNAL, (moved if isinstance(moved, int) else 0,)):
        if previous is not None and follows != previous:
            yield f"events before {first_seq} are missing"
        previous = last_seq


def _shown(values: list[Any] | Row) -> str:
    return ", ".join(map(repr, values))
