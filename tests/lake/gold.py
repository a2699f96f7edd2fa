"""A small gold folder made by hand, without Spark."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tenure.lake.gold import BY_DAY, COUNTS, SUMS, TABLES, date_of, day_file, hour_file, hour_of

BEGIN = datetime(2026, 1, 31, 22, tzinfo=UTC)


def write(folder: Path, table: str, at: datetime, *rows: dict[str, Any], drop: tuple[str, ...] = ()) -> None:
    """Rows of the hour or day that begins then; counts that are not given are 0, all else is null."""
    schema = TABLES[table]
    numbers = {name: 0 for name in (*COUNTS, *SUMS) if name in schema.names}
    found = pa.Table.from_pylist([{"at": at, **numbers, **row} for row in rows], schema).drop_columns(list(drop))
    hour = hour_of(at)
    path = day_file(folder, table, date_of(hour)) if table in BY_DAY else hour_file(folder, table, hour)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(found, path)


def write_all(folder: Path, at: datetime = BEGIN) -> None:
    """An hour in which a little happened, in every table that a report reads."""
    counts = {"events": 30, "enqueued": 10, "arrived": 10, "started": 10, "completed": 8, "failed": 1, "retried": 1}
    ends = {"attempts": 10, "attempts_failed": 2, "run_ms_sum": 20_000, "breaches": 1}
    quantiles = {"wait_p50": 0, "wait_p95": 900, "wait_p99": 4_000, "run_p50": 500, "run_p95": 5_000, "run_p99": 9_000}
    metrics = counts | ends | quantiles
    key = {"tenant": "acme", "queue": "mail"}
    of_all: dict[str, Any] = {"tenant": None, "queue": None}
    write(folder, "minutes", at, {**key, "task": "send", **metrics})
    levels = (metrics | of_all, metrics | key | {"slo_wait_ms": 1_000})
    write(folder, "minute_totals", at, *levels)
    write(folder, "hour_totals", at, *levels)
    write(folder, "day_totals", at.replace(hour=0), *levels)
    used = {"jobs": 10, "completed": 8, "failed": 1, "attempts": 10, "compute_s": 20.0, "payload_bytes": 2_000}
    write(folder, "usage", at.replace(hour=0), {"tenant": "acme", **used})
    slots = {"arrived": 10, "attempts": 10, "mean_run_ms": 2_000.0, "needed": 1.5, "needed_peak": 3.25, "used": 0.5}
    write(folder, "capacity", at, {"tenant": None, "queue": "mail", **slots}, {**key, **slots})
    error = {"fingerprint": "aa", "error_type": "SmtpError", "message": "no <answer>", "count": 2, "dead": 1}
    seen = {"first_at": at, "last_at": at, "example_job": 7}
    write(folder, "errors", at, {**key, "task": "send", **error, **seen})
    busy = {"attempts": 10, "attempts_failed": 2, "run_ms_sum": 20_000, "busy": 0.5, "slots": 2}
    write(folder, "workers", at, {"tenant": "acme", "worker": "w1", **busy, "first_at": at, "last_at": at})
