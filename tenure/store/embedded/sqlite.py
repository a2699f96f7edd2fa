"""The durable embedded store: `sqlite:///jobs.db`. The engine in memory, its journal and checkpoint in one file.

A change is made in memory at once; its answer leaves when the group that holds it is as safe as was asked for: on disk
(`fsync`), with the operating system (`write`), or at once (`relaxed`, on disk within 50 ms). Groups form by themselves:
what the loop did while the last ones were being written is the next one.

The loop never touches the disk. A disk that fails refuses changes at once, one that hangs after `STALL_S`; both until
it answers again. Reads are answered meanwhile, as far as what they show is on disk (see `doubt`), and leases are
renewed.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import apsw

from tenure.core.answer import Claimed
from tenure.core.clock import Now
from tenure.core.error import InvalidRequest, Unavailable
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.store.blob.place import Place
from tenure.store.contract import Capabilities, Identity
from tenure.store.embedded.blobs import open_shelf
from tenure.store.embedded.checkpoint import Checkpoint
from tenure.store.embedded.doubt import Doubt, InDoubt
from tenure.store.embedded.file import Fenced, StoreFile, TakenOver
from tenure.store.embedded.history import StoreWithHistory
from tenure.store.embedded.store import Soon
from tenure.store.embedded.writer import Group, Job, Portion, Writer, close_cleanly, save_meta

MODES = ("relaxed", "write", "fsync")
CAPABILITIES = Capabilities(name="sqlite", shared=False, durability=MODES)
CAPABILITIES_WITH_BLOBS = Capabilities(name="sqlite", shared=False, durability=MODES, blobs=True)

GROUPS_IN_FLIGHT = 2
PENDING_BYTES_MAX = 8 * 1024 * 1024
RELAXED_S = 0.02
RELAXED_JOBS = 20_000
GROUP_JOBS = 5_000  # of what is done by and by: more of them make a group that is long to write
SYNC_S = 0.03
LATE_S = 0.01  # that a timer of the loop may be
RESERVE = 1_000_000
CHECKPOINT_MS = 500
CHECKPOINT_BYTES = 16 * 1024 * 1024
LOADING_MS = 200  # since a load went on: it is waited for no longer
ORDINARY_PER_MS = 20  # changes: below it what people see in the file is at most a second old
JOURNAL_BYTES = 128 * 1024 * 1024  # since the last checkpoint began: then no more way is given
RETRY_MS = 1_000
CLOSE_S = 60.0
VIEWS_S = 5.0  # that closing takes for a last checkpoint
ROOM_S = 1.0  # that a tick waits for the disk; then it is asked for anew
SLOW_S = 0.25  # without a word from the disk: then reads do not wait for it, unless they show what it has not taken
ADVICE = "free some space or repair the disk, then try again"
STALLED = "see what it waits for (a frozen file system, a lost volume, a program that locks the file), then try again"
UNKNOWN = "Whether this change will be there is not known: repeat it with the same operation id to find out."
STALL_S = 5.0  # without a word from the disk: then changes are refused until there is one

T = TypeVar("T")

log = logging.getLogger("tenure")


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


async def _in_thread(call: Callable[[], T]) -> T:
    """A caller who goes away waits until the call has ended: what it holds can be released then."""
    calling = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait([calling])
        raise


class SqliteStore(StoreWithHistory):
    def __init__(
        self, path: str | Path, durability: str = "fsync", vfs: str | None = None, blobs: Place | None = None
    ) -> None:
        super().__init__()
        if durability not in MODES:
            raise InvalidRequest("durability", durability, "it must be fsync, write or relaxed")
        self._mode = durability
        self._file = StoreFile(Path(path), vfs, blobs is not None)
        self._place = blobs
        self._prompt_modes = ("", "relaxed") if durability == "relaxed" and blobs is None else ()
        self._writer = Writer(self._file, self._report)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broken = ""  # why changes are refused
        self._broken_at = 0.0
        self._refused = 0  # changes since then
        self._admitting = 0  # calls that wait at `_entrance`
        self._is_lost = False  # another process owns the file
        # Positions in the journal: taken from the engine, with the operating system, on disk.
        self._taken = 0
        self._written = 0
        self._synced = 0
        self._in_flight: list[Group] = []
        self._in_flight_bytes = 0
        self._flush_due: asyncio.TimerHandle | asyncio.Handle | None = None
        self._flush_at = 0.0
        self._flush_by = 0.0  # by the clock itself: the loop's stands still while it has no turn
        self._sync_due: asyncio.TimerHandle | None = None
        self._watch_due: asyncio.TimerHandle | None = None
        self._heard_at = 0.0  # of the loop's clock: when the writer last said something, or was given something to do
        self._is_slow = False  # it has not for SLOW_S
        self._reading: list[asyncio.Future[None]] = []  # reads that wait; also in `_safe`
        self._doubt: tuple[int, int, Doubt] | None = None  # of the groups from and to these positions
        self._safe: list[tuple[int, bool, asyncio.Future[None] | Soon]] = []  # position, on disk or written
        self._is_lone = False  # whether the last group had one caller: then there is no company to wait for
        self._held: list[tuple[int, list[tuple[int, object]]]] = []  # answers to waits, and when they may leave
        self._event_seq = 0  # of the last event taken
        self._event_last = 0  # of the last event taken, also before the store was opened
        self._reserved_id = 0
        self._reserved_seq = 0
        self._reserving = False
        self._checkpoint: Checkpoint | None = None
        self._checkpoint_at = 0
        self._checkpoint_event = 0  # the last one when it began
        self._is_rush = False  # whether there was more to do than ordinarily
        self._journal_bytes = 0

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES if self._place is None else CAPABILITIES_WITH_BLOBS

    # Opening and closing.

    async def open(self, now: Now, over: int | None = None) -> None:
        """`over` is the epoch of an owner that hangs and is to be passed over."""
        self._loop = asyncio.get_running_loop()
        self._entrance = asyncio.Lock()
        try:
            engine = await _in_thread(lambda: self._opened_file(now, over))
            self._shelf = await open_shelf(self._place, self._file, engine, self._all_on_disk)
        except BaseException:
            self._file.release()
            raise
        self._serve(engine)
        self._now = self._at(now)
        self._taken = self._written = self._synced = self._file.position
        self._event_seq = engine.oldest_event() - 1
        self._event_last = self._file.last_event
        self._checkpoint_at = self._now.elapsed_ms
        self._checkpoint_event = engine.last_event()
        self._writer.start()
        self._reserve()
        if self._shelf is not None:
            self._shelf.sweep()

    def _opened_file(self, now: Now, over: int | None) -> Engine:
        """The engine of the file, which is ours then. In a thread: both may take long."""
        self._file.open(over)
        return self._file.restore(now)

    async def close(self) -> None:
        """Everything that was answered is on disk afterwards, in every mode; if the disk refuses that, it is said."""
        if self._opened is None:
            return
        await self._save_views()
        if self._checkpoint is not None:
            await self._checkpoint.stop()
        if self._shelf is not None:
            await self._shelf.stop()
        engine = self._opened
        self._cancel_timers()
        await self._drain()
        self._writer.stop()
        if self._broken:
            self._writer.give_up()
        ended = await asyncio.to_thread(self._writer.join, CLOSE_S)
        is_written = self._synced >= self._taken and engine.is_taken()
        if ended and is_written:
            with suppress(apsw.Error):  # the next opening finds the journal, and skips the numbers reserved
                await asyncio.to_thread(close_cleanly, self._file, engine.last_id(), self._event_seq, self._taken)
        await self._end(Unavailable("the store was closed"))
        if not is_written:
            why = f": {self._broken}" if self._broken else ""
            raise Unavailable(
                f"{self._file.path} could not be written before it was closed; the last changes are lost{why}"
            )

    async def _save_views(self) -> None:
        """Make a last checkpoint, so that people who open the file see everything. The journal has it in any case, so
        this gives up after VIEWS_S, or when the disk fails."""
        assert self._loop is not None
        if self._broken:
            return
        failed: asyncio.Future[None] = self._loop.create_future()
        self._safe.append((sys.maxsize, False, failed))  # no position is that high: it is told of failures only
        saving = self._loop.create_task(self._save_all())
        try:
            await asyncio.wait({saving, failed}, timeout=VIEWS_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._safe = [each for each in self._safe if each[2] is not failed]
            saving.cancel()
            failed.cancel()
            await asyncio.gather(saving, failed, return_exceptions=True)

    async def _save_all(self) -> None:
        if self._checkpoint is not None:
            await self._checkpoint.ended()
        self._write_down()
        if self._engine.unsaved():
            self._begin_checkpoint(self._now)
            assert self._checkpoint is not None
            await self._checkpoint.ended()

    async def abandon(self) -> None:
        """The file is another's: drop what is here. Nothing that was answered is lost, for it was committed."""
        if self._opened is None:
            return
        if self._checkpoint is not None:
            await self._checkpoint.stop()
        self._lose()
        self._cancel_timers()
        self._writer.stop()
        self._writer.give_up()
        ended = await asyncio.to_thread(self._writer.join, CLOSE_S)
        # What the writer said last is heard before this goes on: some of it may have been committed in time.
        await self._end(TakenOver(self._file.path) if ended else Unavailable("nobody knows what the disk has taken"))

    async def _end(self, error: Unavailable) -> None:
        self._file.release()
        self._refuse_all(error)
        self._held.clear()
        await super().close()

    async def identity(self) -> Identity:
        return await asyncio.to_thread(self._file.identity)

    # One of several processes.

    @property
    def epoch(self) -> int:
        return self._file.epoch

    def is_serving(self) -> None:
        """Others can join now."""
        self._file.tell(True)

    def prove_ownership(self) -> None:
        if not self._is_lost and not self._file.is_mine():
            self._lose()
        if self._is_lost:
            raise TakenOver(self._file.path)

    def _check_owned(self) -> None:
        if self._is_lost:
            raise self._refusal()

    def _lose(self) -> None:
        """Nothing begins any more; who waits for a job is told to ask the new owner. What is with the writer may have
        been committed before: it is answered when the writer says so, or when it has ended."""
        self._is_lost = True
        self._broken = "lost"
        self._refuse_waiting(TakenOver(self._file.path))

    def _refusal(self) -> Unavailable:
        return TakenOver(self._file.path) if self._is_lost else Unavailable(self._broken)

    def _refuse_all(self, error: Unavailable) -> None:
        waiting, self._safe = self._safe, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)

    def _cancel_timers(self) -> None:
        for timer in (self._flush_due, self._sync_due, self._watch_due):
            if timer is not None:
                timer.cancel()
        self._flush_due = self._sync_due = self._watch_due = None

    async def _drain(self) -> None:
        """Hand everything to the writer and wait for it, as long as the disk takes it."""
        while not self._broken:
            self._flush()
            self._cancel_timers()
            if self._synced >= self._taken and self._engine.is_taken():
                return
            if self._written >= self._taken:
                self._sync()
            with suppress(Unavailable):
                await self._safe_at(self._taken, True)

    # Changes: when they may begin, and when their answers may leave.

    def _at(self, now: Now) -> Now:
        return Now(now.wall_ms, now.elapsed_ms + self._file.elapsed_from, now.left_out_ms + self._file.left_out_from)

    async def _admit(self) -> None:
        if self._admitting or self._is_overdue() or self._is_full():
            await self._admit_in_turn()
        if self._broken:
            self._count_refusal()
            raise self._refusal()

    async def _admit_in_turn(self) -> None:
        """In the order of the calls: whoever comes while another waits here waits behind it."""
        self._admitting += 1
        try:
            async with self._entrance:
                if self._is_overdue():
                    self._flush_now()
                    await asyncio.sleep(0)
                while self._is_full() and not self._broken:
                    with suppress(Unavailable):  # the caller says it: nothing was changed yet
                        await self._room()
        finally:
            self._admitting -= 1

    def _count_refusal(self) -> None:
        self._refused += 1
        if self._refused == 1 and not self._is_lost:
            log.warning("The first change was refused, as all will be until then: %s.", self._broken)

    def _is_full(self) -> bool:
        """Whether as much waits to be written as a crash may take."""
        return self._in_flight_bytes + self._engine.untaken_bytes() > PENDING_BYTES_MAX

    def _room(self) -> "asyncio.Future[None]":
        """When there is some."""
        if not self._in_flight:
            self._flush_now()
        return self._when_safe(self._in_flight[0].position, False)

    async def _room_soon(self) -> None:
        """Or not: a disk that hangs is not waited for."""
        assert self._loop is not None
        room = self._room()
        timer = self._loop.call_later(ROOM_S, _resolve, room)
        try:
            with suppress(Unavailable):
                await room
        finally:
            timer.cancel()

    def _is_overdue(self) -> bool:
        """Calls that need not wait for anything leave the loop no turn, and its timers do not ring."""
        return self._flush_due is not None and time.monotonic() > self._flush_by

    @property
    def is_prompt(self) -> bool:
        return bool(self._prompt_modes)

    def _is_prompt(self, durability: str) -> bool:
        engine = self._opened
        return (
            engine is not None
            and durability in self._prompt_modes
            and not self._broken
            and not self._admitting
            and engine.is_within(
                PENDING_BYTES_MAX - self._in_flight_bytes,
                self._reserved_id - RESERVE // 2,
                self._reserved_seq - RESERVE,
            )
            and (self._flush_due is None or not self._is_overdue())
        )

    def _can_be_soon(self, durability: str) -> bool:
        return (
            self._mode != "relaxed"
            and (not durability or durability == self._mode)
            and not self._is_full()
            and not self._broken
            and not self._admitting
            and self._shelf is None
            and not self._is_overdue()
        )

    def _answer_soon(self, soon: Soon, now: Now) -> None:
        position = self._taken + 1 if self._hold(self._outbox_at(now)) else self._taken
        on_disk = self._mode == "fsync" or not self._is_reserved()
        if self._is_safe(position, on_disk):
            soon.set_result(None)
        else:
            self._wait_for(position, on_disk, soon)

    async def _sure(self, context: Context) -> None:
        wanted = self._wanted(context)
        if wanted is None:
            return
        if self._broken:
            self._check_owned()
            return  # changes were refused before they began; this is a read of the file
        await self._safe_at(*wanted)

    def _wanted(self, context: Context) -> tuple[int, bool] | None:
        """The position that has to be safe, and whether on disk; None when it is, or when nothing has to be."""
        mode = context.durability or self._mode
        if mode not in MODES:
            raise InvalidRequest("durability", mode, "it must be fsync, write or relaxed")
        on_disk = mode == "fsync" or not self._is_reserved()
        if mode == "relaxed" and not on_disk:
            if self._mode != "relaxed":  # else `_deliver` has seen to it
                self._flush_later()
            return None
        position = self._taken if self._engine.is_taken() else self._taken + 1
        return None if self._is_safe(position, on_disk) else (position, on_disk)

    async def _shown(self, context: Context, answer: T, part: Callable[[Doubt], T]) -> T:
        wanted = self._wanted(context)
        if wanted is None:
            return answer
        if not self._broken and not self._is_slow:
            await self._safe_or_slow(*wanted)
            if self._is_safe(*wanted):
                return answer
        self._check_owned()
        doubt = self._doubt_until(*wanted)
        with suppress(InDoubt):
            if doubt is not None:
                return part(doubt)
        if not self._broken:
            with suppress(Unavailable):
                await self._safe_at(*wanted)
                return answer
            self._check_owned()
        raise Unavailable(
            f"{self._broken}. What was asked for has changed and is not on disk; other reads are answered."
        )

    async def _safe_or_slow(self, position: int, on_disk: bool) -> None:
        """Like `_safe_at`, but ends when the disk is slow, and raises nothing when it fails."""
        future = self._when_safe(position, on_disk)
        self._reading.append(future)
        with suppress(Unavailable):
            await future

    def _doubt_until(self, position: int, on_disk: bool) -> Doubt | None:
        """What was changed up to there and is not safe; None when nobody knows any more."""
        if on_disk and self._written > self._synced:
            return None  # the groups between are not kept
        if self._opened is not None and self._engine.last_event() > self._event_seq:
            self._write_down()
        groups = [group for group in self._in_flight if group.position <= position]
        if not groups:
            return Doubt(self._event_last)
        found = self._doubt
        if found is None or found[:2] != (groups[0].position, groups[-1].position):
            doubt = Doubt(groups[0].follows)
            for group in groups:
                doubt.add(group.record, group.events)
            found = self._doubt = (groups[0].position, groups[-1].position, doubt)
        return found[2]

    async def _surer(self, context: Context) -> None:
        mode = context.durability
        if mode in MODES and MODES.index(mode) > MODES.index(self._mode):
            if self._broken:
                raise self._refusal()
            await self._sure(context)

    async def _all_on_disk(self) -> None:
        position = self._taken if self._engine.is_taken() else self._taken + 1
        if not self._is_safe(position, True):
            if self._broken:
                raise self._refusal()
            await self._safe_at(position, True)

    def _has_reserve(self) -> bool:
        """Whether there are numbers for the next step, whatever it is."""
        return self._engine.is_within(sys.maxsize, self._reserved_id - RESERVE // 2, self._reserved_seq - RESERVE)

    def _is_reserved(self) -> bool:
        """Whether no number was given that a crash could give again."""
        if self._has_reserve():
            return True
        self._reserve()
        return self._engine.last_id() <= self._reserved_id and self._engine.last_event() <= self._reserved_seq

    def _is_safe(self, position: int, on_disk: bool) -> bool:
        return position <= (self._synced if on_disk else self._written)

    async def _safe_at(self, position: int, on_disk: bool) -> None:
        await self._when_safe(position, on_disk)

    def _when_safe(self, position: int, on_disk: bool) -> "asyncio.Future[None]":
        assert self._loop is not None
        future: asyncio.Future[None] = self._loop.create_future()
        self._wait_for(position, on_disk, future)
        return future

    def _wait_for(self, position: int, on_disk: bool, waiting: "asyncio.Future[None] | Soon") -> None:
        self._safe.append((position, on_disk, waiting))
        if self._is_lone and not self._in_flight:
            self._flush_now()
        else:
            self._flush_soon()

    def _deliver(self, now: Now) -> None:
        outbox = self._outbox_at(now)
        if self._mode == "relaxed" and self._is_reserved():
            if outbox or self._listeners:
                self._hand_out(outbox)
            self._flush_later()
        elif self._hold(outbox):
            self._flush_soon()

    def _outbox_at(self, now: Now) -> list[tuple[int, object]]:
        self._now = now
        return self._drain_outbox()

    def _hold(self, outbox: list[tuple[int, object]]) -> bool:
        """Until it is safe; answers whether something has to be written for that."""
        if not self._engine.is_taken():
            if outbox or self._listeners:
                self._held.append((self._taken + 1, outbox))
            return True
        if self._is_safe(self._taken, self._mode != "write"):
            self._hand_out(outbox)
        else:
            self._held.append((self._taken, outbox))
        return False

    def _deliver_at_once(self, now: Now) -> None:
        engine = self._opened
        assert engine is not None
        self._now = now
        outbox = engine.drain_outbox()
        if outbox or self._listeners:
            self._hand_out(outbox)
        if self._flush_due is None or engine.untaken() > RELAXED_JOBS:
            self._flush_later()

    # Groups.

    def _flush_soon(self) -> None:
        self._flush_in(0.0)

    def _flush_later(self) -> None:
        if self._engine.untaken() > RELAXED_JOBS:
            self._flush_in(0.0)
        elif self._flush_due is None:
            self._flush_in(RELAXED_S)

    def _flush_in(self, seconds: float) -> None:
        assert self._loop is not None
        at = self._loop.time() + seconds
        if self._flush_due is not None:
            if self._flush_at <= at:
                return
            self._flush_due.cancel()
        self._flush_at = at
        self._flush_by = time.monotonic() + seconds + LATE_S
        self._flush_due = (
            self._loop.call_soon(self._flush) if seconds == 0.0 else self._loop.call_later(seconds, self._flush)
        )

    def _flush_now(self) -> None:
        if self._flush_due is not None:
            self._flush_due.cancel()
        self._flush()

    def _flush(self) -> None:
        self._flush_due = None
        if self._opened is None or len(self._in_flight) >= GROUPS_IN_FLIGHT:
            return  # the next report comes back here
        self._write_down()
        if self._synced < self._taken and not self._in_flight and any(on_disk for _, on_disk, _ in self._safe):
            self._sync()

    def _write_down(self) -> None:
        """Everything that changed until now, as a group."""
        if self._opened is None or self._engine.is_taken():
            return
        record = self._engine.take()
        events = self._engine.take_events()
        self._taken += 1
        last = self._engine.last_event()
        sync = self._mode != "write" or any(on_disk for _, on_disk, _ in self._safe)
        first = self._event_seq + 1
        group = Group(self._taken, record, events, first, last, self._event_last, self._now.wall_ms, sync)
        self._event_seq = last
        if last >= first:
            self._event_last = last
        self._journal_bytes += group.size()
        self._in_flight.append(group)
        self._in_flight_bytes += group.size()
        self._writer.put(group)
        self._watch()

    def _sync(self) -> None:
        """Put on disk what the operating system has."""
        self._sync_due = None
        position = self._written
        if position > self._synced and not self._broken:
            self._writer.put(Portion(save_meta({"synced": position}), True, position))

    def _reserve(self) -> None:
        """Numbers ahead of those in use, on disk before they are: a crash skips what is left of them."""
        if self._reserving:
            return
        self._reserving = True
        id = self._engine.last_id() + 2 * RESERVE
        seq = self._engine.last_event() + 8 * RESERVE
        reserved = save_meta({"reserved_id": id, "reserved_seq": seq})
        self._writer.put(Portion(reserved, True, self._written, (id, seq)))

    # A disk that hangs.

    def _watch(self) -> None:
        if self._watch_due is None and self._loop is not None:
            self._heard_at = self._loop.time()
            self._watch_due = self._loop.call_later(SLOW_S, self._look)

    def _look(self) -> None:
        """Whether the disk has answered lately, as long as it is waited for."""
        assert self._loop is not None
        self._watch_due = None
        if not self._in_flight or self._opened is None:
            return
        silent_s = self._loop.time() - self._heard_at
        if silent_s >= STALL_S:
            if not self._broken:
                self._refuse_from_now(f"the disk of {self._file.path} has not answered for {silent_s:.0f} s", STALLED)
            next_s = STALL_S
        elif silent_s >= SLOW_S:
            self._be_slow()
            next_s = STALL_S - silent_s
        else:
            next_s = SLOW_S - silent_s
        self._watch_due = self._loop.call_later(next_s, self._look)

    def _be_slow(self) -> None:
        """Reads that wait go on with what is on disk."""
        if not self._is_slow:
            self._is_slow = True
            self._write_down()  # what it changed is known by its group
            reading, self._reading = self._reading, []
            for future in reading:
                _resolve(future)

    # What the writer says; `_report` is called in its thread.

    def _report(self, job: Job, error: Exception | None) -> None:
        assert self._loop is not None
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._reported, job, error)

    def _reported(self, job: Job, error: Exception | None) -> None:
        if self._loop is not None:
            self._heard_at = self._loop.time()
        if error is not None:
            self._break(error)
            return
        self._recover()
        if isinstance(job, Group):
            self._in_flight.remove(job)
            self._in_flight_bytes -= job.size()
            self._written = job.position
            self._is_lone = len(self._safe) == 1
            if not job.sync and self._sync_due is None and self._loop is not None:
                self._sync_due = self._loop.call_later(SYNC_S, self._sync)
        elif job.reserves != (0, 0):
            self._reserving = False
            self._reserved_id, self._reserved_seq = job.reserves
        if job.sync:
            self._synced = max(self._synced, job.position)
        if job.done is not None and not job.done.done():
            job.done.set_result(None)
        self._let_out()
        if self._opened is None:
            return
        if self._safe or self._held or self._mode != "relaxed":
            self._flush()
        elif not self._engine.is_taken():
            self._flush_later()

    def _let_out(self) -> None:
        """Answers whose time has come."""
        waiting, self._safe = self._safe, []
        said: list[Soon] = []
        for position, on_disk, each in waiting:
            if not self._is_safe(position, on_disk):
                self._safe.append((position, on_disk, each))
            elif isinstance(each, Soon):
                said.append(each)
            else:
                _resolve(each)
        self._reading = [future for future in self._reading if not future.done()]
        while self._held and self._is_safe(self._held[0][0], self._mode != "write"):
            self._hand_out(self._held.pop(0)[1])
        for soon in said:  # after those who waited for what was asked here: who works has its answer first
            soon.set_result(None)

    def _break(self, error: Exception) -> None:
        """The disk does not take it. Those who wait are told; the writer goes on trying, unless it was fenced."""
        if isinstance(error, Fenced):
            self._lose()
            self._refuse_all(self._refusal())
            return
        if not self._broken:
            self._refuse_from_now(f"{self._file.path} cannot be written ({error})", ADVICE)

    def _refuse_from_now(self, problem: str, advice: str) -> None:
        """Until the writer says that something was written. Those who wait for the disk are told."""
        self._write_down()  # before anything else is done: what is in doubt is known by its group
        self._broken = f"{problem}; {advice}"
        self._refused = 0
        self._broken_at = time.monotonic()
        log.error("%s. Changes are refused until it is written to again; reads are answered.", self._broken)
        self._refuse_all(Unavailable(f"{self._broken}. {UNKNOWN}"))
        if self._opened is not None:
            self._refuse_waits()

    def _recover(self) -> None:
        self._is_slow = False
        if self._broken and not self._is_lost:
            self._broken = ""
            down_s = time.monotonic() - self._broken_at
            log.warning(
                "%s is written to again, after %.1f s in which %d changes were refused.",
                self._file.path,
                down_s,
                self._refused,
            )

    def _refuse_waits(self) -> None:
        """Claims that wait, and answers that were held back. No claim is left waiting while what was leased is given
        back: else it would go from one to the next as long as the disk refuses, and each time spend a delivery.
        """
        held, self._held = self._held, []
        refused: list[tuple[int, object]] = [(ticket, None) for ticket in self._engine.waiting_claims()]
        for ticket, _ in refused:
            self._engine.withdraw(ticket, self._now)
        refused += [pair for _, outbox in held for pair in outbox]
        for ticket, answer in refused:
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_exception(self._refusal())
            if isinstance(answer, Claimed) and answer.ids:
                self._engine.give_back(answer, self._now)

    # Time and checkpoints.

    async def tick(self, now: Now) -> Now | None:
        now = self._at(now)
        if self._broken:
            return self._back(Now(now.wall_ms + RETRY_MS, now.elapsed_ms + RETRY_MS, now.left_out_ms))
        if self._is_full():
            await self._room_soon()
            return self._back(now)  # time has passed meanwhile
        next_at = self._engine.tick(now)
        self._deliver(now)
        if self._engine.untaken() > GROUP_JOBS:
            self._write_down()
        leaves_room = self._checkpoint is not None and self._checkpoint.leaves_room
        if leaves_room or self._engine.unsaved() or not self._engine.is_taken():
            due = self._checkpoint_at + CHECKPOINT_MS
            if self._is_loading():
                due = max(due, now.elapsed_ms + LOADING_MS)
            elif now.elapsed_ms >= due or self._journal_bytes > CHECKPOINT_BYTES:
                self._begin_checkpoint(now)
                due = now.elapsed_ms + CHECKPOINT_MS
            if next_at is None or due < next_at.elapsed_ms:
                wall = now.wall_ms + 10 * RETRY_MS if next_at is None else next_at.wall_ms
                next_at = Now(wall, due, now.left_out_ms)
        return None if next_at is None else self._back(next_at)

    def _back(self, now: Now) -> Now:
        return Now(now.wall_ms, now.elapsed_ms - self._file.elapsed_from, now.left_out_ms - self._file.left_out_from)

    def _begin_checkpoint(self, now: Now) -> None:
        if self._checkpoint is not None and not self._checkpoint.is_done():
            return
        last = self._engine.last_event()
        self._is_rush = last - self._checkpoint_event > ORDINARY_PER_MS * max(now.elapsed_ms - self._checkpoint_at, 1)
        self._checkpoint_at = now.elapsed_ms
        self._checkpoint_event = last
        self._journal_bytes = 0
        if self._engine.has_spent_loads():
            self._write_down()
            self._engine.drop_spent_loads()
            self._write_down()
        self._checkpoint = Checkpoint(
            self._engine, self._writer, self._taken, now.wall_ms, self._write_down, self._gives_way
        )
        self._checkpoint.start()

    def _gives_way(self) -> bool:
        """Whether a checkpoint lets those go first who wait for the disk; a long journal has to be cut all the same."""
        if self._is_loading():
            return True
        return self._is_rush and self._journal_bytes < JOURNAL_BYTES and any(on_disk for _, on_disk, _ in self._safe)

    def _is_loading(self) -> bool:
        """Then a checkpoint waits: it would save what was staged, which is gone when it has been let in."""
        return self._journal_bytes < JOURNAL_BYTES and self._engine.is_loading(LOADING_MS)
