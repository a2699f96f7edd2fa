"""Dependencies: no job starts before those it waits for, and none waits for what is not its tenant's.

Events do not tell the policy. Unless the store's jobs are given, which do, a start is held to what every policy asks
for at least: all dependencies have ended, or one has completed.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from tenure.core import event, state
from tenure.core.dependency import POLICY_NAMES
from tenure.spark.audit.check import Check, Family, text, told
from tenure.spark.audit.code import code_of, is_state, is_type
from tenure.spark.audit.history import History
from tenure.spark.audit.step import state_of

AFTER_NEEDS: Final = Check("I11", "not_before_dependencies", "No job starts before its dependencies let it.")
SAME_TENANT: Final = Check("I15", "dependency_of_tenant", "A job depends only on jobs of its own tenant.")
NEED_KNOWN: Final = Check("I14", "dependency_known", "What a job depends on was enqueued before it.")

ALL_SUCCESS, ALL_DONE, ANY_SUCCESS = POLICY_NAMES


def find(history: History) -> DataFrame:
    needs = _needs(history)
    pairs = needs.join(_facts(history, needs), ["store", "need"], "left").join(
        _starts(history), ["store", "job"], "left"
    )
    is_old = fn.col("born").isNull()  # it ended, or not, before the first event of this history
    ended = is_old | fn.coalesce(fn.col("ended") < fn.col("start.seq"), fn.lit(False))
    completed = is_old | fn.coalesce(fn.col("completed") < fn.col("start.seq"), fn.lit(False))
    late = history.is_whole() & (is_old | (fn.col("born") > fn.col("seq")))
    judged = pairs.groupBy("store", "job", "job_seq", "seq", "start").agg(
        fn.bool_and(ended).alias("all_ended"),
        fn.bool_and(completed).alias("all_completed"),
        fn.bool_or(completed).alias("any_completed"),
        fn.min(fn.when(~ended, fn.col("need"))).alias("open"),
        fn.min(fn.when(late, fn.col("need"))).alias("late"),
        fn.min(fn.when(fn.col("need_tenant") != fn.col("tenant"), fn.col("need"))).alias("foreign"),
    )
    judged = _with_policy(history, judged)
    early = fn.col("start").isNotNull() & ~_may_start()
    unmet = fn.when(fn.col("open").isNotNull(), text("job ", fn.col("open"), " had not ended")).otherwise(
        text("a dependency had not completed (", fn.col("policy"), ")")
    )
    findings = (
        told(AFTER_NEEDS, early, unmet),
        told(NEED_KNOWN, fn.col("late").isNotNull(), "it depends on job ", fn.col("late"), ", which was not there"),
        told(SAME_TENANT, fn.col("foreign").isNotNull(), "it depends on job ", fn.col("foreign"), " of another tenant"),
    )
    # A start that came too early is told where it stands, the others where the job was enqueued.
    at = [fn.when(early, fn.col(f"start.{name}")).otherwise(fn.col(name)).alias(name) for name in ("job_seq", "seq")]
    return judged.select("store", "job", *at, fn.array(*findings).alias("findings"))


def _starts(history: History) -> DataFrame:
    first = history.steps.where(fn.col("is_sound") & fn.col("is_start") & fn.col("first.depends"))
    return first.groupBy("store", "job").agg(fn.min(fn.struct("seq", "job_seq")).alias("start"))


def _needs(history: History) -> DataFrame:
    """A row for every job and dependency. What was imported waiting for nothing had its dependencies elsewhere."""
    asked = history.events.where(
        (fn.col("type") == event.EVENT_NAMES[event.ENQUEUED]) & fn.col("depends_on").isNotNull()
    )
    waits = (fn.col("cause") != state.CAUSE_NAMES[state.IMPORT]) | (fn.col("state") == state.STATE_NAMES[state.BLOCKED])
    return asked.where(waits).select(
        "store",
        "job",
        "job_seq",
        "seq",
        fn.xxhash64("tenant").alias("tenant"),
        fn.explode("depends_on").alias("need"),
    )


def _facts(history: History, needs: DataFrame) -> DataFrame:
    """Of the jobs that others depend on: when they were enqueued, first ended, first completed."""
    over = is_state("state", *state.TERMINAL, state.GONE)
    needed = needs.select("store", fn.col("need").alias("job")).distinct()
    type = code_of(fn.col("type"), event.EVENT_NAMES)
    told = (type.alias("type"), state_of(type).alias("state"), fn.xxhash64("tenant").alias("tenant"))
    return (
        history.events.where(fn.col("job").isNotNull())
        .select("store", "job", "seq", *told)
        .join(needed, ["store", "job"], "left_semi")
        .groupBy("store", fn.col("job").alias("need"))
        .agg(
            fn.min(fn.when(is_type(event.ENQUEUED), fn.col("seq"))).alias("born"),
            fn.min(fn.when(over, fn.col("seq"))).alias("ended"),
            fn.min(fn.when(is_state("state", state.COMPLETED), fn.col("seq"))).alias("completed"),
            fn.first("tenant").alias("need_tenant"),
        )
    )


def _with_policy(history: History, judged: DataFrame) -> DataFrame:
    if history.jobs is None or "dependency_policy" not in history.jobs.columns:
        return judged.withColumn("policy", fn.lit(None).cast("string"))
    policies = history.jobs.select("store", fn.col("id").alias("job"), fn.col("dependency_policy").alias("policy"))
    return judged.join(policies, ["store", "job"], "left")


def _may_start() -> Column:
    policy = fn.col("policy")
    return (
        fn.when(policy == ALL_SUCCESS, fn.col("all_completed"))
        .when(policy == ALL_DONE, fn.col("all_ended"))
        .when(policy == ANY_SUCCESS, fn.col("any_completed"))
        .otherwise(fn.col("all_ended") | fn.col("any_completed"))
    )


FAMILY: Final = Family((AFTER_NEEDS, SAME_TENANT, NEED_KNOWN), find)
