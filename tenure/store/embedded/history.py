"""Events that memory does not have any more, read from the file. Slow: for a thread."""

import asyncio

import msgspec

from tenure.core.clock import Now
from tenure.core.error import EventsLost
from tenure.core.record import Event, EventPage, Scanned
from tenure.core.request import Scan
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.engine import Engine
from tenure.engine.eventlog import read_runs
from tenure.engine.scan import chosen, event_columns
from tenure.store.embedded.blobs import StoreWithBlobs
from tenure.store.embedded.content import Content
from tenure.store.embedded.file import StoreFile

ROWS = 1_000


class History:
    def __init__(self, file: StoreFile, engine: Engine) -> None:
        self._file = file
        self._engine = engine

    def oldest(self) -> int:
        with self._file.reading() as content:
            return self._oldest_in(content)

    def _oldest_in(self, content: Content) -> int:
        kept = self._engine.events_kept()
        on_disk = content.oldest_event(self._engine.last_event() - kept if kept else 0)
        in_memory = self._engine.oldest_event()
        return min(on_disk, in_memory) if on_disk else in_memory

    def read(self, context: Context, after: int, limit: int) -> EventPage:
        tenant = "" if ANY_TENANT in context.tenants else context.tenant
        found: list[Event] = []
        upto = after
        with self._file.reading() as content:
            oldest = self._oldest_in(content)
            if after + 1 < oldest:
                raise EventsLost(oldest)
            for last, data in content.events(after, ROWS):
                upto = max(int(read_runs(data, after, limit, tenant, found)), upto)
                if len(found) >= limit:
                    break
                upto = max(upto, last)
        return EventPage(tuple(found), f"e{upto}")

    def scan(self, context: Context, scan: Scan) -> Scanned | None:
        """None when there is nothing after that number in the file."""
        out = event_columns(context, scan)
        seen = scan.after
        with self._file.reading() as content:
            oldest = self._oldest_in(content)
            if scan.after + 1 < oldest:
                raise EventsLost(oldest)
            for last, data in content.events(scan.after, ROWS):
                seen, _ = out.read(data, seen, scan.upto, len(data))
                if out.is_full() or seen >= scan.upto:
                    break
                seen = max(int(seen), min(last, scan.upto))
        if seen <= scan.after:
            return None
        columns = chosen(out.columns(), scan.columns)
        return Scanned(oldest, self._engine.last_event(), int(seen), int(out.rows), columns)


class StoreWithHistory(StoreWithBlobs):
    """Goes on in its file where memory begins too late."""

    _file: StoreFile

    async def events(self, context: Context, cursor: str, limit: int, wait_ms: int, now: Now) -> EventPage:
        history = History(self._file, self._engine)
        if not cursor:
            cursor = f"e{await asyncio.to_thread(history.oldest) - 1}"
        while True:
            try:
                return await super().events(context, cursor, limit, wait_ms, now)
            except EventsLost:
                first = self._engine.oldest_event()
                page = await asyncio.to_thread(history.read, context, int(cursor[1:]), limit)
            if page.events or (page.cursor != cursor and not wait_ms):
                return page
            # Others' events, or numbers that were skipped when the store was opened: who waits goes on behind them.
            cursor = page.cursor if page.cursor != cursor else f"e{first - 1}"

    async def scan(self, context: Context, scan: Scan, now: Now) -> Scanned:
        """Events that memory does not have any more are read from the file, up to the first that it has."""
        if scan.table != "events":
            return await super().scan(context, scan, now)
        history = History(self._file, self._engine)
        oldest = await asyncio.to_thread(history.oldest)
        if scan.limit and scan.after + 1 < self._engine.oldest_event():
            found = await asyncio.to_thread(history.scan, context, scan)
            if found is not None:
                await self._sure(context)
                return found
            # The numbers between were skipped when the store was opened.
            before = self._engine.oldest_event() - 1
            if scan.upto <= before:
                nothing = chosen(event_columns(context, scan).columns(), scan.columns)
                return Scanned(oldest, self._engine.last_event(), scan.upto, 0, nothing)
            scan = Scan(
                scan.table,
                before,
                scan.upto,
                scan.limit,
                scan.queue,
                scan.states,
                scan.types,
                scan.columns,
            )
        page = await super().scan(context, scan, now)
        return msgspec.structs.replace(page, first=oldest)
