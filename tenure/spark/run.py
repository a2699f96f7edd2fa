"""The pipeline as a Structured Streaming query: new segments say which hours to make anew.

The checkpoint lies in the gold folder and says what was seen of the lake. A batch ends when its hours are in place, so
a crash at any point leads to the same batch again, which makes the same files. A lost checkpoint costs time only.
"""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tenure.spark.bronze import Bronze, folder_of, open_bronze
from tenure.spark.pipeline import PLAIN, Refreshed, Settings, refresh
from tenure.spark.publish import CHECKPOINT, check_about, read_progress, write_progress
from tenure.spark.session import own_session

Told = Callable[[Refreshed], None]


def start(
    spark: SparkSession,
    lake: str | Path | Bronze,
    gold: str | Path,
    every_ms: int | None = None,
    settings: Settings = PLAIN,
    told: Told | None = None,
) -> StreamingQuery:
    """Begins to make gold of a lake. Without `every_ms`, of what is there now, and then ends; else again and again.

    `told` hears of every batch that is done.
    """
    session = own_session(spark)
    folder = folder_of(gold, "gold")
    bronze = open_bronze(lake)
    check_about(folder, bronze.title)

    def make(batch: DataFrame, _number: int) -> None:
        hours, upto = bronze.touched(batch, read_progress(folder))
        done = refresh(session, bronze, folder, hours, settings)
        settings.point("done")
        write_progress(folder, upto)
        if told is not None:
            told(done)

    writer = bronze.watch(session).writeStream.foreachBatch(make).queryName("tenure-gold")
    writer = writer.option("checkpointLocation", str((folder / CHECKPOINT).resolve()))
    if every_ms is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_ms} milliseconds").start()


def run_once(
    spark: SparkSession,
    lake: str | Path | Bronze,
    gold: str | Path,
    settings: Settings = PLAIN,
    told: Told | None = None,
) -> None:
    """Makes gold of all that is in the lake and was not seen before."""
    query = start(spark, lake, gold, None, settings, told)
    try:
        query.awaitTermination()
    finally:
        query.stop()
