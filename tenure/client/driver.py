"""Keeps an embedded store's timers running: after each call it asks the store when to come again, and comes.

Time in which a store cannot be reached does not count for leases. An embedded store cannot be reached while something
blocks its loop, so whoever works in that loop says now and then that it runs (`beat`), and a longer silence is left out
of the elapsed time.
"""

import asyncio
from collections.abc import Callable

from tenure.client.begun import begin
from tenure.core.clock import Now
from tenure.store.contract import Hosted, Prompt, Store

TICK_MAX_MS = 60_000
BLOCKED_MS = 1_000  # since the last beat: then the loop has not run meanwhile
SOON_S = 0.001  # after a call: what it has made due, and once for all calls until then; no answer waits for it


class Driver:
    def __init__(self, store: Store, clock: Callable[[], Now]) -> None:
        self.store = store
        self._clock = clock
        self._beat_ms = -1  # of the elapsed time; negative while nobody beats
        self._left_out_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._again = False
        self._ticking: asyncio.Task[None] | None = None
        self._closed = True
        self._is_prompt = isinstance(store, Prompt)
        if isinstance(store, Hosted):
            store.attach(self.now, self.arm)

    def now(self) -> Now:
        now = self._clock()
        if self._beat_ms >= 0 and now.elapsed_ms - self._beat_ms > BLOCKED_MS:
            self._left_out_ms += now.elapsed_ms - self._beat_ms
            self._beat_ms = now.elapsed_ms
        return now if not self._left_out_ms else Now(now.wall_ms, now.elapsed_ms - self._left_out_ms)

    def beat(self, goes_on: bool = True) -> None:
        """The loop runs; more often than every half second, until it does not go on."""
        self.now()
        self._beat_ms = self._clock().elapsed_ms if goes_on else -1

    async def open(self) -> None:
        await self.store.open(self.now())
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        if self._ticking is not None:
            await self._ticking
        self._disarm()
        if self._soon is not None:
            self._soon.cancel()
        await self.store.close()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arm(self) -> None:
        """Something may have changed what is due: tick when the caller has made its call and has its answer."""
        if self._soon is None and not self._closed:
            self._soon = asyncio.get_running_loop().call_later(SOON_S, self._begin)

    def _begin(self) -> None:
        self._soon = None
        if self._ticking is not None and not self._ticking.done():
            self._again = True
        elif not self._closed:
            tick = self._tick()
            self._ticking = begin(tick) if self._is_prompt else asyncio.get_running_loop().create_task(tick)

    async def _tick(self) -> None:
        self._disarm()
        now = self.now()
        next_at = await self.store.tick(now)
        loop = asyncio.get_running_loop()
        if self._again:
            self._again = False
            loop.call_soon(self._begin)
        elif next_at is not None:
            wait_ms = min(next_at.wall_ms - now.wall_ms, next_at.elapsed_ms - now.elapsed_ms, TICK_MAX_MS)
            self._timer = loop.call_later(max(wait_ms, 0) / 1000, self._begin)
