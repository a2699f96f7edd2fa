"""Keeps the leases of running jobs, and hears of those that are lost.

With a server, a process of its own does it (`keeper`), which no handler can block, and this loop only shows it that it
runs, and looks whether a lease is gone. In an embedded store the loop renews
them itself and says that it runs, so that time in which something blocked it does not count; and it watches each job
that has run for a moment, to hear of its cancellation at once.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from tenure.client.client import Client
from tenure.core.error import Error, JobCancelled
from tenure.core.request import Extend
from tenure.worker.attempt import Attempt
from tenure.worker.keeping import Keeping

log = logging.getLogger("tenure.worker")

ROUND_S = 0.2
AGAIN_S = 1.0  # after a renewal that was not answered
WATCH_ROUND_S = 0.02
WATCHED_MAX = 1_000
WATCH_S = 600


class Renewal:
    def __init__(
        self,
        client: Client,
        held: dict[Attempt, None],
        running: dict[Attempt, None],
        lose: Callable[[Attempt, bool], None],
        is_embedded: bool,
        keeping: Keeping | None = None,
    ) -> None:
        """`held` are those whose lease is kept, from the claim until the settlement was answered; `running` those whose
        handler runs. `lose` is told of a lease that is lost, and whether that is because the job was cancelled."""
        self._client = client
        self._held = held
        self._running = running
        self._lose = lose
        self._is_embedded = is_embedded
        self._keeping = keeping
        self._task: asyncio.Task[None] | None = None
        self._watches = 0
        self._renewing: asyncio.Task[None] | None = None
        self.beat_at = time.monotonic()  # when the loop was last seen to run

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._go_on())
        if self._keeping is not None:
            self._keeping.start()

    async def stop(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._keeping is not None:
            await self._keeping.stop()

    async def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = WATCH_ROUND_S if self._is_embedded else ROUND_S
        while True:
            await asyncio.sleep(pause_s)
            now = self.beat_at = time.monotonic()
            is_kept = self._keeping is not None and self._keeping.is_ready
            if self._renewing is None or self._renewing.done():
                due = self._due(now, is_kept)
                if due:
                    self._renewing = loop.create_task(self._renew(due))
            if self._keeping is not None:
                self._keeping.beat()
                for attempt, is_cancelled in self._keeping.lost():
                    self._lose(attempt, is_cancelled)
            if self._is_embedded:
                self._watch(loop.time())

    def _due(self, now: float, is_kept: bool) -> list[Attempt]:
        """Those of which a third of the time is over, and that nobody else keeps."""
        return [
            attempt
            for attempt in self._held
            if not (is_kept and attempt.slot >= 0) and now - attempt.renewed_at > attempt.lease_ms / 3_000
        ]

    async def _renew(self, due: list[Attempt]) -> None:
        asked_at = time.monotonic()  # before it is sent: the lease is never taken for longer than it is
        ids = [attempt.id for attempt in due]
        try:
            extended = await self._client.extend_batch(Extend(ids, [attempt.token for attempt in due]))
        except Error as error:
            log.warning("%d leases could not be renewed: %s", len(ids), error)
            await asyncio.sleep(AGAIN_S)
            return
        errors = extended.errors or {}
        for at, attempt in enumerate(due):
            attempt.renewed_at = asked_at
            if at in errors:
                self._lose(attempt, isinstance(errors[at], JobCancelled))
            else:
                attempt.lease_ms = max(extended.lease_ms[at], attempt.lease_ms)  # less where the timeout is near

    def _watch(self, now: float) -> None:
        for attempt in self._running:
            if attempt.watch is None and now - attempt.started_at > WATCH_ROUND_S and self._watches < WATCHED_MAX:
                self._watches += 1
                attempt.watch = asyncio.get_running_loop().create_task(self._watched(attempt))

    async def _watched(self, attempt: Attempt) -> None:
        try:
            while True:
                try:
                    await self._client.watch(attempt.id, WATCH_S)
                    break
                except TimeoutError:
                    continue
            self._lose(attempt, True)
        except Error as error:
            log.debug("job %d is not watched: %s", attempt.id, error)
        finally:
            self._watches -= 1
