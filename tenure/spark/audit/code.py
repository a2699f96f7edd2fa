"""Names as small numbers, made from the tables of the core, so that no query carries texts or a table of its own.

The one table of transitions is `tenure.core.state.TRANSITIONS`. Here it becomes a set of numbers, one for every step
that it allows, and a step of a job becomes a number of the same kind.
"""

from itertools import product
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from tenure.core import event, state

_CAUSES: Final = len(state.CAUSE_NAMES)
_STATES: Final = state.GONE + 1
_TYPES: Final = len(event.EVENT_NAMES)

STATE_TEXTS: Final = (*state.STATE_NAMES, "new", "gone")


def code_of(column: Column, names: tuple[str, ...]) -> Column:
    """The place of a name in its table; null when there is none, or none that this version knows."""
    listed = fn.array(*[fn.lit(name) for name in names])
    return (fn.nullif(fn.array_position(listed, column), fn.lit(0)) - 1).cast("int")


def name_of(code: Column, names: tuple[str, ...]) -> Column:
    return fn.coalesce(fn.get(fn.array(*[fn.lit(name) for name in names]), code), fn.lit("nothing"))


def is_type(*types: int) -> Column:
    return fn.col("type").isin(*types)


def is_cause(*causes: int) -> Column:
    return fn.col("cause").isin(*causes)


def is_state(name: str, *states: int) -> Column:
    return fn.col(name).isin(*states)


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


def tells(type: int, cause: int, after: int) -> bool:
    """Whether an event of this type can tell of this state, reached by this cause."""
    if (after == state.GONE) != (type == event.REMOVED) or (cause == state.CLAIM) != (type == event.STARTED):
        return False
    return STATE_OF_TYPE.get(type, after) == after


def is_allowed(before: Column) -> Column:
    """Whether the table has the step from the state before by the row's cause to its state."""
    every = product(range(_STATES), range(_CAUSES), range(_STATES))
    place = (before * _CAUSES + fn.col("cause")) * _STATES + fn.col("state")
    return _look_up([state.allows(cause, before, after) for before, cause, after in every], place)


def is_told() -> Column:
    """Whether the row's type, cause and state go together."""
    every = product(range(_TYPES), range(_CAUSES), range(_STATES))
    place = (fn.col("type") * _CAUSES + fn.col("cause")) * _STATES + fn.col("state")
    return _look_up([type <= event.REMOVED and tells(type, cause, after) for type, cause, after in every], place)


def _look_up(answers: list[bool], place: Column) -> Column:
    """From a list, not by `isin`: that becomes a switch of hundreds of cases, which no virtual machine compiles."""
    listed = fn.split(fn.lit(",".join(str(answer).lower() for answer in answers)), ",").cast("array<boolean>")
    return fn.get(listed, place)
