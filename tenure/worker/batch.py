"""One call of a handler that takes many jobs."""

import asyncio
from typing import TYPE_CHECKING, Any

from tenure.task.codec import Undecodable
from tenure.task.signature import ITEM
from tenure.task.task import ASYNC, Task
from tenure.worker.attempt import STOPPING, TIMED_OUT, Attempt
from tenure.worker.call import ended_with
from tenure.worker.ended import RELEASED, Ended, ended_by, failed
from tenure.worker.threads import Threads

if TYPE_CHECKING:
    from tenure.worker.worker import Worker


class BatchRun:
    """A job that is cancelled meanwhile does not stop the others: what comes out for it is refused."""

    def __init__(self, worker: "Worker", task: Task[..., Any], attempts: list[Attempt], threads: Threads) -> None:
        self._worker = worker
        self._task = task
        self._attempts = attempts
        self._threads = threads
        self._call: asyncio.Task[Any] | None = None

    def stop(self, _: Attempt) -> None:
        """The call ends when none of its jobs is wanted any more."""
        if self._call is None or not all(each.stop for each in self._attempts):
            return
        if self._task.mode == ASYNC:
            self._call.cancel()
        else:
            self._threads.stop(self._attempts[0])

    async def run(self) -> None:
        items: list[Any] = []
        good: list[Attempt] = []
        for attempt in self._attempts:
            attempt.runs_in = self
            if attempt.stop:  # while it waited for company
                self._worker.finish(attempt, RELEASED)
                continue
            options = attempt.options
            try:
                read = self._task.read(attempt.payload, options.codec, options.schema_version)
            except Undecodable as error:
                self._worker.finish(attempt, ended_by(error, self._task.settings))
                continue
            items.append(getattr(read, ITEM))
            good.append(attempt)
        if not good:
            return
        self._attempts = good
        self._call = asyncio.ensure_future(self._called(items))
        try:
            values = await self._call
        except asyncio.CancelledError:
            values = [None] * len(good)
        for attempt, value in zip(good, values, strict=True):
            self._worker.finish(attempt, self._ended(attempt, value))

    async def _called(self, items: list[Any]) -> list[Any]:
        """A value or an exception per item; what the handler raises is every item's."""
        try:
            if self._task.mode == ASYNC:
                values = await self._task.function(items)
            else:
                values = await self._threads.run(self._attempts[0], lambda: self._task.function(items), self)
            if not isinstance(values, list) or len(values) != len(items):
                shown = f"{len(values)} values" if isinstance(values, list) else f"a {type(values).__name__}"
                raise TypeError(f"a batch handler of {len(items)} items returns a list of as many, not {shown}")
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return [error] * len(items)
        return values

    def _ended(self, attempt: Attempt, value: Any) -> Ended:
        if attempt.stop == TIMED_OUT:
            return failed(TimeoutError(f"it ran longer than {attempt.options.timeout_ms} ms"))
        if attempt.stop and (attempt.stop != STOPPING or value is None):
            return RELEASED
        if isinstance(value, BaseException):
            return ended_by(value, self._task.settings)
        return ended_with(self._task, value, attempt.options.codec)
