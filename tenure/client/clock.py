"""The real clock, read in one place."""

import time

from tenure.core.clock import Now

# Counts while the machine sleeps, unlike CLOCK_MONOTONIC, where the system has it.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_MS = 1_000_000  # in nanoseconds
_TOGETHER_NS = 50 * _MS  # so far apart, the two readings may have a stop of the process between them


class RealClock:
    """Wall and elapsed time. Both go on at the same instant, a millisecond at a time, as long as nobody sets the wall
    clock: the difference between a delay and its end is exact, whenever it is read."""

    def __init__(self) -> None:
        self._offset_ns = 0  # of the wall from elapsed time, in whole milliseconds

    def __call__(self) -> Now:
        while True:
            elapsed_ns = time.clock_gettime_ns(_ELAPSED)
            offset_ns = time.time_ns() - elapsed_ns
            if time.clock_gettime_ns(_ELAPSED) - elapsed_ns < _TOGETHER_NS:
                break
        if abs(offset_ns - self._offset_ns) > _MS:
            self._offset_ns = round(offset_ns / _MS) * _MS
        return Now((elapsed_ns + self._offset_ns) // _MS, elapsed_ns // _MS)


read_clock = RealClock()
