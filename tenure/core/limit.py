"""Token buckets in whole numbers.

A rate of `tokens` per `period_ms` with room for `burst`. The level is kept in units of 1/period_ms of a token, so that
a millisecond adds exactly `tokens` units and a job takes exactly `period_ms`: no rounding, the same on every machine. A
new bucket starts full. In any window at most burst + tokens * window / period are taken.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

UNLIMITED: Final = -1


class Rate:
    """The settings of a bucket: `tokens` per `period_ms`, at most `burst` at once."""

    def __init__(self, tokens: int, period_ms: int, burst: int = 0) -> None:
        self.tokens = tokens
        self.period_ms = period_ms
        self.burst = burst or tokens

    def key(self) -> tuple[int, int, int]:
        return (self.tokens, self.period_ms, self.burst)


@mypyc_attr(acyclic=True)
class Bucket:
    def __init__(self, rate: Rate, at_ms: i64) -> None:
        self.tokens: i64 = rate.tokens
        self.period_ms: i64 = rate.period_ms
        self.full: i64 = rate.burst * rate.period_ms
        self.level: i64 = self.full
        self.at_ms: i64 = at_ms

    def change(self, rate: Rate, now_ms: i64) -> None:
        """New settings; what was taken and has not come back stays taken, parts of a token rounded up."""
        self.refill(now_ms)
        missing = -(-int(self.full - self.level) * rate.period_ms // int(self.period_ms))
        self.tokens = rate.tokens
        self.period_ms = rate.period_ms
        self.full = rate.burst * rate.period_ms
        self.level = max(rate.burst * rate.period_ms - missing, 0)

    def refill(self, now_ms: i64) -> None:
        passed: i64 = now_ms - self.at_ms
        if passed <= 0:
            return
        self.at_ms = now_ms
        # Compare by division first: `passed` can be years, and the product must stay below 2^63.
        if passed > (self.full - self.level) // self.tokens:
            self.level = self.full
        else:
            self.level += passed * self.tokens

    def available(self, now_ms: i64) -> i64:
        self.refill(now_ms)
        return self.level // self.period_ms

    def take(self, count: i64) -> None:
        self.level -= count * self.period_ms

    def next_at_ms(self, count: i64 = 1) -> i64:
        """When so many tokens are there, by the clock of the last refill."""
        missing: i64 = count * self.period_ms - self.level
        if missing <= 0:
            return self.at_ms
        return self.at_ms + (missing + self.tokens - 1) // self.tokens
