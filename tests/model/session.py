"""Operation ids: a repeat is answered as the first time, an old one is refused."""

from dataclasses import dataclass, field
from typing import Final

from tenure.core.tenant import Context

REMEMBERED_MS: Final = 120_000
REMEMBERED: Final = 1_024
FORGOTTEN_MS: Final = 86_400_000

NEW: Final = 0
REPEATED: Final = 1
OLD: Final = 2


@dataclass
class Session:
    answers: dict[int, tuple[object, int]] = field(default_factory=dict)  # counter -> answer, elapsed
    forgotten: int = -1  # counters up to this one are refused
    last_at: int = 0  # elapsed; silent for a day, the session itself is forgotten


class Sessions:
    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str], Session] = {}

    def session_of(self, context: Context) -> Session:
        assert context.op is not None
        return self.sessions.setdefault((context.tenant, context.op.session), Session())

    def look(self, context: Context, elapsed: int) -> tuple[int, object]:
        """Whether this operation is new, a repeat (with the first answer), or too old."""
        if context.op is None:
            return NEW, None
        session = self.session_of(context)
        if elapsed - session.last_at >= FORGOTTEN_MS:
            del self.sessions[(context.tenant, context.op.session)]
            session = self.session_of(context)
        counter = context.op.counter
        for each, (_, at) in list(session.answers.items()):
            if elapsed - at >= REMEMBERED_MS or each <= max(session.answers) - REMEMBERED:
                del session.answers[each]
                session.forgotten = max(session.forgotten, each)
        if counter in session.answers:
            return REPEATED, session.answers[counter][0]
        return (OLD if counter <= session.forgotten else NEW), None

    def remember(self, context: Context, answer: object, elapsed: int) -> None:
        if context.op is not None:
            session = self.session_of(context)
            session.answers[context.op.counter] = (answer, elapsed)
            session.last_at = elapsed
