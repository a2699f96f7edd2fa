"""Bronze: the events as they were exported, Parquet segments in folders `date=YYYY-MM-DD`.

Segments are written once and never changed, and each event is in exactly one: nothing here drops duplicates. Files of
an older schema lack columns, which are null then; columns that this version does not know are not read.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tenure.core.error import InvalidRequest
from tenure.lake.gold import HOUR_S, date_of, hours_of
from tenure.lake.schema import EVENTS

Source = str | Path | DataFrame

FILE_AGE_MAX: Final = "30d"  # what a stream remembers of files it has seen, counted back from the newest


def events_schema() -> StructType:
    return from_arrow_schema(EVENTS)


def folder_of(place: str | Path, field: str = "lake") -> Path:
    """A folder from a path or file:///path."""
    if isinstance(place, Path):
        return place
    parts = urlsplit(place)
    if parts.scheme not in ("", "file"):
        raise InvalidRequest(field, place, "the pipeline works on folders that Spark can reach: a path or file:///path")
    return Path(parts.path if parts.scheme else place)


def read_events(spark: SparkSession, source: Source, hours: Iterable[int] | None = None) -> DataFrame:
    """The events of a lake, or of a DataFrame that has them; of some hours (numbered from 1970), or all."""
    wanted = None if hours is None else sorted(set(hours))
    if isinstance(source, DataFrame):
        events = source
    else:
        days = None if wanted is None else {date_of(hour) for hour in wanted}
        files = segments(folder_of(source), days)
        reader = spark.read.schema(events_schema())
        events = reader.parquet(*files) if files else spark.createDataFrame([], events_schema())
    return events if wanted is None else of_hours(events, wanted)


def segments(folder: Path, days: set[date] | None = None) -> list[str]:
    """The files of a lake, of some dates or all. The events of a file are of the date of its folder."""
    if not folder.is_dir():
        raise InvalidRequest("lake", str(folder), "there is no such folder")
    names = ["date=*"] if days is None else [f"date={day}" for day in sorted(days)]
    return [str(path) for name in names for path in sorted(folder.glob(f"{name}/**/[!._]*.parquet"))]


def watch_events(spark: SparkSession, source: str | Path, files_per_batch: int = 0) -> DataFrame:
    """A stream of the events in segments that come, to see which hours they touch."""
    reader = spark.readStream.schema(StructType([events_schema()["at"]])).option("maxFileAge", FILE_AGE_MAX)
    # A segment that was merged into another one is gone; the other is new, and touches the same hours.
    reader = reader.option("recursiveFileLookup", "true").option("ignoreMissingFiles", "true")
    if files_per_batch:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    return reader.parquet(str(folder_of(source)))


def hour_column(at: str = "at") -> Column:
    """The number of the hour, counted from 1970: the same in every time zone."""
    return sf.floor(sf.unix_seconds(sf.col(at)) / HOUR_S)


def touched_hours(events: DataFrame) -> list[int]:
    """In which hours something happened. At most one number an hour comes to the driver."""
    return sorted(row[0] for row in events.select(hour_column().alias("hour")).distinct().collect())


def of_hours(events: DataFrame, hours: Sequence[int]) -> DataFrame:
    """As ranges of time, which Parquet can skip by."""
    if not hours:
        return events.where(sf.lit(False))
    first, last = hours[0], hours[-1]
    found = events.where((sf.col("at") >= _instant(first)) & (sf.col("at") < _instant(last + 1)))
    return found if last - first + 1 == len(hours) else found.where(hour_column().isin(*hours))


def _instant(hour: int) -> Column:
    return sf.timestamp_seconds(sf.lit(hour * HOUR_S))


def hours_between(first: date, last: date) -> list[int]:
    if last < first:
        raise InvalidRequest("to", last.isoformat(), f"it must not be before {first.isoformat()}")
    return list(range(hours_of(first)[0], hours_of(last)[-1] + 1))
