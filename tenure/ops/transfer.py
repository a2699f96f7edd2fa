"""Doing a thing for each of many objects, a few at a time: hashing, compressing and sending release the interpreter."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

WORKERS = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], workers: int = WORKERS
) -> Generator[Result, None, None]:
    """The results, in the order of the items. The first error ends it; what has not begun by then never does.

    Closing it waits for what has begun.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="tenure-transfer") as pool:
        try:
            for item in items:
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
