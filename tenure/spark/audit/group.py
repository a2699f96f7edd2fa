"""Groups: the first starts of their jobs come in the order in which they joined.

A job joins when it first becomes ready, and again after a replay. It must not start for the first time while another
that joined before it has been ready all along. One that was moved to delayed and came back is not held against others.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from tenure.core import state
from tenure.spark.audit.check import Check, Family, told
from tenure.spark.audit.code import is_state
from tenure.spark.audit.history import History

IN_ORDER: Final = Check("I9", "group_order", "In a group the first starts come in the order of joining.")
NEVER: Final = 2**62


def find(history: History) -> DataFrame:
    steps = history.steps.where(fn.col("is_sound") & fn.col("first.group").isNotNull())
    joins = is_state("state", state.READY)
    leaves = fn.coalesce(is_state("state_before", state.READY), fn.lit(False)) & ~joins
    # An imported job may have started elsewhere, before it came here.
    past = fn.col("first.is_imported") & (fn.col("first.delivery") > 0) & (fn.col("ends") == 0)
    members = (
        steps.where(~fn.coalesce(past, fn.lit(False)))
        .groupBy("store", "job", fn.coalesce("ends", fn.lit(0)).alias("ends"))
        .agg(
            fn.first("first.group").alias("group"),
            fn.min(fn.when(joins, fn.col("seq"))).alias("joined"),
            fn.min(fn.when(leaves, fn.col("seq"))).alias("left"),
            fn.min(fn.when(fn.col("is_start"), fn.struct("seq", "job_seq"))).alias("start"),
        )
        .where(fn.col("joined").isNotNull())
    )
    earlier = Window.partitionBy("store", "group").orderBy("joined").rowsBetween(Window.unboundedPreceding, -1)
    waits = fn.struct(fn.coalesce(fn.col("left"), fn.lit(NEVER)).alias("until"), "job")
    ranked = members.withColumn("passed", fn.max(waits).over(earlier))
    ranked = ranked.select("store", "job", "start.job_seq", "start.seq", "passed")
    broken = fn.col("seq") < fn.col("passed.until")
    finding = told(IN_ORDER, broken, "it starts before job ", fn.col("passed.job"), ", which joined earlier")
    return ranked.where(broken).withColumn("findings", fn.array(finding))


FAMILY: Final = Family((IN_ORDER,), find)
