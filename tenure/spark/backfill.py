"""Makes the tables of a range of dates anew: after a change of the code, or for a history that no stream has seen."""

from datetime import date
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tenure.spark.bronze import Source, folder_of, hours_between, open_bronze, read_events, touched_hours
from tenure.spark.pipeline import PLAIN, Refreshed, Settings, refresh
from tenure.spark.publish import check_about
from tenure.spark.session import own_session


def backfill(
    spark: SparkSession,
    source: Source,
    gold: str | Path,
    first: date,
    last: date,
    settings: Settings = PLAIN,
) -> Refreshed:
    """Of the lake, or of a DataFrame of events. Both dates are included.

    May be repeated, and may run beside a stream: one waits for the other. What gold has of days that the lake has
    dropped stays as it is.
    """
    session, folder = own_session(spark), folder_of(gold, "gold")
    if not isinstance(source, DataFrame):
        source = open_bronze(source)
        check_about(folder, source.title)
    wanted = hours_between(first, last)
    there = touched_hours(read_events(session, source, wanted).select("at"))
    return refresh(session, source, folder, there, settings)
