"""Events that memory does not have any more, read from the file. Slow: for a thread."""

from tenure.core.error import EventsLost
from tenure.core.record import Event, EventPage, Scanned
from tenure.core.request import Scan
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.engine import Engine
from tenure.engine.eventlog import read_runs
from tenure.engine.scan import chosen, event_columns
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
