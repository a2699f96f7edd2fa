"""Several callers at once on one store: they enqueue, claim, settle, cancel, configure, and let checkpoints run."""

import asyncio
import contextlib
import random
from collections.abc import Iterator
from unittest import mock

from tenure.core.answer import Claimed
from tenure.core.clock import Now
from tenure.core.error import Unavailable
from tenure.core.job import Extras, Options
from tenure.core.request import (
    CANCEL,
    PUBLISH,
    QUEUE,
    READ,
    STAGE,
    Batch,
    Change,
    Claim,
    Configure,
    Failure,
    Load,
    Pick,
)
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_NAMES, SETTLE_RELEASE
from tenure.store.embedded import checkpoint, sqlite, writer
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY, QUEUES, SHORT, Configured, Ended, Enqueued, Leased, Ledger, settle_all
from tests.crash.disk import Disk
from tests.packing import CHUNK_FORMS, FORMS, in_form

START = Now(1_700_000_000_000, 5_000)
LEASE_MS = 3_600_000
CHECKPOINT_STEP_MS = 600


@contextlib.contextmanager
def hurried(log_bytes: int = 48 * 1024, log_bytes_max: int = 160 * 1024, large_bytes: int = 100) -> Iterator[None]:
    """Small portions, a short log and short waits, so that a small run meets everything a long one would."""
    with contextlib.ExitStack() as stack:
        for module, name, value in (
            (checkpoint, "PAGES_PER_TURN", 1),
            (checkpoint, "PORTION_BYTES", 1),
            (checkpoint, "ENTITIES_PER_PORTION", 2),
            (checkpoint, "ROWS_PER_PORTION", 2),
            (checkpoint, "GIVE_WAY_S", 0.000_2),
            (sqlite, "RELAXED_S", 0.000_5),
            (sqlite, "SYNC_S", 0.001),
            (writer, "WAL_BYTES", log_bytes),
            (writer, "LARGE_BYTES", large_bytes),
            (writer, "ROOM_BYTES", 24 * 1024),
            (writer, "WAL_BYTES_MAX", log_bytes_max),
            (writer, "RETRY_FIRST_S", 0.000_2),
            (writer, "RETRY_MOST_S", 0.001),
        ):
            stack.enter_context(mock.patch.object(module, name, value))
        yield


@contextlib.contextmanager
def journal_kept() -> Iterator[None]:
    """Stores are closed without the last checkpoint, which would empty the journal."""

    async def save_nothing(_store: SqliteStore) -> None:
        pass

    with mock.patch.object(SqliteStore, "_save_views", save_nothing):
        yield


class Workload:
    """Calls with seeded chances, each noted in the ledger."""

    def __init__(self, store: SqliteStore, disk: Disk, seed: int) -> None:
        self.ledger = Ledger()
        self.refused = 0
        self.now = START
        self.claimed = Claimed()  # by the last claim
        self._store = store
        self._disk = disk
        self._chance = random.Random(seed)

    async def run(self, actors: int = 4, steps: int = 12) -> None:
        await self._store.configure(EVERYBODY, Configure(QUEUE, SHORT, {"keep_completed_count": 0}), self.now)
        await asyncio.gather(*(self._act(steps) for _ in range(actors)))

    async def _act(self, steps: int) -> None:
        acts = (
            self.enqueue_one,
            self.enqueue_keyed,
            self.enqueue_batch,
            self.load,
            self.work,
            self.cancel,
            self.set,
            self.tick,
        )
        for act in self._chance.choices(acts, (4, 3, 3, 2, 8, 1, 1, 3), k=steps):
            self.pass_time(self._chance.randrange(60))
            try:
                await act()
            except Unavailable:
                self.refused += 1

    def pass_time(self, ms: int) -> None:
        self.now = Now(self.now.wall_ms + ms, self.now.elapsed_ms + ms)

    def _moment(self) -> int:
        return len(self._disk.log)

    # Calls.

    async def enqueue_one(self) -> None:
        queue = self._chance.choice(QUEUES)
        extras = Extras(group=f"g{self._chance.randrange(3)}") if queue == "grouped" else None
        await self.enqueue(queue, 1, extras)

    async def enqueue_keyed(self) -> None:
        which = self._chance.randrange(12)
        extras = Extras(custom_id=f"c{which}") if self._chance.random() < 0.5 else Extras(unique_key=f"u{which}")
        await self.enqueue("plain", 1, extras)

    async def enqueue_batch(self) -> None:
        items = self._chance.choice((2, 5, 9, 90))
        keyed = self._chance.random() < 0.5
        await self.enqueue(self._chance.choice(QUEUES), items, None, self._chance.random() < 0.5, keyed)

    async def enqueue(
        self, queue: str, items: int, extras: Extras | None = None, atomic: bool = False, keyed: bool = False
    ) -> None:
        call = Enqueued(self.ledger.number(), self._moment(), queue=queue, items=items, keyed=keyed)
        call.custom_id = "" if extras is None else extras.custom_id
        self.ledger.enqueued.append(call)
        payloads = [call.payload(item) for item in range(items)]
        own: list[Extras | None] | None = None if extras is None else [extras]
        batch = Batch(Options(queue), payloads, own, atomic=atomic, keys=call.keys())
        if batch.keys is None:
            batch = in_form(batch, self._chance.randrange(FORMS))
        answers = await self._store.enqueue(EVERYBODY, batch, self.now)
        self.ledger.enqueue_answered(call, answers, self._moment())

    async def load(self) -> None:
        """Two chunks staged, sometimes long before they are published, and let in within the step that publishes."""
        name = self.ledger.number()
        sizes = [self._chance.choice((3, 20, 70)) for _ in range(2)]
        call = Enqueued(0, 0, queue=self._chance.choice(("plain", SHORT)), items=sum(sizes), name=name)
        call.keyed = self._chance.random() < 0.5
        keys = call.keys()
        first = 0
        for chunk, size in enumerate(sizes):
            items = range(first, first + size)
            own = None if keys is None else [keys[item] for item in items]
            batch = Batch(Options(call.queue), [call.payload(item) for item in items], keys=own)
            batch = in_form(batch, self._chance.randrange(CHUNK_FORMS))
            await self._store.load(EVERYBODY, Load(STAGE, f"load-{name}", 0, "w", chunk, batch), self.now)
            first += size
            if self._chance.random() < 0.3:
                await self.tick()
        call.number = self.ledger.number()
        call.sent = self._moment()
        self.ledger.enqueued.append(call)
        await self._store.load(EVERYBODY, Load(PUBLISH, f"load-{name}", parts={0: "w"}), self.now)
        answered = self._moment()
        ids: list[int] = []
        for chunk in range(len(sizes)):
            told = await self._store.load(EVERYBODY, Load(READ, f"load-{name}", 0, "w", chunk), self.now)
            ids += [row.id for row in told.outcomes]
        self.ledger.load_answered(call, ids, answered)

    async def work(self) -> None:
        claimed = await self.claim(self._chance.choice((1, 3, 20)))
        if claimed.ids and self._chance.random() < 0.9:
            verb = self._chance.choices((SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE), (7, 2, 1))[0]
            await self.settle(verb, claimed)

    async def claim(self, n: int) -> Claimed:
        call = Leased(self.ledger.number(), self._moment())
        self.ledger.leased.append(call)
        claim = Claim(tuple(Pick(queue) for queue in QUEUES), n, lease_ms=LEASE_MS)
        claimed = await self._store.claim(EVERYBODY, claim, self.now)
        self.ledger.claim_answered(call, claimed, self._moment())
        self.claimed = claimed
        return claimed

    async def settle(self, verb: int, claimed: Claimed) -> None:
        settle = settle_all(verb, claimed)
        if verb == SETTLE_FAIL:
            settle.failures = [Failure("Broken", "it broke") for _ in settle.ids]
        state = "completed" if verb == SETTLE_COMPLETE else SETTLE_NAMES[verb]
        call = Ended(self.ledger.number(), self._moment(), state=state, ids=settle.ids)
        self.ledger.ended.append(call)
        answers = await self._store.settle(EVERYBODY, settle, self.now)
        self.ledger.end_answered(call, answers, self._moment())

    async def cancel(self) -> None:
        answered = [call for call in self.ledger.enqueued if call.ids and call.ids[0]]
        if not answered:
            return
        ids = [self._chance.choice(answered).ids[0]]
        call = Ended(self.ledger.number(), self._moment(), state="cancelled", ids=ids)
        self.ledger.ended.append(call)
        answers = await self._store.change(EVERYBODY, Change(CANCEL, ids), self.now)
        self.ledger.end_answered(call, answers, self._moment())

    async def set(self) -> None:
        call = Configured(self.ledger.number(), self._moment(), value=100_000 + self._chance.randrange(1_000))
        self.ledger.configured.append(call)
        await self._store.configure(EVERYBODY, Configure(QUEUE, "plain", {"jobs_max": call.value}), self.now)
        call.answered = self._moment()

    async def tick(self) -> None:
        self.pass_time(CHECKPOINT_STEP_MS)
        await self._store.tick(self.now)
