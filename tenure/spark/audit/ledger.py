"""Nothing lost, nothing from nowhere: the events against what was answered, and against the jobs that the store has.

A ledger is a table of the ids that were answered as accepted (`job`). The jobs are the store's table `jobs`, read when
nothing happens any more: every job that the events leave there must be there, in the state in which they leave it.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.check import Check, Family, told
from tenure.spark.audit.code import STATE_TEXTS, is_type, name_of
from tenure.spark.audit.history import History

ACCEPTED: Final = Check("I14", "accepted_is_there", "Every job that was answered as accepted was enqueued.")
NOT_LOST: Final = Check("I14", "not_lost", "Every job is in the store until an event says that it was removed.")
FROM_SOMEWHERE: Final = Check("I14", "from_somewhere", "Every job in the store was enqueued.")
ALL_ENDED: Final = Check(
    "I14", "all_ended", "Where all was worked off, every job has ended or was removed: none is left behind."
)
SAME_STATE: Final = Check("I1", "same_state", "A job is in the state that its last event tells.")


def find_accepted(history: History) -> DataFrame:
    """Only in a history that has its beginning: without it, an old job has no events left."""
    assert history.ledger is not None
    born = history.rows.where(is_type(event.ENQUEUED)).select("store", "job")
    accepted = history.ledger.select("store", "job").distinct().where(history.is_whole())
    missing = accepted.join(born, ["store", "job"], "left_anti")
    finding = told(ACCEPTED, fn.lit(True), "it was answered as accepted, and no event tells of it")
    nowhere = [fn.lit(None).cast("long").alias(name) for name in ("job_seq", "seq")]
    return missing.select("store", "job", *nowhere, fn.array(finding).alias("findings"))


def find_left(history: History) -> DataFrame:
    last = _last(history).where(fn.col("state").isin(*state.LIVE))
    finding = told(ALL_ENDED, fn.lit(True), "it is ", name_of(fn.col("state"), STATE_TEXTS), " by its last event")
    return last.withColumn("findings", fn.array(finding))


def _last(history: History) -> DataFrame:
    """What the last event of each job says."""
    last = history.rows.groupBy("store", "job").agg(fn.max(fn.struct("job_seq", "seq", "state")).alias("last"))
    return last.select("store", "job", "last.*")


def find_in_store(history: History) -> DataFrame:
    assert history.jobs is not None
    there = history.jobs.select("store", fn.col("id").alias("job"), fn.col("state").alias("shown"))
    both = _last(history).join(there, ["store", "job"], "full")
    shown, left = fn.col("shown"), name_of(fn.col("state"), STATE_TEXTS)
    is_lost = shown.isNull() & (fn.col("state") != state.GONE)
    is_stray = fn.col("state").isNull() & history.is_whole()
    findings = (
        told(NOT_LOST, is_lost, "it is ", left, " by its last event, and the store does not have it"),
        told(FROM_SOMEWHERE, is_stray, "the store has it, ", shown, ", and no event tells of it"),
        told(
            SAME_STATE,
            fn.col("state").isNotNull() & (shown != left),
            "the store has it ",
            shown,
            ", its last event says ",
            left,
        ),
    )
    return both.withColumn("findings", fn.array(*findings))


LEFT: Final = Family((ALL_ENDED,), find_left)
LEDGER: Final = Family((ACCEPTED,), find_accepted)
STORE: Final = Family((NOT_LOST, FROM_SOMEWHERE, SAME_STATE), find_in_store)
