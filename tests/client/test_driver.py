"""The clocks that a driver watches: time in which nothing ran is left out, a step of the wall is told at once."""

import logging

import pytest

from tenure.client.driver import BLOCKED_MS, Driver
from tenure.core.clock import Now
from tenure.store.embedded.memory import MemoryStore


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0
        self.set_ms = 0

    def __call__(self) -> Now:
        return Now(1_000_000 + self.passed_ms + self.set_ms, self.passed_ms)


class Armed(Driver):
    def __init__(self, clock: Clock) -> None:
        super().__init__(MemoryStore(), clock)
        self.armed = 0

    def arm(self) -> None:
        self.armed += 1


def seen(driver: Driver) -> tuple[int, int, int]:
    now = driver.now()
    return now.wall_ms, now.elapsed_ms, now.left_out_ms


def test_time_in_which_the_loop_did_not_run_is_left_out() -> None:
    clock = Clock()
    driver = Armed(clock)
    driver.watch_clocks()
    clock.passed_ms = 500
    assert seen(driver) == (1_000_500, 500, 0)
    clock.passed_ms = 60_500
    assert seen(driver) == (1_060_500, 60_500, 60_000)
    clock.passed_ms = 60_600
    driver.look_at_clocks()
    assert seen(driver) == (1_060_600, 60_600, 60_000)


def test_time_counts_where_nobody_watches() -> None:
    clock = Clock()
    driver = Armed(clock)
    clock.passed_ms = 60_000
    assert seen(driver) == (1_060_000, 60_000, 0)


def test_short_silence_counts() -> None:
    clock = Clock()
    driver = Armed(clock)
    driver.watch_clocks()
    clock.passed_ms = BLOCKED_MS
    assert seen(driver)[2] == 0


@pytest.mark.parametrize(("set_ms", "way"), [(3_600_000, "forward"), (-3_600_000, "back")])
def test_step_of_the_wall_clock_is_logged_once_and_told_to_the_store(
    set_ms: int, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    driver = Armed(clock)
    driver.watch_clocks()
    with caplog.at_level(logging.WARNING, "tenure.store"):
        for clock.passed_ms in (250, 500):
            driver.look_at_clocks()
        assert (driver.armed, caplog.messages) == (0, [])
        clock.set_ms = set_ms
        for clock.passed_ms in (750, 1_000):
            driver.look_at_clocks()
    assert driver.armed == 1
    assert len(caplog.messages) == 1
    assert f"the wall clock was set {way} by 3600.0 s" in caplog.messages[0]


def test_drift_below_a_second_is_no_step() -> None:
    clock = Clock()
    driver = Armed(clock)
    driver.watch_clocks()
    clock.set_ms = 900
    driver.look_at_clocks()
    assert driver.armed == 0
