"""The steps of every job: each event beside the one before it and what is known of the job by then.

This is the one place where all events of a store are moved and sorted: by job, and within the job by `job_seq`, never
by time, since events of one moment have no order by it. Everything that can be told from one job alone is then a
condition on a row; what concerns several jobs goes on from the few columns that are kept.

Names are numbers here (`tenure.spark.audit.code`) and places are hashes of 64 bits: a row in the shuffle has no text
but the limit keys of jobs that have some, and what is wrong with the row by itself.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.spark.audit.code import code_of, is_allowed, is_cause, is_state, is_told, is_type
from tenure.spark.audit.saying import wrong_durations, wrong_error
from tenure.spark.audit.setting import QUEUE, TENANT, Settings

EXHAUSTED: Final = (state.REASON_ATTEMPTS, state.REASON_LEASE, state.REASON_TIMEOUT)
GIVEN_BACK: Final = (state.RELEASE, state.SNOOZE)
COUNT_BITS: Final = 20
COUNT_MAX: Final = 2**COUNT_BITS - 1
WAITS_FOR_TIME: Final = (state.SCHEDULED, state.BLOCKED, state.RETRYING)


def with_store(events: DataFrame) -> DataFrame:
    """One history, unless a column `store`, of any type, says that there are several."""
    return events if "store" in events.columns else events.withColumn("store", fn.lit(0))


def encode(events: DataFrame, settings: Settings) -> DataFrame:
    """The events of jobs as rows of numbers. What a job was enqueued with is `asked`, in its first row alone."""
    coded = events.where(fn.col("job").isNotNull()).select(
        "*",
        code_of(fn.col("type"), event.EVENT_NAMES).alias("code"),
        fn.xxhash64("tenant").alias("tenant_hash"),
        fn.xxhash64("tenant", "queue").alias("queue_hash"),
    )
    coded = _mark_limited(coded, settings)
    group = fn.when(fn.col("group").isNotNull(), fn.xxhash64("tenant", "queue", "group"))
    unique = fn.when(fn.col("unique_hash").isNotNull(), fn.xxhash64("tenant", "queue", "unique_hash"))
    asked = fn.struct(
        fn.col("tenant_hash").alias("tenant"),
        fn.col("queue_hash").alias("queue"),
        "is_tenant_limited",
        "is_queue_limited",
        "max_attempts",
        fn.unix_millis("expires_at").alias("expires_at"),
        group.alias("group"),
        unique.alias("unique"),
        "limit_keys",
        fn.col("depends_on").isNotNull().alias("depends"),
        (fn.col("cause") == state.CAUSE_NAMES[state.IMPORT]).alias("is_imported"),
        fn.unix_millis(fn.coalesce("enqueued_at", "at")).alias("enqueued_at"),  # told by imported jobs alone
        "delivery",
    )
    return coded.select(
        "store",
        "job",
        "job_seq",
        "seq",
        fn.unix_millis("at").alias("at"),
        fn.col("code").alias("type"),
        state_of(fn.col("code")).alias("state"),
        code_of(fn.col("cause"), state.CAUSE_NAMES).alias("cause"),
        "attempt",
        "delivery",
        fn.unix_millis("run_at").alias("run_at"),
        fn.unix_millis("started_at").alias("started_at"),
        fn.unix_millis("enqueued_at").alias("enqueued_at"),
        fn.xxhash64("worker").alias("worker"),
        fn.col("reason").isin(*EXHAUSTED).alias("exhausted"),
        fn.xxhash64("tenant", "queue", "task").alias("place"),
        fn.when(fn.col("code") == event.ENQUEUED, asked).alias("asked"),
        wrong_durations(fn.col("code")).alias("wrong_durations"),
        wrong_error(fn.col("code")).alias("wrong_error"),
    )


def state_of(type: Column) -> Column:
    """The state that an event tells; `removed` tells none, which is one of its own."""
    gone = fn.when(fn.col("state").isNull(), fn.lit(state.GONE))
    return fn.when(type == event.REMOVED, gone).otherwise(code_of(fn.col("state"), state.STATE_NAMES))


def _mark_limited(coded: DataFrame, settings: Settings) -> DataFrame:
    """Whether an event is of a queue or a tenant that ever had a limit."""
    for kind, names in ((QUEUE, ("tenant", "name")), (TENANT, ("tenant",))):
        flag = f"is_{kind}_limited"
        if not settings.has(kind):
            coded = coded.withColumn(flag, fn.lit(False))
            continue
        limited = settings.frame(coded.sparkSession).where(fn.col("kind") == kind)
        limited = limited.where(fn.col("running_max").isNotNull() | fn.col("tokens").isNotNull() | fn.col("paused"))
        limited = limited.select("store", fn.xxhash64(*names).alias(f"{kind}_hash"), fn.lit(True).alias(flag))
        coded = coded.join(fn.broadcast(limited.distinct()), ["store", f"{kind}_hash"], "left")
        coded = coded.withColumn(flag, fn.col(flag).isNotNull())
    return coded


def walk(rows: DataFrame) -> DataFrame:
    """Each row with the one before it (`…_before`), and with what the rows so far say."""
    by_job = Window.partitionBy("store", "job").orderBy("job_seq", "seq")
    past = by_job.rowsBetween(Window.unboundedPreceding, -1)
    upto = by_job.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    kept = fn.col("attempt") - is_cause(*GIVEN_BACK).cast("int")
    before = {"seq": 0, "job_seq": 0, "at": 0, "state": state.NEW, "delivery": 0, "place": None}  # of a first event
    walked = rows.select(
        *[name for name in rows.columns if name not in ("asked", "run_at")],
        *[fn.lag(name, 1, none).over(by_job).alias(f"{name}_before") for name, none in before.items()],
        fn.lag(kept, 1, 0).over(by_job).alias("attempt_before"),
        fn.first("asked").over(upto).alias("first"),
        fn.last(_due_at(), True).over(past).alias("due_at"),
        fn.last(fn.when(is_type(event.STARTED), fn.struct("seq", "at", "worker")), True).over(past).alias("start"),
        fn.sum(_counts()).over(upto).alias("counts"),
    )
    is_next = fn.col("job_seq") == fn.col("job_seq_before") + 1
    is_double = fn.col("seq") == fn.col("seq_before")
    is_reused = fn.col("counts").bitwiseAND(COUNT_MAX) > 1
    return walked.select(
        "*",
        (fn.col("job_seq_before") == 0).alias("is_first"),
        is_next.alias("is_next"),
        fn.when(is_next, fn.col("state_before")).alias("before"),
        is_double.alias("is_double"),
        is_reused.alias("is_reused"),
        (~is_double & ~is_reused).alias("is_sound"),
        fn.shiftright("counts", COUNT_BITS).bitwiseAND(COUNT_MAX).alias("replays"),
        (fn.shiftright("counts", 2 * COUNT_BITS) - is_state("state", *state.TERMINAL).cast("int")).alias("ends"),
    )


def _counts() -> Column:
    """Enqueues, replays and ends in one number, to be summed at once."""
    enqueues, replays = is_type(event.ENQUEUED).cast("long"), is_type(event.REPLAYED).cast("long")
    ends = fn.coalesce(is_state("state", *state.TERMINAL), fn.lit(False)).cast("long")
    return enqueues + fn.shiftleft(replays, COUNT_BITS) + fn.shiftleft(ends, 2 * COUNT_BITS)


def is_suspect() -> Column:
    """Whether a row may break a rule of its job's path: true of every row that breaks one, and of few others.

    The rules say each thing by itself and have words for it, too much to be asked of every event. This says all of them
    in so few operations that they are compiled to machine code.
    """
    started = is_type(event.STARTED).cast("int")
    attempt = fn.when(is_type(event.REPLAYED), fn.lit(0)).otherwise(fn.col("attempt_before") + started)
    fine = (
        is_allowed(fn.col("state_before"))
        & is_told()
        & (fn.col("job_seq") == fn.col("job_seq_before") + 1)
        & (fn.col("seq") > fn.col("seq_before"))
        & (fn.col("at") >= fn.col("at_before"))
        & (fn.col("delivery") == fn.col("delivery_before") + started)
        & (fn.col("attempt") == attempt)
        & (fn.col("place") == fn.coalesce("place_before", "place"))
        & (fn.col("at") >= fn.coalesce("due_at", "at"))
        & (fn.col("counts").bitwiseAND(COUNT_MAX) <= 1)
        & fn.col("wrong_durations").isNull()
        & fn.col("wrong_error").isNull()
        & (
            fn.coalesce("enqueued_at", "first.enqueued_at", fn.lit(0))
            == fn.coalesce("first.enqueued_at", "enqueued_at", fn.lit(0))
        )
    )
    # What has to do with few rows: the end of an attempt, limits of the job that it was enqueued with.
    ran = (fn.col("state_before") == state.RUNNING) & (fn.col("state") != state.RUNNING)
    ended = ran & ~(
        fn.col("started_at").eqNullSafe(fn.col("start.at")) & fn.col("worker").eqNullSafe(fn.col("start.worker"))
    )
    most = fn.col("first.max_attempts")
    tried = (is_type(event.RETRYING) & (fn.col("attempt") >= most)) | (fn.col("attempt") > most) | fn.col("exhausted")
    return ~fn.coalesce(fine, fn.lit(False)) | fn.coalesce(
        ended | tried | (fn.col("at") >= fn.col("first.expires_at")), fn.lit(False)
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
    ran = fn.coalesce(is_state("state_before", state.RUNNING), fn.lit(False)) & fn.col("start").isNotNull()
    return ran & (fn.col("state") != state.RUNNING)
