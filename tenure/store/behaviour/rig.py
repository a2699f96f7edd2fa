"""A store on a bench: the store, a clock that only moves when told, and short names for what behaviours do to both.

Nothing here sleeps. `advance` moves the clock and ticks the store until nothing is due; a call that waits is a task,
and `pause` gives tasks the chance to run. Where an item was refused, the short names raise its error.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypedDict, TypeVar, Unpack

from tenure.core import state as states
from tenure.core.answer import Answers, Outcome
from tenure.core.bound import EXTRA_RULES, make_claim, make_extras, make_failure, make_options
from tenure.core.clock import Now
from tenure.core.record import Event, Explanation, JobRecord, LoadReport, StreamItem
from tenure.core.request import (
    EMIT,
    KEY,
    LOG,
    PROGRESS,
    QUEUE,
    TENANT,
    Append,
    Batch,
    Change,
    Configure,
    Extend,
    Failure,
    Filter,
    Load,
    Settle,
)
from tenure.core.tenant import Context, OpId
from tenure.store.behaviour.expect import accepted
from tenure.store.behaviour.leased import Leased, leased_of, payloads
from tenure.store.contract import Store

WALL_MS: Final = 1_800_000_000_000
ELAPSED_MS: Final = 1_000_000
ACME: Final = "acme"  # whose jobs a behaviour is about
GLOBEX: Final = "globex"  # the other tenant

SECOND: Final = 1_000
MINUTE: Final = 60_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000
LEASE_MS: Final = 30_000

ANSWER_SECONDS_MAX: Final = 10.0  # real ones, for the store's disk or network
TICKS_MAX: Final = 10_000
STEP_MAX: Final = 1_000  # jobs that one step may touch besides those its request names
SPINS: Final = 20
PAGES_MAX: Final = 10_000

T = TypeVar("T")
Pause = Callable[[], Awaitable[None]]


class Fields(TypedDict, total=False):
    """What a change can carry besides its action and its jobs."""

    priority: int
    payload: bytes | None
    metadata: dict[str, str] | None
    tags: tuple[str, ...] | None
    run_at: int
    reason: str
    limit: int
    rate_per_s: int


async def spin() -> None:
    """Lets every task of the loop run until it waits for something that only the rig can bring."""
    for _ in range(SPINS):
        await asyncio.sleep(0)


def split(fields: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Which fields jobs can share, and which one job has for itself."""
    shared = {name: value for name, value in fields.items() if name not in EXTRA_RULES}
    own = {name: value for name, value in fields.items() if name in EXTRA_RULES}
    return shared, own


class Rig:
    def __init__(self, store: Store, pause: Pause = spin) -> None:
        self.store = store
        self.pause = pause
        self.wall_ms = WALL_MS
        self.elapsed_ms = ELAPSED_MS
        self.left_out_ms = 0
        self._tasks: list[asyncio.Task[object]] = []

    # Time

    def now(self) -> Now:
        return Now(self.wall_ms, self.elapsed_ms, self.left_out_ms)

    def move_clock(self, ms: int, wall_only: bool = False) -> None:
        """Time passes, or only the wall clock is set, and the store has not noticed."""
        self.wall_ms += ms
        if not wall_only:
            self.elapsed_ms += ms

    async def advance(self, ms: int, wall_only: bool = False) -> None:
        self.move_clock(ms, wall_only)
        await self.tick()

    async def stop_for(self, ms: int) -> None:
        """The owner of the store does not run for so long."""
        self.move_clock(ms)
        self.left_out_ms += ms
        await self.tick()

    async def tick(self) -> None:
        """Ticks until nothing is due any more."""
        for _ in range(TICKS_MAX):
            again = await self.tick_once()
            if again is None or not self._is_due(again):
                return
        raise AssertionError(f"after {TICKS_MAX} ticks the store still asks for another at once")

    async def tick_once(self) -> Now | None:
        again = await self.store.tick(self.now())
        await self.pause()
        return again

    def _is_due(self, again: Now) -> bool:
        return again.wall_ms <= self.wall_ms or again.elapsed_ms <= self.elapsed_ms

    # Tasks

    async def start(self, call: Awaitable[T]) -> "asyncio.Task[T]":
        """A call that may wait, as a task that has begun; what is left of it is cancelled at the end."""

        async def answer() -> T:
            return await call

        task = asyncio.get_running_loop().create_task(answer())
        self._tasks.append(task)
        await self.pause()
        return task

    async def finish(self, task: "asyncio.Task[T]") -> T:
        """The answer of a call that needs ticks, but no time, to be done."""
        for _ in range(TICKS_MAX):
            await self.pause()
            if task.done():
                return task.result()
            await self.store.tick(self.now())
        raise AssertionError("the call was not answered")

    async def answer(self, task: "asyncio.Task[T]") -> T:
        """The answer of a call that must have one by now, but for what the store's disk or network takes."""
        done, _ = await asyncio.wait([task], timeout=ANSWER_SECONDS_MAX)
        assert done, "the call still waits"
        return task.result()

    async def waits(self, task: "asyncio.Task[object]") -> bool:
        await self.pause()
        return not task.done()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Enqueue

    def context(
        self,
        tenant: str = ACME,
        tenants: tuple[str, ...] = (),
        op: OpId | None = None,
        connection: int = 0,
        principal: str = "",
        tokenless: bool = False,
    ) -> Context:
        return Context(tenant, tenants, principal, op=op, connection=connection, tokenless=tokenless)

    async def submit(
        self,
        payload: bytes = b"x",
        *,
        tenant: str = ACME,
        op: OpId | None = None,
        connection: int = 0,
        **fields: object,
    ) -> Outcome:
        """Enqueues one job and answers all that is said of it; `enqueue` answers its id."""
        batch = self.batch([payload], each=None, atomic=False, **fields)
        answers = await self.store.enqueue(self.context(tenant, op=op, connection=connection), batch, self.now())
        assert len(answers) == 1, f"one job, {len(answers)} answers"
        return accepted(answers.item(0))

    async def enqueue(self, payload: bytes = b"x", *, tenant: str = ACME, **fields: object) -> int:
        return (await self.submit(payload, tenant=tenant, op=None, connection=0, **fields)).id

    def batch(
        self,
        payloads: list[bytes],
        *,
        each: list[dict[str, object]] | None = None,
        atomic: bool = False,
        **fields: object,
    ) -> Batch:
        """`fields` are for all jobs; `each` has, per job, the fields that only it has."""
        shared, own = split(fields)
        options = make_options(**shared)
        if each is None:
            extras = [make_extras(**own)] * len(payloads) if own else None
            return Batch(options, payloads, list(extras) if extras else None, None, atomic)
        parts = [split(one) for one in each]
        return Batch(
            options,
            payloads,
            [make_extras(**{**own, **part}) for _, part in parts],
            [make_options(**{**shared, **part}) for part, _ in parts],
            atomic,
        )

    async def enqueue_many(
        self,
        payloads: list[bytes],
        *,
        each: list[dict[str, object]] | None = None,
        atomic: bool = False,
        tenant: str = ACME,
        op: OpId | None = None,
        **fields: object,
    ) -> Answers:
        batch = self.batch(payloads, each=each, atomic=atomic, **fields)
        return await self.send(batch, tenant=tenant, op=op)

    async def send(self, batch: Batch, *, tenant: str = ACME, op: OpId | None = None) -> Answers:
        answers = await self.store.enqueue(self.context(tenant, op=op), batch, self.now())
        assert len(answers) == len(batch.payloads), f"{len(batch.payloads)} jobs, {len(answers)} answers"
        return answers

    async def enqueue_ids(self, payloads: list[bytes], *, tenant: str = ACME, **fields: object) -> list[int]:
        """Enqueues a batch of which every item must be taken; answers the ids."""
        answers = await self.enqueue_many(payloads, each=None, atomic=False, tenant=tenant, op=None, **fields)
        assert not answers.errors(), f"refused: {answers.errors()}"
        return list(answers.ids)

    # Claim

    async def claim(
        self,
        n: int = 1,
        *,
        tenant: str = ACME,
        tenants: tuple[str, ...] = (),
        op: OpId | None = None,
        connection: int = 0,
        principal: str = "",
        **fields: object,
    ) -> list[Leased]:
        """`fields` are those of `make_claim`: queues, wait_ms, worker, tasks, max_bytes, lease_ms, strict."""
        claim = make_claim(**{"n": n, **fields})
        context = self.context(tenant, tenants, op, connection, principal)
        return leased_of(await self.store.claim(context, claim, self.now()))

    async def claim_one(
        self, *, tenant: str = ACME, connection: int = 0, principal: str = "", **fields: object
    ) -> Leased:
        leased = await self.claim(
            1, tenant=tenant, tenants=(), op=None, connection=connection, principal=principal, **fields
        )
        assert len(leased) == 1, "there was nothing to claim"
        return leased[0]

    async def claim_all(self, **fields: object) -> list[Leased]:
        """One claim after the other, a job at a time: the order of the line."""
        leased: list[Leased] = []
        while one := await self.claim(1, tenant=ACME, tenants=(), op=None, connection=0, principal="", **fields):
            leased += one
        return leased

    async def line(self, **fields: object) -> list[bytes]:
        """The payloads in the order in which claims get them."""
        return payloads(await self.claim_all(**fields))

    async def start_claim(
        self,
        n: int = 1,
        *,
        wait_ms: int = MINUTE,
        tenant: str = ACME,
        tenants: tuple[str, ...] = (),
        **fields: object,
    ) -> "asyncio.Task[list[Leased]]":
        claim = self.claim(
            n, tenant=tenant, tenants=tenants, op=None, connection=0, principal="", wait_ms=wait_ms, **fields
        )
        return await self.start(claim)

    # Settle

    async def settle(
        self,
        verb: int,
        ids: list[int],
        tokens: list[bytes] | None = None,
        *,
        tenant: str = ACME,
        op: OpId | None = None,
        connection: int = 0,
        principal: str = "",
        tokenless: bool = False,
        results: list[bytes | None] | None = None,
        failures: list[Failure] | None = None,
        followups: list[Batch | None] | None = None,
        delay_ms: int = 0,
        pause_key: str = "",
    ) -> Answers:
        settle = Settle(verb, ids, tokens, results, failures, followups, delay_ms, pause_key)
        context = self.context(tenant, op=op, connection=connection, principal=principal, tokenless=tokenless)
        answers = await self.store.settle(context, settle, self.now())
        assert len(answers) == len(ids), f"{len(ids)} jobs, {len(answers)} answers"
        return answers

    async def settle_one(self, verb: int, leased: Leased, *, tenant: str = "", op: OpId | None = None) -> Outcome:
        """Settles by any verb, with nothing but the token."""
        answers = await self.settle(
            verb,
            [leased.id],
            [leased.token],
            tenant=tenant or leased.tenant,
            op=op,
            failures=[make_failure()] if verb == states.SETTLE_FAIL else None,
        )
        return accepted(answers.item(0))

    async def complete(
        self, leased: Leased, result: bytes | None = None, followups: Batch | None = None, tenant: str = ""
    ) -> Outcome:
        answers = await self.settle(
            states.SETTLE_COMPLETE,
            [leased.id],
            [leased.token],
            tenant=tenant or leased.tenant,
            results=[result],
            followups=[followups] if followups else None,
        )
        return accepted(answers.item(0))

    async def complete_all(self, leased: Sequence[Leased]) -> Answers:
        return await self.settle(
            states.SETTLE_COMPLETE,
            [one.id for one in leased],
            [one.token for one in leased],
            tenant=leased[0].tenant,
        )

    async def fail(self, leased: Leased, *, tenant: str = "", **fields: object) -> Outcome:
        """`fields` are those of `make_failure`: type, message, trace, retryable, undecodable, delay_ms."""
        answers = await self.settle(
            states.SETTLE_FAIL,
            [leased.id],
            [leased.token],
            tenant=tenant or leased.tenant,
            failures=[make_failure(**fields)],
        )
        return accepted(answers.item(0))

    async def release(self, leased: Leased, delay_ms: int = 0, pause_key: str = "", tenant: str = "") -> Outcome:
        return await self._give_back(states.SETTLE_RELEASE, leased, delay_ms, pause_key, tenant)

    async def snooze(self, leased: Leased, delay_ms: int = 0, pause_key: str = "", tenant: str = "") -> Outcome:
        return await self._give_back(states.SETTLE_SNOOZE, leased, delay_ms, pause_key, tenant)

    async def cancel_running(self, leased: Leased, tenant: str = "") -> Outcome:
        return await self._give_back(states.SETTLE_CANCEL, leased, 0, "", tenant)

    async def _give_back(self, verb: int, leased: Leased, delay_ms: int, pause_key: str, tenant: str) -> Outcome:
        answers = await self.settle(
            verb,
            [leased.id],
            [leased.token],
            tenant=tenant or leased.tenant,
            delay_ms=delay_ms,
            pause_key=pause_key,
        )
        return accepted(answers.item(0))

    async def extend(self, leased: Leased, lease_ms: int = 0, tenant: str = "") -> int:
        """The new deadline, in wall time."""
        extend = Extend([leased.id], [leased.token], lease_ms)
        extended = await self.store.extend(self.context(tenant or leased.tenant), extend, self.now())
        if extended.errors:
            assert extended.lease_until == [0], "a refused extension has a deadline"
            raise extended.errors[0]
        return extended.lease_until[0]

    # Change

    async def start_change(
        self,
        action: int,
        *ids: int,
        filter: Filter | None = None,
        tenant: str = ACME,
        op: OpId | None = None,
        **fields: Unpack[Fields],
    ) -> "asyncio.Task[Answers]":
        change = Change(action, None if filter else list(ids), filter, **fields)
        return await self.start(self.store.change(self.context(tenant, op=op), change, self.now()))

    async def change(
        self,
        action: int,
        *ids: int,
        filter: Filter | None = None,
        tenant: str = ACME,
        op: OpId | None = None,
        **fields: Unpack[Fields],
    ) -> Answers:
        return await self.finish(await self.start_change(action, *ids, filter=filter, tenant=tenant, op=op, **fields))

    async def change_one(
        self, action: int, id: int, *, tenant: str = ACME, op: OpId | None = None, **fields: Unpack[Fields]
    ) -> Outcome:
        answers = await self.change(action, id, tenant=tenant, op=op, **fields)
        assert len(answers) == 1, f"one job, {len(answers)} answers"
        return accepted(answers.item(0))

    async def configure(
        self, subject: int, name: str, *, tenant: str = ACME, op: OpId | None = None, **changes: object
    ) -> dict[str, object]:
        return await self.store.configure(
            self.context(tenant, op=op), Configure(subject, name, dict(changes)), self.now()
        )

    async def set_queue(self, name: str = "default", *, tenant: str = ACME, **changes: object) -> dict[str, object]:
        return await self.configure(QUEUE, name, tenant=tenant, op=None, **changes)

    async def set_key(self, prefix: str, *, tenant: str = ACME, **changes: object) -> dict[str, object]:
        return await self.configure(KEY, prefix, tenant=tenant, op=None, **changes)

    async def set_tenant(self, name: str = ACME, **changes: object) -> dict[str, object]:
        return await self.configure(TENANT, name, tenant=name, op=None, **changes)

    # Read

    async def get(self, id: int, tenant: str = ACME) -> JobRecord | None:
        found = await self.store.get(self.context(tenant), [id], [], self.now())
        assert len(found) == 1, f"one id, {len(found)} answers"
        return found[0]

    async def job(self, id: int, tenant: str = ACME) -> JobRecord:
        found = await self.get(id, tenant)
        assert found is not None, f"there is no job {id}"
        return found

    async def state(self, id: int, tenant: str = ACME) -> str:
        """The state's name, or "gone"."""
        found = await self.get(id, tenant)
        return "gone" if found is None else found.state

    async def states(self, *ids: int, tenant: str = ACME) -> list[str]:
        found = await self.store.get(self.context(tenant), list(ids), [], self.now())
        return ["gone" if one is None else one.state for one in found]

    async def count(self, queue: str = "default", tenant: str = ACME) -> dict[str, int]:
        """The states of one queue that have jobs, and how many."""
        counts = await self.store.count(self.context(tenant), queue, self.now())
        return {name: number for name, number in counts.get(queue, {}).items() if number}

    async def count_by_steps(self, state: str, total: int, queue: str = "default") -> int:
        """Ticks until all jobs are in the state, at most 1,000 more with each step; answers how many ticks it took."""
        known = 2 * STEP_MAX  # the step before, and the count, which is a step too
        for ticks in range(TICKS_MAX):
            found = (await self.count(queue)).get(state, 0)
            assert found <= known, f"{found} jobs were {state} after steps for {known}"
            if found == total:
                return ticks
            again = await self.tick_once()
            assert again is not None, f"{total - found} jobs are owed, and no tick is asked for"
            known = found + 2 * STEP_MAX
        raise AssertionError(f"the jobs do not become {state}")

    async def find(self, filter: Filter, limit: int = 100, tenant: str = ACME) -> list[int]:
        """The ids of all that match, page by page."""
        ids: list[int] = []
        cursor = ""
        for _ in range(PAGES_MAX):
            page = await self.store.find(self.context(tenant), filter, limit, cursor, self.now())
            assert len(page.jobs) <= limit, f"a page of {len(page.jobs)} jobs, the limit is {limit}"
            ids += [job.id for job in page.jobs]
            cursor = page.cursor
            if not cursor:
                return ids
        raise AssertionError("the pages have no end")

    async def explain(self, id: int, tenant: str = ACME) -> Explanation:
        return await self.store.explain(self.context(tenant), id, self.now())

    async def events(
        self, tenant: str = ACME, tenants: tuple[str, ...] = (), cursor: str = "", limit: int = 1_000
    ) -> list[Event]:
        """All events after the cursor, page by page."""
        events: list[Event] = []
        for _ in range(PAGES_MAX):
            page = await self.store.events(self.context(tenant, tenants), cursor, limit, 0, self.now())
            assert len(page.events) <= limit, f"a page of {len(page.events)} events, the limit is {limit}"
            events += page.events
            if not page.events and page.cursor == cursor:
                return events
            cursor = page.cursor
        raise AssertionError("the pages have no end")

    async def events_of(self, id: int, tenant: str = ACME) -> list[Event]:
        return [event for event in await self.events(tenant) if event.job == id]

    async def types_of(self, id: int, tenant: str = ACME) -> list[str]:
        return [event.type for event in await self.events_of(id, tenant)]

    async def last_event(self, id: int, tenant: str = ACME) -> Event:
        return (await self.events_of(id, tenant))[-1]

    async def start_watch(self, id: int, wait_ms: int = MINUTE, tenant: str = ACME) -> "asyncio.Task[JobRecord]":
        return await self.start(self.store.watch(self.context(tenant), id, wait_ms, self.now()))

    # Append

    async def progress(self, leased: Leased, percent: int, text: str = "") -> int:
        return await self.append(Append(PROGRESS, leased.id, leased.token, percent, text), leased.tenant)

    async def log(self, leased: Leased, text: str) -> int:
        return await self.append(Append(LOG, leased.id, leased.token, 0, text), leased.tenant)

    async def emit(self, leased: Leased, data: bytes) -> int:
        return await self.append(Append(EMIT, leased.id, leased.token, 0, "", data), leased.tenant)

    async def append(self, append: Append, tenant: str = ACME, connection: int = 0) -> int:
        return await self.store.append(self.context(tenant, connection=connection), append, self.now())

    async def stream(
        self, id: int, kind: int = EMIT, offset: int = 0, limit: int = 1_000, wait_ms: int = 0, tenant: str = ACME
    ) -> list[StreamItem]:
        return await self.store.stream(self.context(tenant), id, kind, offset, limit, wait_ms, self.now())

    async def load(self, load: Load, tenant: str = ACME, op: OpId | None = None) -> LoadReport:
        return await self.finish(await self.start(self.store.load(self.context(tenant, op=op), load, self.now())))
