"""Whether jobs kept to their times: not before `run_at`, not after `expires_at`."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.check import Check, Rule, text
from tenure.spark.audit.code import is_cause, is_type

NOT_EARLY: Final = Check(
    "I11", "not_before_run_at", "No job becomes ready or starts before its run_at, unless promoted."
)
NOT_LATE: Final = Check("I11", "not_after_expiry", "No job starts when its expires_at has been reached.")


def _is_early() -> Column:
    return (is_type(event.STARTED) | is_cause(state.DUE)) & (fn.col("at") < fn.col("due_at"))


def _is_late() -> Column:
    return is_type(event.STARTED) & (fn.col("replays") == 0) & (fn.col("at") >= fn.col("first.expires_at"))


RULES: Final = (
    Rule(
        NOT_EARLY,
        lambda: fn.coalesce(_is_early(), fn.lit(False)),
        lambda: text(fn.col("due_at") - fn.col("at"), " ms before its run_at"),
    ),
    Rule(
        NOT_LATE,
        lambda: fn.coalesce(_is_late(), fn.lit(False)),
        lambda: text(fn.col("at") - fn.col("first.expires_at"), " ms after its expires_at"),
    ),
)
