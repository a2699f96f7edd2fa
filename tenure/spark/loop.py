"""From what is awaited to what is iterated: a task of Spark has no loop."""

from collections.abc import AsyncGenerator, Iterator
from typing import TypeVar

from tenure.client.loop import LoopThread

T = TypeVar("T")


def each_of(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """One by one, each when it is asked for. The loop runs on between, so that connections stay alive."""
    loop = LoopThread("tenure-spark")
    try:
        while found := loop.run(_next(items)):
            yield found[0]
    finally:
        loop.run(items.aclose())
        loop.stop()


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | None:
    """None at the end, for no exception that ends an iteration passes through a future."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None
