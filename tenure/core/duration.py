"""Durations as people write them: a timedelta, a number of seconds, or text with a unit."""

import re
from datetime import timedelta
from typing import Final

from tenure.core.error import InvalidRequest

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SECONDS_MAX: Final = 10**12
RULE: Final = "it must be a timedelta, seconds, or text such as 250ms, 30s, 5m, 1h, 7d"

_TEXT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")

Duration = timedelta | float | str


def milliseconds(field: str, value: object) -> int:
    """Whole milliseconds; what cannot be read is refused."""
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, int) and not isinstance(value, bool) and -SECONDS_MAX < value < SECONDS_MAX:
        return value * 1000
    if isinstance(value, float) and -SECONDS_MAX < value < SECONDS_MAX:
        return round(value * 1000)
    if isinstance(value, str):
        found = _TEXT.fullmatch(value.strip())
        if found is not None:
            amount = float(found[1]) * UNITS_MS[found[2]]
            if amount < 2.0**62:
                return round(amount)
    raise InvalidRequest(field, value, RULE)
