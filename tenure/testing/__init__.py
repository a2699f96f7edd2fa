"""Testing programs that enqueue: docs/testing.md."""

from tenure.testing.clock import Clock
from tenure.testing.mode import (
    Mode,
    advance,
    advance_sync,
    assert_enqueued,
    assert_not_enqueued,
    clear,
    clock_of,
    enqueued,
    inline,
    manual,
    run_all,
    run_all_sync,
)
from tenure.testing.sent import Sent

__all__ = [
    "Clock",
    "Mode",
    "Sent",
    "advance",
    "advance_sync",
    "assert_enqueued",
    "assert_not_enqueued",
    "clear",
    "clock_of",
    "enqueued",
    "inline",
    "manual",
    "run_all",
    "run_all_sync",
]
