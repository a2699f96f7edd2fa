"""Stores are killed at work and lose power; the histories that they leave keep every promise that events can show."""

import asyncio
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tenure.spark.audit import violations
from tests.crash.history import ASKED_BY
from tests.crash.power import campaign
from tests.kill.cycle import run_database

pytestmark = pytest.mark.spark

KILLS = 4
IMAGES = 10


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one below it for each store."""
    folder = tmp_path_factory.mktemp("histories")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ASKED_BY, str(folder))
        for mode, seed in (("fsync", 11), ("relaxed", 12)):
            totals = run_database(tmp_path_factory.mktemp(mode), mode, seed, KILLS)
            assert totals.findings == []
        for seed in (1, 3):
            total = asyncio.run(campaign(seed, IMAGES, tmp_path_factory.mktemp("power")))
            assert total.findings == []
    return folder


Tables = dict[str, pa.Table]
NAMES = ("events", "jobs", "ledger")


def read(folder: Path) -> list[Tables]:
    return [{name: pq.read_table(each / f"{name}.parquet") for name in NAMES} for each in sorted(folder.iterdir())]


def forget(history: Tables, job: int) -> Tables:
    """As if the last crash had taken a job that was answered."""
    spoiled = dict(history)
    spoiled["events"] = history["events"].filter(pc.fill_null(pc.not_equal(history["events"]["job"], job), True))
    spoiled["jobs"] = history["jobs"].filter(pc.not_equal(history["jobs"]["id"], job))
    return spoiled


def frame_of(spark: SparkSession, histories: list[Tables], name: str, to: Path) -> DataFrame:
    """All of one kind, with a column that says which store a row is of."""
    tables = [
        history[name].append_column("store", pa.repeat(pa.scalar(store, pa.int32()), len(history[name])))
        for store, history in enumerate(histories)
    ]
    pq.write_table(pa.concat_tables(tables), to / f"{name}.parquet")
    return spark.read.parquet(str(to / f"{name}.parquet"))


def test_histories_of_crashes_keep_every_promise(spark: SparkSession, histories: Path, tmp_path: Path) -> None:
    """A copy from which an answered job was taken is among them: that one is found, and no other."""
    found = read(histories)
    assert len(found) == 2 + 2 * IMAGES
    assert all(pc.max(history["events"]["seq"]).as_py() > 1_000_000 for history in found[:2])  # skipped by crashes
    answered = found[0]["ledger"]["job"].to_pylist()
    found.append(forget(found[0], answered[-1]))
    events, jobs, ledger = (frame_of(spark, found, name, tmp_path) for name in NAMES)
    rows = violations(events, jobs=jobs, ledger=ledger, whole=True).collect()
    spoiled = len(found) - 1
    assert [row for row in rows if row["store"] != spoiled] == []
    assert ("accepted_is_there", answered[-1]) in {(row["check"], row["job"]) for row in rows}
