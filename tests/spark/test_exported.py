"""The pipeline over a real event lake: its log says which files count, whatever else lies in the folder."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tenure.lake.gold import read_gold
from tenure.spark.backfill import backfill
from tenure.spark.bronze import Exported, open_bronze
from tenure.spark.pipeline import Refreshed, Settings
from tenure.spark.publish import read_progress
from tenure.spark.run import run_once

rig: Any = import_module("tests.lake.rig")
place: Any = import_module("tenure.lake.place")
tidy: Any = import_module("tenure.lake.tidy")

pytestmark = pytest.mark.spark

LEAN = Settings(silver=False)


def counted(gold: Path) -> int:
    return sum(read_gold(gold, "hours", columns=["events"])["events"].to_pylist())


async def test_what_is_committed_counts_once_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    lake, gold = tmp_path / "lake", tmp_path / "gold"
    alive = await rig.Rig().open()
    exporter = await alive.exporter(place.open_place(str(lake), create=True), tidy.Rules(rows=40, page_rows=16))
    told: list[Refreshed] = []

    await alive.work(30)
    await exporter.cycle()
    run_once(spark, str(lake), gold, LEAN, told.append)
    assert (counted(gold), len(told)) == (90, 1)

    # A segment that nobody committed, as a killed exporter leaves it.
    [day] = lake.glob("date=*")
    segment = next(iter(day.glob("*.parquet")))
    pq.write_table(pq.read_table(segment, partitioning=None), day / "orphan.parquet")
    alive.clock.passed_ms += rig.DAY_MS
    await alive.work(20)
    await exporter.cycle()
    await exporter.tidy()  # merges the small segments of the day that is over
    told.clear()
    run_once(spark, str(lake), gold, LEAN, told.append)
    of_jobs = [event for event in await alive.events() if event.job]  # retention has removed the jobs of yesterday
    assert (len(of_jobs), counted(gold), [len(done.hours) for done in told]) == (180, 180, [1])
    source = open_bronze(lake)
    assert isinstance(source, Exported)
    # Numbers, not files, say what is new: also events of workers have one.
    assert read_progress(gold) == source.touched(spark.range(0), 0)[1] >= 180
    assert source.touched(spark.range(0), read_progress(gold))[0] == []

    before = read_gold(gold, "day_totals", columns=["at", "queue", "events", "run_p95"])
    first, *_, last = sorted({at.date() for at in before["at"].to_pylist()})
    assert len(backfill(spark, lake, gold, first, last, LEAN).hours) == 2
    assert read_gold(gold, "day_totals", columns=before.column_names) == before
