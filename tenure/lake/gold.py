"""The gold tables as files: which there are, what is in them, where each hour's file is, and how they are read.

    DIR/minutes/date=2026-01-31/07.parquet      what happened from 07:00 to 08:00 UTC
    DIR/days/date=2026-01-31/day.parquet        tables by day have one file a day

Plain Parquet, read by anything that reads Parquet. A file is replaced as a whole by rename, so a reader sees the old
one or the new one. No Spark here: the server and the report read gold with pyarrow alone.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tenure.core.bound import nearest
from tenure.core.error import InvalidRequest
from tenure.lake.schema import ATTEMPTS, TIME

VERSION: Final = 1  # rises when a column changes its meaning or goes; a new column at the end does not raise it
HOUR_S: Final = 3_600
TRIES: Final = 3  # a file that was listed may be gone when it is opened, if its hour was just made anew

# What a row counts. `at` is the beginning of its minute, hour or day.
COUNTS: Final = (
    "events",
    "enqueued",
    "arrived",  # came into the line: became ready, whatever from
    "started",
    "completed",
    "failed",  # became dead letters, also without an attempt
    "retried",
    "cancelled",
    "released",
    "replayed",
    "attempts",  # that ended
    "attempts_failed",  # of these, those that ended in retrying or failed
    "breaches",  # starts after a wait longer than slo_wait_ms
)
SUMS: Final = ("wait_ms_sum", "run_ms_sum", "payload_bytes", "result_bytes")
MOST: Final = ("wait_ms_max", "run_ms_max", "slo_wait_ms")
RATES: Final = ("failure_rate", "retry_rate")
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
QUANTILE_NAMES: Final = tuple(f"{what}_{name}" for what in ("wait", "run") for name in QUANTILES)
SKETCHES: Final = ("wait_sketch", "run_sketch")

_AT: Final = pa.field("at", TIME, nullable=False)
_COUNTED: Final = [
    *((name, pa.int64()) for name in (*COUNTS, *SUMS, *MOST)),
    *((name, pa.float64()) for name in RATES),
    *((name, pa.int64()) for name in QUANTILE_NAMES),
]
_KEY: Final = [(name, pa.string()) for name in ("tenant", "queue", "task")]
METRICS: Final = pa.schema([_AT, *_KEY, *_COUNTED, *((name, pa.binary()) for name in SKETCHES)])
# A null tenant is all tenants, a null queue all queues; all tasks together.
TOTALS: Final = pa.schema([_AT, *_KEY[:2], *_COUNTED])

USAGE: Final = pa.schema(
    [
        _AT,
        ("tenant", pa.string()),
        *((name, pa.int64()) for name in ("jobs", "completed", "failed", "attempts")),
        ("compute_s", pa.float64()),
        *((name, pa.int64()) for name in ("payload_bytes", "result_bytes")),
    ]
)
CAPACITY: Final = pa.schema(
    [
        _AT,
        *_KEY[:2],  # a null tenant is all tenants
        *((name, pa.int64()) for name in ("arrived", "attempts")),
        ("arrival_per_s", pa.float64()),
        ("mean_run_ms", pa.float64()),
        ("needed", pa.float64()),  # Little's law: arrivals a second x mean run
        ("needed_peak", pa.float64()),  # the same with the arrivals of the busiest minute
        ("used", pa.float64()),  # run at once on average
    ]
)
ERRORS: Final = pa.schema(
    [
        _AT,
        *_KEY,
        ("fingerprint", pa.string()),
        ("error_type", pa.string()),
        ("message", pa.string()),
        *((name, pa.int64()) for name in ("count", "dead", "retried")),
        ("first_at", TIME),
        ("last_at", TIME),
        ("example_job", pa.int64()),
    ]
)
WORKERS: Final = pa.schema(
    [
        _AT,
        ("tenant", pa.string()),
        ("worker", pa.string()),
        *((name, pa.int64()) for name in ("attempts", "attempts_failed", "run_ms_sum")),
        ("busy", pa.float64()),  # slots in use on average, over the hour
        ("slots", pa.int64()),  # the most attempts at once
        ("first_at", TIME),
        ("last_at", TIME),
    ]
)
# What a queue promised, from when on.
LIMITS: Final = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        _AT,
        ("tenant", pa.string()),
        ("queue", pa.string()),
        ("slo_wait_ms", pa.int64()),
    ]
)
# What one hour's events tell of a job. `tenure.spark.silver.merge_jobs` makes whole jobs of these.
JOB_HOURS: Final = pa.schema(
    [
        _AT,
        pa.field("job", pa.int64(), nullable=False),
        *_KEY,
        ("last_seq", pa.int32()),
        ("state", pa.string()),
        ("enqueued_at", TIME),
        ("started_at", TIME),
        ("ended_at", TIME),
        ("removed_at", TIME),
        *((name, pa.int64()) for name in ("attempts", "replays", "wait_ms", "run_ms", "payload_bytes")),
        ("result_bytes", pa.int64()),
        ("failed_seq", pa.int32()),
        *((name, pa.string()) for name in ("reason", "error_type", "message", "fingerprint")),
    ]
)

BY_HOUR: Final = {
    "minutes": METRICS,
    "hours": METRICS,
    "minute_totals": TOTALS,
    "hour_totals": TOTALS,
    "capacity": CAPACITY,
    "errors": ERRORS,
    "workers": WORKERS,
    "limits": LIMITS,
    "attempts": ATTEMPTS,
    "jobs": JOB_HOURS,
}
BY_DAY: Final = {"days": METRICS, "day_totals": TOTALS, "usage": USAGE}
SILVER: Final = ("attempts", "jobs")
TABLES: Final = {**BY_HOUR, **BY_DAY}


def hour_of(at: datetime) -> int:
    """Hours are numbered from 1970 on, so that no time zone has a say."""
    return int(at.timestamp()) // HOUR_S


def date_of(hour: int) -> date:
    return datetime.fromtimestamp(hour * HOUR_S, UTC).date()


def hours_of(day: date) -> range:
    first = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) // HOUR_S
    return range(first, first + 24)


def hour_file(folder: Path, table: str, hour: int) -> Path:
    return folder / table / f"date={date_of(hour)}" / f"{hour % 24:02}.parquet"


def day_file(folder: Path, table: str, day: date) -> Path:
    return folder / table / f"date={day}" / "day.parquet"


def dates_of(folder: Path, table: str) -> list[date]:
    """The dates of which there is something, oldest first."""
    found = (path.name.removeprefix("date=") for path in (folder / table).glob("date=*"))
    return sorted(date.fromisoformat(text) for text in found)


def files_of(folder: Path, table: str, first: date | None = None, last: date | None = None) -> list[Path]:
    days = (day for day in dates_of(folder, table) if (first or day) <= day <= (last or day))
    return [path for day in days for path in sorted((folder / table / f"date={day}").glob("[!._]*.parquet"))]


def known_hours(folder: Path) -> list[int]:
    """The hours of which there is gold, oldest first."""
    return [
        hours_of(date.fromisoformat(path.parent.name.removeprefix("date=")))[int(path.stem)]
        for path in files_of(folder, "minutes")
    ]


def read_gold(
    folder: Path | str,
    table: str,
    first: date | None = None,
    last: date | None = None,
    columns: Sequence[str] | None = None,
    tenant: str | None = None,
) -> pa.Table:
    """A table from the first date to the last, both included, in the order of time.

    Columns that a file does not have yet are null; a table that is not there is empty. Memory is that of the columns
    asked for, so ask for few: sketches are the larger part of a row.
    """
    schema = schema_of(table, columns)
    for left in reversed(range(TRIES)):
        try:
            return read_files(files_of(Path(folder), table, first, last), schema, tenant)
        except FileNotFoundError:
            if not left:
                raise
    raise AssertionError("not reached")


def schema_of(table: str, columns: Sequence[str] | None = None) -> pa.Schema:
    if table not in TABLES:
        raise InvalidRequest("table", table, nearest(table, tuple(TABLES)))
    schema = TABLES[table]
    for name in columns or ():
        if name not in schema.names:
            raise InvalidRequest("columns", name, nearest(name, tuple(schema.names)))
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def read_files(files: Sequence[Path], schema: pa.Schema, tenant: str | None = None) -> pa.Table:
    parts = list(_read(files, schema, tenant))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _read(files: Sequence[Path], schema: pa.Schema, tenant: str | None) -> Iterator[pa.Table]:
    for path in files:
        with pq.ParquetFile(path) as file:
            there = set(file.schema_arrow.names)
            wanted = {*schema.names, *(() if tenant is None else ("tenant",))}
            found = file.read(columns=sorted(wanted & there))
        if tenant is not None:
            found = found.filter(pc.equal(found["tenant"], tenant))
        columns = [
            found[field.name].cast(field.type) if field.name in there else pa.nulls(found.num_rows, field.type)
            for field in schema
        ]
        yield pa.Table.from_arrays(columns, schema=schema)


def counted_events(path: Path) -> int:
    """How many events a file of `minutes` was made from; 0 when there is none."""
    if not path.exists():
        return 0
    return pc.sum(pq.read_table(path, columns=["events"], partitioning=None)["events"]).as_py() or 0


def last_days(folder: Path | str, days: int) -> tuple[date, date] | None:
    """The first and last date of the newest so many days of which there is gold."""
    found = dates_of(Path(folder), "minutes")
    return (max(found[0], found[-1] - timedelta(days=days - 1)), found[-1]) if found else None
