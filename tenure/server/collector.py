"""The server's policy for Python's cyclic collector.

The engine makes no cycles, and a full collection over millions of long-lived objects is a long pause. In a server,
which owns its process, the automatic collector is switched off; while requests come the young objects are collected
again and again, and what survives is frozen, out of the collector's sight; when idle, and now and then without that,
everything is looked at once. A server that serves nobody still has connections that come and go: while it is idle,
everything is looked at again when enough was made since. In a user's process the collector is left alone.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tenure.server import heap

JOBS_PER_COLLECTION = 20_000
EVERY_S = 0.1
IDLE_TURNS = 10
FULL_TURNS = 6_000
AGAIN_TURNS = 50  # between two looks at everything while nobody is served
MADE_LEAST = 500  # objects since the last look that are a reason for one


class Collector:
    def __init__(self) -> None:
        self._jobs = 0

    def start(self) -> None:
        gc.disable()
        gc.collect()
        gc.freeze()

    def note(self, jobs: int) -> None:
        """So many jobs were handled."""
        self._jobs += jobs
        if self._jobs >= JOBS_PER_COLLECTION:
            self._jobs = 0
            self.young()

    def young(self) -> None:
        gc.collect(0)
        gc.freeze()

    def idle(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        heap.trim()

    def stop(self) -> None:
        gc.unfreeze()
        gc.enable()

    async def keep(self, handled: Callable[[], int]) -> None:
        """`handled` counts requests."""
        last = handled()
        quiet = busy = 0  # turns since the last request, and since everything was looked at last
        while True:
            await asyncio.sleep(EVERY_S)
            now = handled()
            quiet = 0 if now != last else quiet + 1
            last = now
            busy += 1
            is_due = quiet > IDLE_TURNS and busy >= AGAIN_TURNS and gc.get_count()[0] >= MADE_LEAST
            if quiet == IDLE_TURNS or busy >= FULL_TURNS or is_due:
                busy = 0
                self.idle()
            elif quiet == 0:
                self.young()


@asynccontextmanager
async def collecting(handled: Callable[[], int]) -> AsyncIterator[None]:
    collector = Collector()
    collector.start()
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(collector.keep(handled)), loop.create_task(heap.keep_trimmed())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        collector.stop()
