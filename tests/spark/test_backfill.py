"""A range of dates made anew, beside what is there."""

import asyncio
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tenure.core.error import InvalidRequest
from tenure.lake.gold import hour_file, known_hours, read_gold
from tenure.spark.backfill import backfill
from tenure.spark.pipeline import Settings
from tests.spark.history import DAY_1, DAY_2, live_a_little, write_lake

pytestmark = pytest.mark.spark

LEAN = Settings(silver=False)


@pytest.fixture(scope="module")
def lived() -> pa.Table:
    return asyncio.run(live_a_little())


def test_a_backfill_makes_its_dates_anew_and_no_others(spark: SparkSession, lived: pa.Table, tmp_path: Path) -> None:
    """A file that was harmed is mended; the other day is not touched, nor is what the lake has dropped."""
    lake, gold = tmp_path / "lake", tmp_path / "gold"
    write_lake(lived, lake)
    done = backfill(spark, lake, gold, DAY_1, DAY_2, LEAN)
    first, second = sorted(done.hours)
    assert known_hours(gold) == [first, second]
    right = read_gold(gold, "day_totals", columns=["at", "tenant", "queue", "events", "wait_p95"])

    other = hour_file(gold, "minutes", second).stat().st_mtime_ns
    hour_file(gold, "hours", first).unlink()
    assert backfill(spark, lake, gold, DAY_1, DAY_1, LEAN).hours == {first}
    assert hour_file(gold, "minutes", second).stat().st_mtime_ns == other
    assert read_gold(gold, "day_totals", columns=right.column_names) == right

    segment = lake / f"date={DAY_2}" / "first.parquet"
    pq.write_table(pq.read_table(segment, partitioning=None).slice(5), segment)  # retention took some of that day
    kept = backfill(spark, lake, gold, DAY_2, DAY_2, LEAN)
    assert (kept.hours, kept.kept) == (set(), {second})
    assert read_gold(gold, "day_totals", columns=right.column_names) == right


def test_a_frame_of_events_is_a_source_too(spark: SparkSession, lived: pa.Table, tmp_path: Path) -> None:
    """Also one of an older schema."""
    frame = spark.createDataFrame(lived.drop_columns(["detail"]))
    done = backfill(spark, frame, tmp_path, DAY_1, DAY_1, LEAN)
    assert (len(done.hours), read_gold(tmp_path, "limits")["slo_wait_ms"].to_pylist()) == (1, [None])


def test_dates_in_the_wrong_order_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    with pytest.raises(InvalidRequest, match="it must not be before 2026-02-01"):
        backfill(spark, tmp_path / "lake", tmp_path / "gold", DAY_2, DAY_1)
    with pytest.raises(InvalidRequest, match="there is no such folder"):
        backfill(spark, tmp_path / "nowhere", tmp_path / "gold", DAY_1, DAY_2)
    with pytest.raises(InvalidRequest, match="a path or file:///path"):
        backfill(spark, tmp_path / "lake", "s3://bucket/gold", DAY_1, DAY_2)
