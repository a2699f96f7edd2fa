"""Testing programs that enqueue: docs/testing.md. A name is imported when it is asked for: pytest loads the plugin of
everybody who has Tenure installed."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = {"Clock": "tenure.testing.clock", "Sent": "tenure.testing.sent"}.get(name, "tenure.testing.mode")
        found = globals()[name] = getattr(import_module(home), name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
