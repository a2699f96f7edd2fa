"""The world on a store with a disk that fails, and that loses power in the middle of a call.

A step is told to the checker when it is on disk, in order: what a crash takes was never answered, and is as if it had
not been asked. So the checker demands that the rest goes on from exactly there: no job lost, none doubled, tokens and
leases as they were. That what was answered is on disk is held against the journal itself.
"""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final
from unittest import mock

from tenure.core.answer import Claimed
from tenure.core.clock import Now
from tenure.core.error import Unavailable
from tenure.core.record import Event
from tenure.core.tenant import Context
from tenure.engine.clock import lease_due
from tenure.store.embedded import checkpoint, sqlite
from tests.crash.disk import FAULTS, READ_ONLY
from tests.crash.inline import Host, InlineStore
from tests.crash.workload import hurried
from tests.simulation.record import Record
from tests.simulation.run import Result, run_in
from tests.simulation.world import PAGE, Breach, World

READS: Final = ("get", "count", "events", "watch", "withdraw", "tick")
CRASHES: Final = 0.006  # of all calls
TROUBLES: Final = 0.01
HEALS: Final = 0.2
JOBS_MOST: Final = 120
FOR_EVER_MS: Final = 10_000 * 86_400_000


class DiskWorld(World):
    def __init__(self, random: Random, host: Host, keep: bool = False) -> None:
        super().__init__(random, keep)
        self._chance = Random(random.random())
        self._host = host
        self._pending: list[tuple[int, Record]] = []
        self._answered = 0  # the position that callers were told of
        self._is_calm = False
        self._is_ill = False
        self.crashes = 0
        self.refused = 0
        self.lost = 0  # steps that a crash took, none of them answered
        self._host.start(self.clock.now())
        self.engine = self._store.engine
        self.checker.offset = self._offset()

    @property
    def _store(self) -> InlineStore:
        return self._host.store

    @property
    def turns_amid_a_thread(self) -> int:
        """Of the loop, while a thread stood in the middle of its reading."""
        return self._host.strands.turns

    def calm(self) -> None:
        self._is_calm = True
        self._heal()

    def _heal(self) -> None:
        """And wait until the store takes changes again."""
        self._host.disk.heal()
        self._is_ill = False
        self._host.settle()
        self._catch_up()

    # One call.

    def _call(self, verb: str, context: Context, request: object) -> object:
        self._trouble()
        is_read = verb in READS
        if self._store._broken and (verb in ("events", "tick") or not is_read):
            return self._refuse()
        dooms = not self._is_calm and self._chance.random() < CRASHES
        since = len(self._host.disk.log)
        record = self._do(verb, context, request)
        if isinstance(record.answer, Unavailable):
            record = replace(record, verb="refused")  # what was due in the step was done
        position = self._store._taken if self.engine.is_taken() else self._store._taken + 1
        self._pending.append((position, record))
        is_sure = self._is_sure(context)
        self._go_on()
        if dooms:
            self._crash(since)
            return None
        self._catch_up()
        if not is_sure:
            self.refused += 1
            return None
        self._answered = max(self._answered, position)
        return record.answer

    def _go_on(self) -> None:
        """A checkpoint gets on, more or less."""
        if self._is_calm:
            self._host.settle()
        else:
            self._host.progress(self._chance.choice((0, 0, 1, 4)))

    def _is_sure(self, context: Context) -> bool:
        try:
            self._host.run(self._store._sure(context))
        except Unavailable:
            return False
        return not self._store._broken

    def _refuse(self) -> object:
        """Changes are refused, unless the disk takes them again at this very moment; somebody comes again later."""
        try:
            self._host.run(self._store._admit())
        except Unavailable:
            self.refused += 1
        self._host.settle()
        self._catch_up()
        now = self._now()
        self._next = (int(now.wall_ms) + 1_000, int(now.elapsed_ms) + 1_000)
        return self._next

    def _trouble(self) -> None:
        chance = self._chance
        if self._is_ill and chance.random() < HEALS:
            self._heal()
        elif not self._is_calm and not self._is_ill and chance.random() < TROUBLES:
            disk = self._host.disk
            disk.fail(chance.choice((*FAULTS, READ_ONLY)), disk.writes + chance.randrange(8), chance.random() < 0.5)
            self._is_ill = True

    # What the books are told, and when.

    def _catch_up(self) -> None:
        while self._pending and self._pending[0][0] <= self._store._synced:
            self._tell(self._pending.pop(0)[1])
        sent, self._store.sent = self._store.sent, []
        self._deliver(sent)

    def _crash(self, since: int) -> None:
        """At some moment of the call that is under way, which is not answered."""
        self.crashes += 1
        self._host.crash(self._chance, self._chance.random() < 0.7, since)
        self._is_ill = False
        self._host.start(self.clock.now())
        reached = self._store._file.position
        if reached < self._answered:
            raise Breach(self.step, [f"record {self._answered} was answered, and the journal ends with {reached}"])
        for position, record in self._pending:
            if position <= reached:
                self._tell(record)
            else:
                self.lost += 1
        self._pending.clear()
        self._answered = reached
        self.engine = self._store.engine
        for ticket in self._waiting:
            self.mail[ticket] = Claimed()
        self._waiting.clear()
        w = self.engine._w
        seq = self.engine.oldest_event() - 1
        self._cursor = f"e{seq}"
        now = Now(w.wall_ms, w.elapsed_ms, w.left_out_ms)
        jobs = w.index.scan(0, 1 << 60, w.last_id)
        deadlines = {int(job.id): int(lease_due(w, job.lease)) for job in jobs if job.lease is not None}
        self.checker.restart(now, self._offset(), seq, deadlines)
        self.verify()

    def _offset(self) -> int:
        return int(self.engine._w.steady_from + self.engine._w.shift_ms)

    # What differs on this store.

    def _now(self) -> Now:
        return self._store._at(self.clock.now())

    def _sent(self) -> list[tuple[int, object]]:
        """What the step left behind; the store hands it out when it is safe."""
        self._host.call(self._store._deliver, self._now())
        left, self._store.left = self._store.left, []
        return left

    def _tick(self, now: Now) -> object:
        again = self._host.run(self._store.tick(self.clock.now()))
        return self._next_of(None if again is None else self._store._at(again), now)

    def _read_tenant(self, context: Context, now: Now) -> list[Event]:
        found: list[Event] = []
        cursor = self._cursors.get(context.tenant, "")
        while True:
            page = self._host.run(self._store.events(context, cursor, PAGE, 0, self.clock.now()))
            found += page.events
            if page.cursor == cursor:
                break
            cursor = page.cursor
        self._cursors[context.tenant] = cursor
        return found


@contextmanager
def disk_world(seed: int, keep: bool = False) -> Iterator[DiskWorld]:
    with ExitStack() as undo:
        undo.enter_context(hurried())
        undo.enter_context(mock.patch.object(sqlite, "RESERVE", 20))
        undo.enter_context(mock.patch.object(checkpoint, "EVENTS_MS", FOR_EVER_MS))
        undo.enter_context(mock.patch.object(secrets, "token_bytes", Random(seed).randbytes))
        host = Host(Path(undo.enter_context(TemporaryDirectory())), seed=seed)
        undo.callback(host.end)
        yield DiskWorld(Random(seed), host, keep)


def run_on_disk(seed: int, keep: bool = False) -> tuple[Result, DiskWorld]:
    with disk_world(seed, keep) as world:
        return run_in(world, seed, JOBS_MOST), world
