"""Names as small numbers, made from the tables of the core, so that no query carries texts or a table of its own.

The one table of transitions is `tenure.core.state.TRANSITIONS`. Here it becomes a set of numbers, one for every step
that it allows, and a step of a job becomes a number of the same kind.
"""

from itertools import product
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from tenure.core import event, state

UNKNOWN: Final = -1  # a name that this version does not know
_CAUSES: Final = len(state.CAUSE_NAMES)
_STATES: Final = state.GONE + 1

STATE_TEXTS: Final = (*state.STATE_NAMES, "new", "gone")


def code_of(column: Column, names: tuple[str, ...]) -> Column:
    """The place of a name in its table; null for null, -1 for a name that is not there."""
    listed = fn.array(*[fn.lit(name) for name in names])
    return (fn.array_position(listed, column) - 1).cast("int")


def name_of(code: Column, names: tuple[str, ...]) -> Column:
    return fn.coalesce(fn.get(fn.array(*[fn.lit(name) for name in names]), code), fn.lit("nothing"))


def is_type(*types: int) -> Column:
    return fn.col("type").isin(*types)


def is_cause(*causes: int) -> Column:
    return fn.col("cause").isin(*causes)


def is_state(name: str, *states: int) -> Column:
    return fn.col(name).isin(*states)


def _number(before: int, cause: int, after: int) -> int:
    return (before * _CAUSES + cause) * _STATES + after


def allowed_steps() -> list[int]:
    """Every step that the table of transitions allows."""
    every = product(range(_STATES), range(_CAUSES), range(_STATES))
    return [_number(before, cause, after) for before, cause, after in every if state.allows(cause, before, after)]


def is_allowed(before: Column, cause: Column, after: Column) -> Column:
    return ((before * _CAUSES + cause) * _STATES + after).isin(allowed_steps())


# The types whose state is their own name or can be no other.
STATE_OF_TYPE: Final = {
    event.STARTED: state.RUNNING,
    event.PROGRESS: state.RUNNING,
    event.READY: state.READY,
    event.COMPLETED: state.COMPLETED,
    event.FAILED: state.FAILED,
    event.CANCELLED: state.CANCELLED,
    event.REMOVED: state.GONE,
}
