"""Time in which nothing ran does not count; time in which there was nothing to do does."""

from tenure.client.driver import BLOCKED_MS, Driver
from tenure.core.clock import Now
from tenure.store.embedded.memory import MemoryStore


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0

    def __call__(self) -> Now:
        return Now(1_000_000 + self.passed_ms, self.passed_ms)


def seen(driver: Driver) -> tuple[int, int]:
    now = driver.now()
    return now.wall_ms, now.elapsed_ms


def test_silence_between_beats_is_left_out_of_elapsed_time_and_not_of_wall_time() -> None:
    clock = Clock()
    driver = Driver(MemoryStore(), clock)
    driver.beat()
    clock.passed_ms = 500
    assert seen(driver) == (1_000_500, 500)
    driver.beat()
    clock.passed_ms = 60_500
    assert seen(driver) == (1_060_500, 500)
    clock.passed_ms = 60_600
    driver.beat()
    assert seen(driver) == (1_060_600, 600)


def test_silence_of_those_who_do_not_beat_counts() -> None:
    clock = Clock()
    driver = Driver(MemoryStore(), clock)
    clock.passed_ms = 60_000
    assert driver.now().elapsed_ms == 60_000
    driver.beat()
    driver.beat(goes_on=False)
    clock.passed_ms += 60_000
    assert driver.now().elapsed_ms == 120_000


def test_short_silence_counts() -> None:
    clock = Clock()
    driver = Driver(MemoryStore(), clock)
    driver.beat()
    clock.passed_ms = BLOCKED_MS
    assert driver.now().elapsed_ms == BLOCKED_MS
