"""Spark reads the files of a lake as they are."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.lake.place import open_place
from tenure.lake.schema import EVENTS
from tests.lake.rig import Rig, lake_of

pytestmark = pytest.mark.spark


async def test_spark_reads_the_files_of_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    rig = await Rig().open()
    await rig.work(20, "acme")
    await rig.enqueue(10, "zeta", limit_keys=("k",))
    place = open_place(str(tmp_path / "lake"), create=True)
    await (await rig.exporter(place)).cycle()
    events = await rig.events()
    frame = spark.read.parquet(*lake_of(place).files())
    assert set(EVENTS.names) <= set(frame.columns)
    rows = frame.select("seq", "tenant", "type", "at", "limit_keys").orderBy("seq").collect()
    assert [row.seq for row in rows] == [event.seq for event in events]
    assert [row.tenant or "" for row in rows] == [event.tenant for event in events]
    assert rows[-1].limit_keys == ["k"]
    assert round(rows[0].at.timestamp() * 1000) == events[0].at
    assert frame.where("tenant = 'zeta'").count() == 10
