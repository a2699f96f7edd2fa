"""Keeps an embedded store's timers running: after each call it asks the store when to come again, and comes.

It also watches the clocks, four times a second. Time in which the loop did not run (the process was stopped, the
machine slept, something blocked the loop) does not count for leases: it is added to `Now.left_out_ms`. And when the
wall clock was set, the store is told at once: what is due by the wall may be due now.
"""

import asyncio
import logging
from collections.abc import Callable

from tenure.client.begun import begin
from tenure.client.clock import read_clock
from tenure.core.clock import Now
from tenure.store.contract import Hosted, Prompt, Store

TICK_MAX_MS = 60_000
BEAT_S = 0.25
BLOCKED_MS = 1_000  # since the last beat: then the loop has not run meanwhile
STOPPED_MS = 5_000  # a longer silence is worth a line in the log
STEP_MS = 1_000  # the wall clock was set when it is off by more than this
SOON_S = 0.001  # after a call: what it has made due, and once for all calls until then; no answer waits for it

log = logging.getLogger("tenure.store")


class Driver:
    def __init__(self, store: Store, clock: Callable[[], Now]) -> None:
        self.store = store
        self._clock = clock
        self._beat_ms = -1  # when the loop was last seen to run, of the elapsed time; negative while nobody looks
        self._left_out_ms = 0
        self._offset_ms = 0  # of the wall's time from the elapsed
        self._beat: asyncio.TimerHandle | None = None
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
        if self._beat_ms >= 0:
            passed_ms = now.elapsed_ms - self._beat_ms
            if passed_ms > BLOCKED_MS:
                self._left_out_ms += passed_ms
                if passed_ms > STOPPED_MS:
                    log.warning(
                        "this process did not run for %.1f s; no lease runs out because of it", passed_ms / 1000
                    )
            self._beat_ms = max(self._beat_ms, now.elapsed_ms)
        return Now(now.wall_ms, now.elapsed_ms, now.left_out_ms + self._left_out_ms)

    def watch_clocks(self) -> None:
        """Begin to look whether the loop runs and the wall clock was set."""
        now = self._clock()
        self._beat_ms = now.elapsed_ms
        self._offset_ms = now.wall_ms - now.elapsed_ms

    def look_at_clocks(self) -> None:
        """At least once in BLOCKED_MS, when the loop runs."""
        now = self.now()
        stepped_ms = int(now.wall_ms - now.elapsed_ms) - self._offset_ms
        if abs(stepped_ms) > STEP_MS:
            self._offset_ms += stepped_ms
            log.warning(
                "the wall clock was set %s by %.1f s: run_at and expires_at follow it; delays and leases do not",
                "forward" if stepped_ms > 0 else "back",
                abs(stepped_ms) / 1000,
            )
            self.arm()

    def _go_on_watching(self) -> None:
        self.look_at_clocks()
        self._beat = asyncio.get_running_loop().call_later(BEAT_S, self._go_on_watching)

    async def open(self) -> None:
        await self.store.open(self.now())
        self._closed = False
        # A clock that is driven by a test or a simulation stands still, or leaps, as it is told to.
        if self._clock is read_clock and self._is_prompt:
            self.watch_clocks()
            self._go_on_watching()

    async def close(self) -> None:
        self._closed = True
        if self._beat is not None:
            self._beat.cancel()
            self._beat_ms = -1
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
