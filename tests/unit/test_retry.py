"""Delays between attempts, against an implementation of its own in whole numbers."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import retry
from tenure.core.error import InvalidRequest
from tenure.core.retry import DEFAULT, DELAY_MS_MAX, Backoff, delay_ms, jitter

MODULUS = 2**31 - 1
HOUR_MS = 3_600_000

ids = st.integers(1, 2**53 - 1)
attempts = st.integers(1, 1_000_000)
durations_ms = st.integers(0, DELAY_MS_MAX)
factors = st.floats(1.0, 100.0)


def numerator(job_id: int, attempt: int) -> int:
    """u times 2147483647, by powers instead of steps."""
    return (job_id % (MODULUS - 1) + 1) * pow(16807, attempt % 64 + 2, MODULUS) % MODULUS


def exact_ms(value_ms: int) -> timedelta:
    return timedelta(milliseconds=value_ms)


# Job, attempt, and the numerator of u.
GOLDEN = [
    (1, 1, 1_097_816_499),
    (42, 1, 1_054_476_435),
    (42, 2, 1_550_388_001),
    (42, 3, 1_952_043_756),
    (42, 64, 1_409_017_472),
    (42, 65, 1_054_476_435),
    (MODULUS - 1, 1, 1_622_650_073),
    (MODULUS, 1, 1_097_816_499),
    (2**53 - 1, 63, 1_962_822_217),
]


@pytest.mark.parametrize(("job_id", "attempt", "x"), GOLDEN)
def test_jitter_has_its_golden_values(job_id: int, attempt: int, x: int) -> None:
    assert jitter(job_id, attempt) == x / MODULUS


@pytest.mark.parametrize(("attempt", "u"), [(1, 0.491), (2, 0.722), (3, 0.909)])
def test_jitter_is_that_of_the_semantics(attempt: int, u: float) -> None:
    assert round(jitter(42, attempt), 3) == u


@given(ids, attempts)
def test_jitter_is_the_minimal_standard_generator(job_id: int, attempt: int) -> None:
    assert jitter(job_id, attempt) == numerator(job_id, attempt) / MODULUS


@given(ids, attempts)
def test_jitter_lies_between_zero_and_one(job_id: int, attempt: int) -> None:
    assert 0 < jitter(job_id, attempt) < 1


@pytest.mark.parametrize(("attempt", "full", "equal"), [(1, 491, 745), (2, 1_443, 1_721), (3, 3_635, 3_817)])
def test_worked_example_of_the_semantics_holds(attempt: int, full: int, equal: int) -> None:
    assert delay_ms(DEFAULT, 42, attempt) == full
    assert delay_ms(Backoff.equal_jitter("1s"), 42, attempt) == equal


def test_default_is_full_jitter_from_a_second_to_an_hour() -> None:
    assert DEFAULT.key() == (retry.FULL_JITTER, 1_000, 2.0, HOUR_MS, ())
    assert Backoff().key() == Backoff.full_jitter(1).key() == DEFAULT.key()


def test_fixed_waits_the_same_after_every_attempt() -> None:
    assert [delay_ms(Backoff.fixed("5s"), 7, attempt) for attempt in (1, 2, 3, 1_000_000)] == [5_000] * 4


def test_linear_grows_by_its_base_up_to_the_cap() -> None:
    backoff = Backoff.linear("10s", cap="25s")
    assert [delay_ms(backoff, 7, attempt) for attempt in (1, 2, 3, 4)] == [10_000, 20_000, 25_000, 25_000]


def test_exponential_grows_by_its_factor_up_to_the_cap() -> None:
    backoff = Backoff.exponential("1s", cap="1m", factor=3)
    assert [delay_ms(backoff, 7, attempt) for attempt in (1, 2, 3, 4, 5)] == [1_000, 3_000, 9_000, 27_000, 60_000]


def test_factor_of_one_does_not_grow() -> None:
    assert {delay_ms(Backoff.exponential("1s", factor=1.0), 7, attempt) for attempt in (1, 2, 99)} == {1_000}


def test_exponent_stops_at_thirty() -> None:
    backoff = Backoff.exponential("1ms", cap=exact_ms(DELAY_MS_MAX))
    assert delay_ms(backoff, 7, 30) == 2**29
    assert [delay_ms(backoff, 7, attempt) for attempt in (31, 32, 63, 1_000_000)] == [2**30] * 4


def test_list_gives_its_entries_and_repeats_the_last() -> None:
    backoff = Backoff.listed("1s", 2, timedelta(minutes=1))
    assert [delay_ms(backoff, 7, attempt) for attempt in (1, 2, 3, 4, 99)] == [1_000, 2_000, 60_000, 60_000, 60_000]


def test_cap_does_not_apply_to_a_list() -> None:
    assert delay_ms(Backoff.listed("2h"), 7, 1) == 2 * HOUR_MS


def test_cap_applies_before_the_jitter() -> None:
    full = Backoff.full_jitter("10h")
    equal = Backoff.equal_jitter("10h")
    for job_id in range(1, 100):
        u = numerator(job_id, 1) / MODULUS
        assert delay_ms(full, job_id, 1) == int(HOUR_MS * u)
        assert delay_ms(equal, job_id, 1) == int(HOUR_MS / 2 + HOUR_MS / 2 * u)


def test_thirteenth_wait_and_later_ones_are_at_the_cap() -> None:
    assert delay_ms(Backoff.exponential("1s"), 42, 12) == 2_048_000
    assert {delay_ms(Backoff.exponential("1s"), 42, attempt) for attempt in range(13, 200)} == {HOUR_MS}


@given(durations_ms, durations_ms, factors, ids, attempts)
def test_delay_lies_between_zero_and_the_cap(
    base_ms: int, cap_ms: int, factor: float, job_id: int, attempt: int
) -> None:
    for kind in (retry.FIXED, retry.LINEAR, retry.EXPONENTIAL, retry.EQUAL_JITTER, retry.FULL_JITTER):
        assert 0 <= delay_ms(Backoff(kind, base_ms, factor, cap_ms), job_id, attempt) <= cap_ms


@given(ids, st.integers(1, 62))
def test_equal_jitter_waits_at_least_half(job_id: int, attempt: int) -> None:
    full = delay_ms(Backoff.exponential("1s"), job_id, attempt)
    assert full // 2 <= delay_ms(Backoff.equal_jitter("1s"), job_id, attempt) <= full


@given(st.lists(durations_ms, min_size=1, max_size=100), attempts)
def test_list_never_leaves_its_entries(delays_ms: list[int], attempt: int) -> None:
    backoff = Backoff.listed(*(exact_ms(value) for value in delays_ms))
    assert delay_ms(backoff, 7, attempt) == delays_ms[min(attempt, len(delays_ms)) - 1]


@pytest.mark.parametrize("base", ["1500ms", "1.5s", 1.5, timedelta(milliseconds=1_500)])
def test_durations_are_read_however_they_are_written(base: str | float | timedelta) -> None:
    for backoff in (
        Backoff.fixed(base, cap=base),
        Backoff.linear(base, cap=base),
        Backoff.exponential(base, cap=base),
        Backoff.equal_jitter(base, cap=base),
        Backoff.full_jitter(base, cap=base),
    ):
        assert (backoff.base_ms, backoff.cap_ms) == (1_500, 1_500)
    assert Backoff.listed(base).delays_ms == (1_500,)


def test_whole_seconds_are_durations() -> None:
    assert Backoff.fixed(3).base_ms == 3_000


def test_each_maker_makes_its_kind() -> None:
    made = (
        Backoff.fixed(1),
        Backoff.linear(1),
        Backoff.exponential(1),
        Backoff.equal_jitter(1),
        Backoff.full_jitter(1),
        Backoff.listed(1),
    )
    assert [retry.KIND_NAMES[backoff.kind] for backoff in made] == [
        "fixed",
        "linear",
        "exponential",
        "equal_jitter",
        "full_jitter",
        "list",
    ]


@pytest.mark.parametrize("delay", [-1, -0.001, exact_ms(DELAY_MS_MAX + 1)])
def test_delays_outside_their_bounds_are_refused(delay: float | timedelta) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Backoff.fixed(delay)
    assert refused.value.field == "backoff.base"
    with pytest.raises(InvalidRequest) as refused:
        Backoff.exponential(1, cap=delay)
    assert refused.value.field == "backoff.cap"
    with pytest.raises(InvalidRequest) as refused:
        Backoff.listed(1, delay)
    assert refused.value.field == "backoff"


def test_delays_at_their_bounds_are_taken() -> None:
    widest = Backoff.linear(0, cap=exact_ms(DELAY_MS_MAX))
    assert (widest.base_ms, widest.cap_ms) == (0, DELAY_MS_MAX)
    assert Backoff.listed(0, exact_ms(DELAY_MS_MAX)).delays_ms == (0, DELAY_MS_MAX)


@pytest.mark.parametrize("factor", [0.999, 100.001, -2.0, float("inf"), float("nan")])
def test_factor_outside_its_bounds_is_refused(factor: float) -> None:
    for make in (Backoff.exponential, Backoff.equal_jitter, Backoff.full_jitter):
        with pytest.raises(InvalidRequest) as refused:
            make(1, factor=factor)
        assert refused.value.field == "backoff.factor"


@pytest.mark.parametrize("factor", [1.0, 100.0])
def test_factor_at_its_bounds_is_taken(factor: float) -> None:
    assert Backoff.exponential(1, factor=factor).factor == factor


@pytest.mark.parametrize("count", [0, 101])
def test_list_of_a_wrong_length_is_refused(count: int) -> None:
    with pytest.raises(InvalidRequest, match="1 to 100 delays"):
        Backoff.listed(*["1s"] * count)


def test_list_of_a_hundred_is_taken() -> None:
    assert len(Backoff.listed(*["1s"] * 100).delays_ms) == 100


def test_keys_tell_backoffs_apart() -> None:
    made = [Backoff.fixed(1), Backoff.fixed(2), Backoff.linear(1), Backoff.fixed(1, cap=1), Backoff.listed(1)]
    made += [Backoff.exponential(1), Backoff.exponential(1, factor=3.0), Backoff.listed(1, 1)]
    assert len({backoff.key() for backoff in made}) == len(made)
    assert Backoff.fixed("1s").key() == Backoff.fixed(1.0).key()
