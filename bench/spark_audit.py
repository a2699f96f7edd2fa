"""The audit on Spark: events checked a second over a large, sound history, beside a plain scan of the same Parquet.

`python -m bench.spark_audit [--quick] [--json]`
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.report import Report, arguments, seconds
from tenure.lake.schema import EVENTS
from tenure.spark.audit import audit

EVENTS_FULL: Final = 5_000_000
EVENTS_QUICK: Final = 300_000
FILES: Final = 8
TENANTS, QUEUES, TASKS, WORKERS = 16, 8, 5, 32
START_MS: Final = 1_700_000_000_000
NEEDED: Final = 40 * TENANTS * QUEUES  # a job depends on the one so many before it, of its own tenant

# What happens to a job: its steps as (type, state, cause, ms after its enqueue, attempt, ends an attempt).
COMPLETED: Final = (
    ("enqueued", "ready", "enqueue", 0, 0, False),
    ("started", "running", "claim", 20, 1, False),
    ("completed", "completed", "complete", 60, 1, True),
)
RETRIED: Final = (
    ("enqueued", "ready", "enqueue", 0, 0, False),
    ("started", "running", "claim", 20, 1, False),
    ("retrying", "retrying", "fail", 60, 1, True),
    ("ready", "ready", "due", 1_060, 1, False),
    ("started", "running", "claim", 1_080, 2, False),
    ("completed", "completed", "complete", 1_120, 2, True),
)
CANCELLED: Final = (
    ("enqueued", "ready", "enqueue", 0, 0, False),
    ("cancelled", "cancelled", "cancel", 10, 0, False),
)
LIVES: Final = (*[COMPLETED] * 7, *[RETRIED] * 2, CANCELLED)
NOTICES: Final = (
    ("", '{"tenant": "tenant-1", "running_max": 100000}'),
    ("queue-2", '{"concurrency": 100000}'),
    ("queue-3", '{"rate": [100000, 1000, 100000]}'),
    ("", '{"key": "api:", "concurrency": 100000}'),
)

Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


def make_history(folder: Path, events: int) -> int:
    """Write about so many events, of jobs that come one a millisecond; answers how many there are."""
    jobs = np.arange(1, events * len(LIVES) // sum(len(life) for life in LIVES) + 1, dtype=np.int64)
    table = pa.concat_tables([_notices(), *_lives(jobs)])
    order = np.lexsort(
        (table["job_seq"].to_numpy(), table["job"].fill_null(0).to_numpy(), table["at"].cast("int64").to_numpy())
    )
    table = table.take(pa.array(order)).set_column(0, EVENTS.field("seq"), pa.array(np.arange(1, len(order) + 1)))
    size = -(-len(table) // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * size, size), folder / f"part-{number}.parquet", compression="zstd")
    return len(table)


def _lives(jobs: Numbers) -> list[pa.Table]:
    found = []
    for kind, life in enumerate(LIVES):
        of_kind = jobs[jobs % len(LIVES) == kind]
        for number in range(len(life)):
            found.append(_step(of_kind, life, number))
    return found


def _step(jobs: Numbers, life: tuple[tuple[str, str, str, int, int, bool], ...], number: int) -> pa.Table:
    type, state, cause, after, attempt, is_end = life[number]
    born = START_MS + jobs
    start = max((step[3] for step in life[: number + 1] if step[0] == "started"), default=0)
    columns: dict[str, pa.Array] = {
        "seq": _same(0, len(jobs), pa.int64()),
        "job_seq": _same(number + 1, len(jobs), pa.int32()),
        "at": _time(born + after),
        "type": _same(type, len(jobs), pa.string()),
        "tenant": _names("tenant", jobs % TENANTS),
        "queue": _names("queue", jobs // TENANTS % QUEUES),
        "task": _names("task", jobs % TASKS),
        "job": pa.array(jobs),
        "state": _same(state, len(jobs), pa.string()),
        "attempt": _same(attempt, len(jobs), pa.int32()),
        "delivery": _same(attempt, len(jobs), pa.int32()),
        "cause": _same(cause, len(jobs), pa.string()),
    }
    if type == "enqueued":
        columns |= _asked(jobs, born)
    if type == "started" or is_end:
        columns |= {"worker": _names("worker", jobs % WORKERS), "started_at": _time(born + start)}
    if type == "retrying":
        columns |= {"run_at": _time(born + 1_060), "reason": _same("attempts_exhausted", len(jobs), pa.string())}
    return _table(columns, len(jobs))


def _asked(jobs: Numbers, born: Numbers) -> dict[str, pa.Array]:
    """One in twenty has a group, a limit key, a unique key; one in fifty a dependency that has ended long ago."""
    text = pa.array(jobs).cast(pa.string())
    keys = _names("api:key", jobs % 100)
    one = pa.array(np.arange(len(jobs) + 1, dtype=np.int32))
    return {
        "run_at": _time(born),
        "max_attempts": _same(3, len(jobs), pa.int32()),
        "group": _where(jobs % 20 == 3, _names("group", jobs // 20 % 1_000)),
        "unique_hash": _where(jobs % 20 == 5, text),
        "limit_keys": pa.ListArray.from_arrays(one, keys, mask=pa.array(jobs % 20 != 7)),
        "depends_on": pa.ListArray.from_arrays(
            one, pa.array(jobs - NEEDED), mask=pa.array((jobs % 50 != 11) | (jobs <= NEEDED))
        ),
    }


def _same(value: object, count: int, type: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, type), count)


def _time(ms: Numbers) -> pa.Array:
    return pa.array(ms * 1_000).cast(EVENTS.field("at").type)


def _names(word: str, numbers: Numbers) -> pa.Array:
    names = pa.array([f"{word}-{number}" for number in range(int(np.max(numbers, initial=0)) + 1)])
    return names.take(pa.array(numbers))


def _where(chosen: "np.ndarray[tuple[int], np.dtype[np.bool_]]", values: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    return pc.if_else(pa.array(chosen), values, None)


def _notices() -> pa.Table:
    count = len(NOTICES)
    columns = {
        "seq": _same(0, count, pa.int64()),
        "job_seq": _same(0, count, pa.int32()),
        "at": _time(np.full(count, START_MS, dtype=np.int64)),
        "type": _same("limits_changed", count, pa.string()),
        "tenant": _same("tenant-1", count, pa.string()),
        "queue": pa.array([queue or None for queue, _ in NOTICES], pa.string()),
        "detail": pa.array([detail for _, detail in NOTICES], pa.string()),
    }
    return _table(columns, count)


def _table(columns: dict[str, pa.Array], count: int) -> pa.Table:
    arrays = [columns.get(field.name, pa.nulls(count, field.type)).cast(field.type) for field in EVENTS]
    return pa.Table.from_arrays(arrays, schema=EVENTS)


def measure_audit(session: SparkSession, report: Report, events: int) -> bool:
    """`spark.audit`, beside a scan of all columns that goes nowhere; whether the history was found sound."""
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as name:
        count = make_history(Path(name), events)
        frame = session.read.parquet(name)
        scan_s = seconds(lambda: frame.write.format("noop").mode("overwrite").save())
        scan_s = min(scan_s, seconds(lambda: frame.write.format("noop").mode("overwrite").save()))
        verdict = audit(frame)
        report.note(verdict.to_text())
        rate, scan = count / (verdict.took_ms / 1_000), count / scan_s
        report.add("spark.audit", rate, "events/s", scan, rate / scan)
        return verdict.ok


def open_session() -> SparkSession:
    return (
        SparkSession.builder.master("local[2]")
        .appName("tenure-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )


def main() -> int:
    given = arguments(__doc__)
    session = open_session()
    session.sparkContext.setLogLevel("ERROR")
    try:
        is_sound = measure_audit(session, Report(given.json), EVENTS_QUICK if given.quick else EVENTS_FULL)
    finally:
        session.stop()
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
