"""A history made ready for all checks: read, walked once, and what more than one check needs kept."""

from dataclasses import dataclass
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from tenure.spark.audit import attempt, due, path, saying
from tenure.spark.audit.check import told
from tenure.spark.audit.sequence import Numbers, count_numbers
from tenure.spark.audit.setting import KEY, Settings, read_settings
from tenure.spark.audit.step import encode, is_suspect, leaves, starts, walk, with_store

RULES: Final = (*path.RULES, *attempt.RULES, *due.RULES, *saying.RULES)


@dataclass
class History:
    events: DataFrame  # with a column `store`
    rows: DataFrame  # the events of jobs, as numbers
    kept: DataFrame  # those steps that may break a rule or that concern several jobs, held by Spark
    steps: DataFrame  # the same, and which of them start or stop running
    numbers: Numbers
    settings: Settings
    ledger: DataFrame | None = None
    jobs: DataFrame | None = None
    is_dense: bool = True  # all events of an owned store's, not one tenant's
    has_beginning: bool | None = None  # None: when the first seq is 1
    is_drained: bool = False  # all was worked off when the events were read

    @property
    def whole(self) -> list[int]:
        """The stores whose history has its beginning."""
        if self.has_beginning is not None:
            return list(self.numbers.first) if self.has_beginning else []
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
        self.kept.unpersist()


def read_history(
    events: DataFrame,
    ledger: DataFrame | None = None,
    jobs: DataFrame | None = None,
    is_dense: bool = True,
    has_beginning: bool | None = None,
    is_drained: bool = False,
) -> History:
    events = with_store(events)
    settings = read_settings(events)
    rows = encode(events, settings)
    numbers = count_numbers(events)
    history = History(events, rows, rows, rows, numbers, settings, ledger, jobs, is_dense, has_beginning, is_drained)
    walked = walk(rows).withColumn("is_whole", history.is_whole())
    history.kept = _keep(walked, settings).persist(StorageLevel.MEMORY_AND_DISK)
    history.steps = history.kept.withColumn("is_start", starts()).withColumn("is_leave", leaves())
    return history


def _keep(walked: DataFrame, settings: Settings) -> DataFrame:
    """The steps that may break a rule, and those that others have to be held against."""
    first = fn.col("first")
    limited = first["is_queue_limited"] | first["is_tenant_limited"]
    if settings.has(KEY):
        limited = limited | first["limit_keys"].isNotNull()
    several = ((starts() | leaves()) & limited) | (starts() & first["depends"])
    several = several | first["group"].isNotNull() | first["unique"].isNotNull()
    return walked.where(is_suspect() | (fn.col("is_sound") & fn.coalesce(several, fn.lit(False))))


def find_broken(history: History) -> DataFrame:
    """What the suspect rows break, as a list; for these few alone, since words are dear."""
    is_sound = fn.col("is_sound")
    rules = [told(rule.check, is_sound & rule.broken(), rule.what()) for rule in RULES]
    reused = told(path.REUSED.check, path.REUSED.broken(), path.REUSED.what())
    # In a stage of their own, so that the long words do not keep the question of every step from being compiled.
    suspects = history.steps.where(is_suspect()).repartition("store", "job")
    return suspects.withColumn("findings", fn.array(*rules, reused))
