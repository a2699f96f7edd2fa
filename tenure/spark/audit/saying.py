"""What the events of an attempt say of it: how long it waited and ran, when its job was enqueued, why it failed.

The times of events never fall, and durations are differences of them, so they agree to the millisecond, also where the
clock of the wall was set.
"""

from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.check import Check, Rule, text

DURATIONS: Final = Check(
    "I12", "durations_told", "Waits and runs are as long as the times beside them say, and never negative."
)
ENQUEUED_AT: Final = Check(
    "I12", "enqueued_at_kept", "Every event that tells when its job was enqueued tells the same."
)
ERROR: Final = Check(
    "I12", "error_told", "A failed attempt tells its error with its fingerprint, and a dead letter its reason."
)

ENDS: Final = (event.COMPLETED, event.RETRYING, event.FAILED, event.CANCELLED, event.RELEASED)
# Other causes have no error: a job that expired, was discarded, waited for one that failed, or was released too often.
CAUSES_WITH_ERROR: Final = (state.FAIL, state.EXPIRE_LEASE, state.TIME_OUT, state.REFUSE)
# As in `core.fingerprint`; only messages in ASCII are compared, of which Java and Python think alike.
MASK: Final = (
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"""|"[^"]*"|(?<!\w)'[^']*'(?!\w)|0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)*"""
)
WHOLE_BYTES: Final = event.MESSAGE_BYTES_MAX - 4  # a message that is shorter was not cut off


def wrong_durations(type: Column) -> Column:
    """How the durations in a row of the table `events` differ from its times; null where they do not."""
    at, started_at, ready_at = (fn.unix_millis(name) for name in ("at", "started_at", "ready_at"))
    told = fn.col("started_at").isNotNull()
    wait = _wrong("wait_ms", started_at - ready_at, told & type.isin(event.STARTED, *ENDS))
    return fn.coalesce(wait, _wrong("run_ms", at - started_at, told & type.isin(*ENDS)))


def _wrong(name: str, due: Column, told: Column) -> Column:
    said = fn.col(name)
    broken = told & ~fn.coalesce((said == due) & (said >= 0), fn.lit(False))
    return fn.when(broken, text(f"{name} is ", said, ", and the times beside it are ", due, " ms apart"))


def wrong_error(type: Column) -> Column:
    """What a row of the table `events` lacks of its error; null where nothing is lacking."""
    failed = type == event.FAILED
    causes = [state.CAUSE_NAMES[cause] for cause in CAUSES_WITH_ERROR]
    has_error = type.isin(event.RETRYING, event.FAILED) & fn.col("cause").isin(*causes)
    findings = (
        fn.when(failed & fn.col("reason").isNull(), fn.lit("it tells no reason")),
        fn.when(has_error & fn.col("fingerprint").isNull(), fn.lit("it tells no fingerprint of an error")),
        fn.when(
            has_error & _is_comparable() & (fn.col("fingerprint") != _fingerprint()),
            text(
                "its fingerprint is not that of its error type (",
                fn.col("error_type"),
                ") and message (",
                fn.col("message"),
                ")",
            ),
        ),
    )
    return reduce(lambda one, other: fn.coalesce(one, other), findings)


def _is_comparable() -> Column:
    message = fn.coalesce("message", fn.lit(""))
    return (fn.octet_length(message) < WHOLE_BYTES) & (fn.octet_length(message) == fn.char_length(message))


def _fingerprint() -> Column:
    masked = fn.regexp_replace(fn.coalesce("message", fn.lit("")), MASK, "?")
    said = fn.concat(fn.coalesce("error_type", fn.lit("")), fn.lit("\n"), masked)
    return fn.substring(fn.sha2(said.cast("binary"), 256), 1, 16)


def _is_moved() -> Column:
    return fn.coalesce(fn.col("enqueued_at") != fn.col("first.enqueued_at"), fn.lit(False))


RULES: Final = (
    Rule(DURATIONS, lambda: fn.col("wrong_durations").isNotNull(), lambda: fn.col("wrong_durations")),
    Rule(ERROR, lambda: fn.col("wrong_error").isNotNull(), lambda: fn.col("wrong_error")),
    Rule(
        ENQUEUED_AT,
        _is_moved,
        lambda: text(
            "it tells an enqueue ", fn.col("enqueued_at") - fn.col("first.enqueued_at"), " ms after that of the job"
        ),
    ),
)
