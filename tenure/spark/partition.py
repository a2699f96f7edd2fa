"""One task of Spark as a worker: claims, runs the handler in the task's own thread, settles by token, until it is over.

A loop in a thread beside it talks to the server, and a process beside that renews the leases whatever the handler
does, as for any worker. When this process is killed, that one ends: the jobs go to others when their leases are over.
Nothing that a task gives back to Spark is a result: results are settled with the lease's token, which is taken once.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from tenure.client.client import connect
from tenure.client.loop import LoopThread
from tenure.core import bound
from tenure.core.error import Error, Forbidden, JobCancelled, Unavailable
from tenure.core.request import Filter
from tenure.core.state import READY, RETRYING, RUNNING, SETTLE_NAMES
from tenure.spark.address import Address
from tenure.spark.handler import Handler, open_handler
from tenure.spark.token import read_token
from tenure.task.context import APPENDS_MAX
from tenure.worker.attempt import CANCELLED, Attempt
from tenure.worker.ended import RELEASED, Ended
from tenure.worker.followup import followups_of
from tenure.worker.joblog import TAP
from tenure.worker.keeping import Keeping
from tenure.worker.renewal import Renewal
from tenure.worker.settler import Settler
from tenure.worker.speaker import Speaker

log = logging.getLogger("tenure.spark")

DONE: Final = "done"
EMPTY: Final = "empty"
BOUND: Final = "bound"
UNTIL: Final = (DONE, EMPTY, BOUND)
WAIT_MS: Final = 1_000  # of a claim when there was nothing
EMPTY_WAIT_MS: Final = 200
LIVE: Final = ("ready", "running", "retrying")
LIVE_STATES: Final = 1 << READY | 1 << RUNNING | 1 << RETRYING
COLUMNS: Final = {
    "complete": "completed",
    "fail": "failed",
    "release": "released",
    "snooze": "snoozed",
    "cancel": "cancelled",
}
TELL_S: Final = 0.1  # between two times that ended jobs are handed over to be settled
QUICK_S: Final = 0.5  # a claim of single jobs that took less was too small
HOLD_S: Final = 2.0  # no job is held for longer than about this before it begins
SETTLE_S: Final = 60.0  # for a server that does not answer
RELEASE_S: Final = 10.0
GOODBYE_S: Final = 2.0


class Work(msgspec.Struct, frozen=True):
    """What every task is told."""

    address: Address
    queues: tuple[str, ...]
    handler: Handler
    tasks: tuple[str, ...] = ()  # all, when empty
    batch: int = 1_000
    lease_ms: int = 60_000
    until: str = DONE
    jobs: int = 0  # of one task at most; 0: no bound
    deadline: float = 0.0  # seconds since 1970; 0: none
    worker: str = "spark"


class Part(msgspec.Struct, frozen=True):
    """What one task did, as far as it got to say: one that was killed says nothing."""

    partition: int
    worker: str
    claimed: int = 0
    completed: int = 0
    failed: int = 0  # to be tried again, or for good
    snoozed: int = 0
    cancelled: int = 0
    released: int = 0  # given back, not begun
    lost: int = 0  # run, but somebody else has the job by now: what came out was not taken
    calls: int = 0  # of the handler
    run_ms: int = 0  # in it


class Pace:
    """How many to claim next. Jobs that run one after the other wait for each other, leased: no more of them are
    claimed than begin soon. After a job on its last attempt it goes on with single ones, and grows again."""

    def __init__(self, most: int, is_single: bool) -> None:
        self._most = most
        self._is_single = is_single
        self.count = 1 if is_single else most

    def ran(self, count: int, seconds: float) -> None:
        if not self._is_single or seconds < QUICK_S:
            self.count = min(2 * self.count, self._most)
        elif seconds > 2 * QUICK_S:
            self.count = max(min(self.count, count) // 2, 1)

    def narrow(self) -> None:
        self.count = 1


def is_last(attempt: Attempt) -> bool:
    """Whether a crash would make a dead letter of it, when it has crashed or failed before."""
    return attempt.attempt > 1 and attempt.attempt == attempt.options.max_attempts


def run_partition(work: Work, partition: int, retry: int = 0) -> Part:
    """`retry` is how often Spark has tried this task before."""
    worker = f"{work.worker}-{partition}" + (f".{retry}" if retry else "")
    loop = LoopThread("tenure-partition")
    try:
        with asyncio.Runner() as runner:
            run = Run(work, worker, loop, runner.run)
            try:
                loop.run(run.open())
                run.go_on()
            finally:
                loop.run(run.close())
        return Part(partition, worker, run_ms=int(run.seconds * 1_000), calls=run.calls, **run.counts)
    finally:
        loop.stop()


class Run:
    def __init__(self, work: Work, worker: str, loop: LoopThread, run_async: Callable[..., Any]) -> None:
        self._work = work
        self._worker = worker
        self._thread = loop
        self._handler = open_handler(work.handler, run_async)
        self._tasks = work.tasks or work.handler.tasks or None
        self._pace = Pace(work.batch, self._handler.is_single)
        self._running: dict[Attempt, None] = {}
        self._held: dict[Attempt, None] = {}  # whose lease is kept: until their settlement was answered
        self._handed_over: list[Future[None]] = []
        self._begun = 0
        self.counts = Counter[str]()
        self.calls = 0
        self.seconds = 0.0
        self._is_open = False

    # In the loop.

    async def open(self) -> None:
        address, loop = self._work.address, asyncio.get_running_loop()
        token = read_token(address.token_file, address.token_variable)
        self._client = connect(address.url, tenant=address.tenant, token=token)
        try:
            await self._client.__aenter__()
        except BaseException:
            await self._client.close()
            raise
        queues = list(self._work.queues)
        keeping = Keeping(address.url, token, address.tenant, [], self._worker, 2 * self._work.batch, queues)
        self._keeping = keeping
        self._settler = Settler(self._client, self._answered)
        self._speaker = Speaker(self._client, loop, APPENDS_MAX)
        self._renewal = Renewal(self._client, self._held, self._running, self._lose, False, keeping)
        self._unlisten = self._client.listen(self._hear)
        self._is_open = True
        try:
            await self._client.configure("worker", self._worker, tasks=sorted(self._tasks or ()))
        except Error as error:
            log.warning("%s could not register: %s", self._worker, error)
        self._renewal.start()
        TAP.install()

    async def close(self) -> None:
        """Also after a failure: what is still leased has not begun, or was interrupted from outside. It is released,
        which costs no attempt."""
        if not self._is_open:
            return
        TAP.remove()
        try:
            await self._until_handed_over()
            self._tell([(attempt, RELEASED) for attempt in self._running])
            await self._settler.drain(RELEASE_S)
            self._unlisten()
            await self._renewal.stop()
            async with asyncio.timeout(GOODBYE_S):
                await self._client.configure("worker", self._worker, leaving=True)
        except (Error, TimeoutError) as error:
            log.info("%s left without a goodbye: %s", self._worker, error)
        finally:
            await self._client.close()

    async def _claim(self, count: int, wait_ms: int) -> list[Attempt]:
        work = self._work
        claim = bound.make_claim(work.queues, count, wait_ms, self._worker, self._tasks, lease_ms=work.lease_ms)
        asked_at = time.monotonic()
        found = await self._client.claim_batch(claim)
        loop = asyncio.get_running_loop()
        attempts: list[Attempt] = []
        for at, id in enumerate(found.ids):
            options = found.options[at]
            attempt = Attempt(
                id,
                found.token,
                self._handler.task_of(options.task),
                found.payloads[at],
                options,
                found.tenants[at],
                found.attempts[at],
                found.extras[at],
                found.lease_ms[at],
                asked_at,
                loop.time(),
                self._speaker,
                loop,
            )
            self._running[attempt] = self._held[attempt] = None
            self._keeping.hold(attempt)
            attempts.append(attempt)
        self.counts["claimed"] += len(attempts)
        return attempts

    def _tell(self, ended: list[tuple[Attempt, Ended]]) -> None:
        for attempt, how in ended:
            if attempt.stop:
                how = RELEASED  # refused, and the sign that its handler has stopped
            self._running.pop(attempt, None)
            attempt.is_told = True
            self._settler.put(attempt, how, followups_of(attempt.forget_context(), how))

    async def _tell_when_said(self, ended: list[tuple[Attempt, Ended]]) -> None:
        """What handlers said goes before how they ended."""
        for attempt, _ in ended:
            if attempt.has_said:
                await self._speaker.said(attempt.id)
        self._tell(ended)

    async def _until_handed_over(self) -> None:
        while self._handed_over:
            await asyncio.wrap_future(self._handed_over.pop())

    async def _settled(self, ended: list[tuple[Attempt, Ended]]) -> None:
        """Told, and answered."""
        await self._until_handed_over()
        await self._tell_when_said(ended)
        await self._settler.drain(SETTLE_S)
        if self._settler.unsettled:
            raise Unavailable(f"{self._work.address.url} has not taken results for {SETTLE_S:.0f} s; is it running?")

    def _answered(self, attempt: Attempt, ended: Ended, _state: int, error: Error | None) -> None:
        """By the store: the lease is over."""
        self._held.pop(attempt, None)
        self._keeping.drop(attempt)
        if error is None:
            self.counts[_counted(ended.verb)] += 1
        else:
            self.counts["cancelled" if isinstance(error, JobCancelled) else "lost"] += 1

    def _lose(self, attempt: Attempt, _is_cancelled: bool = True) -> None:
        if not attempt.stop and attempt in self._running:
            attempt.stop = CANCELLED
            attempt.context.cancel()  # for a handler that looks

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("event") == "cancelled":
            for attempt in [each for each in self._running if each.id == message["id"]]:
                self._lose(attempt)

    async def _is_done(self) -> bool:
        """Whether nothing of the queues is ready, running or to be tried again."""
        try:
            counted = await self._client.count()
            for name in counted:
                if not any(_matches(name, queue) for queue in self._work.queues):
                    continue
                if self._tasks is None:
                    if any(counted[name][state] for state in LIVE):
                        return False
                    continue
                for task in self._tasks:
                    if await self._has_any(Filter(name, LIVE_STATES, task)):
                        return False
        except Forbidden as error:
            raise Forbidden(f'{error}; until="done" looks whether jobs are left, until="empty" does not') from None
        return True

    async def _has_any(self, filter: Filter) -> bool:
        cursor = ""
        while True:
            page = await self._client.find(filter, 1, cursor)
            if page.jobs or not page.cursor:
                return bool(page.jobs)
            cursor = page.cursor

    # In the thread of the task.

    def go_on(self) -> None:
        is_busy = True
        while (count := self._room()) > 0:
            attempts = self._thread.run(self._claim(count, self._wait_ms(is_busy)))
            is_busy = bool(attempts)
            if attempts:
                self._run(attempts)
            elif self._work.until == EMPTY or (self._work.until == DONE and self._thread.run(self._is_done())):
                return

    def _room(self) -> int:
        work = self._work
        if work.deadline and time.time() >= work.deadline:
            return 0
        return min(self._pace.count, work.jobs - self._begun) if work.jobs else self._pace.count

    def _wait_ms(self, is_busy: bool) -> int:
        """Nothing is waited for before it was looked whether all is done."""
        work = self._work
        wait_ms = EMPTY_WAIT_MS if work.until == EMPTY else 0 if is_busy and work.until == DONE else WAIT_MS
        if work.deadline:
            wait_ms = min(wait_ms, max(int((work.deadline - time.time()) * 1_000), 0))
        return wait_ms

    def _run(self, attempts: list[Attempt]) -> None:
        """A job on its last attempt runs by itself, with no other of its kind leased: should it take this process with
        it, no neighbour ends as a dead letter for it."""
        last = [attempt for attempt in attempts if is_last(attempt)]
        if last:
            self._thread.run(self._settled([(attempt, RELEASED) for attempt in last[1:]]))
            self._run_line(last[:1])
            self._run_line([attempt for attempt in attempts if not is_last(attempt)])
            self._pace.narrow()
        else:
            began = time.monotonic()
            count = self._run_line(attempts)
            self._pace.ran(count, time.monotonic() - began)

    def _run_line(self, attempts: list[Attempt]) -> int:
        """How many were run; those that would have had to wait for long are given back."""
        if not attempts:
            return 0
        if not self._handler.is_single:
            self._thread.run(self._settled(self._called(attempts)))
            return len(attempts)
        began = told = time.monotonic()
        ended: list[tuple[Attempt, Ended]] = []
        for at, attempt in enumerate(attempts):
            now = time.monotonic()
            if at and now - began > HOLD_S:
                self._thread.run(self._settled([*ended, *((each, RELEASED) for each in attempts[at:])]))
                return at
            if now - told > TELL_S:
                self._hand_over(ended)
                ended, told = [], now
            try:
                ended += self._called([attempt])
            except BaseException:  # it is interrupted: what is done by then is done
                self._hand_over(ended)
                raise
        self._thread.run(self._settled(ended))
        return len(attempts)

    def _hand_over(self, ended: list[tuple[Attempt, Ended]]) -> None:
        """Settled meanwhile: what is done does not wait for a slow neighbour."""
        telling = self._tell_when_said(ended)
        self._handed_over.append(asyncio.run_coroutine_threadsafe(telling, self._thread.loop))

    def _called(self, attempts: list[Attempt]) -> list[tuple[Attempt, Ended]]:
        """One call of the handler, without the jobs that were cancelled before it."""
        wanted = [attempt for attempt in attempts if not attempt.stop]
        ended = [(attempt, RELEASED) for attempt in attempts if attempt.stop]
        if wanted:
            began = time.monotonic()
            self._begun += len(wanted)
            self.calls += 1
            ended += zip(wanted, self._handler.run(wanted), strict=True)
            self.seconds += time.monotonic() - began
        return ended


def _counted(verb: int) -> str:
    """The column of `Part`."""
    return COLUMNS[SETTLE_NAMES[verb]]


def _matches(name: str, queue: str) -> bool:
    """A name, or a prefix ending in `*`."""
    return name.startswith(queue[:-1]) if queue.endswith("*") else name == queue
