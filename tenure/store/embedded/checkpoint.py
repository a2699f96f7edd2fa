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

from tenure.core.record import StreamItem
from tenure.core.request import LOG
from tenure.engine.engine import Engine
from tenure.engine.page import OutcomeSheet, Sheet
from tenure.engine.unsaved import Unsaved
from tenure.store.embedded.content import entity_checksum, meta_checksum, outcome_checksum, output_checksum
from tenure.store.embedded.file import check_epoch, int_of, one
from tenure.store.embedded.step import OWNED, as_json, change, insert, meta_rows
from tenure.store.embedded.writer import Portion, Writer

PAGES_PER_TURN = 32
PORTION_BYTES = 1024 * 1024
GIVE_WAY_S = 0.08  # some fifteen times what a portion takes
ENTITIES_PER_PORTION = 2_000
ROWS_PER_PORTION = 2_000  # of output and of queues
EVENTS_MS = 7 * 86_400_000
EVENTS_BYTES = 1024 * 1024 * 1024
MINUTE_MS = 60_000
DAY_MS = 86_400_000
FREE_PAGES_MIN = 1_000
VACUUM_PAGES = 100
RECORDS_PER_PORTION = 4
QUIET_PAGES = 100

# What comes in the place of a row is an update, so that the triggers of `sums` see both.
PUT_PAGES = f"""
INSERT INTO pages (page, checksum, facts, specs, shown)
SELECT value ->> 0, value ->> 1, substr(?2, 1 + (value ->> 2), value ->> 3),
    CAST(substr(?2, 1 + (value ->> 4), value ->> 5) AS TEXT), CAST(substr(?2, 1 + (value ->> 6), value ->> 7) AS TEXT)
FROM json_each(?1) WHERE {OWNED} = ?3
ON CONFLICT (page) DO UPDATE SET
    checksum = excluded.checksum, facts = excluded.facts, specs = excluded.specs, shown = excluded.shown
"""
PUT_ENTITIES = f"""
INSERT INTO entities (name, checksum, fact)
SELECT substr(?2, 1 + (value ->> 0), value ->> 1), value ->> 2, substr(?2, 1 + (value ->> 3), value ->> 4)
FROM json_each(?1) WHERE {OWNED} = ?3
ON CONFLICT (name) DO UPDATE SET checksum = excluded.checksum, fact = excluded.fact
"""
PUT_OUTCOMES = f"""
INSERT INTO outcomes (page, checksum, at, tenants, codes, owners)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3,
    substr(?2, 1 + (value ->> 4), value ->> 5), substr(?2, 1 + (value ->> 6), value ->> 7)
FROM json_each(?1) WHERE {OWNED} = ?3
ON CONFLICT (page) DO UPDATE SET
    checksum = excluded.checksum, at = excluded.at, tenants = excluded.tenants, codes = excluded.codes,
    owners = excluded.owners
"""
PUT_OUTPUT = f"""
INSERT INTO output (job, kind, item, checksum, at, data)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, substr(?2, 1 + (value ->> 5), value ->> 6)
FROM json_each(?1) WHERE {OWNED} = ?3
ON CONFLICT (job, kind, item) DO UPDATE SET checksum = excluded.checksum, at = excluded.at, data = excluded.data
"""
DROP_OUTPUT = f"DELETE FROM output WHERE job IN (SELECT value FROM json_each(?1)) AND {OWNED} = ?2"
TRIM_OUTPUT = f"""
DELETE FROM output WHERE (job, kind, item) IN (
    SELECT job, kind, item FROM json_each(?1) CROSS JOIN output
    WHERE job = value ->> 0 AND kind = {LOG} AND item < value ->> 1
) AND {OWNED} = ?2
"""
PUT_QUEUES = f"""
INSERT OR REPLACE INTO queues
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
    value ->> 8, value ->> 9, value ->> 10, value ->> 11
FROM json_each(?1) WHERE {OWNED} = ?2
"""
DROP_QUEUES = f"""
DELETE FROM queues
WHERE (tenant, queue) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1)) AND {OWNED} = ?2
"""
DROP_ALL_QUEUES = f"DELETE FROM queues WHERE {OWNED} = ?1"
DROP_PAGES = f"DELETE FROM pages WHERE page IN (SELECT value FROM json_each(?1)) AND {OWNED} = ?2"
DROP_OUTCOMES = f"DELETE FROM outcomes WHERE page IN (SELECT value FROM json_each(?1)) AND {OWNED} = ?2"
DROP_ENTITIES = f"""
DELETE FROM entities WHERE name IN (SELECT unhex(value) FROM json_each(?1)) AND {OWNED} = ?2
"""


class Checkpoint:
    """One pass."""

    def __init__(
        self,
        engine: Engine,
        writer: Writer,
        position: int,
        as_of: int,
        write_down: Callable[[], None],
        gives_way: Callable[[], bool],
    ) -> None:
        """`write_down` gives the writer a record of everything that changed until now; `gives_way` says whether others
        shall have the writer for a while."""
        self._writer = writer
        self._write_down = write_down
        self._gives_way = gives_way
        self._position = position
        self._as_of = as_of
        self._unsaved: Unsaved = engine.take_unsaved()
        kept = engine.events_kept()
        self._events_after = engine.last_event() - kept if kept else 0
        self._task: asyncio.Task[None] | None = None
        self.leaves_room = False  # the file could shrink, and there was too much else to do

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def is_done(self) -> bool:
        return self._task is None or self._task.done()

    async def ended(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Give up: the journal has everything."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        unsaved = self._unsaved
        saved = 0
        # Before the pages: a page without the job would leave nobody who knows of its output.
        while silenced := unsaved.silenced(ROWS_PER_PORTION):
            await self._put(_Statement(DROP_OUTPUT, as_json(silenced)))
        while trimmed := unsaved.trimmed(ROWS_PER_PORTION):
            await self._put(_Statement(TRIM_OUTPUT, as_json(trimmed)))
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
        while entities := unsaved.entities(ENTITIES_PER_PORTION, PORTION_BYTES):
            await self._put(_Entities(entities))
        while outcomes := unsaved.outcomes(PAGES_PER_TURN):
            await self._put(_Outcomes(outcomes))
        while output := unsaved.output(ROWS_PER_PORTION, PORTION_BYTES):
            await self._put(_Output(output))
        if unsaved.all_queues:
            await self._put(_Statement(DROP_ALL_QUEUES))
        while dropped := unsaved.dropped_queues(ROWS_PER_PORTION):
            await self._put(_Statement(DROP_QUEUES, as_json(dropped)))
        while queues := unsaved.queues(ROWS_PER_PORTION):
            await self._put(_Statement(PUT_QUEUES, as_json(queues)))
        await self._put(_End(unsaved.head, self._position, self._as_of))
        tidy = _Tidy(self._position, self._as_of, self._events_after, saved < QUIET_PAGES)
        while not tidy.is_done:
            await self._put(tidy)
        self.leaves_room = tidy.leaves_room

    async def _put(self, statements: "_Statements") -> None:
        portion = Portion(statements.write)
        portion.done = asyncio.get_running_loop().create_future()
        self._write_down()
        self._writer.put(portion)
        await portion.done
        if self._gives_way():
            await asyncio.sleep(GIVE_WAY_S)


class _Statements:
    def write(self, db: apsw.Connection, epoch: int) -> None:
        """May be done twice."""
        raise NotImplementedError


class _Heap:
    """Bytes for a statement whose other values are JSON, one after another; JSON says where each is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> tuple[int, int]:
        self._parts.append(data)
        place = (self._size, len(data))
        self._size += len(data)
        return place

    def all(self) -> bytes:
        return b"".join(self._parts)


class _Pages(_Statements):
    def __init__(self, sheets: list[Sheet]) -> None:
        self._sheets = sheets

    def write(self, db: apsw.Connection, epoch: int) -> None:
        heap = _Heap()
        rows = [
            (sheet.number, sheet.checksum, *heap.add(sheet.facts), *heap.add(sheet.specs), *heap.add(sheet.shown))
            for sheet in self._sheets
            if sheet.facts
        ]
        if rows:
            change(db, PUT_PAGES, (as_json(rows), heap.all(), epoch), len(rows))
        empty = [sheet.number for sheet in self._sheets if not sheet.facts]
        if empty:
            db.execute(DROP_PAGES, (as_json(empty), epoch))


class _Entities(_Statements):
    def __init__(self, entities: list[tuple[bytes, bytes]]) -> None:
        self._entities = entities

    def write(self, db: apsw.Connection, epoch: int) -> None:
        heap = _Heap()
        rows = [
            (*heap.add(name), entity_checksum(name, fact), *heap.add(fact)) for name, fact in self._entities if fact
        ]
        if rows:
            change(db, PUT_ENTITIES, (as_json(rows), heap.all(), epoch), len(rows))
        gone = [name.hex() for name, fact in self._entities if not fact]
        if gone:
            db.execute(DROP_ENTITIES, (as_json(gone), epoch))


class _Outcomes(_Statements):
    def __init__(self, sheets: list[OutcomeSheet]) -> None:
        self._sheets = sheets

    def write(self, db: apsw.Connection, epoch: int) -> None:
        heap = _Heap()
        rows: list[tuple[object, ...]] = []
        for sheet in self._sheets:
            if sheet.codes:
                names = as_json(sheet.tenants)
                checksum = outcome_checksum(sheet.number, sheet.at_ms, names, sheet.codes, sheet.owners)
                places = (*heap.add(sheet.codes), *heap.add(sheet.owners))
                rows.append((sheet.number, checksum, sheet.at_ms, names, *places))
        if rows:
            change(db, PUT_OUTCOMES, (as_json(rows), heap.all(), epoch), len(rows))
        empty = [sheet.number for sheet in self._sheets if not sheet.codes]
        if empty:
            db.execute(DROP_OUTCOMES, (as_json(empty), epoch))


class _Statement(_Statements):
    """One that does nothing for an owner that was passed over."""

    def __init__(self, sql: str, *values: str) -> None:
        self._sql = sql
        self._values = values

    def write(self, db: apsw.Connection, epoch: int) -> None:
        db.execute(self._sql, (*self._values, epoch))


class _Output(_Statements):
    def __init__(self, output: list[tuple[int, int, StreamItem]]) -> None:
        self._output = output

    def write(self, db: apsw.Connection, epoch: int) -> None:
        heap = _Heap()
        rows = [_output_row(heap, *row) for row in self._output]
        change(db, PUT_OUTPUT, (as_json(rows), heap.all(), epoch), len(rows))


class _End(_Statements):
    def __init__(self, head: bytes, position: int, as_of: int) -> None:
        meta = {"checkpoint": position, "position": position, "as_of": as_of}
        self._values: tuple[str | bytes | int, ...] = (as_json(meta_rows(meta)), head, meta_checksum("head", head))

    def write(self, db: apsw.Connection, epoch: int) -> None:
        insert(db, "checkpoint", (epoch, *self._values))


def _output_row(heap: _Heap, job: int, kind: int, item: StreamItem) -> tuple[int, ...]:
    checksum = output_checksum(job, kind, item.offset, item.at, item.data)
    return job, kind, item.offset, checksum, item.at, *heap.add(item.data)


class _Tidy(_Statements):
    """Drops what the checkpoint has made needless; each time a little, until it is done."""

    def __init__(self, position: int, as_of: int, events_after: int, is_quiet: bool) -> None:
        self._is_quiet = is_quiet  # little to do: time for the file
        self._position = position
        self._as_of = as_of
        self._events_after = events_after
        self._is_retained = False
        self.leaves_room = False
        self.is_done = False

    def write(self, db: apsw.Connection, epoch: int) -> None:
        if insert(db, "oldest_records", (epoch, self._position, RECORDS_PER_PORTION)):
            return
        if not self._is_retained:
            minute = self._as_of // MINUTE_MS
            events = (self._as_of - EVENTS_MS, self._events_after, EVENTS_BYTES)
            checksum = meta_checksum("tidied", minute)
            insert(db, "retention", (epoch, *events, self._as_of - DAY_MS, minute, checksum))
            self._is_retained = True
        free = int_of(one(db, "PRAGMA freelist_count"))
        is_much = self.leaves_room or free * 2 >= int_of(one(db, "PRAGMA page_count"))  # once begun, all of it
        self.leaves_room = is_much and free >= FREE_PAGES_MIN
        if self.leaves_room and self._is_quiet:
            _shrink(db, epoch)
        else:
            self.is_done = True


def _shrink(db: apsw.Connection, epoch: int) -> None:
    """Give some free pages back to the file system."""
    with db:
        check_epoch(db, epoch)
        db.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
