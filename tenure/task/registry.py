"""The tasks of an app, by name."""

from collections.abc import Awaitable, Callable
from typing import Any

from tenure.core.error import InvalidRequest
from tenure.task.context import Context
from tenure.task.task import Task

Call = Callable[[], Awaitable[Any]]
Middleware = Callable[[Context, Call], Awaitable[Any]]


class Registry:
    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}
        self._aliases: dict[str, Task[..., Any]] = {}
        self.middleware: list[Middleware] = []

    def add(self, task: Task[..., Any]) -> None:
        for name in (task.name, *task.settings.aliases):
            known = self.find(name)
            if known is not None and not _is_same(known, task):
                where = f"{known.function.__module__}.{known.function.__qualname__}"
                raise InvalidRequest("task", name, f"{where} has that name; give one of them another by name=")
        self._tasks[task.name] = task
        for alias in task.settings.aliases:
            self._aliases[alias] = task

    def find(self, name: str) -> Task[..., Any] | None:
        return self._tasks.get(name) or self._aliases.get(name)

    def names(self) -> list[str]:
        """Every name under which jobs of these tasks may be, older ones included."""
        return [*self._tasks, *self._aliases]

    def tasks(self) -> list[Task[..., Any]]:
        return list(self._tasks.values())


def _is_same(known: Task[..., Any], task: Task[..., Any]) -> bool:
    """A module that is loaded once more (a reload, a module run as the program) brings its tasks again."""
    return (
        known.function.__qualname__ == task.function.__qualname__
        and known.function.__code__.co_filename == task.function.__code__.co_filename
    )
