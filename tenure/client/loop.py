"""A loop in a thread of its own, for those who have none."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tenure.core.error import Unavailable

T = TypeVar("T")

THREADS = 4  # for what the loop must not do itself, such as closing a file


class LoopThread:
    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_default_executor(_make_executor(name))
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            work.close()
            raise Unavailable("a loop runs in this thread and would be blocked; use tenure.connect and await")
        if self.loop.is_closed():
            work.close()
            raise Unavailable("the client is closed; connect again")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: what was begun is given up there too
            raise

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def _make_executor(name: str) -> ThreadPoolExecutor:
    """With all its threads: a program that ends may close its store then, when Python 3.12 starts no more of them."""
    executor = ThreadPoolExecutor(THREADS, f"{name}-thread")
    all_started = threading.Barrier(THREADS + 1)
    for _ in range(THREADS):
        executor.submit(all_started.wait)
    all_started.wait()
    return executor
