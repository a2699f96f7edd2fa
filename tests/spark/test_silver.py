"""Events as things: attempts and jobs, over a history that a real store went through."""

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tenure.lake.gold import JOB_HOURS
from tenure.lake.schema import ATTEMPTS
from tenure.spark.silver import attempts, job_hours, jobs, merge_jobs
from tests.spark.history import event, live_a_little, table_of

pytestmark = pytest.mark.spark


@pytest.fixture
async def lived(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(await live_a_little())


def by_id(rows: Iterable[Row]) -> dict[int, Any]:
    return {row["job"]: row for row in rows}


async def test_an_attempt_is_the_event_that_ended_it(lived: DataFrame) -> None:
    found = attempts(lived)
    assert found.columns == ATTEMPTS.names
    rows = [(row.job, row.attempt, row.outcome, row.wait_ms, row.run_ms) for row in found.orderBy("seq").collect()]
    assert rows == [
        (1, 1, "completed", 6_000, 2_000),
        (2, 1, "retrying", 6_000, 2_000),
        (3, 1, "completed", 5_000, 3_000),
        (5, 1, "failed", 0, 1_500_000),
        (2, 2, "completed", 0, 4_000),
        (4, 1, "cancelled", 1_506_000, 4_000),
        (5, 1, "completed", 0, 3_000),
    ]


async def test_a_job_is_put_together_from_its_events(lived: DataFrame) -> None:
    found = by_id(jobs(lived).collect())
    assert sorted(found) == [1, 2, 3, 4, 5, 6]
    assert {id: row.state for id, row in found.items()} == {
        1: "completed",
        2: "completed",
        3: "completed",
        4: "cancelled",
        5: "completed",
        6: "scheduled",  # and was removed
    }
    retried = found[2]
    assert (retried.attempts, retried.wait_ms, retried.run_ms, retried.payload_bytes) == (2, 6_000, 6_000, 100)
    assert (retried.error_type, retried.fingerprint, retried.result_bytes) == ("SmtpError", "d73a073ecfd0bb94", 4)
    assert retried.total_ms == (25 * 60 + 9 + 4) * 1_000
    replayed = found[5]
    assert (replayed.replays, replayed.attempts, replayed.error_type) == (1, 2, "RenderError")
    assert replayed.ended_at > replayed.started_at
    removed = found[6]
    assert (removed.ended_at, removed.total_ms, removed.attempts) == (None, None, 0)
    assert removed.removed_at is not None


async def test_jobs_told_by_hours_are_the_same_jobs(lived: DataFrame) -> None:
    """The history crosses midnight, so that most jobs are told in two parts."""
    told = job_hours(lived)
    assert told.columns == JOB_HOURS.names
    parts = told.collect()
    assert len(parts) == 6 + 4
    again = lived.sparkSession.createDataFrame(parts[::-1], told.schema)
    assert sorted(merge_jobs(again).collect()) == sorted(jobs(lived).collect())


def test_a_replayed_job_has_no_end_until_it_ends_again(spark: SparkSession) -> None:
    events = table_of(
        event(1, "enqueued", "10:00:00", state="ready", payload_bytes=5),
        event(2, "failed", "10:10:00", state="failed", reason="discarded"),
        event(3, "replayed", "11:00:00", state="ready"),
    )
    [job] = jobs(spark.createDataFrame(events)).collect()
    assert (job.state, job.ended_at, job.replays, job.reason) == ("ready", None, 1, "discarded")
