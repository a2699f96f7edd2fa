"""The wheel against a sorted list: nothing is late, nothing is lost, and what was cancelled goes away."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.engine.alarm import CHUNK, IDLE_MIN, NEVER, Alarm, Wheel

YEAR_MS = 366 * 86_400_000


def key_of(alarm: Alarm) -> tuple[int, int, int]:
    return (int(alarm.due_ms), int(alarm.kind), int(alarm.id))


def first_due(alarms: list[Alarm]) -> int:
    return min((int(alarm.due_ms) for alarm in alarms), default=NEVER)


def drain(wheel: Wheel, now_ms: int) -> list[Alarm]:
    found: list[Alarm] = []
    while (alarm := wheel.pop(now_ms)) is not None:
        found.append(alarm)
    return found


def stored(wheel: Wheel) -> int:
    """How many alarms the wheel holds on to, cancelled ones included."""
    waiting = sum(len(bucket.open) + sum(map(len, bucket.sealed)) for bucket in wheel._buckets.values())
    return waiting + sum(map(len, wheel._chunks))


def check_counts(wheel: Wheel) -> None:
    for bucket in wheel._buckets.values():
        held = [*bucket.open, *(alarm for chunk in bucket.sealed for alarm in chunk)]
        assert bucket.size == len(held)
        assert bucket.dead == sum(1 for alarm in held if not alarm.live)
    assert wheel._idle == sum(1 for bucket in wheel._buckets.values() if bucket.is_idle())
    assert sorted(wheel._seconds) == sorted(wheel._buckets)


# Steps: add an alarm so far ahead of kind and id, cancel one, or let time pass and take so many of those due.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(-500, 5_000), st.integers(0, 18), st.integers(0, 3)),
        st.tuples(st.just("add"), st.integers(0, 20), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("add on the second"), st.integers(0, 5_000), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("cancel"), st.integers(0, 999), st.just(0), st.just(0)),
        st.tuples(st.just("pop"), st.integers(0, 2_500), st.integers(1, 10), st.just(0)),
        st.tuples(st.just("peek"), st.integers(0, 500), st.just(0), st.just(0)),
    ),
    max_size=120,
)


@settings(max_examples=80)
@given(steps)
def test_wheel_is_a_sorted_list(steps: list[tuple[str, int, int, int]]) -> None:
    wheel = Wheel()
    expected: list[Alarm] = []
    now = 10_000
    for step, value, second, third in steps:
        if step.startswith("add"):
            due_ms = now + value
            alarm = Alarm(due_ms if step == "add" else due_ms // 1_000 * 1_000, second, third)
            wheel.add(alarm)
            expected.append(alarm)
        elif step == "cancel" and expected:
            alarm = expected.pop(value * len(expected) // 1_000)
            wheel.cancel(alarm)
            assert not alarm.live
        elif step == "pop":
            now += value
            for _ in range(second):
                found = wheel.pop(now)
                due = sorted((alarm for alarm in expected if alarm.due_ms <= now), key=key_of)
                if not due:
                    assert found is None
                    break
                assert found is not None
                assert key_of(found) == key_of(due[0])
                assert not found.live
                expected.remove(found)
        elif step == "peek":
            now += value
            wheel.peek(now)
            assert wheel.next_ms == first_due(expected) or wheel.next_ms > now
        assert wheel.live == len(expected)
        assert wheel.next_ms <= first_due(expected)
        check_counts(wheel)
    assert [key_of(alarm) for alarm in drain(wheel, now + 100_000)] == sorted(map(key_of, expected))
    assert (wheel.live, stored(wheel)) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 18), st.integers(0, 9)), max_size=60))
def test_alarms_fire_in_the_order_of_due_kind_and_id(keys: list[tuple[int, int, int]]) -> None:
    wheel = Wheel()
    for due, kind, id in keys:
        wheel.add(Alarm(due, kind, id))
    assert [key_of(alarm) for alarm in drain(wheel, 2_000)] == sorted(keys)


def test_alarm_fires_at_its_millisecond_and_not_before() -> None:
    wheel = Wheel()
    wheel.add(Alarm(5_999, 0, 1))
    assert wheel.pop(5_998) is None
    assert wheel.next_ms == 5_999
    assert wheel.pop(5_999) is not None
    assert wheel.pop(YEAR_MS) is None


def test_wheel_that_has_looked_ahead_is_not_late() -> None:
    wheel = Wheel()
    wheel.add(Alarm(1_000, 0, 1))
    wheel.add(Alarm(5_000, 0, 2))
    assert wheel.pop(1_000) is not None
    assert wheel.pop(1_500) is None
    assert 1_500 < wheel.next_ms <= 5_000
    assert wheel.pop(5_000) is not None


def test_empty_wheel_is_never_due() -> None:
    wheel = Wheel()
    assert wheel.next_ms == NEVER
    assert wheel.pop(YEAR_MS) is None
    assert wheel.next_ms == NEVER


def test_second_of_many_chunks_is_drained_in_order() -> None:
    wheel = Wheel()
    alarms = [Alarm(1_000 + at * 7_919 % 1_000, at % 3, at) for at in range(4 * CHUNK + 5)]
    for alarm in alarms:
        wheel.add(alarm)
    for alarm in alarms[::5]:
        wheel.cancel(alarm)
    left = sorted(key_of(alarm) for at, alarm in enumerate(alarms) if at % 5)
    assert [key_of(alarm) for alarm in drain(wheel, 1_999)] == left


def test_alarm_added_to_the_second_being_drained_finds_its_place() -> None:
    wheel = Wheel()
    for id in range(0, 100, 2):
        wheel.add(Alarm(3_000 + id, 0, id))
    taken = [wheel.pop(3_999) for _ in range(10)]
    for id in range(21, 100, 2):
        wheel.add(Alarm(3_000 + id, 0, id))
    wheel.add(Alarm(2_000, 0, 1_000))
    rest = [int(alarm.id) for alarm in drain(wheel, 3_999)]
    assert [int(alarm.id) for alarm in taken if alarm is not None] == list(range(0, 20, 2))
    assert rest == [1_000, *range(20, 100)]


def test_alarm_set_while_it_fires_for_the_same_instant_fires_too() -> None:
    wheel = Wheel()
    wheel.add(Alarm(3_000, 0, 0))
    fired: list[int] = []
    while (alarm := wheel.pop(3_000)) is not None:
        fired.append(int(alarm.id))
        if alarm.id < 50:
            wheel.add(Alarm(3_000, 0, alarm.id + 1))
    assert fired == list(range(51))


def test_cancelling_again_changes_nothing() -> None:
    wheel = Wheel()
    alarm = Alarm(1_000, 0, 1)
    wheel.add(alarm)
    wheel.cancel(alarm)
    wheel.cancel(alarm)
    assert wheel.live == 0
    fired = Alarm(1_000, 0, 2)
    wheel.add(fired)
    assert wheel.pop(1_000) is fired
    wheel.cancel(fired)
    assert wheel.live == 0


def test_alarm_cancelled_in_the_second_being_drained_does_not_fire() -> None:
    wheel = Wheel()
    alarms = [Alarm(3_000, 0, id) for id in range(10)]
    for alarm in alarms:
        wheel.add(alarm)
    assert wheel.pop(3_000) is alarms[0]
    wheel.cancel(alarms[1])
    wheel.cancel(alarms[9])
    assert [int(alarm.id) for alarm in drain(wheel, 3_000)] == list(range(2, 9))


# What is cancelled goes away.


@pytest.mark.parametrize("count", [65, 1_000, 3 * CHUNK])
def test_cancelled_alarms_of_one_far_second_do_not_pile_up(count: int) -> None:
    wheel = Wheel()
    stays = Alarm(YEAR_MS, 0, 0)
    wheel.add(stays)
    for id in range(1, count):
        alarm = Alarm(YEAR_MS, 0, id)
        wheel.add(alarm)
        wheel.cancel(alarm)
    assert stored(wheel) <= 66
    check_counts(wheel)
    assert drain(wheel, YEAR_MS) == [stays]


def test_mostly_cancelled_second_is_rebuilt_and_keeps_the_live_ones() -> None:
    wheel = Wheel()
    alarms = [Alarm(YEAR_MS + at % 1_000, 0, at) for at in range(5 * CHUNK)]
    for alarm in alarms:
        wheel.add(alarm)
    for alarm in alarms:
        if alarm.id % 10:
            wheel.cancel(alarm)
    assert stored(wheel) <= 2 * wheel.live + 64
    assert [int(alarm.id) % 10 for alarm in drain(wheel, YEAR_MS + 1_000)] == [0] * (CHUNK // 2)


def test_cancelled_alarms_of_many_far_seconds_do_not_pile_up() -> None:
    """As the expiries of jobs do that are done long before: each second of the year has a few."""
    wheel = Wheel()
    for second in range(5_000):
        for id in range(3):
            alarm = Alarm(YEAR_MS + second * 1_000, 1, id)
            wheel.add(alarm)
            wheel.cancel(alarm)
    assert wheel.live == 0
    assert stored(wheel) <= 2_000
    assert len(wheel._buckets) <= 2_000
    check_counts(wheel)


def test_second_whose_alarms_are_all_cancelled_is_used_again() -> None:
    """As the leases of a worker that takes one job after the other."""
    wheel = Wheel()
    wheel.add(Alarm(YEAR_MS, 0, 0))
    made = set()
    for id in range(1_000):
        alarm = Alarm(30_000, 0, id)
        wheel.add(alarm)
        wheel.cancel(alarm)
        made.add(wheel._buckets[30])
        check_counts(wheel)
    assert len(made) == 1
    assert stored(wheel) <= 10
    last = Alarm(30_001, 0, 0)
    wheel.add(last)
    assert drain(wheel, 31_000) == [last]
    check_counts(wheel)


def test_only_live_seconds_are_left_when_most_are_idle() -> None:
    wheel = Wheel()
    alarms = [Alarm(second * 1_000, 0, second) for second in range(1_000)]
    for alarm in alarms:
        wheel.add(alarm)
    for alarm in alarms:
        if alarm.id % 100:
            wheel.cancel(alarm)
            check_counts(wheel)
    assert len(wheel._buckets) <= 10 + IDLE_MIN
    assert [int(alarm.id) for alarm in drain(wheel, 1_000_000)] == list(range(0, 1_000, 100))
    assert (wheel._idle, len(wheel._buckets)) == (0, 0)


def test_wheel_that_was_drained_holds_nothing() -> None:
    wheel = Wheel()
    for second in range(100):
        wheel.add(Alarm(second * 1_000, 0, second))
    assert len(drain(wheel, 100_000)) == 100
    assert (stored(wheel), len(wheel._buckets), len(wheel._seconds)) == (0, 0, 0)


def test_years_ahead_are_found_in_order() -> None:
    wheel = Wheel()
    dues = [YEAR_MS * years + extra for years in (100, 1, 10) for extra in (999, 0)]
    for id, due in enumerate(dues):
        wheel.add(Alarm(due, 0, id))
    assert [int(alarm.due_ms) for alarm in drain(wheel, 200 * YEAR_MS)] == sorted(dues)
