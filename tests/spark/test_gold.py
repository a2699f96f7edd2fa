"""Gold tables as functions: exact figures from small frames, quantiles within the error of a sketch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.history import Shape, make_events
from tenure.lake.gold import CAPACITY, ERRORS, HOUR_S, LIMITS, METRICS, TOTALS, USAGE, WORKERS
from tenure.spark.gold import (
    DAY_S,
    capacity,
    errors,
    fingerprints,
    limits,
    minutes,
    roll_up,
    totals,
    usage,
    with_slo,
    workers,
)
from tenure.spark.silver import attempts
from tenure.spark.sketch import RANK_ERROR, quantiles, sketch
from tests.spark.history import at, event, ran, table_of

pytestmark = pytest.mark.spark


def started(seq: int, when: str, wait_ms: int, **fields: Any) -> dict[str, Any]:
    return event(seq, "started", when, state="running", wait_ms=wait_ms, started_at=at(when), **fields)


def rows_of(frame: DataFrame, *columns: str) -> list[Any]:
    return [tuple(row) for row in frame.select(*columns).orderBy(*columns).collect()]


def test_minutes_count_what_happened_in_them(spark: SparkSession) -> None:
    events = table_of(
        event(1, "limits_changed", "10:00:00", job=None, task=None, detail='{"slo_wait_ms": 300}'),
        event(2, "enqueued", "10:00:01", state="ready", payload_bytes=10),
        event(3, "enqueued", "10:00:02", state="scheduled", payload_bytes=20),
        started(4, "10:00:05", 400),
        started(5, "10:00:06", 300),
        ran(6, "completed", "10:00:59", 1_000, state="completed", result_bytes=7, wait_ms=400),
        ran(7, "retrying", "10:01:00", 3_000, state="ready", result_bytes=0, wait_ms=300),
        event(8, "failed", "10:01:01", state="failed", reason="expired"),
        event(9, "cancelled", "10:01:02", state="cancelled"),
        ran(10, "released", "10:01:03", 5_000, state="ready"),
        event(11, "replayed", "10:01:04", state="ready"),
        event(12, "updated", "10:01:05", state="ready"),
    )
    frame = spark.createDataFrame(events)
    found = minutes(with_slo(frame, limits(frame)))
    assert found.columns == METRICS.names
    first, second = (row.asDict() for row in found.orderBy("at").collect())
    counts = {name: (first[name], second[name]) for name in METRICS.names[4:-2]}
    assert first["at"].minute == 0
    assert counts == {
        "events": (5, 6),
        "enqueued": (2, 0),
        "arrived": (1, 3),
        "started": (2, 0),
        "completed": (1, 0),
        "failed": (0, 1),
        "retried": (0, 1),
        "cancelled": (0, 1),
        "released": (0, 1),
        "replayed": (0, 1),
        "attempts": (1, 2),
        "attempts_failed": (0, 1),
        "breaches": (1, 0),  # 400 ms is more than 300 ms, 300 ms is not
        "wait_ms_sum": (700, None),
        "run_ms_sum": (1_000, 8_000),
        "payload_bytes": (30, None),
        "result_bytes": (7, 0),
        "wait_ms_max": (400, None),
        "run_ms_max": (1_000, 5_000),
        "slo_wait_ms": (300, 300),
        "failure_rate": (0.0, 0.5),
        "retry_rate": (0.0, 0.5),
        "wait_p50": (300, None),
        "wait_p95": (400, None),
        "wait_p99": (400, None),
        "run_p50": (1_000, 3_000),
        "run_p95": (1_000, 5_000),
        "run_p99": (1_000, 5_000),
    }
    assert (second["wait_sketch"], second["run_sketch"] is None) == (None, False)


def test_a_promise_holds_from_its_change_to_the_next(spark: SparkSession) -> None:
    change = {"job": None, "task": None}
    events = table_of(
        started(1, "10:00:00", 50),
        event(2, "limits_changed", "10:10:00", detail='{"slo_wait_ms": 10, "concurrency": 4}', **change),
        started(3, "10:10:00", 50),
        started(4, "10:15:00", 50, tenant="globex"),
        event(5, "limits_changed", "10:20:00", detail='{"slo_wait_ms": 100}', **change),
        started(6, "10:25:00", 50),
        event(7, "limits_changed", "10:30:00", detail="{}", **change),
        started(8, "10:35:00", 50),
        event(9, "limits_changed", "10:40:00", queue=None, detail='{"key": "k", "slo_wait_ms": 1}', **change),
    )
    frame = spark.createDataFrame(events)
    changes = limits(frame)
    assert (changes.columns, rows_of(changes, "seq", "slo_wait_ms")) == (LIMITS.names, [(2, 10), (5, 100), (7, None)])
    promised = with_slo(frame, changes, 2_000).where("type = 'started'")
    assert rows_of(promised, "seq", "slo_wait_ms") == [(1, 2_000), (3, 10), (4, 2_000), (6, 100), (8, 2_000)]


@pytest.fixture(scope="module")
def made() -> pa.Table:
    return make_events(20_000, Shape(days=0.2, tenants=2))


@pytest.fixture(scope="module")
def metrics(spark: SparkSession, made: pa.Table) -> DataFrame:
    """Kept by Spark, so that it is worked out once."""
    return minutes(spark.createDataFrame(made).coalesce(2)).cache()


def rank_off(values: Sequence[int], answer: int, rank: float) -> float:
    """How far the answer is from where the rank would be."""
    below, upto = np.searchsorted(np.sort(values), [answer, answer + 1]) / len(values)
    return float(max(below - rank, rank - upto, 0.0))


def test_quantiles_of_rolled_up_sketches_are_within_their_error(made: pa.Table, metrics: DataFrame) -> None:
    """From minutes to hours to a day to all tenants: merged often, and as good as one sketch of all values."""
    frame = made.to_pandas()
    runs = frame[frame.run_ms.notna()]
    waits = frame[frame.type == "started"]
    [total] = totals(roll_up(roll_up(metrics, HOUR_S), DAY_S)).where("tenant IS NULL AND queue IS NULL").collect()
    for values, what in ((runs.run_ms, "run"), (waits.wait_ms, "wait")):
        for name, rank in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            assert rank_off(values.to_numpy(), total[f"{what}_{name}"], rank) < 2 * RANK_ERROR, (what, name)
    assert (total.attempts, total.events) == (len(runs), len(frame))
    assert (total.run_ms_sum, total.run_ms_max) == (runs.run_ms.sum(), runs.run_ms.max())


def test_an_hour_from_its_minutes_is_the_hour_sketched_at_once(
    spark: SparkSession, made: pa.Table, metrics: DataFrame
) -> None:
    frame = spark.createDataFrame(made)
    hour = (sf.floor(sf.unix_seconds("at") / HOUR_S) * HOUR_S).alias("hour")
    at_once = frame.where("run_ms IS NOT NULL").groupBy(hour, "tenant", "queue", "task")
    direct = at_once.agg(sketch(sf.col("run_ms")).alias("run_sketch"), sf.collect_list("run_ms").alias("values"))
    direct = direct.select("hour", "tenant", "queue", "task", "values", *quantiles("run"))
    key = [sf.unix_seconds("at").alias("hour"), *(sf.col(name) for name in ("tenant", "queue", "task"))]
    rolled = roll_up(metrics, HOUR_S).select(
        *key, *(sf.col(f"run_{name}").alias(name) for name in ("p50", "p95", "p99"))
    )
    compared = direct.join(rolled, ["hour", "tenant", "queue", "task"]).collect()
    assert len(compared) > 50
    for row in compared:
        for name, rank in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            for answer in (row[name], row[f"run_{name}"]):
                assert rank_off(row["values"], answer, rank) < 2 * RANK_ERROR


def test_totals_add_up_on_every_level(metrics: DataFrame) -> None:
    found = totals(roll_up(metrics, DAY_S))
    assert found.columns == TOTALS.names
    rows = found.collect()
    [everything] = [row for row in rows if row.tenant is None and row.queue is None]
    for of_level in (
        [row for row in rows if row.tenant and row.queue],
        [row for row in rows if row.tenant and not row.queue],
        [row for row in rows if row.queue and not row.tenant],
    ):
        for name in ("events", "enqueued", "completed", "failed", "retried", "attempts", "run_ms_sum"):
            assert sum(row[name] for row in of_level) == everything[name], name


def test_usage_is_what_a_tenant_ran_and_sent(spark: SparkSession) -> None:
    events = table_of(
        event(1, "enqueued", "10:00:00", payload_bytes=100, state="ready"),
        event(2, "enqueued", "23:59:59", payload_bytes=50, state="ready", task="other"),
        ran(3, "completed", "12:00:00", 1_500, result_bytes=5),
        ran(4, "retrying", "12:00:00", 500, result_bytes=0),
        event(5, "cancelled", "13:00:00", tenant="globex", state="cancelled"),
    )
    found = usage(roll_up(minutes(spark.createDataFrame(events)), DAY_S))
    assert found.columns == USAGE.names
    assert rows_of(found, *USAGE.names[1:]) == [("acme", 2, 1, 0, 2, 2.0, 150, 5), ("globex", 0, 0, 0, 0, 0.0, 0, 0)]


def test_capacity_is_arrivals_times_mean_run(spark: SparkSession) -> None:
    new = {"state": "ready", "payload_bytes": 1}
    events = table_of(
        *(event(number, "enqueued", "10:00:00", **new) for number in range(1, 31)),
        *(event(number, "enqueued", "10:30:00", **new) for number in range(31, 37)),
        *(event(number, "enqueued", "10:00:30", **new, tenant="globex") for number in range(37, 73)),
        ran(80, "completed", "10:59:00", 10_000),
        ran(81, "retrying", "10:59:00", 30_000, tenant="globex"),
    )
    found = capacity(totals(minutes(spark.createDataFrame(events))))
    assert found.columns == CAPACITY.names
    by_tenant = {row.tenant: row for row in found.collect()}
    acme, globex, both = by_tenant["acme"], by_tenant["globex"], by_tenant[None]
    assert (acme.arrived, acme.arrival_per_s, acme.mean_run_ms) == (36, 0.01, 10_000)
    assert (acme.needed, acme.needed_peak) == (0.1, 30 / 60 * 10)
    assert (globex.needed, globex.used) == (pytest.approx(0.3), 30 / 3600)
    assert (both.arrived, both.mean_run_ms, both.needed) == (72, 20_000, 0.4)
    assert both.needed_peak == pytest.approx(66 / 60 * 20)


def test_errors_are_grouped_by_fingerprint(spark: SparkSession) -> None:
    smtp = {"fingerprint": "aa", "error_type": "SmtpError"}
    events = table_of(
        ran(1, "retrying", "10:00:00", 10, job=1, message="no answer from 1", **smtp),
        ran(2, "retrying", "10:30:00", 10, job=2, message="no answer from 2", **smtp),
        ran(3, "failed", "11:00:00", 10, job=3, message="no answer from 3", **smtp),
        ran(4, "failed", "11:00:00", 10, job=4, fingerprint="bb", error_type="KeyError", message="x"),
        ran(5, "completed", "11:00:00", 10, job=5),
    )
    by_hour = errors(spark.createDataFrame(events))
    assert by_hour.columns == ERRORS.names
    assert rows_of(by_hour, "at", "fingerprint", "count", "example_job") == [
        (at("10:00:00").replace(tzinfo=None), "aa", 2, 2),
        (at("11:00:00").replace(tzinfo=None), "aa", 1, 3),
        (at("11:00:00").replace(tzinfo=None), "bb", 1, 4),
    ]
    most, other = fingerprints(by_hour).collect()
    assert (most.fingerprint, most["count"], most.dead, most.retried, most.example_job) == ("aa", 3, 1, 2, 3)
    assert (most.message, str(most.first_at.time()), str(most.last_at.time())) == (
        "no answer from 3",
        "10:00:00",
        "11:00:00",
    )
    assert other.fingerprint == "bb"


def test_workers_are_as_busy_as_their_attempts_ran(spark: SparkSession) -> None:
    events = table_of(
        ran(1, "completed", "10:10:00", 600_000),  # from 10:00
        ran(2, "failed", "10:15:00", 600_000),  # from 10:05: two at once
        ran(3, "completed", "10:25:00", 600_000),  # from 10:15, when the other had ended
        ran(4, "completed", "10:30:00", 0, worker="w2"),
        event(5, "cancelled", "10:30:00", state="cancelled"),
    )
    found = workers(attempts(spark.createDataFrame(events)))
    assert found.columns == WORKERS.names
    assert rows_of(found, "worker", "attempts", "attempts_failed", "busy", "slots") == [
        ("w1", 3, 1, 0.5, 2),
        ("w2", 1, 0, 0.0, 1),
    ]
