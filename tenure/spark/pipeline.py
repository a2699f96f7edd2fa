"""Makes the tables of some hours anew, from the events of these hours. `run` and `backfill` say which hours.

The unit is the hour, and its tables are a function of its events: made twice they are the same, made again when late
events came they are right. There is no state to lose, so there is no watermark and no dropping of duplicates either
(docs/decisions/0024-pipeline-on-spark.md).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tenure.lake.gold import (
    HOUR_S,
    LIMITS,
    counted_events,
    date_of,
    day_file,
    files_of,
    hour_file,
    hour_of,
    known_hours,
    read_files,
    read_gold,
)
from tenure.spark import gold, silver
from tenure.spark.bronze import Source, read_events
from tenure.spark.publish import Staged, place, stage, writing

HOURS_PER_ROUND: Final = 31 * 24  # so that a round's list of files stays short
HOUR_PART: Final = "floor(unix_seconds({at}) / 3600)"
DAY_PART: Final = "date_format(at, 'yyyy-MM-dd')"
METRIC_ORDER: Final = ("tenant", "queue", "task", "at")
TOTAL_ORDER: Final = ("tenant", "queue", "at")


def nothing(_point: str) -> None:
    """Where tests let it fail."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`slo_wait_ms` is for queues that promise nothing themselves. `point` is told how far the work is."""

    slo_wait_ms: int | None = None
    silver: bool = True
    point: Callable[[str], None] = nothing


PLAIN: Final = Settings()


@dataclass(slots=True)
class Refreshed:
    """What was made anew. `kept` are hours of which gold knows more events than the lake still has."""

    hours: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    events: int = 0


class Promise(NamedTuple):
    """A row of `limits`."""

    seq: int
    at: datetime
    tenant: str
    queue: str
    slo_wait_ms: int | None


def refresh(
    spark: SparkSession, source: Source, folder: Path, hours: Iterable[int], settings: Settings = PLAIN
) -> Refreshed:
    """`spark` is a session of the pipeline's own (`own_session`)."""
    done = Refreshed()
    with writing(folder) as staging:
        wanted = sorted(set(hours))
        while wanted:
            part, wanted = wanted[:HOURS_PER_ROUND], wanted[HOURS_PER_ROUND:]
            later = _refresh(spark, source, folder, staging / str(len(done.hours)), part, settings, done)
            if later:
                wanted = sorted({*wanted, *later} - {*part})
    return done


def _refresh(
    spark: SparkSession,
    source: Source,
    folder: Path,
    staging: Path,
    hours: Sequence[int],
    settings: Settings,
    done: Refreshed,
) -> set[int]:
    """Returns hours that have to be made anew as well, because a promise that holds in them has changed."""
    events = read_events(spark, source, hours)
    made = {"limits": stage(gold.limits(events), HOUR_PART.format(at="at"), ("seq",), staging / "limits")}
    settings.point("limits staged")
    promises, later = _promises(folder, made["limits"], hours)
    changes = spark.createDataFrame(promises, from_arrow_schema(LIMITS)) if promises else None
    made |= _from_events(gold.with_slo(events, changes, settings.slo_wait_ms), staging, settings)
    settings.point("staged")
    fresh = _place_hours(folder, hours, made, settings, done)
    _refresh_days(spark, folder, staging, fresh, settings)
    return later


def _from_events(events: DataFrame, staging: Path, settings: Settings) -> dict[str, Staged]:
    spark = events.sparkSession
    made: dict[str, Staged] = {}

    def keep(name: str, table: DataFrame, order: Sequence[str], at: str = "at") -> DataFrame:
        """As it was written, so that what follows from it does not work it out again."""
        made[name] = stage(table, HOUR_PART.format(at=at), order, staging / name)
        written = sorted(str(path) for path in made[name].values())
        return spark.read.schema(table.schema).parquet(*written) if written else table

    minutes = keep("minutes", gold.minutes(events), METRIC_ORDER)
    hours = keep("hours", gold.roll_up(minutes, HOUR_S), METRIC_ORDER)
    keep("hour_totals", gold.totals(hours), TOTAL_ORDER)
    minute_totals = keep("minute_totals", gold.totals(minutes), TOTAL_ORDER)
    keep("capacity", gold.capacity(minute_totals), TOTAL_ORDER)
    keep("errors", gold.errors(events), ("tenant", "queue", "task", "fingerprint"))
    attempts = silver.attempts(events)
    if settings.silver:
        attempts = keep("attempts", attempts, ("tenant", "seq"), "ended_at")
        keep("jobs", silver.job_hours(events), ("tenant", "job"))
    keep("workers", gold.workers(attempts), ("tenant", "worker"))
    return made


def _promises(folder: Path, staged: Staged, hours: Sequence[int]) -> tuple[list[Promise], set[int]]:
    """All that queues ever promised, in order, and the later hours that a change in these hours reaches."""
    anew = set(hours)
    known = [Promise(**row) for row in read_gold(folder, "limits").to_pylist()]
    found = [Promise(**row) for row in read_files(sorted(staged.values()), LIMITS).to_pylist()]
    kept = [promise for promise in known if hour_of(promise.at) not in anew]
    different = {promise for promise in known if hour_of(promise.at) in anew} ^ set(found)
    first = min((hour_of(promise.at) for promise in different), default=None)
    later = {hour for hour in known_hours(folder) if first is not None and hour >= first}
    return sorted([*kept, *found]), later


def _place_hours(
    folder: Path, hours: Sequence[int], made: dict[str, Staged], settings: Settings, done: Refreshed
) -> set[int]:
    """The hours that were replaced. One that would lose events stays as it is: the lake has dropped some of them."""
    fresh: set[int] = set()
    for hour in hours:
        staged = made["minutes"].get(str(hour))
        events = 0 if staged is None else counted_events(staged)
        if events < counted_events(hour_file(folder, "minutes", hour)):
            done.kept.add(hour)
            continue
        # `minutes` goes last: it says of how many events the others were made.
        for table in sorted(made, key="minutes".__eq__):
            place(made[table].get(str(hour)), hour_file(folder, table, hour))
            settings.point(f"placed {table}")
        fresh.add(hour)
        done.hours.add(hour)
        done.events += events
    return fresh


def _refresh_days(spark: SparkSession, folder: Path, staging: Path, hours: set[int], settings: Settings) -> None:
    """Tables by day, from the hours of their days as they are in gold now."""
    days = sorted({date_of(hour) for hour in hours})
    there = [str(path) for day in days for path in files_of(folder, "hours", day, day)]
    if not there:
        return
    by_day = {"days": gold.roll_up(spark.read.parquet(*there), gold.DAY_S)}
    made = {"days": stage(by_day["days"], DAY_PART, METRIC_ORDER, staging / "days")}
    written = spark.read.parquet(*sorted(str(path) for path in made["days"].values()))
    made["day_totals"] = stage(gold.totals(written), DAY_PART, TOTAL_ORDER, staging / "day_totals")
    made["usage"] = stage(gold.usage(written), DAY_PART, ("tenant",), staging / "usage")
    for day in days:
        for table, staged in made.items():
            place(staged.get(day.isoformat()), day_file(folder, table, day))
            settings.point(f"placed {table}")
