"""How many jobs of some tasks may run at once, and whether there is room for more.

Coroutines and threads share one lane; processes, of which there are few, have their own. Each claims only for itself: a
job that has to wait for a process is left to another worker.
"""

import asyncio


class Lane:
    def __init__(self, tasks: frozenset[str], limit: int) -> None:
        self.tasks = tasks
        self.limit = limit
        self.running = 0
        self.asked = 0  # jobs that claims under way may bring
        self.peak = 0  # the most that ran at once since somebody looked
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def free(self) -> int:
        return self.limit - self.running - self.asked

    def enter(self) -> None:
        self.running += 1
        if self.running > self.peak:
            self.peak = self.running

    def leave(self) -> None:
        self.running -= 1
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def change(self) -> None:
        """Until there may be more room than now."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future
