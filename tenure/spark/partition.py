"""One task of Spark as a worker: claims, has the handler run in a process of its own, settles by token, until it ends.

A loop in a thread talks to the server and renews the leases: the handler, in its own process, cannot block it. When
that process dies its task goes on, and only the job that it died of has failed. When the task is killed, so is that
process: the jobs go to others when their leases are over. Nothing that a task gives back to Spark is a result: results
are settled with the lease's token, which is taken once.
"""

import asyncio
import logging
import math
import time
from collections import Counter
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from tenure.client.client import connect
from tenure.client.loop import LoopThread
from tenure.core import bound
from tenure.core.error import Error, Forbidden, JobCancelled, Unavailable
from tenure.core.record import JobRecord
from tenure.core.request import Filter
from tenure.core.state import READY, RETRYING, RUNNING, SETTLE_NAMES
from tenure.spark.address import Address
from tenure.spark.caller import Caller, Calling, hold_of
from tenure.spark.handler import Bare, Handler, open_handler
from tenure.spark.token import read_token
from tenure.task.context import APPENDS_MAX
from tenure.worker.attempt import CANCELLED, TIMED_OUT, Attempt
from tenure.worker.ended import RELEASED, Ended
from tenure.worker.followup import followups_of
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
LEASE_EXPIRED: Final = "LeaseExpired"
LOOKED_AT_ONCE: Final = 100
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
    stop_s: float = 30.0  # what runs at the deadline may go on for so long
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
    claimed than begin soon. After a job that may have brought down its executor it goes on with single ones, and grows
    again."""

    def __init__(self, most: int, is_single: bool) -> None:
        self._most = most
        self._is_single = is_single
        self.count = 1 if is_single else most

    def ran(self, count: int, seconds: float, hold_s: float) -> None:
        """So many took so long, where a job may be held for `hold_s` before it begins."""
        if not self._is_single or seconds < hold_s / 4:
            self.count = min(2 * self.count, self._most)
        elif seconds > hold_s / 2:
            self.count = max(min(self.count, count) // 2, 1)

    def narrow(self) -> None:
        self.count = 1


def is_last(attempt: Attempt) -> bool:
    """Whether it has failed before, and would be a dead letter if it did again."""
    return attempt.attempt > 1 and attempt.attempt == attempt.options.max_attempts


def run_partition(work: Work, partition: int, retry: int = 0) -> Part:
    """`retry` is how often Spark has tried this task before."""
    worker = f"{work.worker}-{partition}" + (f".{retry}" if retry else "")
    caller = Caller(open_handler(work.handler, asyncio.Runner().run))  # forks: before there are threads
    try:
        loop = LoopThread("tenure-partition")
        try:
            run = Run(work, worker, loop, caller)
            try:
                loop.run(run.open())
                run.go_on()
            finally:
                loop.run(run.close())
            return Part(partition, worker, run_ms=int(run.seconds * 1_000), calls=run.calls, **run.counts)
        finally:
            loop.stop()
    finally:
        caller.close()


class Run:
    def __init__(self, work: Work, worker: str, loop: LoopThread, caller: Caller) -> None:
        self._work = work
        self._worker = worker
        self._thread = loop
        self._caller = caller
        self._bare = Bare(work.handler)  # the tasks themselves are in the process of the handler
        self._tasks = work.tasks or work.handler.tasks or None
        self._pace = Pace(work.batch, caller.is_single)
        self._end_at = math.inf
        if work.deadline:
            self._end_at = time.monotonic() + work.deadline - time.time()
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
        self._settler = Settler(self._client, self._answered)
        self._speaker = Speaker(self._client, loop, APPENDS_MAX)
        self._renewal = Renewal(self._client, self._held, self._running, self._lose, False)
        self._unlisten = self._client.listen(self._hear)
        self._is_open = True
        try:
            await self._client.configure("worker", self._worker, tasks=sorted(self._tasks or ()))
        except Error as error:
            log.warning("%s could not register: %s", self._worker, error)
        self._renewal.start()

    async def close(self) -> None:
        """Also after a failure: what is still leased has not begun, or was interrupted from outside. It is released,
        which costs no attempt."""
        if not self._is_open:
            return
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
                self._bare.task_of(options.task),
                found.payloads[at],
                options,
                found.tenants[at],
                found.attempts[at],
                found.extras[at],
                found.lease_ms[at],
                asked_at,
                time.monotonic(),
                self._speaker,
                loop,
            )
            self._running[attempt] = self._held[attempt] = None
            attempts.append(attempt)
        self.counts["claimed"] += len(attempts)
        return attempts

    def _tell(self, ended: list[tuple[Attempt, Ended]]) -> None:
        for attempt, how in ended:
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
        if error is None:
            self.counts[_counted(ended.verb)] += 1
        elif attempt.stop == TIMED_OUT:
            self.counts["failed"] += 1  # the store has ended it by itself
        else:
            self.counts["cancelled" if isinstance(error, JobCancelled) else "lost"] += 1

    def _lose(self, attempt: Attempt, _is_cancelled: bool = True) -> None:
        if not attempt.stop and attempt in self._running:
            attempt.stop = CANCELLED
            self._caller.ring()

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
                continue
            self._thread.run(self._settled([]))
            if self._work.until == EMPTY or (self._work.until == DONE and self._thread.run(self._is_done())):
                return
        self._thread.run(self._settled([]))

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
        """A job on its last attempt that may have brought down its executor runs by itself, with no other of its kind
        leased: should it do so again, no neighbour ends as a dead letter for it."""
        last = [attempt for attempt in attempts if is_last(attempt)]
        suspects = self._thread.run(self._suspects(last)) if last else []
        if suspects:
            self._thread.run(self._settled([(attempt, RELEASED) for attempt in suspects[1:]]))
            self._run_line(suspects[:1])
            self._run_line([attempt for attempt in attempts if attempt not in suspects])
            self._pace.narrow()
        else:
            began = time.monotonic()
            count = self._run_line(attempts)
            self._pace.ran(count, time.monotonic() - began, hold_of(attempts))

    async def _suspects(self, attempts: list[Attempt]) -> list[Attempt]:
        """Those whose last attempt ended with its lease: nobody was left to say how."""
        suspects: list[Attempt] = []
        for at in range(0, len(attempts), LOOKED_AT_ONCE):
            part = attempts[at : at + LOOKED_AT_ONCE]
            found = await asyncio.gather(*(self._client.get(attempt.id) for attempt in part), return_exceptions=True)
            for attempt, job in zip(part, found, strict=True):
                if not isinstance(job, JobRecord):
                    suspects.append(attempt)  # nobody says
                elif job.history and (error := job.history[-1].error) is not None and error.type == LEASE_EXPIRED:
                    suspects.append(attempt)
        return suspects

    def _run_line(self, attempts: list[Attempt]) -> int:
        """How many were run; those that would have had to wait for long are given back."""
        if not attempts:
            return 0
        if not self._caller.is_single:
            self._run_together(attempts)
            return len(attempts)
        ran, ready = 0, attempts
        hold_until = time.monotonic() + hold_of(attempts)
        while ready:
            rest = self._call(ready)
            ran += len(ready) - len(rest)
            is_over = time.monotonic() >= min(hold_until, self._end_at)
            ready = [] if is_over else [attempt for attempt in rest if not attempt.stop]
            self._hand_over([(attempt, RELEASED) for attempt in rest if is_over or attempt.stop])
        return ran

    def _run_together(self, attempts: list[Attempt]) -> None:
        """One call; when the process dies of it, halves of it, so that only the job that it dies of has failed."""
        now = time.monotonic()
        wanted: list[Attempt] = []
        unwanted: list[tuple[Attempt, Ended]] = []
        for attempt in attempts:
            if self._may_begin(attempt, now):
                wanted.append(attempt)
            else:
                unwanted.append((attempt, RELEASED))
        self._hand_over(unwanted)
        rest = self._call(wanted) if wanted else []
        if rest:
            log.warning("the process of the handler died of one of %d jobs; they are run in halves", len(rest))
            self._run_together(rest[: len(rest) // 2])
            self._run_together(rest[len(rest) // 2 :])

    def _may_begin(self, attempt: Attempt, now: float) -> bool:
        """It is wanted, most of its timeout is left, and the end has not come."""
        timeout_ms = attempt.options.timeout_ms
        is_late = now >= self._end_at or bool(timeout_ms and now - attempt.started_at >= timeout_ms / 2_000)
        return not attempt.stop and not is_late

    def _call(self, attempts: list[Attempt]) -> list[Attempt]:
        """Those of which nothing came: they did not begin, or what they began with died."""
        ended: list[tuple[Attempt, Ended]] = []
        told = began = time.monotonic()

        def tell(attempt: Attempt, how: Ended) -> None:
            nonlocal ended, told
            ended.append((attempt, how))
            self._begun += 1
            self.calls += self._caller.is_single
            if time.monotonic() - told > TELL_S:
                self._hand_over(ended)
                ended, told = [], time.monotonic()

        if not self._caller.is_single:
            self.calls += 1
        call = Calling(self._caller, attempts, self._end_at, self._work.stop_s, tell)
        try:
            rest = call.run()
        except BaseException:  # it is interrupted: what is done by then is done
            self._caller.give_up()
            self._hand_over(ended)
            raise
        self.seconds += time.monotonic() - began
        self._thread.run(self._settled([]))  # what was handed over before; this, while the next ones are claimed
        self._hand_over(ended)
        return rest

    def _hand_over(self, ended: list[tuple[Attempt, Ended]]) -> None:
        """Settled meanwhile: what is done does not wait for a slow neighbour."""
        if not ended:
            return
        telling = self._tell_when_said(ended)
        self._handed_over.append(asyncio.run_coroutine_threadsafe(telling, self._thread.loop))


def _counted(verb: int) -> str:
    """The column of `Part`."""
    return COLUMNS[SETTLE_NAMES[verb]]


def _matches(name: str, queue: str) -> bool:
    """A name, or a prefix ending in `*`."""
    return name.startswith(queue[:-1]) if queue.endswith("*") else name == queue
