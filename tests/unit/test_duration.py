"""Durations as people write them."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.duration import RULE, milliseconds
from tenure.core.error import InvalidRequest

UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

READ = [
    ("250ms", 250),
    ("30s", 30_000),
    ("5m", 300_000),
    ("1h", 3_600_000),
    ("7d", 604_800_000),
    ("0s", 0),
    ("1.5s", 1_500),
    ("0.25h", 900_000),
    (" 1s ", 1_000),
    ("007s", 7_000),
    (0, 0),
    (30, 30_000),
    (0.25, 250),
    (-2, -2_000),
    (timedelta(0), 0),
    (timedelta(days=3_653), 3_653 * 86_400_000),
    (timedelta(microseconds=1_600), 2),
    (timedelta(seconds=-1), -1_000),
]


@pytest.mark.parametrize(("value", "expected"), READ)
def test_duration_is_read_in_milliseconds(value: object, expected: int) -> None:
    found = milliseconds("delay", value)
    assert found == expected
    assert type(found) is int


REFUSED = [
    "",
    "1",
    "s",
    "1 s",
    "1S",
    "1sec",
    "-1s",
    "+1s",
    "1.s",
    ".5s",
    "1e3s",
    "1s1s",
    "1s\n1s",
    "1_000s",
    "\u0661s",
    "nans",
    "infs",
    "99999999999999999999",
    None,
    True,
    False,
    b"1s",
    [1],
    Decimal(1),
    Fraction(1, 2),
    1j,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e12,
    10**12,
    10**400,
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: f"{value!r:.30}")
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        milliseconds("delay", value)
    assert refused.value.field == "delay"
    assert refused.value.rule == RULE
    assert str(refused.value).startswith("delay: ")


def test_text_beyond_any_number_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        milliseconds("delay", "9" * 400 + "s")


@given(st.integers(0, 10**9), st.sampled_from(sorted(UNIT_MS)))
def test_text_with_a_unit_is_its_product(count: int, unit: str) -> None:
    assert milliseconds("delay", f"{count}{unit}") == count * UNIT_MS[unit]


@given(st.integers(-(10**12) + 1, 10**12 - 1))
def test_whole_seconds_are_exact(seconds: int) -> None:
    assert milliseconds("delay", seconds) == seconds * 1_000


@given(st.integers(-(10**11), 10**11))
def test_timedelta_of_whole_milliseconds_is_exact(ms: int) -> None:
    assert milliseconds("delay", timedelta(milliseconds=ms)) == ms


@given(st.floats(-1e9, 1e9))
def test_seconds_are_rounded_to_the_nearest_millisecond(seconds: float) -> None:
    assert abs(milliseconds("delay", seconds) - seconds * 1_000) <= 0.5


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = milliseconds("delay", text)
    except InvalidRequest:
        return
    assert found >= 0
