"""Django tasks, as a Django project has them. Imported once the settings are there."""

from typing import Any

import tenure
from tests.integration.either import TaskContext, task

ran: list[Any] = []


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(priority=10, queue_name="mail")
async def send(to: str) -> dict[str, Any]:
    ran.append(to)
    return {"to": to, "parts": (1, 2)}


@task(takes_context=True)
def tell(context: TaskContext, word: str) -> list[Any]:
    return [context.attempt, context.task_result.id, context.task_result.status, word]


class Refused(Exception):
    pass


@task
def fail(how: str) -> None:
    if how == "builtin":
        raise ValueError("no good")
    if how == "permanent":
        raise tenure.Permanent("never")
    raise Refused("not here")


@task
def unwritable() -> object:
    return object()


@task
def flaky() -> str:
    ran.append("flaky")
    if ran.count("flaky") < 2:
        raise OSError("once more")
    return "done"
