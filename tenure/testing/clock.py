"""A clock that stands still until it is moved."""

from datetime import UTC, datetime

from tenure.client.clock import read_clock
from tenure.core.clock import Now
from tenure.core.duration import Duration, milliseconds, time_ms
from tenure.core.error import InvalidRequest


class Clock:
    def __init__(self, at: datetime | None = None) -> None:
        """Stands at the given time, which needs a time zone; by default at the present."""
        self._wall_ms = read_clock().wall_ms if at is None else time_ms("at", at)
        self._elapsed_ms = 0

    def __call__(self) -> Now:
        return Now(self._wall_ms, self._elapsed_ms)

    def __repr__(self) -> str:
        return f"<Clock {self.time.isoformat()}>"

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self._wall_ms / 1000, UTC)

    def advance(self, duration: Duration) -> None:
        """Time passes: "1h", "250ms", seconds, a timedelta. Time does not go back."""
        passed_ms = milliseconds("duration", duration)
        if passed_ms < 0:
            raise InvalidRequest("duration", duration, "time does not go back")
        self._wall_ms += passed_ms
        self._elapsed_ms += passed_ms

    def advance_to(self, wall_ms: int) -> None:
        """To an instant, in milliseconds since 1970, if that is still to come."""
        self.advance(max(wall_ms - self._wall_ms, 0) / 1000)
