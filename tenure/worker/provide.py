"""Makes what a handler depends on, and undoes it when the job is over."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Any

from tenure.task.context import Context
from tenure.task.depends import Dependency

RunAsync = Callable[[Coroutine[Any, Any, Any]], Any]
Made = dict[Callable[..., Any], Any]


def wanted_by(factory: Callable[..., Any]) -> tuple[bool, dict[str, Dependency]]:
    """Whether it takes the context, and its own dependencies by parameter."""
    parameters = list(inspect.signature(factory).parameters.values())
    takes_context = bool(parameters) and parameters[0].annotation in (Context, "Context", "tenure.Context")
    return takes_context, {each.name: each.default for each in parameters if isinstance(each.default, Dependency)}


async def provide(
    context: Context, wanted: dict[str, Dependency], stack: AsyncExitStack, made: Made | None = None
) -> dict[str, Any]:
    """For a handler that runs in a loop."""
    made = {} if made is None else made
    return {name: await _make(context, each.factory, stack, made) for name, each in wanted.items()}


async def _make(context: Context, factory: Callable[..., Any], stack: AsyncExitStack, made: Made) -> Any:
    if factory not in made:
        takes_context, inner = wanted_by(factory)
        given = await provide(context, inner, stack, made)
        args = (context,) if takes_context else ()
        if inspect.isasyncgenfunction(factory):
            value = await stack.enter_async_context(asynccontextmanager(factory)(*args, **given))
        elif inspect.isgeneratorfunction(factory):
            value = stack.enter_context(contextmanager(factory)(*args, **given))
        else:
            value = factory(*args, **given)
            if isinstance(value, Awaitable):
                value = await value
        made[factory] = value
    return made[factory]


def provide_sync(
    context: Context, wanted: dict[str, Dependency], stack: ExitStack, run: RunAsync, made: Made | None = None
) -> dict[str, Any]:
    """For a handler in a thread or process: what is asynchronous is run by `run`."""
    made = {} if made is None else made
    return {name: _make_sync(context, each.factory, stack, run, made) for name, each in wanted.items()}


def _make_sync(context: Context, factory: Callable[..., Any], stack: ExitStack, run: RunAsync, made: Made) -> Any:
    if factory not in made:
        takes_context, inner = wanted_by(factory)
        given = provide_sync(context, inner, stack, run, made)
        args = (context,) if takes_context else ()
        if inspect.isasyncgenfunction(factory):
            entered = asynccontextmanager(factory)(*args, **given)
            value = run(entered.__aenter__())
            stack.push(lambda *told: run(entered.__aexit__(*told)))
        elif inspect.isgeneratorfunction(factory):
            value = stack.enter_context(contextmanager(factory)(*args, **given))
        else:
            value = factory(*args, **given)
            if asyncio.iscoroutine(value):
                value = run(value)
        made[factory] = value
    return made[factory]
