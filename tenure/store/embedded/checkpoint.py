"""Saving what is in the journal into pages, in the background and in portions, so that the journal stays short.

A pass saves everything that the records up to its position say, as it is when its portion is made. Its last portion
says so in `meta`; then the events of those records are moved to their table and the records dropped, a few at a time.
Until it has said so the old checkpoint and the whole journal stand; pages that are newer than that do no harm, because
records are absolute, and because the record of what a portion says always goes before it: no crash leaves half of a
request in the pages.
"""

import asyncio
from collections.abc import Callable

import apsw
import msgspec

from tenure.core.record import StreamItem
from tenure.engine.engine import Engine
from tenure.engine.page import OutcomeSheet, Sheet
from tenure.engine.unsaved import Unsaved
from tenure.store.embedded.content import entity_checksum, outcome_checksum, output_checksum, write_meta
from tenure.store.embedded.file import Fenced, check_epoch, int_of, one
from tenure.store.embedded.writer import Portion, Writer

PAGES_PER_TURN = 32
PORTION_BYTES = 1024 * 1024
ENTITIES_PER_PORTION = 2_000
EVENTS_MS = 7 * 86_400_000
EVENTS_BYTES = 1024 * 1024 * 1024
MINUTE_MS = 60_000
DAY_MS = 86_400_000
FREE_PAGES_MIN = 1_000
VACUUM_PAGES = 100
RECORDS_PER_PORTION = 4
QUIET_PAGES = 100

# What comes in the place of a row is an update, so that the triggers of `sums` see both.
PUT_PAGES = """
INSERT INTO pages (page, checksum, facts, specs, shown)
SELECT value ->> 0, value ->> 1, substr(?2, 1 + (value ->> 2), value ->> 3), value -> 4, value -> 5 FROM json_each(?1)
WHERE (SELECT value FROM meta WHERE key = 'epoch') = ?3
ON CONFLICT (page) DO UPDATE SET
    checksum = excluded.checksum, facts = excluded.facts, specs = excluded.specs, shown = excluded.shown
"""
PUT_ENTITY = """
INSERT INTO entities (name, checksum, fact) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, fact = excluded.fact
"""
PUT_OUTCOMES = """
INSERT INTO outcomes (page, checksum, at, tenants, codes, owners) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (page) DO UPDATE SET
    checksum = excluded.checksum, at = excluded.at, tenants = excluded.tenants, codes = excluded.codes,
    owners = excluded.owners
"""
PUT_OUTPUT = """
INSERT INTO output (job, kind, item, checksum, at, data) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (job, kind, item) DO UPDATE SET checksum = excluded.checksum, at = excluded.at, data = excluded.data
"""
# Each of these is a transaction of its own, that checks the epoch and may be done twice.
OWNED = "(SELECT value FROM meta WHERE key = 'epoch')"
OLDEST = f"n <= min(?1, (SELECT min(n) FROM journal) + ?2) AND {OWNED} = ?3"
MOVE_EVENTS = f"""
INSERT OR IGNORE INTO events (first_seq, last_seq, follows, at, events_checksum, events)
SELECT first_seq, last_seq, follows, at, events_checksum, events FROM journal
WHERE {OLDEST} AND last_seq >= first_seq
"""
DROP_RECORDS = f"DELETE FROM journal WHERE {OLDEST}"
DROP_PAGES = f"DELETE FROM pages WHERE page IN (SELECT value FROM json_each(?1)) AND {OWNED} = ?2"
DROP_OLD = """
DELETE FROM events WHERE first_seq < coalesce(
    (SELECT first_seq FROM events WHERE at >= ?1 AND last_seq > ?2 ORDER BY first_seq LIMIT 1), 1 << 62
)
"""
DROP_LARGE = """
DELETE FROM events WHERE first_seq <= (
    SELECT max(first_seq) FROM (
        SELECT first_seq, sum(length(events)) OVER (ORDER BY first_seq DESC) AS size FROM events
    ) WHERE size > ?
)
"""


class Checkpoint:
    """One pass."""

    def __init__(
        self, engine: Engine, writer: Writer, position: int, as_of: int, write_down: Callable[[], None]
    ) -> None:
        """`write_down` gives the writer a record of everything that changed until now."""
        self._writer = writer
        self._write_down = write_down
        self._position = position
        self._as_of = as_of
        self._unsaved: Unsaved = engine.take_unsaved()
        kept = engine.events_kept()
        self._events_after = engine.last_event() - kept if kept else 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def is_done(self) -> bool:
        return self._task is None or self._task.done()

    async def stop(self) -> None:
        """Give up: the journal has everything."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        unsaved = self._unsaved
        saved = 0
        while True:
            sheets: list[Sheet] = []
            size = 0
            while size < PORTION_BYTES:
                more = unsaved.sheets(PAGES_PER_TURN)
                if not more:
                    break
                sheets += more
                size += sum(len(sheet.facts) + len(sheet.shown) for sheet in more) + 1
                await asyncio.sleep(0)
            if not sheets:
                break
            saved += len(sheets)
            await self._put(_Pages(sheets))
        while entities := unsaved.entities(ENTITIES_PER_PORTION):
            await self._put(_Entities(entities))
        while outcomes := unsaved.outcomes(PAGES_PER_TURN):
            await self._put(_Outcomes(outcomes))
        await self._put(_End(unsaved, self._position, self._as_of))
        tidy = _Tidy(self._position, self._as_of, self._events_after, saved < QUIET_PAGES)
        while not tidy.is_done:
            await self._put(tidy)

    async def _put(self, statements: "_Statements") -> None:
        portion = Portion(statements.write)
        portion.done = asyncio.get_running_loop().create_future()
        self._write_down()
        self._writer.put(portion)
        await portion.done


class _Statements:
    def write(self, db: apsw.Connection, epoch: int) -> None:
        raise NotImplementedError


class _Pages(_Statements):
    def __init__(self, sheets: list[Sheet]) -> None:
        self._sheets = sheets

    def write(self, db: apsw.Connection, epoch: int) -> None:
        """All pages by one statement: this thread gets the interpreter back once, not once a row."""
        rows: list[bytes] = []
        at = 0
        for sheet in self._sheets:
            if sheet.facts:
                size = len(sheet.facts)
                rows.append(b"[%d,%d,%d,%d,%b,%b]" % (sheet.number, sheet.checksum, at, size, sheet.specs, sheet.shown))
                at += size
        if rows:
            facts = b"".join(sheet.facts for sheet in self._sheets)
            db.execute(PUT_PAGES, ((b"[" + b",".join(rows) + b"]").decode(), facts, epoch))
            if db.changes() != len(rows):
                raise Fenced
        empty = [sheet.number for sheet in self._sheets if not sheet.facts]
        if empty:
            db.execute(DROP_PAGES, (msgspec.json.encode(empty).decode(), epoch))


class _Entities(_Statements):
    def __init__(self, entities: list[tuple[bytes, bytes]]) -> None:
        self._entities = entities

    def write(self, db: apsw.Connection, epoch: int) -> None:
        with db:
            check_epoch(db, epoch)
            self._save(db)

    def _save(self, db: apsw.Connection) -> None:
        kept = [(name, entity_checksum(name, fact), fact) for name, fact in self._entities if fact]
        gone = [(name,) for name, fact in self._entities if not fact]
        if kept:
            db.executemany(PUT_ENTITY, kept)
        if gone:
            db.executemany("DELETE FROM entities WHERE name = ?", gone)


class _Outcomes(_Statements):
    def __init__(self, sheets: list[OutcomeSheet]) -> None:
        self._sheets = sheets

    def write(self, db: apsw.Connection, epoch: int) -> None:
        with db:
            check_epoch(db, epoch)
            self._save(db)

    def _save(self, db: apsw.Connection) -> None:
        for sheet in self._sheets:
            if sheet.codes:
                names = msgspec.json.encode(sheet.tenants).decode()
                said = (sheet.at_ms, names, sheet.codes, sheet.owners)
                db.execute(PUT_OUTCOMES, (sheet.number, outcome_checksum(sheet.number, *said), *said))
            else:
                db.execute("DELETE FROM outcomes WHERE page = ?", (sheet.number,))


class _End(_Statements):
    def __init__(self, unsaved: Unsaved, position: int, as_of: int) -> None:
        self._unsaved = unsaved
        self._queues = unsaved.queues()
        self._position = position
        self._as_of = as_of

    def write(self, db: apsw.Connection, epoch: int) -> None:
        with db:
            check_epoch(db, epoch)
            self._save(db)

    def _save(self, db: apsw.Connection) -> None:
        unsaved = self._unsaved
        if unsaved.output:
            db.executemany(PUT_OUTPUT, [_output_row(*row) for row in unsaved.output])
        if unsaved.silenced:
            db.executemany("DELETE FROM output WHERE job = ?", [(job,) for job in unsaved.silenced])
        if unsaved.all_queues:
            db.execute("DELETE FROM queues")
        elif unsaved.dropped_queues:
            db.executemany("DELETE FROM queues WHERE tenant = ? AND queue = ?", unsaved.dropped_queues)
        for queue in self._queues:
            db.execute("INSERT OR REPLACE INTO queues VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", queue)
        position = {"checkpoint": self._position, "position": self._position}
        write_meta(db, {**position, "head": unsaved.head, "as_of": self._as_of})


def _output_row(job: int, kind: int, item: StreamItem) -> tuple[int, int, int, int, int, bytes]:
    checksum = output_checksum(job, kind, item.offset, item.at, item.data)
    return job, kind, item.offset, checksum, item.at, item.data


class _Tidy(_Statements):
    """Drops what the checkpoint has made needless; each time a little, until it is done."""

    def __init__(self, position: int, as_of: int, events_after: int, is_quiet: bool) -> None:
        self._is_quiet = is_quiet  # little to do: time for the file
        self._position = position
        self._as_of = as_of
        self._events_after = events_after
        self.is_done = False

    def write(self, db: apsw.Connection, epoch: int) -> None:
        oldest = (self._position, RECORDS_PER_PORTION, epoch)
        db.execute(MOVE_EVENTS, oldest)
        db.execute(DROP_RECORDS, oldest)
        if db.changes():
            return
        with db:
            check_epoch(db, epoch)
            self._finish(db)

    def _finish(self, db: apsw.Connection) -> None:
        self._drop_old_events(db)
        db.execute("DELETE FROM outcomes WHERE at < ?", (self._as_of - DAY_MS,))
        self.is_done = not (self._is_quiet and self._shrink(db))

    def _drop_old_events(self, db: apsw.Connection) -> None:
        """By number, when the store was asked to; by age; once a minute by size. The oldest first, always."""
        db.execute(DROP_OLD, (self._as_of - EVENTS_MS, self._events_after))
        minute = self._as_of // MINUTE_MS
        if minute == int_of(one(db, "SELECT value FROM meta WHERE key = 'tidied'") or 0):
            return
        write_meta(db, {"tidied": minute})
        db.execute(DROP_LARGE, (EVENTS_BYTES,))

    def _shrink(self, db: apsw.Connection) -> bool:
        """Give free pages back to the file system, when they are many; True when there are more."""
        free = int_of(one(db, "PRAGMA freelist_count"))
        total = int_of(one(db, "PRAGMA page_count"))
        if free < FREE_PAGES_MIN or free * 2 < total:
            return False
        db.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
        return True
