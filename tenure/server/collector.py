"""The server's policy for Python's cyclic collector.

The engine makes no cycles, and a full collection over millions of long-lived objects is a long pause. In a server,
which owns its process, the automatic collector is switched off; every so many jobs the young objects are collected and
what survives is frozen, out of the collector's sight; when idle, everything is looked at once. In a user's process the
collector is left alone.
"""

import gc

JOBS_PER_COLLECTION = 20_000


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
            gc.collect(0)
            gc.freeze()

    def idle(self) -> None:
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        gc.unfreeze()
        gc.enable()
