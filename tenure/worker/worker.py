"""A worker: claims what it can start now, runs it, tells how it ended.

It leases no more than it has room for. Handlers run in the loop, in threads or in processes, as their tasks say. Leases
are renewed from outside of whatever a handler may block. Stopping is asked for once: nothing new is claimed, what runs
may end, and what has not by then is released and costs no attempt.
"""

import asyncio
import inspect
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from tenure.client.client import Client
from tenure.client.published import Published, options_as_written, publish
from tenure.core import bound
from tenure.core.answer import Claimed
from tenure.core.duration import Duration, milliseconds
from tenure.core.error import Error, InvalidRequest, JobCancelled, JobFailed
from tenure.core.request import Claim, Settle
from tenure.core.state import COMPLETED, FAILED, SETTLE_FAIL, SETTLE_RELEASE
from tenure.task.context import APPENDS_MAX, enter
from tenure.task.outcome import CancelledByStore
from tenure.task.registry import Call, Registry
from tenure.task.signature import Arguments
from tenure.task.task import ASYNC, PROCESS, THREAD, Task
from tenure.task.trace import continued, is_traced
from tenure.worker.adapt import Adapting
from tenure.worker.attempt import CANCELLED, STOPPING, TIMED_OUT, Attempt
from tenure.worker.batch import BatchRun
from tenure.worker.call import call_async, call_sync, ended_with, read_call
from tenure.worker.ended import RELEASED, Ended, ended_by, failed
from tenure.worker.followup import followups_of
from tenure.worker.joblog import TAP
from tenure.worker.keeping import Keeping
from tenure.worker.lane import Lane
from tenure.worker.message import place_of
from tenure.worker.processes import HandlerFailed, ProcessDied, Processes
from tenure.worker.renewal import Renewal
from tenure.worker.settler import Settler
from tenure.worker.speaker import Speaker
from tenure.worker.threads import Threads

log = logging.getLogger("tenure.worker")

CONCURRENCY = 10
CLAIM_WAIT_MS = 30_000
UNSETTLED_MAX = 5_000  # told to the store and not yet answered: nothing is claimed above it
STOP_S = 30.0
ORDERS_S = 5.0  # between two looks at whether somebody asked for a stop
TIMEOUT_GRACE_S = 0.25  # the store ends the attempt first: what this worker says then is only that it has stopped
PAUSE_FIRST_S = 0.1
PAUSE_MOST_S = 10.0
DRAIN_S = 10.0  # for settlements, at a stop
GOODBYE_S = 2.0
QUIET_ROUNDS = 3
HOOK_S = 60.0  # for a hook of a task without a timeout; it has its job's place meanwhile
LISTEN_S = 1.0  # for a handler that was told to stop because the worker does
BLOCKED_S = 30.0
SILENT_S = 2.5 * CLAIM_WAIT_MS / 1000
NO_ARGUMENTS: Arguments = ((), {})
CLAIMERS_FROM = 8  # at this concurrency a second claim is under way while the first one's jobs start


class Worker:
    def __init__(
        self,
        registry: Registry,
        client: Client,
        *,
        queues: Sequence[str | tuple[str, int]] = (),
        concurrency: int = CONCURRENCY,
        processes: int = 0,
        name: str = "",
        version: str = "",
        strict: bool = False,
        stop: Duration = STOP_S,
        latency_target: Duration | None = None,
        memory_bytes: int = 0,
        is_embedded: bool = False,
        keeping: Keeping | None = None,
    ) -> None:
        """`concurrency` is for coroutines and threads, `processes` for the others (as many as there are cores). With a
        `latency_target` the first is where it begins, and found out. `memory_bytes` is what a process may keep.
        `keeping` renews leases where the store is a server."""
        if concurrency < 1:
            raise InvalidRequest("concurrency", concurrency, "it must be 1 or more")
        self.name = name or default_name()
        self.version = version
        self.registry = registry
        self.stop_s = milliseconds("stop", stop) / 1000
        self.running: dict[Attempt, None] = {}  # a job may be here twice: one that timed out, and its next attempt
        self.held: dict[Attempt, None] = {}  # whose lease is kept: until their settlement was answered
        self.started = 0
        self.ended = 0
        self._is_embedded = is_embedded
        self._keeping = keeping
        self._memory_bytes = memory_bytes
        self._client = client
        self._tasks = {name: task for name in registry.names() if (task := registry.find(name)) is not None}
        self.queues = tuple(queues) or queues_of(registry.tasks())
        self._strict = strict
        self._together = [task for task in registry.tasks() if task.settings.batch]
        self.here = Lane(self._names(lambda task: task.mode != PROCESS), concurrency)
        self.beside = Lane(self._names(lambda task: task.mode == PROCESS), processes or min(concurrency, cores()))
        self.lanes = [lane for lane in (self.here, self.beside) if lane.tasks]
        self._adapting: Adapting | None = None
        if latency_target is not None:
            self._adapting = Adapting(self.here, milliseconds("latency_target", latency_target) / 1000)
        self._is_stopping = False
        self._jobs: list[asyncio.Task[None]] = []  # that go on until the worker stops
        self._batches: set[asyncio.Task[None]] = set()
        self._claimed_at = 0.0
        self._empty: list[asyncio.Future[None]] = []  # who waits until nothing runs
        self._hurry: asyncio.Future[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []  # for the next attempt that ends
        self._ending: asyncio.Task[None] | None = None
        self._obeying: asyncio.Task[None] | None = None
        self.asked_to_stop = asyncio.Event()  # by an operator, through the store

    def _names(self, wanted: Callable[[Task[..., Any]], bool]) -> frozenset[str]:
        return frozenset(name for name, task in self._tasks.items() if not task.settings.batch and wanted(task))

    # Life.

    async def start(self, claims: bool = True) -> None:
        """Without `claims` it does nothing until it is asked to `step`."""
        self._loop = asyncio.get_running_loop()
        if not self._tasks:
            raise InvalidRequest("tasks", [], "the app has none; import the modules that define them")
        for task in self.registry.tasks():
            check_task(task)
        self._settler = Settler(self._client, self._answered, self._eased)
        self._speaker = Speaker(self._client, self._loop, APPENDS_MAX)
        self._threads = Threads(self._loop, self._ended_in_thread)
        self._processes = Processes(self._loop, self._memory_bytes)
        self._renewal = Renewal(self._client, self.held, self.running, self.lose, self._is_embedded, self._keeping)
        self._unlisten = self._client.listen(self._hear)
        self._hurry = self._loop.create_future()
        await self._register()
        self._renewal.start()
        TAP.install()
        self._claimed_at = self._loop.time()
        if claims:
            self._begin_to_claim()

    def _begin_to_claim(self) -> None:
        for lane in self.lanes:
            for _ in range(claimers_of(lane)):
                self._go_on(self._claim_on(lane))
        for task in self._together:
            self._go_on(self._claim_batches(task))
        if self._adapting is not None:
            self._go_on(self._adapting.go_on())
        self._go_on(self._follow_orders())

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        self._jobs.append(self._loop.create_task(work))

    def _eased(self) -> None:
        """Fewer settlements are under way: those who waited for that may claim."""
        if self._settler.unsettled <= UNSETTLED_MAX:
            for lane in self.lanes:
                lane.wake()

    async def _register(self) -> None:
        said = {
            name: Published(options_as_written(task.shared[0]), task.signature.schema())
            for name, task in self._tasks.items()
        }
        changes: dict[str, object] = {"version": self.version, "tasks": sorted(said), "published": publish(said)}
        try:
            await self._client.configure("worker", self.name, **changes)
        except Error as error:
            log.warning("the worker could not register: %s", error)

    async def _follow_orders(self) -> None:
        """An operator may ask a worker to stop that runs where they are not."""
        while True:
            await asyncio.sleep(ORDERS_S)
            with suppress(Error):
                told = await self._client.configure("worker", self.name, alive=True)
                if told.get("stop"):
                    log.warning("worker %s was asked to stop", self.name)
                    self.asked_to_stop.set()
                    self._obeying = self._loop.create_task(self.stop())
                    return

    async def stop(self, patience_s: float | None = None) -> None:
        """Claim nothing more, let what runs end; release what has not within the time. May be asked for twice."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._stop(self.stop_s if patience_s is None else patience_s))
        await asyncio.shield(self._ending)

    def hurry(self) -> None:
        """Let nothing end that has not; for somebody who has asked to stop twice."""
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)

    async def _stop(self, patience_s: float) -> None:
        self._is_stopping = True
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        await self._until_empty(patience_s)
        for attempt in list(self.running):
            self._tell(attempt, STOPPING)
        self._hurry = self._loop.create_future()
        await self._until_empty(LISTEN_S)
        for attempt in list(self.running):  # it does not listen; its lease is given back all the same
            self.finish(attempt, RELEASED)
        await self._settler.drain(DRAIN_S)
        self._unlisten()
        TAP.remove()
        await self._renewal.stop()
        self._threads.close()
        await self._processes.close()
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self._client.configure("worker", self.name, leaving=True)
        except (Error, TimeoutError):
            pass  # it is taken for gone after a minute of silence

    async def until_idle(self) -> None:
        """Until there is nothing to claim: for `--burst`.

        Its claims wait in the store, which would have answered them: what is asked behind them comes back when they
        have been heard.
        """
        quiet = 0
        while quiet < QUIET_ROUNDS:
            before = self.started
            await asyncio.sleep(0)
            with suppress(Error):
                await self._client.configure("worker", self.name, alive=True)
            await self._until_empty(None)
            await self._settler.drain()
            quiet = quiet + 1 if self.started == before and not self.running else 0

    async def settled(self) -> None:
        """Until the store has been told of everything that has ended."""
        await self._settler.drain()

    async def _until_empty(self, seconds: float | None) -> None:
        assert self._hurry is not None
        if self.running:
            empty = self._loop.create_future()
            self._empty.append(empty)
            await asyncio.wait([empty, self._hurry], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    # Claims.

    async def _claim_on(self, lane: Lane) -> None:
        pause_s = PAUSE_FIRST_S
        while not self._is_stopping:
            while lane.free < 1 or self._settler.unsettled > UNSETTLED_MAX:
                await lane.change()
            count = min(lane.free, max(lane.limit // claimers_of(lane), 1), bound.CLAIM_JOBS_MAX)
            try:
                await self._claim(lane, count, CLAIM_WAIT_MS)
                pause_s = PAUSE_FIRST_S
                await asyncio.sleep(0)  # what was just claimed starts first
            except Exception as error:
                _complain(error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MOST_S)

    async def until_one_ends(self) -> None:
        """Until the next attempt is over."""
        future = self._loop.create_future()
        self._waiters.append(future)
        await future

    async def _claim(self, lane: Lane, count: int, wait_ms: int) -> int:
        claim = bound.make_claim(self.queues, count, wait_ms, self.name, lane.tasks, strict=self._strict)
        lane.asked += count
        try:
            attempts = await self._ask(claim)
        finally:
            lane.asked -= count
        for attempt in attempts:
            self._start(attempt, lane)
        return len(attempts)

    async def _ask(self, claim: Claim) -> list[Attempt]:
        """Claim. While the loop does not run, nothing that is given can be taken: then the keeper withdraws it."""
        asked_at = time.monotonic()
        claiming = None if self._keeping is None else self._keeping.begin_claim()
        if self._keeping is None or claiming is None:
            found = await self._client.claim_batch(claim)
        else:
            try:
                found = await self._client.claim_batch(claim, claiming.op)
            finally:
                is_withdrawn = self._keeping.end_claim(claiming)
            if is_withdrawn and found.ids:
                await self._give_back(found)
                found = Claimed()
        self._claimed_at = self._loop.time()
        return self._attempts(found, asked_at)

    async def _give_back(self, found: Claimed) -> None:
        """What was withdrawn just when it came."""
        release = Settle(SETTLE_RELEASE, found.ids, [found.token] * len(found.ids))
        try:
            await self._client.settle_batch(release)
        except Error as error:
            log.warning("%d jobs could not be given back; their leases run out: %s", len(found.ids), error)

    async def _claim_batches(self, task: Task[..., Any]) -> None:
        """Jobs of one task that takes many: one call at a time, of as many as there are."""
        while not self._is_stopping:
            try:
                await self._run_batch(task, CLAIM_WAIT_MS)
            except Exception as error:
                _complain(error)
                await asyncio.sleep(PAUSE_MOST_S)

    async def _run_batch(self, task: Task[..., Any], wait_ms: int) -> int:
        names = {task.name, *task.settings.aliases}
        size, company_ms = task.settings.batch, task.settings.batch_wait_ms
        attempts = await self._claim_batch(names, size, wait_ms)
        if attempts and len(attempts) < size and company_ms:
            try:
                attempts += await self._claim_batch(names, size - len(attempts), company_ms)
            except (Error, asyncio.CancelledError):
                for attempt in attempts:
                    self.finish(attempt, RELEASED)
                raise
        if attempts:
            call = self._loop.create_task(BatchRun(self, task, attempts, self._threads).run())
            self._batches.add(call)
            call.add_done_callback(self._batches.discard)
            await asyncio.shield(call)
        return len(attempts)

    async def _claim_batch(self, names: set[str], count: int, wait_ms: int, lease_ms: int = 0) -> list[Attempt]:
        claim = bound.make_claim(self.queues, count, wait_ms, self.name, names, lease_ms=lease_ms, strict=self._strict)
        attempts = await self._ask(claim)
        for attempt in attempts:
            self.hold(attempt)
        return attempts

    def _attempts(self, found: Claimed, asked_at: float) -> list[Attempt]:
        now = self._loop.time()
        attempts: list[Attempt] = []
        for at, id in enumerate(found.ids):
            options = found.options[at]
            attempts.append(
                Attempt(
                    id,
                    found.token,
                    self._tasks[options.task],
                    found.payloads[at],
                    options,
                    found.tenants[at],
                    found.attempts[at],
                    found.extras[at],
                    found.lease_ms[at],
                    asked_at,
                    now,
                    self._speaker,
                    self._loop,
                )
            )
        return attempts

    async def step(self, count: int = 1, lease_ms: int = 0) -> list[Attempt]:
        """Run what can start now to its end: up to so many jobs, and one call of each batch task.

        For a worker that was started without claims, as in tests. It may be asked again while it runs something.
        """
        attempts: list[Attempt] = []
        alone = self.here.tasks | self.beside.tasks
        if alone:
            claim = bound.make_claim(self.queues, count, 0, self.name, alone, lease_ms=lease_ms)
            attempts += await self._ask(claim)
            for attempt in attempts:
                self._start(attempt, self.beside if attempt.options.task in self.beside.tasks else self.here)
        calls: list[BatchRun] = []
        for task in self._together:
            names = {task.name, *task.settings.aliases}
            together = await self._claim_batch(names, task.settings.batch, 0, lease_ms)
            if together:
                calls.append(BatchRun(self, task, together, self._threads))
                attempts += together
        await asyncio.gather(*(call.run() for call in calls))
        while any(attempt in self.running for attempt in attempts):
            await self.until_one_ends()
        await self._settler.drain()
        return attempts

    # Running.

    def hold(self, attempt: Attempt) -> None:
        """It runs from now on, as far as leases and timeouts are concerned."""
        self.running[attempt] = None
        self.held[attempt] = None
        self.started += 1
        if self._keeping is not None:
            self._keeping.hold(attempt)
        timeout_ms = attempt.options.timeout_ms
        if timeout_ms:
            wait_s = timeout_ms / 1000 + TIMEOUT_GRACE_S
            attempt.timer = self._loop.call_later(wait_s, self._tell, attempt, TIMED_OUT)

    def _start(self, attempt: Attempt, lane: Lane) -> None:
        attempt.lane = lane
        lane.enter()
        self.hold(attempt)
        task = attempt.task
        if task.mode != THREAD or self.registry.middleware or task.has_hooks or is_traced():
            attempt.runs_in = self._loop.create_task(self._run(attempt))
        else:
            try:
                self._threads.start(attempt)
            except RuntimeError as error:  # no thread can be started
                self.finish(attempt, failed(error))

    async def _run(self, attempt: Attempt) -> None:
        """A handler in the loop; or one elsewhere with middleware around it."""
        enter(attempt)
        task, options = attempt.task, attempt.options
        try:
            args, named = NO_ARGUMENTS
            if task.mode != PROCESS:  # what reading them may do is for that process, too
                args, named = read_call(task, attempt.payload, options.codec, options.schema_version)
            if is_traced():
                with continued(attempt.context) as note:
                    value = await self._wrapped(attempt, args, named)
                    note(value)
            elif self.registry.middleware:
                value = await self._wrapped(attempt, args, named)
            else:
                value = await self._call(attempt, args, named)
            ended = value if isinstance(value, Ended) else ended_with(task, value, options.codec)
        except HandlerFailed as error:
            ended = error.ended
        except ProcessDied as error:
            ended = failed(error)
        except asyncio.CancelledError as error:
            ended = self._stopped(attempt, error)
        except BaseException as error:  # a handler that exits or raises anything ends its attempt, never the worker
            ended = ended_by(error, task.settings)
        try:
            if attempt.has_said:
                await self._speaker.said(attempt.id)
            if task.has_hooks:
                await self._finish_with_hooks(attempt, ended)
        finally:
            self.finish(attempt, ended)

    def _ended_in_thread(self, attempt: Attempt, ended: Ended) -> None:
        if attempt.has_said:
            attempt.runs_in = self._loop.create_task(self._finish_when_said(attempt, ended))
        else:
            self.finish(attempt, ended)

    async def _finish_when_said(self, attempt: Attempt, ended: Ended) -> None:
        try:
            await self._speaker.said(attempt.id)
        finally:
            self.finish(attempt, ended)

    async def _finish_with_hooks(self, attempt: Attempt, ended: Ended) -> None:
        """Hooks are called when the store has taken the settlement: before, nobody knows whether it will."""
        context = attempt.context
        attempt.answer = self._loop.create_future()
        self._settle(attempt, ended)
        ended, state, error = await attempt.answer
        limit_s = attempt.options.timeout_ms / 1000 or HOOK_S
        limit = asyncio.timeout(limit_s)
        try:
            hook, told = self._hook_of(attempt, ended, state, error)
            async with limit:
                if inspect.iscoroutinefunction(hook):
                    await hook(context, told)
                elif hook is not None:
                    await asyncio.to_thread(hook, context, told)
        except Exception:
            how = f"did not end within {limit_s:g} s" if limit.expired() else "failed"
            log.exception("a hook of %s %s for job %d", attempt.task.name, how, attempt.id)

    def _hook_of(
        self, attempt: Attempt, ended: Ended, state: int, error: Error | None
    ) -> tuple[Callable[..., Any] | None, Any]:
        """What the task wants to be told: that a job has succeeded, or has failed for good."""
        settings = attempt.task.settings
        is_failed = error is None and state == FAILED
        if attempt.stop == TIMED_OUT and error is not None and not isinstance(error, JobCancelled):
            is_failed = attempt.attempt == attempt.options.max_attempts  # the store has ended it by itself
        if error is None and state == COMPLETED and settings.on_success is not None:
            return settings.on_success, attempt.task.reader.result(ended.result, attempt.options.codec)
        if is_failed and ended.verb == SETTLE_FAIL:
            return settings.on_failure, JobFailed(ended.type, ended.message, ended.trace, "")
        return None, None

    async def _wrapped(self, attempt: Attempt, args: Sequence[Any], named: dict[str, Any]) -> Any:
        async def handler() -> Any:
            return await self._call(attempt, args, named)

        call: Call = handler
        for middleware in reversed(self.registry.middleware):
            call = _around(middleware, attempt, call)
        return await call()

    async def _call(self, attempt: Attempt, args: Sequence[Any], named: dict[str, Any]) -> Any:
        task = attempt.task
        if task.mode == ASYNC:
            return await call_async(task, attempt, args, named)
        if task.mode == THREAD:
            run_async = self._threads.run_async
            return await self._threads.run(attempt, lambda: call_sync(task, attempt, args, named, run_async))
        handler = attempt.runs_in
        try:
            return await self._processes.run(attempt)
        finally:
            attempt.runs_in = handler  # what is left is middleware, in the loop

    def _stopped(self, attempt: Attempt, error: BaseException) -> Ended:
        """The handler was cancelled: by us, or by itself, which is a failure."""
        if attempt.stop == TIMED_OUT:
            return failed(TimeoutError(f"it ran longer than {attempt.options.timeout_ms} ms"))
        if attempt.stop:
            return RELEASED  # of a cancelled job: refused, and the sign that its handler has stopped
        return failed(error)

    def _tell(self, attempt: Attempt, why: str) -> None:
        """The handler has to stop; or, when the worker stops, its hook."""
        if attempt.stop or attempt not in self.running or (attempt.is_told and why != STOPPING):
            return
        attempt.stop = why
        attempt.context.cancel()  # for a handler that looks
        runs_in = attempt.runs_in
        if isinstance(runs_in, asyncio.Task):
            runs_in.cancel()
        elif runs_in is not None:
            runs_in.stop(attempt)

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("event") == "cancelled":
            for attempt in [each for each in self.running if each.id == message["id"]]:
                self.lose(attempt)

    def lose(self, attempt: Attempt, is_cancelled: bool = True) -> None:
        """Its job was cancelled, or its lease is gone."""
        if attempt.stop or attempt.is_told or attempt not in self.running:
            return
        timeout_ms = attempt.options.timeout_ms
        if timeout_ms and self._loop.time() - attempt.started_at >= timeout_ms / 1000 - TIMEOUT_GRACE_S:
            self._tell(attempt, TIMED_OUT)  # heard from the store first
            return
        if not is_cancelled:
            log.warning("job %d lost its lease while it ran, and is told to stop; it may run again", attempt.id)
        self._tell(attempt, CANCELLED)

    def _settle(self, attempt: Attempt, ended: Ended) -> None:
        """The handler has ended; its lease is kept until the store has answered."""
        attempt.is_told = True
        if attempt.timer is not None:
            attempt.timer.cancel()
        if attempt.watch is not None:
            attempt.watch.cancel()
        if ended.type == CancelledByStore.__qualname__ or (attempt.stop == STOPPING and ended.type):
            ended = self._stopped(attempt, CancelledByStore())
        self._settler.put(attempt, ended, followups_of(attempt.forget_context(), ended))

    def _answered(self, attempt: Attempt, ended: Ended, state: int, error: Error | None) -> None:
        """By the store: the lease is over."""
        self.held.pop(attempt, None)
        if self._keeping is not None:
            self._keeping.drop(attempt)
        if attempt.answer is not None and not attempt.answer.done():
            attempt.answer.set_result((ended, state, error))

    def finish(self, attempt: Attempt, ended: Ended) -> None:
        """Its place is free."""
        if attempt not in self.running:
            return
        if not attempt.is_told:
            self._settle(attempt, ended)
        del self.running[attempt]
        self.ended += 1
        attempt.runs_in = None
        if attempt.lane is not None:
            attempt.lane.leave()
            if self._adapting is not None:
                self._adapting.note(self._loop.time() - attempt.started_at)
                self._adapting.unsettled = self._settler.unsettled
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for future in waiters:
                if not future.done():
                    future.set_result(None)
        if not self.running and self._empty:
            empty, self._empty = self._empty, []
            for future in empty:
                if not future.done():
                    future.set_result(None)

    @property
    def is_adapting(self) -> bool:
        return self._adapting is not None

    @property
    def is_kept(self) -> bool:
        """Whether leases are renewed from outside of this process."""
        return self._keeping is not None and self._keeping.is_ready

    @property
    def health(self) -> str:
        """Empty when all is well, else what is not."""
        now = time.monotonic()
        blocked_s = now - self._renewal.beat_at
        if blocked_s > BLOCKED_S:
            return f"the loop has not run for {blocked_s:.0f} s: a handler blocks it"
        if self._is_stopping:
            return ""
        if any(job.done() for job in self._jobs):
            return "a part of the worker has ended; start it anew"
        if all(lane.free < 1 for lane in self.lanes):
            return ""
        silent_s = now - self._claimed_at
        return f"the store has answered no claim for {silent_s:.0f} s" if silent_s > SILENT_S else ""


def _around(middleware: Any, attempt: Attempt, call: Call) -> Call:
    async def wrapped() -> Any:
        return await middleware(attempt.context, call)

    return wrapped


def check_task(task: Task[..., Any]) -> None:
    """What is wrong with it is said when the worker starts, not when a job comes."""
    task.signature.schema()
    if task.mode == PROCESS:
        place_of(task)


def queues_of(tasks: Iterable[Task[..., Any]]) -> tuple[str, ...]:
    """The queues that the tasks' jobs go to unless they are told otherwise."""
    return tuple(dict.fromkeys(task.shared[0].queue for task in tasks))


def _complain(error: Exception) -> None:
    if isinstance(error, Error):
        log.warning("cannot claim: %s", error)
    else:
        log.error("cannot claim; this is a bug of Tenure, please report it", exc_info=error)


def claimers_of(lane: Lane) -> int:
    return 1 if lane.limit < CLAIMERS_FROM else 2


def cores() -> int:
    """Those that this process may use; all of the machine's where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
