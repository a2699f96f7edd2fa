"""When a failed attempt is tried again.

The delay after attempt n (counted from 1) depends on the backoff, the job's id and n, and on nothing else: the same in
Python, SQL and Lua, and the same when history is replayed. Jitter comes from the "minimal standard" generator: x starts
at id mod 2147483646 + 1 and takes (n mod 64) + 2 steps of x <- 16807 x mod 2147483647; u = x / 2147483647.
"""

from typing import Final

from mypy_extensions import i64

FIXED: Final = 0
LINEAR: Final = 1
EXPONENTIAL: Final = 2
EQUAL_JITTER: Final = 3
FULL_JITTER: Final = 4
LISTED: Final = 5

KIND_NAMES: Final = ("fixed", "linear", "exponential", "equal_jitter", "full_jitter", "list")

EXPONENT_MAX: Final = 30
BASE_MS: Final = 1_000
CAP_MS: Final = 3_600_000

_MODULUS: Final = 2147483647
_MULTIPLIER: Final = 16807


class Backoff:
    """How long to wait after each failed attempt. `cap_ms` bounds every delay."""

    def __init__(
        self,
        kind: int = FULL_JITTER,
        base_ms: int = BASE_MS,
        factor: float = 2.0,
        cap_ms: int = CAP_MS,
        delays_ms: tuple[int, ...] = (),
    ) -> None:
        self.kind = kind
        self.base_ms = base_ms
        self.factor = factor
        self.cap_ms = cap_ms
        self.delays_ms = delays_ms

    def key(self) -> tuple[int, int, float, int, tuple[int, ...]]:
        return (self.kind, self.base_ms, self.factor, self.cap_ms, self.delays_ms)


DEFAULT: Final = Backoff()


def jitter(job_id: int, attempt: int) -> float:
    """A number in (0, 1), fixed by the job and the attempt."""
    id64: i64 = job_id
    x: i64 = id64 % 2147483646 + 1
    steps: i64 = attempt % 64 + 2
    while steps > 0:
        x = x * _MULTIPLIER % _MODULUS
        steps -= 1
    return int(x) / _MODULUS


def delay_ms(backoff: Backoff, job_id: int, attempt: int) -> int:
    """The wait after attempt `attempt` (1 is the first) of the job, in whole milliseconds, rounded down."""
    kind = backoff.kind
    if kind == LISTED:
        return backoff.delays_ms[min(attempt, len(backoff.delays_ms)) - 1]
    if kind == FIXED:
        return min(backoff.base_ms, backoff.cap_ms)
    if kind == LINEAR:
        return min(backoff.base_ms * attempt, backoff.cap_ms)
    full = min(backoff.base_ms * backoff.factor ** min(attempt - 1, EXPONENT_MAX), float(backoff.cap_ms))
    if kind == EXPONENTIAL:
        return int(full)
    if kind == EQUAL_JITTER:
        return int(full / 2 + full / 2 * jitter(job_id, attempt))
    return int(full * jitter(job_id, attempt))
