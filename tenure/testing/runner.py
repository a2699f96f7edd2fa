"""Runs the jobs of a test, one after another, with the worker that runs them anywhere else.

The worker claims nothing by itself: it is asked for a step whenever something is to run. A handler that enqueues, or
waits for, another job asks for steps of its own, so that one job may run inside of another.
"""

import asyncio
from collections.abc import Callable

from tenure.app.app import App
from tenure.client.client import Client, raise_outcome
from tenure.client.driver import Driver
from tenure.core.answer import Answers, Claimed
from tenure.core.bound import LEASE_MS_MAX
from tenure.core.error import JobNotFound
from tenure.core.record import JobRecord
from tenure.core.request import Batch, Claim, Filter, Settle
from tenure.core.state import READY, RETRYING, SCHEDULED
from tenure.core.tenant import Context, OpId
from tenure.testing.clock import Clock
from tenure.worker.attempt import Attempt
from tenure.worker.worker import Worker

RUNS_MAX = 10_000  # of one call: more is a task that enqueues itself
IDLE_MAX = 100  # moves of the clock after which nothing could run
STOP_S = 1.0
PAGE = 1_000
NEVER = 2**62
WAITING = 1 << READY | 1 << RETRYING
NAME = "tenure-testing"

Note = Callable[[Batch, str], None]


class WorkerClient(Client):
    """The worker's, which tells of the follow-ups that it stores."""

    def __init__(self, driver: Driver, context: Context, note: Note) -> None:
        super().__init__(driver, context)
        self._note = note
        self._tenants: dict[int, str] = {}  # of the jobs that were claimed
        self.has_put_off = False

    def beat(self, goes_on: bool = True) -> None:
        """Nothing: a clock that jumps was moved, and no loop was blocked."""

    async def claim_batch(self, claim: Claim, op: OpId | None = None) -> Claimed:
        found = await super().claim_batch(claim, op)
        self._tenants.update(zip(found.ids, found.tenants, strict=True))
        return found

    async def settle_batch(self, settle: Settle) -> Answers:
        self.has_put_off |= settle.delay_ms > 0
        answers = await super().settle_batch(settle)
        refused = answers.errors()
        for at, batch in enumerate(settle.followups or ()):
            if batch is not None and at not in refused:
                self._note(batch, self._tenants[settle.ids[at]])
        return answers


class Runner:
    """Of one connection, in its loop."""

    def __init__(self, app: App, clock: Clock, driver: Driver, note: Note, tenants: Callable[[], set[str]]) -> None:
        """`tenants` are those that jobs were enqueued for."""
        self._app = app
        self._tenants = tenants
        self._clock = clock
        self._driver = driver
        self._client = WorkerClient(driver, Context(tenant=app.tenant, tenants=("*",)), note)
        self._worker: Worker | None = None
        self._names: list[str] = []
        self._runs = 0
        self._starting = asyncio.Lock()

    @property
    def is_busy(self) -> bool:
        return self._worker is not None and bool(self._worker.running)

    def is_running(self, id: int) -> bool:
        return self._worker is not None and any(attempt.id == id for attempt in self._worker.running)

    async def stop(self) -> None:
        if self._worker is not None:
            await self._worker.stop(STOP_S)
            self._worker = None

    async def run_due(self, concurrency: int = 1, raises: bool = False) -> int:
        """Until nothing is due; how many attempts that took."""
        before = self._runs
        while attempts := await self._step(concurrency):
            if raises:
                await self._raise_failure(attempts)
            self._refuse_too_many(before)
        return self._runs - before

    async def run_through(self, raises: bool = False) -> int:
        """As `run_due`, and the time passes that jobs wait for which have begun, or which a rate holds."""
        before = self._runs
        idle = 0 if await self.run_due(raises=raises) else 1
        while idle < IDLE_MAX and (next_at := await self._next_try_at()) > 0:
            self._clock.advance_to(next_at)
            idle = 0 if await self.run_due(raises=raises) else idle + 1
            self._refuse_too_many(before)
        return self._runs - before

    async def run_until(self, wall_ms: int, raises: bool = False) -> int:
        """Time passes up to the instant, and everything that comes due meanwhile runs at its own time."""
        before = self._runs
        while (next_at := await self._next_alarm_at()) <= wall_ms:
            self._clock.advance_to(next_at)
            await self.run_due(raises=raises)
            self._refuse_too_many(before)
        self._clock.advance_to(wall_ms)
        await self.run_due(raises=raises)
        return self._runs - before

    def _refuse_too_many(self, before: int) -> None:
        if self._runs - before > RUNS_MAX:
            raise RuntimeError(
                f"{RUNS_MAX} jobs ran and there is no end; does a task enqueue, retry or snooze for ever?"
            )

    async def until_ended(self, ids: set[int]) -> None:
        """Until none of these runs here: another call may have claimed them."""
        while self._worker is not None and any(attempt.id in ids for attempt in self._worker.running):
            await self._worker.until_one_ends()

    async def _step(self, concurrency: int) -> list[Attempt]:
        worker = await self._ready_worker()
        attempts = [] if worker is None else await worker.step(concurrency, LEASE_MS_MAX)
        self._runs += len(attempts)
        return attempts

    async def _ready_worker(self) -> Worker | None:
        """Made anew when the app has got other tasks since."""
        async with self._starting:
            names = self._app.registry.names()
            if self._worker is not None and names != self._names and not self._worker.running:
                await self.stop()
            if self._worker is None and names:
                self._names = names
                worker = Worker(self._app.registry, self._client, queues=("*",), name=NAME, is_embedded=True)
                await worker.start(claims=False)
                self._worker = worker
            return self._worker

    async def _raise_failure(self, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            try:
                found = await self._client.as_tenant(attempt.tenant).get(attempt.id)
            except JobNotFound:
                continue
            if found.state == "failed":
                raise_outcome(found)

    async def _next_alarm_at(self) -> int:
        """When the store has something to do, by the wall; later than now."""
        now = self._clock()
        next_at = await self._driver.store.tick(now)
        if next_at is None:
            return NEVER
        wait_ms = min(next_at.wall_ms - now.wall_ms, next_at.elapsed_ms - now.elapsed_ms)
        return now.wall_ms + max(wait_ms, 1)

    async def _next_try_at(self) -> int:
        """When the first of the jobs goes on that only wait for time and are not meant for later; 0 for none."""
        times: list[int] = []
        states = WAITING | (1 << SCHEDULED if self._client.has_put_off else 0)
        for tenant in sorted(self._tenants()):
            client = self._client.as_tenant(tenant)
            for job in await _find(client, states):
                if job.state != "scheduled" or job.delivery > 0:
                    times.append((await client.explain(job.id)).earliest)
        return min((at for at in times if at > self._clock().wall_ms), default=0)


async def _find(client: Client, states: int) -> list[JobRecord]:
    found: list[JobRecord] = []
    cursor = ""
    while True:
        page = await client.find(Filter(states=states), PAGE, cursor)
        found += page.jobs
        cursor = page.cursor
        if not cursor:
            return found
