"""The real clock, read in one place."""

import time

from tenure.core.clock import Now

# Counts while the machine sleeps, unlike CLOCK_MONOTONIC, where the system has it.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_TOGETHER_NS = 50_000_000  # so far apart, the two readings may have a stop of the process between them


def read_clock() -> Now:
    while True:
        elapsed_ns = time.clock_gettime_ns(_ELAPSED)
        wall_ns = time.time_ns()
        if time.clock_gettime_ns(_ELAPSED) - elapsed_ns < _TOGETHER_NS:
            return Now(wall_ns // 1_000_000, elapsed_ns // 1_000_000)
