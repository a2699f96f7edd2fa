"""Whether the history of each job is a path in the table of transitions, told without a gap.

A step that the table does not have is one finding, under the most telling name: a second lease, a start after a cancel,
a second end, or any other step off the path.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.check import Check, Rule, text
from tenure.spark.audit.code import (
    STATE_TEXTS,
    is_allowed,
    is_state,
    is_told,
    is_type,
    name_of,
)

STATE_TOLD: Final = Check("I1", "state_told", "Every event of a job tells one state, the one its type stands for.")
ENDED_ONCE: Final = Check("I2", "ended_once", "A job that has ended stays as it is, unless it is replayed or removed.")
ONE_LEASE: Final = Check("I3", "one_lease", "A job that is running is not leased again.")
CANCEL_WINS: Final = Check("I6", "cancel_wins", "A job that was cancelled does not start.")
GONE: Final = Check("I14", "gone_stays_gone", "Nothing is told of a job after it was removed.")
ON_THE_PATH: Final = Check("I12", "on_the_path", "Every step of a job is one that the table of transitions allows.")
JOB_SEQ_DENSE: Final = Check("I12", "job_seq_dense", "The events of a job are numbered 1, 2, 3 and so on.")
SEQ_RISES: Final = Check("I12", "seq_rises", "What happened later to a job has the greater seq.")
TIME_RISES: Final = Check("I12", "time_rises", "Time never falls from one event of a job to the next.")
BEGINS: Final = Check("I14", "begins_enqueued", "No job appears but by an event that says that it was enqueued.")
ONE_ID: Final = Check("I18", "one_id", "No id is given to a second job.")
DELIVERIES: Final = Check(
    "I18", "deliveries", "Every lease of a job has the next delivery number, and nothing else changes it."
)
ONE_PLACE: Final = Check("I15", "one_place", "A job stays with its tenant, queue and task.")


def _is_off() -> Column:
    """Not in the table; only where the event before it is known, and both tell a state."""
    told = fn.col("before").isNotNull() & fn.col("state").isNotNull() & fn.col("cause").isNotNull()
    return told & ~is_allowed(fn.col("before")) & ~_was_gone()


def _was_gone() -> Column:
    return fn.coalesce(is_state("state_before", state.GONE), fn.lit(False))


def _leased_twice() -> Column:
    return is_type(event.STARTED) & is_state("before", state.RUNNING)


def _after_cancel() -> Column:
    return is_type(event.STARTED) & is_state("before", state.CANCELLED)


def _step() -> Column:
    return text(
        name_of(fn.col("type"), event.EVENT_NAMES),
        " by ",
        name_of(fn.col("cause"), state.CAUSE_NAMES),
        " led from ",
        name_of(fn.col("before"), STATE_TEXTS),
        " to ",
        name_of(fn.col("state"), STATE_TEXTS),
    )


RULES: Final = (
    Rule(
        STATE_TOLD,
        lambda: ~fn.coalesce(is_told(), fn.lit(False)),
        lambda: text(
            name_of(fn.col("type"), event.EVENT_NAMES), " tells the state ", name_of(fn.col("state"), STATE_TEXTS)
        ),
    ),
    Rule(
        ONE_LEASE,
        lambda: _is_off() & _leased_twice(),
        lambda: text("it was leased at seq ", fn.col("start.seq"), " and is leased again"),
    ),
    Rule(CANCEL_WINS, lambda: _is_off() & _after_cancel(), lambda: fn.lit("it was cancelled and starts")),
    Rule(ENDED_ONCE, lambda: _is_off() & is_state("before", *state.TERMINAL) & ~_after_cancel(), _step),
    Rule(
        GONE,
        _was_gone,
        lambda: text("it was removed at seq ", fn.col("seq_before"), ", and this tells of it"),
    ),
    Rule(
        ON_THE_PATH,
        lambda: _is_off() & ~is_state("before", *state.TERMINAL) & ~_leased_twice(),
        _step,
    ),
    Rule(
        JOB_SEQ_DENSE,
        lambda: ~fn.col("is_first") & ~fn.col("is_next"),
        lambda: text("event ", fn.col("job_seq"), " of the job follows event ", fn.col("job_seq_before")),
    ),
    Rule(
        SEQ_RISES,
        lambda: (fn.col("seq") < fn.col("seq_before")) & fn.col("is_next"),
        lambda: text("seq ", fn.col("seq"), " follows seq ", fn.col("seq_before")),
    ),
    Rule(
        TIME_RISES,
        lambda: (fn.col("at") < fn.col("at_before")) & fn.col("is_next"),
        lambda: text("it is ", fn.col("at_before") - fn.col("at"), " ms earlier than the event before it"),
    ),
    Rule(
        BEGINS,
        lambda: fn.col("is_whole") & fn.col("is_first") & (fn.col("job_seq") != 1),
        lambda: text(
            "the first event of the job is ", fn.col("job_seq"), ", ", name_of(fn.col("type"), event.EVENT_NAMES)
        ),
    ),
    Rule(
        DELIVERIES,
        lambda: (
            fn.col("is_next")
            & ~fn.col("is_first")
            & (fn.col("delivery") != fn.col("delivery_before") + is_type(event.STARTED).cast("int"))
        ),
        lambda: text("delivery ", fn.col("delivery"), " comes after delivery ", fn.col("delivery_before")),
    ),
    Rule(
        ONE_PLACE,
        lambda: fn.coalesce(fn.col("place") != fn.col("place_before"), fn.lit(False)),
        lambda: fn.lit("the event before it names another tenant, queue or task"),
    ),
)

# The one check of rows that stand beside the history of another job with the same id.
REUSED: Final = Rule(
    ONE_ID,
    lambda: fn.col("is_reused") & is_type(event.ENQUEUED) & ~fn.col("is_double"),
    lambda: text("it was enqueued at seq ", fn.col("seq_before"), " and again"),
)
