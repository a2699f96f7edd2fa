"""Many jobs at once: what `enqueue_many` and `enqueue_each` give, which send when they are awaited or iterated.

Awaited, all are sent and a report is answered; iterated, each job is answered. Either works once. Whoever does neither
is warned when the object is dropped, as with a coroutine that nobody awaits: nothing was sent.
"""

import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from tenure.core.error import Error
from tenure.task.job import Job

R = TypeVar("R")

ERRORS_MAX = 1_000  # kept in a report; more are only counted


class Sent(msgspec.Struct):
    """What became of many jobs."""

    sent: int = 0
    new: int = 0
    duplicates: int = 0
    refused: int = 0
    errors: dict[int, Error] = {}  # by their place among what was given, 0 is the first; at most the first 1,000

    def add(self, job: Job[Any]) -> None:
        at = self.sent
        self.sent += 1
        if job.error is not None:
            self.refused += 1
            if len(self.errors) < ERRORS_MAX:
                self.errors[at] = job.error
        elif job.duplicate:
            self.duplicates += 1
        else:
            self.new += 1


class _Once:
    """Used once, or a warning."""

    def __init__(self, name: str, how: str) -> None:
        self._name = name
        self._how = how
        self._is_used = False

    def _use(self) -> None:
        if self._is_used:
            raise RuntimeError(f"{self._name} sends once; call it again to send more")
        self._is_used = True

    def __del__(self) -> None:
        if not self._is_used:
            warnings.warn(f"{self._name} was never {self._how}: nothing was sent", RuntimeWarning, stacklevel=2)


class Sending(_Once, Generic[R]):
    def __init__(self, name: str, each: Callable[[], AsyncIterator[Job[R]]]) -> None:
        super().__init__(name, "awaited or iterated")
        self._each = each

    def __aiter__(self) -> AsyncIterator[Job[R]]:
        self._use()
        return self._each()

    def __await__(self) -> Generator[Any, None, Sent]:
        self._use()
        return self._all().__await__()

    async def _all(self) -> Sent:
        report = Sent()
        async for job in self._each():
            report.add(job)
        return report


class SendingSync(_Once, Generic[R]):
    def __init__(self, name: str, each: Callable[[], Iterator[Job[R]]]) -> None:
        super().__init__(name, "iterated")
        self._each = each

    def __iter__(self) -> Iterator[Job[R]]:
        self._use()
        return self._each()
