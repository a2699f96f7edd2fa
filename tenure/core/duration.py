"""Durations and times as people write them, in milliseconds.

A duration is a timedelta, a number of seconds, or text with a unit. A time is a datetime with a zone, or a number of
seconds since 1970.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from tenure.core.error import InvalidRequest

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SECONDS_MAX: Final = 10**12
RULE: Final = "it must be a timedelta, seconds, or text such as 250ms, 30s, 5m, 1h, 7d"
TIME_RULE: Final = "it must be a datetime with a time zone, or seconds since 1970"
TIME_SECONDS_MAX: Final = 10**11  # beyond the year 5000; what is larger was meant as milliseconds

_TEXT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")

Duration = timedelta | float | str
Time = datetime | float

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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


def time_ms(field: str, value: object) -> int:
    """Milliseconds since 1970; what cannot be read is refused."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidRequest(field, value, "it needs a time zone; datetime.now(UTC) has one")
        return (value - EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, (timedelta, str)):
        raise InvalidRequest(field, value, f"{TIME_RULE}; durations are given as delay and ttl")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < SECONDS_MAX * 1_000:
        if value > TIME_SECONDS_MAX:
            raise InvalidRequest(field, value, f"{TIME_RULE}; divide milliseconds by 1000")
        return round(value * 1_000)
    raise InvalidRequest(field, value, TIME_RULE)


def datetime_of(at_ms: int) -> datetime | None:
    """The other way round; None for 0, which says that there is none."""
    return EPOCH + timedelta(milliseconds=at_ms) if at_ms else None
