"""A history made ready for all checks: read, walked once, and what more than one check needs kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from tenure.spark.audit import attempt, due, path
from tenure.spark.audit.check import Rule, told
from tenure.spark.audit.sequence import Numbers, count_numbers
from tenure.spark.audit.setting import KEY, QUEUE, TENANT, Settings, read_settings
from tenure.spark.audit.step import encode, leaves, starts, walk, with_store

RULES: Final = (*path.RULES, *attempt.RULES, *due.RULES)


@dataclass
class History:
    events: DataFrame  # with a column `store`
    rows: DataFrame  # the events of jobs, as numbers
    steps: DataFrame  # those steps that break a rule or that concern several jobs
    numbers: Numbers
    settings: Settings
    ledger: DataFrame | None = None
    jobs: DataFrame | None = None
    is_dense: bool = True

    @property
    def whole(self) -> list[int]:
        """The stores whose history has its beginning."""
        return [store for store, first in self.numbers.first.items() if first == 1] if self.is_dense else []

    def is_whole(self) -> Column:
        whole = self.whole
        return fn.lit(bool(whole)) if len(whole) in (0, len(self.numbers.first)) else fn.col("store").isin(whole)

    def count_jobs(self) -> int:
        """A job that has its beginning here was enqueued once; without beginnings they have to be told apart."""
        if len(self.whole) == len(self.numbers.first):
            return self.numbers.born
        return self.rows.select("store", "job").distinct().count()

    def close(self) -> None:
        self.steps.unpersist()


def read_history(
    events: DataFrame, ledger: DataFrame | None = None, jobs: DataFrame | None = None, is_dense: bool = True
) -> History:
    events = with_store(events)
    rows = encode(events)
    history = History(events, rows, rows, count_numbers(events), read_settings(events), ledger, jobs, is_dense)
    walked = walk(rows).withColumn("is_whole", history.is_whole())
    history.steps = _keep(walked, history.settings).persist(StorageLevel.MEMORY_AND_DISK)
    return history


def _keep(walked: DataFrame, settings: Settings) -> DataFrame:
    walked = _mark_limited(walked, settings)
    is_move = starts() | leaves()
    limited = fn.col("is_queue_limited") | fn.col("is_tenant_limited")
    if settings.has(KEY):
        limited = limited | fn.col("first.limit_keys").isNotNull()
    several = (is_move & limited) | fn.col("first.group").isNotNull() | fn.col("first.unique").isNotNull()
    several = several | (starts() & fn.col("first.depends"))
    broken = broken_by(RULES)
    return (
        walked.withColumn("is_broken", (fn.col("is_sound") & broken) | path.REUSED.broken())
        .where(fn.col("is_broken") | (fn.col("is_sound") & fn.coalesce(several, fn.lit(False))))
        .select(
            "store",
            "job",
            "job_seq",
            "seq",
            "at",
            "type",
            "state",
            "state_before",
            "cause",
            "tenant",
            "queue",
            "start_seq",
            "first",
            "ends",
            "is_sound",
            "is_whole",
            "is_queue_limited",
            "is_tenant_limited",
            starts().alias("is_start"),
            leaves().alias("is_leave"),
            fn.when(fn.col("is_broken"), _findings()).alias("findings"),
        )
    )


def broken_by(rules: Sequence[Rule]) -> Column:
    return reduce(lambda one, other: one | other, (rule.broken() for rule in rules))


def _findings() -> Column:
    """What a broken row breaks, as a list."""
    is_sound = fn.col("is_sound")
    rules = [told(rule.check, is_sound & rule.broken(), rule.what()) for rule in RULES]
    return fn.array(*rules, told(path.REUSED.check, path.REUSED.broken(), path.REUSED.what()))


def _mark_limited(walked: DataFrame, settings: Settings) -> DataFrame:
    """Which rows are of a queue or a tenant that ever had a limit."""
    marked = walked
    for kind, key, names in ((QUEUE, "queue", ("tenant", "name")), (TENANT, "tenant", ("tenant",))):
        flag = f"is_{kind}_limited"
        if not settings.has(kind):
            marked = marked.withColumn(flag, fn.lit(False))
            continue
        limited = settings.frame(walked.sparkSession).where(fn.col("kind") == kind)
        limited = limited.where(fn.col("running_max").isNotNull() | fn.col("tokens").isNotNull() | fn.col("paused"))
        limited = limited.select("store", fn.xxhash64(*names).alias(key), fn.lit(True).alias(flag)).distinct()
        marked = marked.join(fn.broadcast(limited), ["store", key], "left").withColumn(
            flag, fn.coalesce(fn.col(flag), fn.lit(False))
        )
    return marked
