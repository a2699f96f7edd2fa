"""Runs plain functions in threads, which are started when needed and kept.

Threads that are woken have to wait for the interpreter. So one is woken at a time: it wakes the next one if there is
more to do when it begins, and goes on with what is left when it is done. Many short jobs are then worked off by few
threads, and long ones start in as many as they need. Results go back to the loop in groups: one wake-up for all that
ended since.
"""

import asyncio
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from tenure.task.context import enter
from tenure.task.outcome import CancelledByStore
from tenure.worker.attempt import Attempt
from tenure.worker.call import call_sync, ended_with, read_call
from tenure.worker.ended import Ended, ended_by

Done = Callable[[Attempt, Ended], None]
Work = Callable[[], Any]
Todo = tuple[Attempt, Work, asyncio.Future[Any] | None, Context]


class Threads:
    def __init__(self, loop: asyncio.AbstractEventLoop, done: Done) -> None:
        self._loop = loop
        self._done = done
        self._lock = threading.Lock()
        self._todo: deque[Todo] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()  # rung for each thread that is to wake up
        self._threads = 0
        self._idle = 0
        self._open = 0  # jobs that were given and have not ended
        self._is_waking = False  # a thread was woken, or started, and has taken nothing yet
        self._is_closed = False
        self._running: dict[Attempt, int] = {}  # the thread of each
        self._ended: deque[tuple[Attempt, Any, asyncio.Future[Any] | None]] = deque()
        self._is_told = False

    def start(self, attempt: Attempt) -> None:
        """Run it whole; `done` is told how it ended."""
        self._put(attempt, lambda: self._handle(attempt), None, Context())

    async def run(self, attempt: Attempt, work: Work, owner: Any = None) -> Any:
        """Run a part of it, for somebody who waits: the value, or what was raised. It sees the context variables that
        the caller sees: those of middleware, and the current span. `owner` is who is asked to stop it."""
        future: asyncio.Future[Any] = self._loop.create_future()
        handler = attempt.runs_in
        self._put(attempt, work, future, copy_context())
        if owner is not None:
            attempt.runs_in = owner
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:  # by middleware: the thread is stopped, and waited for
            if not future.done():
                self.stop(attempt)
                await asyncio.wait([future])
            future.exception()
            raise
        finally:
            if owner is None:
                attempt.runs_in = handler  # what is left is middleware, in the loop

    def _put(self, attempt: Attempt, work: Work, future: asyncio.Future[Any] | None, variables: Context) -> None:
        attempt.runs_in = self
        with self._lock:
            self._open += 1
            self._todo.append((attempt, work, future, variables))
            try:
                self._wake()
            except RuntimeError:
                if not self._threads:  # else one of the others comes to it
                    self._open -= 1
                    self._todo.pop()
                    raise

    def _wake(self) -> None:
        """One thread, unless one is on its way; under the lock."""
        if self._is_waking:
            return
        if self._idle:
            self._idle -= 1
            self._is_waking = True
            self._bell.put(None)
        elif self._threads < self._open:
            name = f"tenure-handler-{self._threads + 1}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
            self._threads += 1
            self._is_waking = True

    def stop(self, attempt: Attempt) -> None:
        """Raises in the thread, at the next instruction of the handler; one that waits in C is told when it returns."""
        with self._lock:
            thread = self._running.get(attempt)
            if thread is not None:
                raise_in(thread, CancelledByStore)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for _ in range(self._threads):
                self._bell.put(None)

    # In the threads.

    def _work(self) -> None:
        number = threading.get_ident()
        was_woken = True
        while True:
            todo = self._next(was_woken)
            was_woken = todo is None
            if todo is None:
                self._bell.get()
                if self._is_closed:
                    return
                continue
            attempt, work, future, variables = todo
            value = self._run(attempt, work, variables, number)
            with self._lock:
                self._open -= 1
                self._ended.append((attempt, value, future))
                is_first, self._is_told = not self._is_told, True
            if is_first:
                self._loop.call_soon_threadsafe(self._deliver)

    def _next(self, was_woken: bool) -> Todo | None:
        """What to do next; none, and the thread counts as idle."""
        with self._lock:
            if was_woken:
                self._is_waking = False
            if not self._todo:
                self._idle += 1
                return None
            todo = self._todo.popleft()
            if self._todo:
                with suppress(RuntimeError):  # there are no more threads: this one goes on afterwards
                    self._wake()
            return todo

    def _run(self, attempt: Attempt, work: Work, variables: Context, number: int) -> Any:
        """The value, or the exception; as a value, so that it is raised where somebody waits for it."""
        try:
            try:
                self._running[attempt] = number  # from here on something may be raised at any instruction
                return variables.run(self._call, attempt, work)
            finally:
                with self._lock:  # nothing is raised here from now on, and what was to be is not
                    del self._running[attempt]
                    if attempt.stop:
                        raise_in(number, None)
        except BaseException as error:
            self._running.pop(attempt, None)  # it may have been raised in the lines above
            return Raised(error)

    def _call(self, attempt: Attempt, work: Work) -> Any:
        enter(attempt)
        if attempt.stop:
            raise CancelledByStore
        return work()

    def _handle(self, attempt: Attempt) -> Ended:
        task, options = attempt.task, attempt.options
        args, named = read_call(task, attempt.payload, options.codec, options.schema_version)
        return ended_with(task, call_sync(task, attempt, args, named, self.run_async), options.codec)

    def run_async(self, work: Any) -> Any:
        """What only a loop can run, for a thread that waits."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # In the loop.

    def _deliver(self) -> None:
        with self._lock:
            self._is_told = False
            ended, self._ended = self._ended, deque()
        for attempt, value, future in ended:
            if future is None:
                how = ended_by(value.error, attempt.task.settings) if isinstance(value, Raised) else value
                self._done(attempt, how)
            elif not future.done():
                if isinstance(value, Raised):
                    future.set_exception(_raisable(value.error))
                else:
                    future.set_result(value)


class Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _raisable(error: BaseException) -> BaseException:
    """A future takes no StopIteration."""
    return RuntimeError(f"the handler raised {error!r}") if isinstance(error, StopIteration) else error


def raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """At the thread's next instruction; None takes back what was not raised yet."""
    what = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
