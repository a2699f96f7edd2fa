"""The times that a step is given: what the wall clock says, and how long the store has run.

Instants (`run_at`, `expires_at`) follow the wall clock, also when it is set back. Durations (delay, backoff, snooze,
debounce, retention, rates) count elapsed time, so that setting a machine's clock moves none of them. Leases and
timeouts count elapsed time as well, less the time in which the store's owner did not run (`left_out_ms`). All are
milliseconds. The core never reads a clock: `Now` comes in as an argument.
"""

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(acyclic=True)
class Now:
    def __init__(self, wall_ms: i64, elapsed_ms: i64, left_out_ms: i64 = 0) -> None:
        self.wall_ms: i64 = wall_ms
        self.elapsed_ms: i64 = elapsed_ms
        self.left_out_ms: i64 = left_out_ms  # of the elapsed time: the owner was stopped, or its loop was blocked

    def __repr__(self) -> str:
        left_out = f", {self.left_out_ms}" if self.left_out_ms else ""
        return f"Now({self.wall_ms}, {self.elapsed_ms}{left_out})"
