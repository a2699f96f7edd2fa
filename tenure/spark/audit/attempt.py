"""Attempts: who ended them, how they are counted, and how many there may be."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.check import Check, Rule, text
from tenure.spark.audit.code import is_state, is_type
from tenure.spark.audit.step import leaves

HOLDER: Final = Check(
    "I4", "ended_by_holder", "What ends an attempt is of the worker and the start that has the lease."
)
WITHIN_MAX: Final = Check("I5", "within_max_attempts", "No attempt is above max_attempts.")
COUNTED: Final = Check(
    "I5", "attempts_counted", "Every lease is the next attempt; release and snooze give theirs back."
)
EXACTLY_N: Final = Check(
    "I5", "exactly_n_runs", "A job is given up for its attempts when it has had all of them, not before or after."
)


def _most() -> Column:
    return fn.col("first.max_attempts")


def _is_asked() -> Column:
    """The history of the job has its beginning, so what it was asked for is known."""
    return fn.col("first").isNotNull()


def _expected() -> Column:
    return (
        fn.when(is_type(event.STARTED), fn.col("attempt_before") + 1)
        .when(is_type(event.REPLAYED), fn.lit(0))
        .otherwise(fn.col("attempt_before"))
    )


def _tried_too_often() -> Column:
    return is_type(event.RETRYING) & (fn.col("attempt") >= _most())


def _given_up_early() -> Column:
    exhausted = (
        is_type(event.FAILED) & fn.coalesce(fn.col("exhausted"), fn.lit(False)) & is_state("before", state.RUNNING)
    )
    return exhausted & (_most().isNull() | (fn.col("attempt") < _most()))


RULES: Final = (
    Rule(
        HOLDER,
        lambda: (
            fn.col("is_next")
            & leaves()
            & ((fn.col("worker") != fn.col("start.worker")) | ~fn.col("started_at").eqNullSafe(fn.col("start.at")))
        ),
        lambda: text("it does not tell of the attempt that was started at seq ", fn.col("start.seq")),
    ),
    Rule(
        WITHIN_MAX,
        lambda: _is_asked() & is_type(event.STARTED) & fn.coalesce(fn.col("attempt") > _most(), fn.lit(False)),
        lambda: text("attempt ", fn.col("attempt"), " of ", _most()),
    ),
    Rule(
        COUNTED,
        lambda: fn.col("is_next") & ~fn.col("is_first") & (fn.col("attempt") != _expected()),
        lambda: text("it tells attempt ", fn.col("attempt"), " where ", _expected(), " was due"),
    ),
    Rule(
        EXACTLY_N,
        lambda: _is_asked() & fn.coalesce(_tried_too_often() | _given_up_early(), fn.lit(False)),
        lambda: text("after attempt ", fn.col("attempt"), " of ", _most()),
    ),
)
