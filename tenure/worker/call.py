"""Calling a handler: arguments read, dependencies made, its result written. The same in a loop, a thread, a process."""

import inspect
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any

from tenure.core.state import SETTLE_COMPLETE
from tenure.task.codec import Unencodable
from tenure.task.context import Holder
from tenure.task.outcome import Permanent
from tenure.task.signature import Arguments
from tenure.task.task import Task
from tenure.worker.ended import COMPLETED, Ended, ended_by, is_outcome
from tenure.worker.provide import RunAsync, provide, provide_sync


class Unwritable(Permanent):
    """A result that cannot be written: it would be the same the next time."""


def read_call(task: Task[..., Any], payload: bytes, codec: str, version: int) -> Arguments:
    return task.signature.call_arguments(task.read(payload, codec, version))


async def call_async(task: Task[..., Any], holder: Holder, args: Sequence[Any], named: dict[str, Any]) -> Any:
    signature = task.signature
    if signature.wants_context:
        args = (holder.context, *args)
    if not signature.dependencies:
        return await signature.function(*args, **named)
    async with AsyncExitStack() as stack:
        made = await provide(holder.context, signature.dependencies, stack)
        return await signature.function(*args, **named, **made)


def call_sync(task: Task[..., Any], holder: Holder, args: Sequence[Any], named: dict[str, Any], run: RunAsync) -> Any:
    signature = task.signature
    if signature.wants_context:
        args = (holder.context, *args)
    if not signature.dependencies:
        return _awaited(signature.function(*args, **named), run)
    with ExitStack() as stack:
        made = provide_sync(holder.context, signature.dependencies, stack, run)
        return _awaited(signature.function(*args, **named, **made), run)


def _awaited(value: Any, run: RunAsync) -> Any:
    """The value, also of a coroutine that a plain function returned."""
    return run(value) if inspect.iscoroutine(value) else value


def ended_with(task: Task[..., Any], value: Any, codec: str) -> Ended:
    """What a handler's return value means; a result is written by the codec of its job."""
    if value is None:
        return COMPLETED
    if is_outcome(value):
        return ended_by(value, task.settings)
    try:
        return Ended(SETTLE_COMPLETE, task.write(codec, value))
    except Unencodable as error:
        kind = type(value).__name__
        return ended_by(Unwritable(f"the result, a {kind}, cannot be written as {codec}: {error}"), task.settings)
