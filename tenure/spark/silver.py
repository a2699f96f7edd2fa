"""Silver: events as things. One row for every attempt that ended, one row for every job.

Attempts need no stitching: the event that ended one says when it was enqueued, ready and started. A job is put together
from its events by `job_seq`, in two steps that may be taken apart: `job_hours` says what some events tell of each job,
`merge_jobs` makes one row of all that is told. So an hour can be told anew without reading the rest of a job's life.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from tenure.lake.gold import HOUR_S, JOB_HOURS
from tenure.lake.schema import ATTEMPTS
from tenure.spark.gold import begin

TERMINAL: Final = ("completed", "failed", "cancelled")
FAILURE: Final = ("reason", "error_type", "message", "fingerprint")
KEY: Final = ("tenant", "queue", "task")


def attempts(events: DataFrame) -> DataFrame:
    """One row for every attempt that is over (schema ATTEMPTS)."""
    over = events.where(sf.col("run_ms").isNotNull() & sf.col("job").isNotNull())
    renamed = {"outcome": sf.col("type"), "ended_at": sf.col("at")}
    return over.select(*(renamed.get(name, sf.col(name)).alias(name) for name in ATTEMPTS.names))


def job_hours(events: DataFrame) -> DataFrame:
    """What these events tell of each job, hour by hour (schema JOB_HOURS)."""
    kind, order = sf.col("type"), sf.col("job_seq")
    is_state = sf.col("state").isNotNull() & (kind != "removed")
    is_end = sf.col("state").isin(*TERMINAL) & kind.isin(*TERMINAL)
    is_failure = kind.isin("retrying", "failed")
    told = {
        **{name: sf.max(name) for name in KEY},
        "last_seq": sf.max(order),
        "state": _last("state", is_state, order),
        # A job that came with an import was enqueued before its event.
        "enqueued_at": sf.min(sf.coalesce(sf.col("enqueued_at"), sf.when(kind == "enqueued", sf.col("at")))),
        "started_at": sf.min(sf.when(kind == "started", sf.col("at"))),
        "ended_seq": sf.max(sf.when(is_end, order)),
        "ended_at": _last("at", is_end, order),
        "removed_at": sf.max(sf.when(kind == "removed", sf.col("at"))),
        "attempts": sf.count("run_ms"),
        "replays": sf.count_if(kind == "replayed"),
        "wait_ms": sf.sum(sf.when(kind == "started", sf.col("wait_ms"))),
        "run_ms": sf.sum("run_ms"),
        "payload_bytes": sf.max("payload_bytes"),
        "result_bytes": sf.max(sf.when(kind == "completed", sf.col("result_bytes"))),
        "failed_seq": sf.max(sf.when(is_failure, order)),
        **{name: _last(name, is_failure, order) for name in FAILURE},
    }
    of_jobs = events.where(sf.col("job").isNotNull())
    grouped = of_jobs.groupBy(begin(HOUR_S).alias("_hour"), "job")
    found = grouped.agg(*(told[name].alias(name) for name in JOB_HOURS.names[2:]))
    return found.withColumnRenamed("_hour", "at").select(*JOB_HOURS.names)


def merge_jobs(told: DataFrame) -> DataFrame:
    """One row for every job. Columns of the end are null while a job has none, or was replayed since."""
    last, ended, failed = sf.col("last_seq"), sf.col("ended_seq"), sf.col("failed_seq")
    merged = {
        **{name: sf.max(name) for name in KEY},
        "last_seq": sf.max(last),
        "state": _last("state", sf.col("state").isNotNull(), last),
        "enqueued_at": sf.min("enqueued_at"),
        "started_at": sf.min("started_at"),
        "ended_seq": sf.max(ended),
        "ended_at": _last("ended_at", ended.isNotNull(), ended),
        "removed_at": sf.max("removed_at"),
        **{name: sf.sum(name) for name in ("attempts", "replays", "wait_ms", "run_ms")},
        **{name: sf.max(name) for name in ("payload_bytes", "result_bytes")},
        "failed_seq": sf.max(failed),
        **{name: _last(name, failed.isNotNull(), failed) for name in FAILURE},
    }
    whole = told.groupBy("job").agg(*(merged[name].alias(name) for name in JOB_HOURS.names[2:]))
    has_ended = sf.col("state").isin(*TERMINAL)
    ended_at = sf.when(has_ended, sf.col("ended_at"))
    whole = whole.withColumn("ended_at", ended_at).drop("last_seq", "ended_seq", "failed_seq")
    return whole.withColumn("total_ms", sf.unix_millis("ended_at") - sf.unix_millis("enqueued_at"))


def jobs(events: DataFrame) -> DataFrame:
    """One row for every job of which there are events."""
    return merge_jobs(job_hours(events))


def _last(name: str, where: Column, order: Column) -> Column:
    """The value of the row with the highest order, of those where it holds."""
    return sf.max_by(sf.col(name), sf.when(where, order))
