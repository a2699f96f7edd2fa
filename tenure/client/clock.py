"""The real clock, read in one place."""

import time

from tenure.core.clock import Now

# Counts while the machine sleeps, unlike CLOCK_MONOTONIC, where the system has it.
_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def read_clock() -> Now:
    return Now(time.time_ns() // 1_000_000, time.clock_gettime_ns(_ELAPSED) // 1_000_000)
