"""Virtual time: what the wall says and how long the store has run, moved only by the simulation."""

from tenure.core.clock import Now

START_WALL_MS = 1_700_000_000_000
START_ELAPSED_MS = 5_000


class Clock:
    def __init__(self) -> None:
        self.wall = START_WALL_MS
        self.elapsed = START_ELAPSED_MS
        self.left_out = 0

    def now(self) -> Now:
        return Now(self.wall, self.elapsed, self.left_out)

    def pass_time(self, ms: int) -> None:
        self.wall += ms
        self.elapsed += ms

    def stop(self, ms: int) -> None:
        """The process that owns the store does not run for so long."""
        self.pass_time(ms)
        self.left_out += ms

    def set_wall(self, by_ms: int) -> None:
        """Somebody sets the clock of the machine: elapsed time does not follow."""
        self.wall += by_ms
