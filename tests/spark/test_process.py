"""Workers on executors, in Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import LongType

import tenure.spark
from tenure.core.error import InvalidRequest
from tests.cli.rig import serving
from tests.spark.rig import run_child
from tests.spark.tasks import double
from tests.spark.workshop import QUEUE, Workshop

pytestmark = pytest.mark.spark

as_udf: Any = pandas_udf  # its overloads know no pandas without types


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def workshop(url: str) -> Workshop:
    return Workshop(url)


def test_tasks_of_spark_work_off_a_queue(spark: SparkSession, workshop: Workshop) -> None:
    def handle(payload: dict[str, int]) -> int:
        if payload["n"] == 3:
            raise ValueError("three")
        return payload["n"] + 1

    ids = workshop.put(*({"n": number} for number in range(200)), max_attempts=1)
    report = tenure.spark.process(QUEUE, handle, url=workshop.url, tenant=workshop.tenant)
    assert (report.completed, report.failed) == (199, 1)
    assert [part.partition for part in report.parts] == [0, 1]
    assert sum(part.completed for part in report.parts) == 199
    assert workshop.results() == {id: number + 1 for number, id in enumerate(ids) if number != 3}
    workers = {workshop.get(id).worker for id in ids}
    assert workers <= {part.worker for part in report.parts}


def add_columns(n: pd.Series, m: pd.Series) -> pd.Series:
    return n + m


def test_pandas_udf_and_task_are_handlers(spark: SparkSession, workshop: Workshop) -> None:
    add = as_udf(add_columns, LongType())
    ids = workshop.put(*({"n": number, "m": 1} for number in range(4)))
    into: dict[str, Any] = {"url": workshop.url, "tenant": workshop.tenant}
    report = tenure.spark.process(QUEUE, add, spark=spark, tasks=["count"], jobs=3, parallelism=1, **into)
    assert report.completed == 3
    report = tenure.spark.process([QUEUE, "other"], add, spark=spark, parallelism=1, **into)
    assert workshop.results() == {id: number + 1 for number, id in enumerate(ids)}
    [id] = workshop.put({"number": 21}, task="tests.double")
    tenure.spark.process(QUEUE, double, spark=spark, parallelism=1, **into)
    assert workshop.results()[id] == [42, id]


def total(n: pd.Series) -> int:
    return int(n.sum())


@pytest.mark.parametrize(
    ("handler", "options", "message"),
    [
        (as_udf(total, LongType()), {}, "those that take columns and give one"),
        (len, {"form": "rows", "parallelism": 0}, "parallelism"),
        (len, {"form": "rows", "until": "bound"}, "go on for ever"),
        (7, {}, "it must be a function"),
    ],
)
def test_what_cannot_run_is_refused_by_the_driver(
    spark: SparkSession, workshop: Workshop, handler: object, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        tenure.spark.process(QUEUE, handler, url=workshop.url, spark=spark, **options)


def test_task_that_is_killed_is_tried_again_and_every_job_has_one_result(workshop: Workshop, tmp_path: Path) -> None:
    """Through Spark Connect. The jobs of the killed task are taken up when their leases are over."""
    ids = workshop.put(*({"n": number} for number in range(100)), backoff=tenure.Backoff.fixed(0))
    said = run_child("tests.spark.process_child", tmp_path, workshop.url, workshop.tenant)
    assert (tmp_path / "killed").exists()
    assert workshop.results() == {id: number * 10 for number, id in enumerate(ids)}
    found = [workshop.get(id) for id in ids]
    again = [job for job in found if job.attempt == 2]
    assert 1 <= len(again) <= 10
    assert ids[7] in {job.id for job in again}
    assert {job.attempt for job in found} == {1, 2}
    with workshop.client() as client:
        completed = [event.job for event in client.events() if event.type == "completed"]
    assert sorted(completed) == sorted(ids)
    report = json.loads(said)
    assert report["lost"] == 0
    assert any(part["worker"].endswith(".1") for part in report["parts"])
