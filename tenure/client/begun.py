"""Coroutines that are often over before they have waited for anything: begun without a task."""

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any


def begin(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None] | None":
    """Begin it here; what is left of it goes on in a task. None when nothing is."""
    try:
        first = work.send(None)
    except StopIteration:
        return None
    return asyncio.get_running_loop().create_task(_Rest(work, first))


class _Rest(Coroutine[Any, Any, None]):
    """The rest of a coroutine that was begun outside of a task, and waits for `first`. It can be ended before the task
    has had its first turn."""

    def __init__(self, work: Coroutine[Any, Any, None], first: Any) -> None:
        self._work = work
        self._first = first

    def send(self, value: Any) -> Any:
        if self._first is None:
            return self._work.send(value)
        first, self._first = self._first, None
        return first

    def throw(self, *thrown: Any) -> Any:
        self._first = None
        return self._work.throw(*thrown)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError  # for a task only
