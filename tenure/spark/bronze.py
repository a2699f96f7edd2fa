"""Bronze: the events as they were exported, Parquet segments in folders `date=YYYY-MM-DD`.

Segments are written once and never changed, and each event is in exactly one: nothing here drops duplicates. Files of
an older schema lack columns, which are null then; columns that this version does not know are not read.

A lake has a log that says which files count, and its segments say which times they span. A folder without a log is
taken as it is: then every file counts from the moment that it has its name.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tenure.core.error import InvalidRequest
from tenure.lake.gold import HOUR_S, date_of, hours_of
from tenure.lake.lake import Lake
from tenure.lake.schema import EVENTS

LOG: Final = "_log"
HOUR_MS: Final = HOUR_S * 1000
FILE_AGE_MAX: Final = "30d"  # what a stream remembers of files it has seen, counted back from the newest


class Bronze(Protocol):
    """Where events are read from. `title` is what it is known by."""

    title: str

    def files(self, days: Iterable[date] | None) -> list[str]:
        """The files of some dates, or all."""

    def watch(self, spark: SparkSession) -> DataFrame:
        """A stream that has a batch whenever there may be something new."""

    def touched(self, batch: DataFrame, after: int) -> tuple[list[int], int]:
        """The hours that have new events, and how far everything was looked at: `after` of the next batch."""


Source = str | Path | Bronze | DataFrame


class Folder:
    """Files in folders `date=YYYY-MM-DD`, whose events are of that date."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise InvalidRequest("lake", str(path), "there is no such folder")
        self.path = path
        self.title = str(path.resolve())

    def files(self, days: Iterable[date] | None) -> list[str]:
        names = ["date=*"] if days is None else [f"date={day}" for day in sorted(set(days))]
        return [str(path) for name in names for path in sorted(self.path.glob(f"{name}/**/[!._]*.parquet"))]

    def watch(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(StructType([events_schema()["at"]])).option("maxFileAge", FILE_AGE_MAX)
        return reader.option("recursiveFileLookup", "true").option("ignoreMissingFiles", "true").parquet(self.title)

    def touched(self, batch: DataFrame, after: int) -> tuple[list[int], int]:
        return touched_hours(batch), after


class Exported:
    """A lake with a log. New entries of the log begin a batch; what is new in it is told by the segments' numbers.

    So a batch does not depend on having seen every entry: the log is shortened from time to time. Segments that were
    merged hold no numbers that are new, and touch nothing.
    """

    def __init__(self, url: str) -> None:
        self._lake = Lake.open(url)
        parts = urlsplit(url)
        self._is_bucket = parts.scheme == "s3"
        self.title = url if self._is_bucket else str(folder_of(url).resolve())

    def files(self, days: Iterable[date] | None) -> list[str]:
        """As of the last look at the log; dropped ones stay for a while."""
        found: list[str] = []
        for first, last in [("", "")] if days is None else _spans(sorted(set(days))):
            found += self._lake.files(first, last, scheme="s3a")
        return found

    def watch(self, spark: SparkSession) -> DataFrame:
        place = f"s3a{self.title[2:]}" if self._is_bucket else self.title
        reader = spark.readStream.option("pathGlobFilter", "*.json").option("ignoreMissingFiles", "true")
        return reader.option("wholetext", "true").option("maxFileAge", FILE_AGE_MAX).text(f"{place}/{LOG}")

    def touched(self, _batch: DataFrame, after: int) -> tuple[list[int], int]:
        self._lake.reload()
        if self._lake.state.upto < after:  # another lake was begun in its place
            after = 0
        fresh = [segment for segment in self._lake.segments() if segment.upto > after]
        spans = (range(segment.min_at // HOUR_MS, segment.max_at // HOUR_MS + 1) for segment in fresh)
        return sorted({hour for span in spans for hour in span}), self._lake.state.upto


def open_bronze(source: str | Path | Bronze) -> Bronze:
    if not isinstance(source, (str, Path)):
        return source
    if isinstance(source, str) and urlsplit(source).scheme == "s3":
        return Exported(source)
    folder = folder_of(source)
    return Exported(str(folder)) if (folder / LOG).is_dir() else Folder(folder)


def folder_of(place: str | Path, field: str = "lake") -> Path:
    """A folder from a path or file:///path."""
    if isinstance(place, Path):
        return place
    parts = urlsplit(place)
    if parts.scheme not in ("", "file"):
        raise InvalidRequest(field, place, "it must be a folder that Spark can reach: a path or file:///path")
    return Path(parts.path if parts.scheme else place)


def events_schema() -> StructType:
    return from_arrow_schema(EVENTS)


def read_events(spark: SparkSession, source: Source, hours: Iterable[int] | None = None) -> DataFrame:
    """The events of a lake, or of a DataFrame that has them; of some hours (numbered from 1970), or all."""
    wanted = None if hours is None else sorted(set(hours))
    if isinstance(source, DataFrame):
        events = with_all_columns(source)
    else:
        files = open_bronze(source).files(None if wanted is None else {date_of(hour) for hour in wanted})
        reader = spark.read.schema(events_schema())
        events = reader.parquet(*files) if files else spark.createDataFrame([], events_schema())
    return events if wanted is None else of_hours(events, wanted)


def with_all_columns(events: DataFrame) -> DataFrame:
    """Columns that an older frame lacks are null."""
    missing = [field for field in events_schema() if field.name not in events.columns]
    return events.select("*", *(sf.lit(None).cast(field.dataType).alias(field.name) for field in missing))


def hour_column(at: str = "at") -> Column:
    """The number of the hour, counted from 1970: the same in every time zone."""
    return sf.floor(sf.unix_seconds(sf.col(at)) / HOUR_S)


def touched_hours(events: DataFrame) -> list[int]:
    """In which hours something happened. At most one number an hour comes to the driver."""
    return sorted(row[0] for row in events.select(hour_column().alias("hour")).distinct().collect())


def of_hours(events: DataFrame, hours: Sequence[int]) -> DataFrame:
    """As a range of time, which Parquet can skip by, and what is missing in it."""
    if not hours:
        return events.where(sf.lit(False))
    first, last = hours[0], hours[-1]
    found = events.where((sf.col("at") >= _instant(first)) & (sf.col("at") < _instant(last + 1)))
    return found if last - first + 1 == len(hours) else found.where(hour_column().isin(*hours))


def _instant(hour: int) -> Column:
    return sf.timestamp_seconds(sf.lit(hour * HOUR_S))


def _spans(days: Sequence[date]) -> list[tuple[str, str]]:
    """Days in a row as first and last."""
    found: list[tuple[date, date]] = []
    for day in days:
        if found and (day - found[-1][1]).days == 1:
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return [(first.isoformat(), last.isoformat()) for first, last in found]


def hours_between(first: date, last: date) -> list[int]:
    if last < first:
        raise InvalidRequest("to", last.isoformat(), f"it must not be before {first.isoformat()}")
    return list(range(hours_of(first)[0], hours_of(last)[-1] + 1))
