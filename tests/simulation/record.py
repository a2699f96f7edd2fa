"""One step of a run as it is seen from outside: what was asked, what was answered, and what happened."""

from dataclasses import dataclass

from tenure.core.record import Event
from tenure.core.tenant import Context


@dataclass(frozen=True)
class Record:
    step: int
    wall: int  # as given
    elapsed: int
    left_out: int
    verb: str
    context: Context
    request: object
    answer: object  # an Error when it was refused as a whole
    events: tuple[Event, ...] = ()
    sent: tuple[tuple[int, object], ...] = ()  # answers to tickets
