"""Virtual time: what the wall says and how long the store has run, moved only by the simulation."""

from tenure.core.clock import Now

START_WALL_MS = 1_700_000_000_000
START_ELAPSED_MS = 5_000


class Clock:
    def __init__(self) -> None:
        self.wall = START_WALL_MS
        self.elapsed = START_ELAPSED_MS

    def now(self) -> Now:
        return Now(self.wall, self.elapsed)

    def pass_time(self, ms: int) -> None:
        self.wall += ms
        self.elapsed += ms

    def set_wall(self, by_ms: int) -> None:
        """Somebody sets the clock of the machine: elapsed time does not follow."""
        self.wall += by_ms
