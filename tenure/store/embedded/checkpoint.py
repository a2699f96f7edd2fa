"""Saving what is in the journal into pages, in the background and in portions, so that the journal stays short.

A pass saves everything that the records up to its position say, as it is when its portion is made. Its last portion
says so in `meta`, moves the events of those records to their table, and drops the records. Until then the old
checkpoint and the whole journal stand; pages that are newer than that do no harm, because records are absolute. But a
page must not be newer than the whole journal: what changed before a portion is made is written down before it.
"""

import asyncio
from collections.abc import Callable

import apsw
import msgspec

from tenure.engine.engine import Engine
from tenure.engine.page import OutcomeSheet, Sheet
from tenure.engine.unsaved import Unsaved
from tenure.store.embedded.file import int_of, one, write_meta
from tenure.store.embedded.writer import Portion, Writer

PAGES_PER_TURN = 32
PORTION_BYTES = 1024 * 1024
ENTITIES_PER_PORTION = 2_000
EVENTS_MS = 7 * 86_400_000
EVENTS_BYTES = 1024 * 1024 * 1024
MINUTE_MS = 60_000
VACUUM_PAGES = 2_000

PUT_PAGES = """
INSERT OR REPLACE INTO pages (page, checksum, facts, specs, shown)
SELECT value ->> 0, value ->> 1, substr(?2, 1 + (value ->> 2), value ->> 3), value -> 4, value -> 5 FROM json_each(?1)
"""
DROP_PAGES = "DELETE FROM pages WHERE page IN (SELECT value FROM json_each(?))"


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
            await self._put(_Pages(sheets))
        while entities := unsaved.entities(ENTITIES_PER_PORTION):
            await self._put(_Entities(entities))
        while outcomes := unsaved.outcomes(PAGES_PER_TURN):
            await self._put(_Outcomes(outcomes))
        await self._put(_End(unsaved, self._position, self._as_of, self._events_after))

    async def _put(self, statements: "_Statements") -> None:
        portion = Portion(statements.write)
        portion.done = asyncio.get_running_loop().create_future()
        self._write_down()
        self._writer.put(portion)
        await portion.done


class _Statements:
    def write(self, db: apsw.Connection) -> None:
        raise NotImplementedError


class _Pages(_Statements):
    def __init__(self, sheets: list[Sheet]) -> None:
        self._sheets = sheets

    def write(self, db: apsw.Connection) -> None:
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
            db.execute(PUT_PAGES, ((b"[" + b",".join(rows) + b"]").decode(), facts))
        empty = [sheet.number for sheet in self._sheets if not sheet.facts]
        if empty:
            db.execute(DROP_PAGES, (msgspec.json.encode(empty).decode(),))


class _Entities(_Statements):
    def __init__(self, entities: list[tuple[bytes, bytes]]) -> None:
        self._entities = entities

    def write(self, db: apsw.Connection) -> None:
        kept = [(name, fact) for name, fact in self._entities if fact]
        gone = [(name,) for name, fact in self._entities if not fact]
        if kept:
            db.executemany("INSERT OR REPLACE INTO entities VALUES (?, ?)", kept)
        if gone:
            db.executemany("DELETE FROM entities WHERE name = ?", gone)


class _Outcomes(_Statements):
    def __init__(self, sheets: list[OutcomeSheet]) -> None:
        self._sheets = sheets

    def write(self, db: apsw.Connection) -> None:
        for sheet in self._sheets:
            if sheet.codes:
                names = msgspec.json.encode(sheet.tenants).decode()
                row = (sheet.number, sheet.at_ms, names, sheet.codes, sheet.owners)
                db.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?)", row)
            else:
                db.execute("DELETE FROM outcomes WHERE page = ?", (sheet.number,))


class _End(_Statements):
    def __init__(self, unsaved: Unsaved, position: int, as_of: int, events_after: int) -> None:
        self._events_after = events_after
        self._unsaved = unsaved
        self._queues = unsaved.queues()
        self._position = position
        self._as_of = as_of

    def write(self, db: apsw.Connection) -> None:
        unsaved = self._unsaved
        if unsaved.output:
            rows = [(job, kind, item.offset, item.at, item.data) for job, kind, item in unsaved.output]
            db.executemany("INSERT OR REPLACE INTO output VALUES (?, ?, ?, ?, ?)", rows)
        if unsaved.silenced:
            db.executemany("DELETE FROM output WHERE job = ?", [(job,) for job in unsaved.silenced])
        if unsaved.dropped_queues:
            db.executemany("DELETE FROM queues WHERE tenant = ? AND queue = ?", unsaved.dropped_queues)
        for queue in self._queues:
            db.execute("INSERT OR REPLACE INTO queues VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", queue)
        db.execute(
            "INSERT INTO events SELECT first_seq, last_seq, at, events FROM journal WHERE n <= ? AND length(events)",
            (self._position,),
        )
        self._drop_old_events(db)
        db.execute("DELETE FROM outcomes WHERE at < ?", (self._as_of - 86_400_000,))
        db.execute("DELETE FROM journal WHERE n <= ?", (self._position,))
        write_meta(db, {"checkpoint": self._position, "head": unsaved.head, "as_of": self._as_of})
        self._shrink(db)

    def _drop_old_events(self, db: apsw.Connection) -> None:
        """By number, when the store was asked to; by age; once a minute by size."""
        old = "at < ?1 OR last_seq <= ?2"
        db.execute(f"DELETE FROM events WHERE {old}", (self._as_of - EVENTS_MS, self._events_after))
        if self._as_of // MINUTE_MS == int_of(one(db, "SELECT value FROM meta WHERE key = 'as_of'")) // MINUTE_MS:
            return
        size = 0
        for first, length in db.execute("SELECT first_seq, length(events) FROM events ORDER BY first_seq DESC"):
            size += length
            if size > EVENTS_BYTES:
                db.execute("DELETE FROM events WHERE first_seq <= ?", (first,))
                return

    def _shrink(self, db: apsw.Connection) -> None:
        free = int_of(one(db, "PRAGMA freelist_count"))
        total = int_of(one(db, "PRAGMA page_count"))
        if free > VACUUM_PAGES and free * 4 > total:
            db.execute(f"PRAGMA incremental_vacuum({free // 2})")
