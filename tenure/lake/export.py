"""Exports events: reads them in order, writes segments, commits them. One cycle takes all that there is.

Nothing but the log remembers how far it came. After a crash the next one reads the log and goes on from there; what
had been written and not committed is an orphan, and is swept away.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable

import pyarrow as pa

from tenure.core.error import EventsLost, Unavailable
from tenure.lake.entry import EXPORT, Entry, Gap, Segment, State
from tenure.lake.error import LakeTaken, OtherStore, StoreBehind
from tenure.lake.log import Log, Moved
from tenure.lake.place import Place
from tenure.lake.segment import Writer, runs_by_date
from tenure.lake.source import Source
from tenure.lake.tidy import Keeper, Rules, compact_once, retain, sweep
from tenure.store.contract import Identity

TRIES = 5
DRAFTS_S = 3_600
MERGES = 4  # at most, between two cycles

log = logging.getLogger("tenure.lake")


class Exporter:
    """Its work that takes long is done in threads, one at a time."""

    def __init__(
        self, place: Place, source: Source, identity: Identity, rules: Rules, clock_ms: Callable[[], int]
    ) -> None:
        self._place = place
        self._source = source
        self._identity = identity
        self._rules = rules
        self.writer = secrets.token_hex(8)
        self._log = Log(place, rules.checkpoint_entries)
        self._keeper = Keeper(place, self._log, self.writer, clock_ms)
        self._clock_ms = clock_ms
        self.state = State()
        self.newest = 0  # of the store, as far as is known
        self.reached = (
            0  # all events up to this are in the lake; beyond its own `upto` there may be numbers without one
        )
        self.exported = 0  # events, by this exporter
        self.lost = 0  # events that retention took before it came
        self.is_stopping = False  # then it commits what it has, and reads no more

    async def open(self) -> None:
        """Read the log, and see that this store and this place go with it."""
        await asyncio.to_thread(self._place.clear_drafts, self._clock_ms() / 1000 - DRAFTS_S)
        await self.reload()
        if self.state.number:
            await asyncio.to_thread(self._log.check_place, self.state)

    async def reload(self) -> None:
        state = await asyncio.to_thread(self._log.load)
        self.newest = await self._source.newest()
        if state.number:
            if state.store != self._identity.store:
                raise OtherStore(self._place.title, state.store, self._identity.store)
            was_left = any(life.life == self._identity.life for life in state.lives[:-1])
            if was_left or self.newest < state.upto:
                raise StoreBehind(self._place.title, state.upto, self.newest)
        self.state = state
        self.reached = state.upto

    # Exporting.

    async def cycle(self) -> int:
        """Export all that the store has now; how many events that were. `LakeTaken` when another does the same."""
        before = self.exported
        for _ in range(TRIES):
            try:
                await self._export()
                return self.exported - before
            except Moved:
                number, upto = self.state.number, self.state.upto
                await self.reload()
                if self.state.upto != upto and self.state.writer != self.writer:
                    raise LakeTaken(self._place.title, self.state.number, self.state.writer) from None
                log.info("entries %d to %d of the lake are another's; once more", number + 1, self.state.number)
        raise Unavailable(f"the lake {self._place.title} is being changed all the time; try again later")

    async def _export(self) -> None:
        self.newest = await self._source.newest()
        if self.newest < self.state.upto:
            raise StoreBehind(self._place.title, self.state.upto, self.newest)
        draft = _Pending(self._place, self._identity.store, self._rules, self.state.upto)
        try:
            while draft.upto < self.newest and not self.is_stopping:
                try:
                    rows = await self._source.read(draft.upto, self._rules.page_rows)
                except EventsLost as lost:
                    await self._commit(draft)
                    await self._go_on_after(lost.oldest - 1, draft)
                    continue
                if rows.upto <= draft.upto:
                    break
                await asyncio.to_thread(draft.add, rows.batch, rows.upto)
                if draft.rows >= self._rules.rows:
                    await self._commit(draft)
            await self._commit(draft)
            self.reached = draft.upto
        finally:
            await asyncio.to_thread(draft.drop)

    async def _commit(self, draft: "_Pending") -> None:
        if draft.rows:
            await asyncio.to_thread(self._commit_segments, draft)

    def _commit_segments(self, draft: "_Pending") -> None:
        segments = draft.finish()
        self.state = self._log.commit(self.state, self._entry(segments[0].after, draft.upto, tuple(segments)))
        if self.state.number == 1:
            self._log.check_place(self.state)
        self.exported += sum(segment.rows for segment in segments)

    async def _go_on_after(self, seq: int, draft: "_Pending") -> None:
        """Retention has taken what comes next. A lake that begins here misses nothing; another has a gap."""
        if seq <= draft.upto:
            raise Unavailable(f"the store says that events up to {seq} are lost, and has given them; try again")
        if self.state.number:
            await asyncio.to_thread(self._commit_gap, draft.start, seq)
        draft.start_after(seq)

    def _commit_gap(self, after: int, upto: int) -> None:
        gap = Gap(after=after, upto=upto, at=self._clock_ms())
        self.state = self._log.commit(self.state, self._entry(after, upto, (), gap))
        self.lost += upto - after
        log.error(
            "up to %d events (seq %d to %d) are past the store's retention and not in the lake %s; it has a gap there."
            " Raise events_max, or let the export run more of the time",
            upto - after,
            after + 1,
            upto,
            self._place.title,
        )

    def _entry(self, after: int, upto: int, added: tuple[Segment, ...], gap: Gap | None = None) -> Entry:
        return Entry(
            kind=EXPORT,
            store=self._identity.store,
            life=self._identity.life,
            writer=self.writer,
            at=self._clock_ms(),
            after=after,
            upto=upto,
            added=added,
            gap=gap,
        )

    # Tidying.

    async def tidy(self, orphans: bool = False) -> None:
        """Merge a few runs, drop what is too old, delete what was dropped; another's commits only put it off."""
        try:
            await self._keep(lambda state: retain(self._keeper, state, self._rules.retention_ms))
            for _ in range(MERGES if self._rules.is_compacted else 0):
                before = self.state.number
                await self._keep(lambda state: compact_once(self._keeper, state, self._rules))
                if self.state.number == before or self.is_stopping:
                    break
            await self._keep(lambda state: sweep(self._keeper, state, self._rules.grace_ms, orphans))
        except Moved:
            await self.reload()

    async def _keep(self, work: Callable[[State], State]) -> None:
        if self.state.number:
            self.state = await asyncio.to_thread(work, self.state)


class _Pending:
    """Segments that are being written, from `start` to `upto`; a new one begins when the date changes."""

    def __init__(self, place: Place, store: str, rules: Rules, after: int) -> None:
        self._place = place
        self._store = store
        self._rules = rules
        self.start = after  # what is committed
        self.upto = after  # what was read
        self.rows = 0
        self._writer: Writer | None = None
        self._writer_after = after
        self._last = after  # seq that the current writer has come to
        self._finished: list[Segment] = []

    def start_after(self, seq: int) -> None:
        assert not self.rows
        self.start = self.upto = self._writer_after = self._last = seq

    def add(self, batch: pa.RecordBatch, upto: int) -> None:
        for date, rows in runs_by_date(batch):
            if self._writer is not None and self._writer.date != date:
                self._close(self._last)
            if self._writer is None:
                self._writer = Writer(self._place, date, self._store, self._rules.group_rows)
            self._writer.add(rows)
            self._last = rows.column("seq")[rows.num_rows - 1].as_py()
            self.rows += rows.num_rows
        self.upto = upto

    def _close(self, upto: int) -> None:
        assert self._writer is not None
        self._finished.append(self._writer.finish(self._writer_after, upto))
        self._writer_after = upto
        self._writer = None

    def finish(self) -> list[Segment]:
        """All of them, stored; and it begins anew behind them."""
        if self._writer is not None:
            self._close(self.upto)
        finished, self._finished = self._finished, []
        self.rows = 0
        self.start = self._last = self._writer_after = self.upto
        return finished

    def drop(self) -> None:
        if self._writer is not None:
            self._writer.drop()
