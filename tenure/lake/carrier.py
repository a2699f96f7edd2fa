"""Carries events to the lake beside a server: cycle after cycle, over every trouble of the lake, until it stops.

The server does not depend on it. A lake that cannot be reached is tried again, later and later; what is not exported
stays in the store meanwhile. A lake that is not this store's, or too new, ends the export and says so in the log and in
the figures. While another exporter is at work this one stands by, and takes over when that one has been silent.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from tenure.core.clock import Now
from tenure.core.error import Error, Unavailable, Unsupported
from tenure.lake.error import LakeDamaged, LakeTaken, LakeTooNew, OtherStore, StoreBehind
from tenure.lake.export import Exporter
from tenure.lake.place import open_place
from tenure.lake.source import StoreSource
from tenure.lake.tidy import Rules
from tenure.store.contract import Identified, Store

BACKOFF_FIRST_S = 1.0
BACKOFF_MOST_S = 60.0
STANDBY_CYCLES = 5
STANDBY_LEAST_S = 60.0
ORPHANS_S = 3_600.0  # so often the whole lake is listed for files of no commit
FOR_GOOD = (OtherStore, StoreBehind, LakeTooNew, LakeDamaged, Unsupported)

log = logging.getLogger("tenure.lake")


class Figure(NamedTuple):
    """For whoever watches the server."""

    name: str
    text: str
    value: float
    is_counter: bool = False


class Carrier:
    def __init__(self, url: str, rules: Rules, store: Store, clock: Callable[[], Now]) -> None:
        self._url = url
        self._rules = rules
        self._store = store
        self._clock = clock
        self._source = StoreSource(store, clock)
        self._newest = 0  # of the store
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._exporter: Exporter | None = None
        self._done = _Done()
        self._swept_at: float | None = None
        self.failures = 0  # in a row
        self.failures_total = 0
        self.error: Error | None = None  # why nothing is exported
        self.is_over = False  # it has ended for good
        self._level_at_ms = 0  # when the lake had everything, by the wall clock

    def start(self) -> None:
        self._level_at_ms = self._clock().wall_ms
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, patience_s: float) -> None:
        """A last cycle, if it can be done in time; what is left is exported after the next start."""
        if self._task is None:
            return
        self._stop.set()
        done, _ = await asyncio.wait([self._task], timeout=patience_s)
        if done:
            return
        log.warning("the lake %s was not brought up to date within %s s; the next start goes on", self._url, patience_s)
        if self._exporter is not None:
            self._exporter.is_stopping = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.is_over:
            is_last = self._stop.is_set()
            pause_s = await self._turn()
            if is_last or self.is_over:
                return
            try:
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
            except TimeoutError:
                pass

    async def _turn(self) -> float:
        """One cycle, and how long to pause after it."""
        try:
            await self._cycle()
        except FOR_GOOD as error:
            self._fail(error)
            self.is_over = True
            log.error("nothing is exported to the lake any more: %s", error)
            return 0
        except LakeTaken as error:
            self._fail(error)
            self._close()
            log.error("%s (this one stands by)", error)
            return self._standby_s
        except _Standby:
            return self._standby_s
        except Exception as error:
            known = error if isinstance(error, Error) else Unavailable(f"{type(error).__name__}: {error}")
            self._fail(known)
            self._close()
            pause_s: float = min(BACKOFF_FIRST_S * 2 ** min(self.failures - 1, 10), BACKOFF_MOST_S)
            log.warning(
                "the lake was not brought up to date (%d times in a row): %s; again in %.0f s",
                self.failures,
                known,
                pause_s,
                exc_info=None if isinstance(error, Error) else error,
            )
            return pause_s
        if self.failures:
            log.info("the lake is up to date again")
        self.failures = 0
        self.error = None
        return self._rules.every_ms / 1000

    def _fail(self, error: Error) -> None:
        self.error = error
        self.failures += 1
        self.failures_total += 1

    @property
    def _standby_s(self) -> float:
        cycles_s: float = STANDBY_CYCLES * self._rules.every_ms / 1000
        return max(STANDBY_LEAST_S, cycles_s)

    async def _cycle(self) -> None:
        self._newest = await self._source.newest()
        exporter = await self._open()
        await exporter.cycle()
        self._level_at_ms = self._clock().wall_ms
        if not self._stop.is_set():
            loop_s = asyncio.get_running_loop().time()
            is_due = self._swept_at is None or loop_s - self._swept_at > ORPHANS_S
            await exporter.tidy(is_due)
            self._swept_at = loop_s if is_due else self._swept_at

    async def _open(self) -> Exporter:
        if self._exporter is not None:
            return self._exporter
        if not isinstance(self._store, Identified):
            raise Unsupported("the export to a lake")
        place = await asyncio.to_thread(open_place, self._url, True)
        identity = await self._store.identity()
        exporter = Exporter(place, self._source, identity, self._rules, lambda: self._clock().wall_ms)
        await exporter.open()
        if isinstance(self.error, LakeTaken) and self._is_anothers(exporter):
            raise _Standby
        self._exporter = exporter
        return exporter

    def _is_anothers(self, exporter: Exporter) -> bool:
        """Whether the last commit is so young that its writer is at work."""
        silent_ms = int(self._clock().wall_ms) - exporter.state.at
        return silent_ms < int(self._standby_s * 1000)

    def _close(self) -> None:
        if self._exporter is not None:
            self._done.add(self._exporter)
            self._exporter = None

    # For whoever watches.

    def figures(self) -> list[Figure]:
        shown = self._exporter or self._done.last
        state = None if shown is None else shown.state
        newest = self._newest if shown is None else max(self._newest, shown.newest)
        lag = max(newest - (0 if shown is None else shown.reached), 0)
        lag_s = (self._clock().wall_ms - self._level_at_ms) / 1000 if lag or self.error is not None else 0.0
        exported = self._done.exported + (0 if self._exporter is None else self._exporter.exported)
        lost = self._done.lost + (0 if self._exporter is None else self._exporter.lost)
        return [
            Figure(
                "tenure_lake_exporting", "1 while events are exported, 0 while that fails.", float(self.error is None)
            ),
            Figure("tenure_lake_lag_events", "Events that the lake did not have when it was last looked.", lag),
            Figure("tenure_lake_lag_seconds", "Since when it has not had everything.", max(lag_s, 0.0)),
            Figure("tenure_lake_segments", "Files of the lake.", 0 if state is None else len(state.segments)),
            Figure("tenure_lake_bytes", "Their size.", 0 if state is None else state.bytes),
            Figure("tenure_lake_exported_events", "Events exported since the start.", exported, True),
            Figure("tenure_lake_lost_events", "Events that retention took before their export.", lost, True),
            Figure("tenure_lake_failures", "Cycles that failed.", self.failures_total, True),
        ]


class _Done:
    """What exporters did that are not at work any more."""

    def __init__(self) -> None:
        self.last: Exporter | None = None
        self.exported = 0
        self.lost = 0

    def add(self, exporter: Exporter) -> None:
        self.last = exporter
        self.exported += exporter.exported
        self.lost += exporter.lost


class _Standby(Exception):
    """Another exporter is at work."""
