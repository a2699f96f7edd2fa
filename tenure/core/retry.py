"""When a failed attempt is tried again.

The delay after attempt n (counted from 1) depends on the backoff, the job's id and n, and on nothing else: the same in
Python, SQL and Lua, and the same when history is replayed. Jitter comes from the "minimal standard" generator: x starts
at id mod 2147483646 + 1 and takes (n mod 64) + 2 steps of x <- 16807 x mod 2147483647; u = x / 2147483647.
"""

from typing import Final

from mypy_extensions import i64

from tenure.core.duration import Duration, milliseconds
from tenure.core.error import InvalidRequest

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
DELAY_MS_MAX: Final = 3_653 * 86_400_000
DELAYS_MAX: Final = 100

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

    @staticmethod
    def fixed(base: Duration, cap: Duration = "1h") -> "Backoff":
        """The same wait after every attempt."""
        return _backoff(FIXED, base, cap)

    @staticmethod
    def linear(base: Duration, cap: Duration = "1h") -> "Backoff":
        """base, 2 base, 3 base, ..."""
        return _backoff(LINEAR, base, cap)

    @staticmethod
    def exponential(base: Duration, cap: Duration = "1h", factor: float = 2.0) -> "Backoff":
        """base, base factor, base factor^2, ..."""
        return _backoff(EXPONENTIAL, base, cap, factor)

    @staticmethod
    def equal_jitter(base: Duration, cap: Duration = "1h", factor: float = 2.0) -> "Backoff":
        """Half of the exponential wait, and a random part of the other half."""
        return _backoff(EQUAL_JITTER, base, cap, factor)

    @staticmethod
    def full_jitter(base: Duration, cap: Duration = "1h", factor: float = 2.0) -> "Backoff":
        """A random part of the exponential wait."""
        return _backoff(FULL_JITTER, base, cap, factor)

    @staticmethod
    def listed(*delays: Duration) -> "Backoff":
        """These waits, one after the other; the last repeats."""
        if not 0 < len(delays) <= DELAYS_MAX:
            raise InvalidRequest("backoff", len(delays), f"it must list 1 to {DELAYS_MAX} delays")
        return Backoff(LISTED, delays_ms=tuple(_bounded("backoff", delay) for delay in delays))

    def key(self) -> tuple[int, int, float, int, tuple[int, ...]]:
        return (self.kind, self.base_ms, self.factor, self.cap_ms, self.delays_ms)


def _backoff(kind: int, base: Duration, cap: Duration, factor: float = 2.0) -> Backoff:
    if not 1.0 <= factor <= 100.0:
        raise InvalidRequest("backoff.factor", factor, "it must be from 1 to 100")
    return Backoff(kind, _bounded("backoff.base", base), float(factor), _bounded("backoff.cap", cap))


def _bounded(field: str, delay: Duration) -> int:
    found = milliseconds(field, delay)
    if not 0 <= found <= DELAY_MS_MAX:
        raise InvalidRequest(field, delay, f"it must be from 0 to {DELAY_MS_MAX} ms")
    return found


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
    full = float(backoff.base_ms)
    cap = float(backoff.cap_ms)
    for _ in range(min(attempt - 1, EXPONENT_MAX)):
        # Multiplied step by step: the power functions of different languages round differently.
        full *= backoff.factor
    full = min(full, cap)
    if kind == EXPONENTIAL:
        return int(full)
    if kind == EQUAL_JITTER:
        return int(full / 2 + full / 2 * jitter(job_id, attempt))
    return int(full * jitter(job_id, attempt))
