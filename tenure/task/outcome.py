"""What a handler may say besides a result. Each may be raised or returned: no `except Exception` swallows a return.

An exception that is none of these is a failure, tried again as the task's options say.
"""

from tenure.core import bound
from tenure.core.duration import Duration, milliseconds


def _delay_ms(field: str, delay: Duration) -> int:
    """Refused where it is said, not by the store when the handler is gone."""
    found = milliseconds(field, delay)
    bound.duration_ms(field, found)
    return found


class Outcome(Exception):
    """The root of what a handler may say."""


class Retry(Outcome):
    """This attempt failed; try again after the delay, or after the task's backoff when none is given."""

    def __init__(self, message: str = "the handler asked for another try", *, after: Duration | None = None) -> None:
        super().__init__(message)
        self.delay_ms = -1 if after is None else _delay_ms("after", after)


class Permanent(Outcome):
    """This job can never succeed: it becomes a dead letter at once."""


class Snooze(Outcome):
    """Not now: run it again after the delay. No attempt is spent."""

    def __init__(self, delay: Duration) -> None:
        self.delay_ms = _delay_ms("delay", delay)
        super().__init__(f"again in {self.delay_ms} ms")


class Cancel(Outcome):
    """The job is to end as cancelled."""


class CancelledByStore(BaseException):
    """Raised inside a handler whose job was cancelled, timed out or was lost; not an Exception, so that a handler that
    catches everything still ends."""
