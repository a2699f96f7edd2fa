"""What behaviours expect of answers: an outcome, or exactly this error with exactly these fields."""

from collections.abc import Awaitable
from typing import TypeVar

from tenure.core.answer import Answers, Outcome
from tenure.core.error import Error

E = TypeVar("E", bound=Error)


async def refused(kind: type[E], call: Awaitable[object], **fields: object) -> E:
    """The error that the call must raise: of exactly this class, with these fields (a set: one of them)."""
    try:
        answer = await call
    except Error as error:
        return matched(error, kind, fields)
    raise AssertionError(f"expected {kind.__name__}, got the answer {answer!r}")


def matched(error: Error | None, kind: type[E], fields: dict[str, object]) -> E:
    if type(error) is not kind:
        raise AssertionError(f"expected {kind.__name__}, got {error!r}") from error
    for name, wanted in fields.items():
        found = getattr(error, name)
        allowed = wanted if isinstance(wanted, (set, frozenset)) else {wanted}
        assert found in allowed, f"expected {name} {wanted!r}, got {found!r} in {error.code}: {error}"
    return error


def error_of(answers: Answers, at: int, kind: type[E], **fields: object) -> E:
    """The error of one item of a batch: of exactly this class, with these fields."""
    return matched(answers.item(at).error, kind, fields)


def accepted(outcome: Outcome) -> Outcome:
    if outcome.error is not None:
        raise outcome.error
    return outcome
