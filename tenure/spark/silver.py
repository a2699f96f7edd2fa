"""Silver: events as things. One row for every attempt that ended, one row for every job.

Attempts need no stitching: the event that ended one says when it was enqueued, ready and started. A job is put together
from its events by `job_seq`, in two steps that may be taken apart: `job_hours` says what each hour tells of each job,
`merge_jobs` makes one row of all that is told. So an hour can be told anew without reading the rest of a job's life.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tenure.core.state import STATE_NAMES
from tenure.lake.gold import HOUR_S, JOB_HOURS
from tenure.lake.schema import ATTEMPTS
from tenure.spark.gold import begin

TERMINAL: Final = ("completed", "failed", "cancelled")
FAILURE: Final = ("reason", "error_type", "message", "fingerprint")
OF_JOB: Final = ("job", "tenant", "queue", "task")  # never change in a job's life
STATES_MAX: Final = 16


def attempts(events: DataFrame) -> DataFrame:
    """One row for every attempt that is over (schema ATTEMPTS)."""
    over = events.where(sf.col("run_ms").isNotNull() & sf.col("job").isNotNull())
    renamed = {"outcome": sf.col("type"), "ended_at": sf.col("at")}
    return over.select(*(renamed.get(name, sf.col(name)).alias(name) for name in ATTEMPTS.names))


def job_hours(events: DataFrame) -> DataFrame:
    """What these events tell of each job, hour by hour (schema JOB_HOURS)."""
    kind, order = sf.col("type"), sf.col("job_seq")
    is_end = sf.col("state").isin(*TERMINAL) & kind.isin(*TERMINAL)
    told = {
        "last_seq": sf.max(order),
        "_state": sf.max(sf.when(kind != "removed", _state_at(order))),
        # A job that came with an import was enqueued before its event.
        "enqueued_at": sf.min(sf.coalesce(sf.col("enqueued_at"), sf.when(kind == "enqueued", sf.col("at")))),
        "started_at": sf.min(sf.when(kind == "started", sf.col("at"))),
        "ended_at": sf.max(sf.when(is_end, sf.col("at"))),
        "removed_at": sf.max(sf.when(kind == "removed", sf.col("at"))),
        "attempts": sf.count("run_ms"),
        "replays": sf.count_if(kind == "replayed"),
        "wait_ms": sf.sum(sf.when(kind == "started", sf.col("wait_ms"))),
        "run_ms": sf.sum("run_ms"),
        "payload_bytes": sf.max("payload_bytes"),
        "result_bytes": sf.max(sf.when(kind == "completed", sf.col("result_bytes"))),
    }
    by_hour = events.where(sf.col("job").isNotNull()).withColumn("_hour", begin(HOUR_S))
    failed = by_hour.where(kind.isin("retrying", "failed")).withColumn("failed_seq", order)
    found = by_hour.groupBy("_hour", *OF_JOB).agg(*(column.alias(name) for name, column in told.items()))
    found = _with_failure(found, failed, ("_hour", "job"))
    return found.withColumn("state", _state_name()).withColumnRenamed("_hour", "at").select(*JOB_HOURS.names)


def merge_jobs(told: DataFrame) -> DataFrame:
    """One row for every job. `ended_at` and `total_ms` are null while a job has no end, or was replayed since."""
    merged = {
        "_state": sf.max(_state_at(sf.col("last_seq"))),
        **{name: sf.min(name) for name in ("enqueued_at", "started_at")},
        **{name: sf.max(name) for name in ("ended_at", "removed_at")},
        **{name: sf.sum(name) for name in ("attempts", "replays", "wait_ms", "run_ms")},
        **{name: sf.max(name) for name in ("payload_bytes", "result_bytes")},
    }
    whole = told.groupBy(*OF_JOB).agg(*(column.alias(name) for name, column in merged.items()))
    whole = _with_failure(whole, told.where(sf.col("failed_seq").isNotNull()), ("job",))
    whole = whole.withColumn("state", _state_name())
    whole = whole.withColumn("ended_at", sf.when(sf.col("state").isin(*TERMINAL), sf.col("ended_at")))
    whole = whole.withColumn("total_ms", sf.unix_millis("ended_at") - sf.unix_millis("enqueued_at"))
    return whole.select(*(name for name in JOB_HOURS.names[1:] if not name.endswith("_seq")), "total_ms")


def jobs(events: DataFrame) -> DataFrame:
    """One row for every job of which there are events."""
    return merge_jobs(job_hours(events))


# Spark aggregates numbers in a hash table, and texts only by sorting. So the last state is found as a number, and the
# texts of failures, which few jobs have, are aggregated by themselves.


def _state_at(order: Column) -> Column:
    """The state as a number below its place in the job's life: the largest is the last. Null without a state."""
    code = sf.array_position(sf.array(*(sf.lit(name) for name in STATE_NAMES)), sf.col("state"))
    return order.cast("bigint") * STATES_MAX + sf.when(code > 0, code)


def _state_name() -> Column:
    """Without the test for null, Spark 4.3 answers the last state of all for it."""
    code = (sf.col("_state") % STATES_MAX).cast("int")
    names = sf.array(*(sf.lit(name) for name in STATE_NAMES))
    return sf.when(sf.col("_state").isNotNull(), sf.element_at(names, code))


def _with_failure(jobs: DataFrame, failed: DataFrame, keys: Sequence[str]) -> DataFrame:
    """With the fields of the last failure of each."""
    last = [sf.max_by(name, "failed_seq").alias(name) for name in FAILURE]
    return jobs.join(failed.groupBy(*keys).agg(sf.max("failed_seq").alias("failed_seq"), *last), [*keys], "left")
