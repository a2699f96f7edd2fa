"""The two times a step is given: what the wall says, and how long the store has run.

Run times, expiry and retention follow the wall; leases, timeouts, rates and waits count elapsed time, so that setting
the clock of a machine ends no lease. Both are milliseconds. The core never reads a clock: `Now` comes in as an
argument.
"""

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(acyclic=True)
class Now:
    def __init__(self, wall_ms: i64, elapsed_ms: i64) -> None:
        self.wall_ms: i64 = wall_ms
        self.elapsed_ms: i64 = elapsed_ms

    def __repr__(self) -> str:
        return f"Now({self.wall_ms}, {self.elapsed_ms})"
