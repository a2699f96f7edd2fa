"""`tenure spark audit` on a real server and on files: what it reads, what it says, how it exits."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tenure
from tests.cli.rig import run, serving
from tests.spark.histories import table_of, write
from tests.spark.plants import case_of, started_after_cancel
from tests.spark.scenario import eventful

pytestmark = pytest.mark.spark


def test_server_is_asked_for_its_events(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path) as url:
        with tenure.connect_sync(url, tenant="acme") as client:
            client.enqueue_many([b"1", b"2", b"3"], queue="mail", task="send")
            for job in client.claim("mail", n=2, worker="w-1"):
                client.complete(job)
        ended = run("spark", "audit", "--url", url, "--tenant", "*", "--json")
    assert ended.code == 0, ended
    assert (ended.json["ok"], ended.json["jobs"], ended.json["is_whole"]) == (True, 3, True)


def test_broken_history_is_told_and_ends_with_1(spark: SparkSession, tmp_path: Path) -> None:
    case = case_of(eventful())
    started_after_cancel(case)
    file = write([table_of(case.events, 0).drop_columns(["store"])], tmp_path / "events.parquet")
    ended = run("spark", "audit", "--events", str(file))
    assert ended.code == 1, ended
    assert ended.out.startswith("BROKEN: 1 violation of 1 promise in")
    assert f"job {case.jobs['cancelled']} (acme/plain/work), event 3" in ended.out


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    assert run("spark", "audit", "--lake", "a", "--events", "b").code == 2
    assert "there is no such folder" in run("spark", "audit", "--events", str(tmp_path / "none")).err
