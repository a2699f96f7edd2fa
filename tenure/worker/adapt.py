"""`--concurrency auto`: finds how many jobs to run at once so that they stay as fast as was asked for.

It grows while it is full and jobs end within the target, by a tenth at a time, and shrinks by a fifth when they do not.
Under pressure, when the loop is late, the store does not keep up or memory runs out, it shrinks by a third, whatever
the jobs say. Where more did not bring more in the last rounds, it stays as it is.
"""

import asyncio
from pathlib import Path

import msgspec

from tenure.worker.lane import Lane

ROUND_S = 1.0
FIRST = 10
MOST = 1_000
SAMPLES_MAX = 10_000
LATE_S = 0.1
MEMORY_MIN = 0.05  # of the machine's that has to be free
GAIN_MIN = 1.02  # of throughput, for another step up
PATIENCE = 3  # rounds without a gain before it stays


class Sample(msgspec.Struct, frozen=True):
    """What was seen in a round."""

    ended: int = 0
    slow_s: float = 0.0  # the 95th percentile of how long jobs ran
    is_full: bool = False  # whether all places were taken
    late_s: float = 0.0  # how late the loop was
    unsettled: int = 0
    memory_free: float = 1.0


class Adaptation:
    """The rule alone: samples in, limits out."""

    def __init__(self, target_s: float, limit: int = FIRST, most: int = MOST) -> None:
        self.limit = limit
        self._target_s = target_s
        self._most = most
        self._best = 0
        self._rounds_without_gain = 0

    def next(self, sample: Sample) -> int:
        if is_pressed(sample, self.limit):
            self.limit = max(1, self.limit * 2 // 3)
            self._forget()
        elif sample.ended and sample.slow_s > self._target_s:
            self.limit = max(1, self.limit * 4 // 5)
            self._forget()
        elif sample.is_full and sample.ended:
            self._grow(sample.ended)
        return self.limit

    def _grow(self, ended: int) -> None:
        if ended > self._best * GAIN_MIN:
            self._best = ended
            self._rounds_without_gain = 0
        else:
            self._rounds_without_gain += 1
        if self._rounds_without_gain <= PATIENCE:
            self.limit = min(self._most, self.limit + max(1, self.limit // 10))

    def _forget(self) -> None:
        """Things have changed: what was reached before says nothing."""
        self._best = 0
        self._rounds_without_gain = 0


def is_pressed(sample: Sample, limit: int) -> bool:
    return sample.late_s > LATE_S or sample.unsettled > 10 * max(limit, 100) or sample.memory_free < MEMORY_MIN


class Adapting:
    """Watches a lane and sets its limit, once a second."""

    def __init__(self, lane: Lane, target_s: float, most: int = MOST) -> None:
        self._lane = lane
        self._rule = Adaptation(target_s, lane.limit, most)
        self._spent: list[float] = []
        self.unsettled = 0

    def note(self, seconds: float) -> None:
        """A job has ended."""
        if len(self._spent) < SAMPLES_MAX:
            self._spent.append(seconds)

    async def go_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + ROUND_S
            await asyncio.sleep(ROUND_S)
            self.step(max(loop.time() - due, 0.0))

    def step(self, late_s: float) -> None:
        spent, self._spent = sorted(self._spent), []
        slow_s = spent[min(int(len(spent) * 0.95), len(spent) - 1)] if spent else 0.0
        is_full = self._lane.peak >= self._lane.limit
        sample = Sample(len(spent), slow_s, is_full, late_s, self.unsettled, memory_free())
        self._lane.limit = self._rule.next(sample)
        self._lane.peak = self._lane.running
        self._lane.wake()


def memory_free() -> float:
    """The share of the machine's memory that is available; 1 where nobody says."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 1.0
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines if line.endswith("kB")}
    total = sizes.get("MemTotal", 0)
    return sizes.get("MemAvailable", total) / total if total else 1.0
