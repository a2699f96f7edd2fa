"""Token buckets against a naive model in fractions."""

from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.core.bound import QUEUE_RULES, check_fields
from tenure.core.error import InvalidRequest
from tenure.core.limit import Bucket, Rate

YEAR_MS = 366 * 86_400_000


class Model:
    """A bucket as the semantics describe it: a level in tokens, a fraction."""

    def __init__(self, tokens: int, period_ms: int, burst: int) -> None:
        self.per_ms = Fraction(tokens, period_ms)
        self.burst = burst
        self.level = Fraction(burst)

    def wait(self, ms: int) -> None:
        self.level = min(self.level + ms * self.per_ms, Fraction(self.burst))

    def available(self) -> int:
        return self.level.numerator // self.level.denominator


@st.composite
def settings(draw: st.DrawFn) -> tuple[int, int, int]:
    return draw(st.integers(1, 50)), draw(st.integers(1, 5_000)), draw(st.integers(1, 100))


# A step: wait so long, then take so many, if they are there.
steps = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 20)), max_size=40)


@given(settings(), steps)
def test_bucket_holds_what_the_fractions_say(rate: tuple[int, int, int], steps: list[tuple[int, int]]) -> None:
    bucket = Bucket(Rate(*rate), 0)
    model = Model(*rate)
    now = 0
    for wait_ms, wanted in steps:
        now += wait_ms
        model.wait(wait_ms)
        assert bucket.available(now) == model.available()
        taken = min(wanted, model.available())
        bucket.take(taken)
        model.level -= taken


@given(settings(), steps)
def test_no_window_has_more_than_burst_and_rate(rate: tuple[int, int, int], steps: list[tuple[int, int]]) -> None:
    tokens, period_ms, burst = rate
    bucket = Bucket(Rate(*rate), 0)
    taken: list[tuple[int, int]] = [(0, 0)]
    now = 0
    for wait_ms, _ in steps:
        now += wait_ms
        count = int(bucket.available(now))
        bucket.take(count)
        taken.append((now, taken[-1][1] + count))
    for (begin, _), (end, _) in combinations(taken, 2):
        within = sum(now_sum - last_sum for (_, last_sum), (at, now_sum) in pairwise(taken) if begin <= at <= end)
        assert within <= burst + Fraction(tokens * (end - begin), period_ms)


@given(settings(), st.integers(0, 10**12))
def test_bucket_starts_full(rate: tuple[int, int, int], now: int) -> None:
    assert Bucket(Rate(*rate), now).available(now) == rate[2]


def test_burst_is_the_tokens_where_none_is_given() -> None:
    assert Rate(5, 1_000).key() == (5, 1_000, 5)
    assert Rate(5, 1_000, 8).key() == (5, 1_000, 8)


@given(settings(), steps)
def test_next_token_is_there_at_its_time_and_not_before(
    rate: tuple[int, int, int], steps: list[tuple[int, int]]
) -> None:
    bucket = Bucket(Rate(*rate), 0)
    now = 0
    for wait_ms, _ in steps:
        now += wait_ms
        bucket.take(bucket.available(now))
        next_at = int(bucket.next_at_ms())
        assert next_at > now
        if next_at - 1 > now:
            assert bucket.available(next_at - 1) == 0
        assert bucket.next_at_ms() == next_at
        assert bucket.available(next_at) >= 1
        now = next_at


def test_next_token_is_now_while_there_is_one() -> None:
    bucket = Bucket(Rate(2, 1_000), 50)
    bucket.take(1)
    assert bucket.next_at_ms() == 50


def test_idle_bucket_saves_no_more_than_its_burst() -> None:
    bucket = Bucket(Rate(1, 1_000, 3), 0)
    assert bucket.available(10 * YEAR_MS) == 3


def test_time_that_falls_changes_nothing() -> None:
    bucket = Bucket(Rate(1, 1_000), 5_000)
    bucket.take(1)
    assert bucket.available(1_000) == 0
    assert bucket.next_at_ms() == 6_000


@pytest.mark.parametrize("years", [1, 10, 100, 1_000])
@pytest.mark.parametrize(
    ("tokens", "period_ms"), [(1, YEAR_MS), (1_000_000_000, 1_000), (1_000_000_000, 1), (100_000_000, YEAR_MS)]
)
def test_years_do_not_overflow(years: int, tokens: int, period_ms: int) -> None:
    bucket = Bucket(Rate(tokens, period_ms), 0)
    for year in range(1, 4):
        bucket.take(tokens)
        assert bucket.available(year * years * YEAR_MS) == tokens


def test_largest_rate_over_the_longest_period_is_refused_or_works() -> None:
    try:
        checked = check_fields(QUEUE_RULES, {"rate": Rate(10**9, YEAR_MS)})["rate"]
    except InvalidRequest:
        return
    assert isinstance(checked, Rate)
    assert Bucket(checked, 0).available(YEAR_MS) == 10**9


def test_slowest_rate_is_exact_over_years() -> None:
    bucket = Bucket(Rate(1, YEAR_MS), 0)
    for year in range(1, 5):
        bucket.take(1)
        assert bucket.available(year * YEAR_MS - 1) == 0
        assert bucket.next_at_ms() == year * YEAR_MS
        assert bucket.available(year * YEAR_MS) == 1


# Changed settings.


@given(settings(), steps, st.integers(0, 5_000))
@example((1, 3_600_000, 1), [(0, 1)], 1)
def test_same_settings_again_change_nothing(
    rate: tuple[int, int, int], steps: list[tuple[int, int]], wait_ms: int
) -> None:
    bucket = Bucket(Rate(*rate), 0)
    twin = Bucket(Rate(*rate), 0)
    now = 0
    for step_ms, wanted in steps:
        now += step_ms
        taken = min(wanted, int(twin.available(now)))
        twin.take(taken)
        bucket.available(now)
        bucket.take(taken)
    now += wait_ms
    bucket.change(Rate(*rate), now)
    assert bucket.available(now) == twin.available(now)
    assert bucket.next_at_ms() == twin.next_at_ms()


@given(settings(), settings(), steps)
@example((1, 3_600_000, 1), (2, 3_600_000, 2), [(0, 1), (1, 0)])
def test_what_was_taken_stays_taken_under_new_settings(
    rate: tuple[int, int, int], new: tuple[int, int, int], steps: list[tuple[int, int]]
) -> None:
    bucket = Bucket(Rate(*rate), 0)
    now = 0
    for wait_ms, wanted in steps:
        now += wait_ms
        bucket.take(min(wanted, bucket.available(now)))
    missing = rate[2] - int(bucket.available(now))
    bucket.change(Rate(*new), now)
    assert bucket.available(now) == max(new[2] - missing, 0)


def test_full_bucket_is_full_under_new_settings() -> None:
    bucket = Bucket(Rate(2, 1_000), 0)
    bucket.change(Rate(10, 500, 40), 10)
    assert bucket.available(10) == 40


def test_new_rate_counts_from_the_change_on() -> None:
    bucket = Bucket(Rate(1, 1_000), 0)
    bucket.take(1)
    bucket.change(Rate(1, 100), 0)
    assert bucket.available(99) == 0
    assert bucket.available(100) == 1


def test_level_never_falls_below_nothing() -> None:
    bucket = Bucket(Rate(10, 1_000), 0)
    bucket.take(10)
    bucket.change(Rate(2, 1_000), 0)
    assert bucket.available(0) == 0
    assert bucket.next_at_ms() == 500
