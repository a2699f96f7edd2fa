import pytest

from tenure.core.error import InvalidRequest, Unavailable
from tenure.ops.error import Stopped
from tenure.ops.schedule import repeat
from tests.backup.rig import Clock

MINUTE_MS = 60_000


class Line:
    """Runs that take as long as they are told to, and what became of them."""

    def __init__(self, *takes_ms: int, fails: tuple[int, ...] = (), stops_at: int = -1) -> None:
        self.clock = Clock()
        self.began: list[int] = []
        self.errors: list[Exception] = []
        self._takes_ms = list(takes_ms)
        self._fails = fails
        self._stops_at = stops_at
        self._first_ms = self.clock.now.elapsed_ms

    def act(self) -> None:
        number = len(self.began)
        self.began.append(self.clock.now.elapsed_ms - self._first_ms)
        self.clock.pass_time(self._takes_ms[number])
        if number == self._stops_at:
            raise Stopped("stopped")
        if number in self._fails:
            raise Unavailable(f"run {number} failed")

    def wait(self, ms: int) -> bool:
        self.clock.pass_time(ms)
        return len(self.began) == len(self._takes_ms)

    def run(self) -> bool:
        return repeat(self.act, MINUTE_MS, self.clock, self.wait, self.errors.append)


def test_runs_are_at_fixed_times_from_the_first() -> None:
    line = Line(1_000, 59_000, 1, 0)
    assert line.run()
    assert line.began == [0, MINUTE_MS, 2 * MINUTE_MS, 3 * MINUTE_MS]


def test_times_that_pass_while_one_is_at_work_are_left_out() -> None:
    line = Line(150_000, 60_000, 1)
    assert line.run()
    assert line.began == [0, 3 * MINUTE_MS, 5 * MINUTE_MS]


def test_failed_run_is_reported_and_the_next_goes_on() -> None:
    line = Line(1, 1, 1, 1, fails=(1, 2))
    assert line.run()
    assert [str(error) for error in line.errors] == ["run 1 failed", "run 2 failed"]
    assert len(line.began) == 4


def test_failure_of_the_last_run_is_told() -> None:
    assert not Line(1, 1, fails=(1,)).run()


def test_stop_within_a_run_ends_it() -> None:
    line = Line(1, 1, 1, stops_at=1)
    assert line.run()
    assert (len(line.began), line.errors) == (2, [])


@pytest.mark.parametrize("every_ms", [0, 999, 367 * 86_400_000])
def test_interval_has_bounds(every_ms: int) -> None:
    line = Line()
    with pytest.raises(InvalidRequest, match="every"):
        repeat(line.act, every_ms, line.clock, line.wait, line.errors.append)
