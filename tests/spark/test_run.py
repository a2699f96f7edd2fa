"""The pipeline as a stream: everything once, whatever is repeated, late or killed."""

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tenure.core.error import InvalidRequest
from tenure.lake.gold import SILVER, SKETCHES, TABLES, known_hours, read_gold
from tenure.spark.pipeline import Refreshed, Settings
from tenure.spark.publish import CHECKPOINT, STAGING
from tenure.spark.run import run_once, start
from tests.cli.rig import run as command
from tests.spark.history import DAY_1, DAY_2, EVENTS_OF_JOBS, event, live_a_little, ran, table_of, write_lake

pytestmark = pytest.mark.spark

LEAN = Settings(silver=False)


@pytest.fixture(scope="module")
def lived() -> pa.Table:
    return asyncio.run(live_a_little())


def contents(gold: Path) -> dict[str, Counter[Any]]:
    """Every row of every table, whatever the order; sketches are random inside, and told by their quantiles."""
    found = {}
    for table, schema in TABLES.items():
        columns = [name for name in schema.names if name not in SKETCHES]
        rows = read_gold(gold, table, columns=columns).to_pylist()
        found[table] = Counter(tuple(row.items()) for row in rows)
    return found


def run(spark: SparkSession, lake: Path, gold: Path, settings: Settings = LEAN) -> Refreshed:
    """What all batches made."""
    done = Refreshed()

    def add(batch: Refreshed) -> None:
        done.hours |= batch.hours
        done.kept |= batch.kept
        done.events += batch.events

    run_once(spark, lake, gold, settings, add)
    return done


@pytest.fixture(scope="module")
def made(spark: SparkSession, lived: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `lake` and `gold` of the whole history, made in one go. Not to be changed."""
    place = tmp_path_factory.mktemp("made")
    write_lake(lived, place / "lake")
    assert run(spark, place / "lake", place / "gold", Settings()).events == EVENTS_OF_JOBS
    return place


def test_a_run_makes_every_table(made: Path) -> None:
    found = contents(made / "gold")
    assert all(found.values()), {table for table in found if not found[table]}
    [both] = [
        dict(row)
        for row in found["hour_totals"]
        if not dict(row)["tenant"] and dict(row)["at"].day == 31 and not dict(row)["queue"]
    ]
    assert (both["enqueued"], both["started"], both["completed"], both["retried"]) == (6, 4, 2, 1)
    assert both["breaches"] == 2  # two of three waited longer than the 5 s that `mail` promised
    assert not (made / "gold" / STAGING).exists()


def test_a_second_run_has_nothing_to_do_and_a_lost_checkpoint_changes_nothing(
    spark: SparkSession, made: Path, tmp_path: Path
) -> None:
    gold = tmp_path / "gold"
    shutil.copytree(made / "gold", gold)
    assert run(spark, made / "lake", gold).hours == set()
    shutil.rmtree(gold / CHECKPOINT)
    assert run(spark, made / "lake", gold, Settings()).events == EVENTS_OF_JOBS
    assert contents(gold) == contents(made / "gold")


@pytest.mark.parametrize("point", ["placed hours", "done"])
def test_a_run_that_is_killed_is_made_good_by_the_next(
    spark: SparkSession, made: Path, tmp_path: Path, point: str
) -> None:
    """In the middle of putting tables in place, and between the tables and the checkpoint."""

    def fail(at: str) -> None:
        if at == point:
            raise OSError("the power went")

    with pytest.raises(StreamingQueryException, match="the power went"):
        run(spark, made / "lake", tmp_path, Settings(silver=False, point=fail))
    assert run(spark, made / "lake", tmp_path).events == EVENTS_OF_JOBS
    wanted = contents(made / "gold")
    assert contents(tmp_path) == {name: Counter() if name in SILVER else rows for name, rows in wanted.items()}
    assert not (tmp_path / STAGING).exists()


def test_the_commands_run_and_backfill(spark: SparkSession, made: Path, tmp_path: Path) -> None:
    """On the session that is there."""
    assert spark.getActiveSession() is not None
    where = ("--lake", str(made / "lake"), "--gold", str(tmp_path), "--no-silver", "--json")
    assert command("spark", "run", "--once", *where).json == {"events": EVENTS_OF_JOBS, "hours": 2, "kept_hours": 0}
    assert command("spark", "run", "--once", *where).json == {"events": 0, "hours": 0, "kept_hours": 0}
    dates = ("--from", str(DAY_2), "--to", str(DAY_2))
    assert command("spark", "backfill", *dates, "--slo", "1s", *where).json["hours"] == 1
    wrong = command("spark", "backfill", "--from", "x", "--to", str(DAY_2), *where)
    assert (wrong.code, "it must be a date such as" in wrong.err) == (2, True)


def test_late_events_and_new_ones_touch_their_hours_only(spark: SparkSession, made: Path, tmp_path: Path) -> None:
    """Events of yesterday come with the second segment; the old ones are not counted twice."""
    lake, gold = tmp_path / "lake", tmp_path / "gold"
    shutil.copytree(made / "lake", lake)
    whole = pq.read_table(lake / f"date={DAY_1}" / "first.parquet", partitioning=None)
    late, on_time = whole.slice(3, 2), pa.concat_tables([whole.slice(0, 3), whole.slice(5)])
    pq.write_table(on_time, lake / f"date={DAY_1}" / "first.parquet")
    run(spark, lake, gold)
    before = contents(gold)
    assert before != contents(made / "gold")
    pq.write_table(late, lake / f"date={DAY_1}" / "late.parquet")
    assert len(run(spark, lake, gold).hours) == 1
    wanted = contents(made / "gold")
    assert {name: rows for name, rows in contents(gold).items() if name not in SILVER} == {
        name: rows for name, rows in wanted.items() if name not in SILVER
    }


def test_a_promise_that_is_told_late_reaches_the_hours_after_it(spark: SparkSession, tmp_path: Path) -> None:
    begun = {"state": "running", "wait_ms": 900}
    write_lake(
        table_of(event(2, "started", "11:00:00", **begun), event(3, "started", "13:00:00", **begun)), tmp_path / "lake"
    )
    gold = tmp_path / "gold"
    run(spark, tmp_path / "lake", gold)
    assert read_gold(gold, "hours", columns=["breaches"])["breaches"].to_pylist() == [0, 0]
    change = event(1, "limits_changed", "10:00:00", job=None, task=None, detail='{"slo_wait_ms": 500}')
    write_lake(table_of(change), tmp_path / "lake", "late")
    assert len(run(spark, tmp_path / "lake", gold).hours) == 3
    assert read_gold(gold, "hours", columns=["breaches"])["breaches"].to_pylist() == [1, 1]


def test_files_of_older_and_newer_schemas_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake" / f"date={DAY_2}"
    lake.mkdir(parents=True)
    table = table_of(ran(1, "completed", "10:00:00", 40, result_bytes=3))
    older = table.drop_columns(["result_bytes", "fingerprint", "detail"])
    newer = table.append_column("region", pa.array(["eu"]))
    pq.write_table(older, lake / "older.parquet")
    pq.write_table(newer, lake / "newer.parquet")
    run(spark, tmp_path / "lake", tmp_path / "gold", Settings())
    [row] = read_gold(tmp_path / "gold", "hours", columns=["attempts", "result_bytes", "run_p50"]).to_pylist()
    assert row == {"attempts": 2, "result_bytes": 3, "run_p50": 40}


def test_it_goes_on_as_segments_come(spark: SparkSession, made: Path, tmp_path: Path) -> None:
    """A query that stays, until it is stopped."""
    lake, gold = tmp_path / "lake", tmp_path / "gold"
    (lake / f"date={DAY_2}").mkdir(parents=True)
    query = start(spark, lake, gold, 50, LEAN)
    try:
        for name, when in (("a", "10:00:00"), ("b", "12:00:00")):
            write_lake(table_of(event(1, "enqueued", when, state="ready")), lake, name)
            query.processAllAvailable()
    finally:
        query.stop()
    assert len(known_hours(gold)) == 2
    with pytest.raises(InvalidRequest, match="it was made from the lake"):
        start(spark, made / "lake", gold)
