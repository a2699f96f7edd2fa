"""Events that memory does not have any more, read from the file. Slow: for a thread."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import msgspec

from tenure.core.clock import Now
from tenure.core.error import EventsLost
from tenure.core.record import Event, EventPage, Scanned
from tenure.core.request import Scan
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.eventlog import read_runs
from tenure.engine.scan import chosen, event_columns
from tenure.store.embedded.blobs import StoreWithBlobs
from tenure.store.embedded.content import Content, Unreadable
from tenure.store.embedded.file import StoreFile

ROWS = 1_000  # of the file, read for one page


@dataclass(frozen=True, slots=True)
class InMemory:
    """What the engine said of its events before the thread began. A thread has no engine."""

    oldest: int  # or the next one, when it has none
    last: int
    kept: int  # how many the store was asked to keep; 0 when nobody said


class History:
    def __init__(self, file: StoreFile, in_memory: InMemory) -> None:
        self._file = file
        self._in_memory = in_memory

    def oldest(self) -> int:
        with self._file.reading() as content:
            return self._oldest_in(content)

    def _oldest_in(self, content: Content) -> int:
        known = self._in_memory
        on_disk = content.oldest_event(known.last - known.kept if known.kept else 0)
        return min(on_disk, known.oldest) if on_disk else known.oldest

    @contextmanager
    def _decoding(self, first: int, last: int) -> Iterator[None]:
        """Events whose checksum is right."""
        try:
            yield
        except Exception as error:
            what = f"events {first} to {last} cannot be decoded ({type(error).__name__}: {error})"
            raise Unreadable(self._file.path, what) from error

    def read(self, context: Context, after: int, limit: int) -> EventPage:
        tenant = "" if ANY_TENANT in context.tenants else context.tenant
        found: list[Event] = []
        upto = after
        with self._file.reading() as content:
            oldest = self._oldest_in(content)
            if after + 1 < oldest:
                raise EventsLost(oldest)
            for first, last, data in islice(content.events(after), ROWS):
                with self._decoding(first, last):
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
            for first, last, data in islice(content.events(scan.after), ROWS):
                with self._decoding(first, last):
                    seen, _ = out.read(data, seen, scan.upto, len(data))
                if out.is_full() or seen >= scan.upto:
                    break
                seen = max(int(seen), min(last, scan.upto))
        if seen <= scan.after:
            return None
        columns = chosen(out.columns(), scan.columns)
        return Scanned(oldest, max(self._in_memory.last, int(seen)), int(seen), int(out.rows), columns)


class StoreWithHistory(StoreWithBlobs):
    """Goes on in its file where memory begins too late."""

    _file: StoreFile

    def _history(self) -> History:
        engine = self._engine
        known = InMemory(engine.oldest_event(), engine.last_event(), engine.events_kept())
        return History(self._file, known)

    async def events(self, context: Context, cursor: str, limit: int, wait_ms: int, now: Now) -> EventPage:
        if not cursor:
            cursor = f"e{await asyncio.to_thread(self._history().oldest) - 1}"
        while True:
            try:
                return await super().events(context, cursor, limit, wait_ms, now)
            except EventsLost:
                first = self._engine.oldest_event()
                page = await asyncio.to_thread(self._history().read, context, int(cursor[1:]), limit)
            if page.events or (page.cursor != cursor and not wait_ms):
                return page
            # Others' events, or numbers that were skipped when the store was opened: who waits goes on behind them.
            cursor = page.cursor if page.cursor != cursor else f"e{first - 1}"

    async def scan(self, context: Context, scan: Scan, now: Now) -> Scanned:
        """Events that memory does not have any more are read from the file, up to the first that it has."""
        if scan.table != "events":
            return await super().scan(context, scan, now)
        oldest = await asyncio.to_thread(self._history().oldest)
        first = self._engine.oldest_event()
        if scan.limit and scan.after + 1 < first:
            found = await asyncio.to_thread(self._history().scan, context, scan)
            if found is not None:
                await self._sure(context)
                return found
            before = first - 1  # the numbers between were skipped when the store was opened
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
