"""The steps of every job: each event beside the one before it and what is known of the job by then.

This is the one place where all events of a store are moved and sorted: by job, and within the job by `job_seq`, never
by time, since events of one moment have no order by it. Everything that can be told from one job alone is then a
condition on a row; what concerns several jobs goes on from the few columns that are kept.

Names are numbers here (`tenure.spark.audit.code`) and places are hashes of 64 bits: a row in the shuffle has no text
but the limit keys of jobs that have some.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.code import code_of, is_cause, is_state, is_type

EXHAUSTED: Final = (state.REASON_ATTEMPTS, state.REASON_LEASE, state.REASON_TIMEOUT)
GIVEN_BACK: Final = (state.RELEASE, state.SNOOZE)
WAITS_FOR_TIME: Final = (state.SCHEDULED, state.BLOCKED, state.RETRYING)


def with_store(events: DataFrame) -> DataFrame:
    """One history, unless a column `store` says that there are several."""
    return events if "store" in events.columns else events.withColumn("store", fn.lit(0))


def encode(events: DataFrame) -> DataFrame:
    """The events of jobs as rows of numbers."""
    group = fn.when(fn.col("group").isNotNull(), fn.xxhash64("tenant", "queue", "group"))
    unique = fn.when(fn.col("unique_hash").isNotNull(), fn.xxhash64("tenant", "queue", "unique_hash"))
    coded = with_store(events).where(fn.col("job").isNotNull())
    coded = coded.withColumn("code", code_of(fn.col("type"), event.EVENT_NAMES))
    asked = fn.struct(
        "max_attempts",
        fn.unix_millis("expires_at").alias("expires_at"),
        group.alias("group"),
        unique.alias("unique"),
        "limit_keys",
        fn.col("depends_on").isNotNull().alias("depends"),
        "cause",
        "delivery",
    )
    state_code = fn.when(fn.col("code") == event.REMOVED, fn.when(fn.col("state").isNull(), fn.lit(state.GONE)))
    return coded.select(
        "store",
        "job",
        "job_seq",
        "seq",
        fn.unix_millis("at").alias("at"),
        fn.col("code").alias("type"),
        state_code.otherwise(code_of(fn.col("state"), state.STATE_NAMES)).alias("state"),
        code_of(fn.col("cause"), state.CAUSE_NAMES).alias("cause"),
        "attempt",
        "delivery",
        fn.unix_millis("run_at").alias("run_at"),
        fn.unix_millis("started_at").alias("started_at"),
        fn.xxhash64("worker").alias("worker"),
        fn.col("reason").isin(*EXHAUSTED).alias("exhausted"),
        fn.xxhash64("tenant").alias("tenant"),
        fn.xxhash64("tenant", "queue").alias("queue"),
        fn.xxhash64("tenant", "queue", "task").alias("place"),
        fn.when(fn.col("code") == event.ENQUEUED, asked).alias("asked"),
    )


def walk(rows: DataFrame) -> DataFrame:
    """Each row with the one before it (`…_before`), and with what the rows so far say."""
    by_job = Window.partitionBy("store", "job").orderBy("job_seq", "seq")
    past = by_job.rowsBetween(Window.unboundedPreceding, -1)
    upto = by_job.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    kept = fn.col("attempt") - is_cause(*GIVEN_BACK).cast("int")
    started = is_type(event.STARTED)
    enqueued_seq = fn.when(is_type(event.ENQUEUED), fn.col("seq"))
    walked = rows.select(
        "*",
        *[fn.lag(name).over(by_job).alias(f"{name}_before") for name in ("seq", "job_seq", "state", "at", "place")],
        fn.lag("delivery").over(by_job).alias("delivery_before"),
        fn.lag(kept).over(by_job).alias("attempt_before"),
        fn.first("asked").over(upto).alias("first"),
        fn.last(_due_at(), True).over(past).alias("due_at"),
        *[
            fn.last(fn.when(started, fn.col(name)), True).over(past).alias(f"start_{name}")
            for name in ("seq", "at", "worker")
        ],
        fn.max(enqueued_seq).over(upto).alias("born_last"),
        fn.min(enqueued_seq).over(upto).alias("born_first"),
        fn.sum(is_type(event.REPLAYED).cast("int")).over(upto).alias("replays"),
        fn.sum(is_state("state", *state.TERMINAL).cast("int")).over(past).alias("ends"),
    )
    is_first = fn.col("job_seq_before").isNull()
    is_next = fn.col("job_seq") == fn.col("job_seq_before") + 1
    before = fn.when(is_first & (fn.col("job_seq") == 1), fn.lit(state.NEW)).when(is_next, fn.col("state_before"))
    is_double = fn.coalesce(fn.col("seq") == fn.col("seq_before"), fn.lit(False))
    is_reused = fn.coalesce(fn.col("born_last") != fn.col("born_first"), fn.lit(False))
    return walked.select(
        "*",
        is_first.alias("is_first"),
        fn.coalesce(is_next, fn.lit(False)).alias("is_next"),
        before.alias("before"),
        is_double.alias("is_double"),
        is_reused.alias("is_reused"),
        (~is_double & ~is_reused).alias("is_sound"),
    )


def _due_at() -> Column:
    """What a row says of when the job may start; a promotion and a lease end what was said before."""
    waits = is_state("state", *WAITS_FOR_TIME) & fn.col("run_at").isNotNull()
    return fn.when(is_cause(state.PROMOTE, state.CLAIM), fn.lit(0)).when(waits, fn.col("run_at"))


def starts() -> Column:
    """The job begins to run. A second start of a running one is another check's finding, and takes no slot here."""
    return is_type(event.STARTED) & ~fn.coalesce(is_state("state_before", state.RUNNING), fn.lit(False))


def leaves() -> Column:
    """The job stops running, and its start was seen."""
    ran = fn.coalesce(is_state("state_before", state.RUNNING), fn.lit(False)) & fn.col("start_seq").isNotNull()
    return ran & (fn.col("state") != state.RUNNING)
