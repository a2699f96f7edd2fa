"""Keeps an embedded store's timers running: after each call it asks the store when to come again, and comes."""

import asyncio
from collections.abc import Callable

from tenure.core.clock import Now
from tenure.store.contract import Hosted, Store

TICK_MAX_MS = 60_000


class Driver:
    def __init__(self, store: Store, clock: Callable[[], Now]) -> None:
        self.store = store
        self.now = clock
        self._timer: asyncio.TimerHandle | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._closed = True
        if isinstance(store, Hosted):
            store.attach(clock, self.arm)

    async def open(self) -> None:
        await self.store.open(self.now())
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        if self._ticking is not None:
            await self._ticking
        self._disarm()
        await self.store.close()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arm(self) -> None:
        """Something may have changed what is due: tick as soon as the caller has made its call."""
        if not self._closed and (self._ticking is None or self._ticking.done()):
            self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        self._disarm()
        now = self.now()
        next_at = await self.store.tick(now)
        if next_at is not None:
            wait_ms = min(next_at.wall_ms - now.wall_ms, next_at.elapsed_ms - now.elapsed_ms, TICK_MAX_MS)
            self._timer = asyncio.get_running_loop().call_later(max(wait_ms, 0) / 1000, self.arm)
