"""Made-up histories of any size as a table of events, without a store: for benchmarks and sample reports.

A job is enqueued, waits, is started, and completes, fails for good, or is retried up to three attempts. Load follows
the hour of the day, queues differ in speed, tenants in size, and a few failures are more frequent than the rest.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tenure.lake.schema import EVENTS

ATTEMPTS_MAX: Final = 3
RETRY_MS: Final = 1_000
DAY_MS: Final = 86_400_000
ROW_GROUP_ROWS: Final = 131_072

QUEUES: Final = ("email", "images", "billing", "reports")
TASKS: Final = (("send", "digest"), ("resize", "embed"), ("charge", "invoice"), ("render", "export"))
RUN_MS: Final = (120, 900, 350, 2_500)
WAIT_MS: Final = (40, 400, 90, 1_500)
FAILS: Final = (0.02, 0.06, 0.01, 0.04)
ERRORS: Final = (
    ("TimeoutError", "the mail server did not answer within 30 s", "smtp"),
    ("OSError", "image file is truncated (12 bytes not processed)", "image"),
    ("CardDeclined", "card ending '4242' was declined", "card"),
    ("MemoryError", "unable to allocate 512 MiB for an array", "memory"),
    ("ConnectionResetError", "connection to 10.0.0.7 was reset", "reset"),
    ("ValueError", "no such template: 'q3-summary'", "template"),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a history looks besides its size."""

    start: datetime = datetime(2026, 1, 12, tzinfo=UTC)
    days: float = 1.0
    tenants: int = 12
    workers: int = 8
    seed: int = 1


PLAIN: Final = Shape()


def _choose(names: list[str] | tuple[str, ...], numbers: NDArray[np.int64]) -> pa.Array:
    return pc.take(pa.array(names, pa.string()), pa.array(numbers))


def _enqueue_times(shape: Shape, jobs: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Busiest in the afternoon; nights have a third of it."""
    span_ms = int(shape.days * DAY_MS)
    at = draw.uniform(0, span_ms, jobs * 2)
    of_day = (at + shape.start.timestamp() * 1000) % DAY_MS / DAY_MS
    kept = at[draw.random(len(at)) < 0.66 + 0.34 * np.sin((of_day - 0.35) * 2 * np.pi)]
    while len(kept) < jobs:
        kept = np.concatenate([kept, draw.uniform(0, span_ms, jobs - len(kept))])
    return np.sort(kept[:jobs]).astype(np.int64) + int(shape.start.timestamp() * 1000)


def make_events(events: int, shape: Shape = PLAIN) -> pa.Table:
    """About so many events, in the order of their times."""
    draw = np.random.default_rng(shape.seed)
    jobs = max(int(events / 3.07), 1)
    enqueued = _enqueue_times(shape, jobs, draw)
    queue = draw.choice(len(QUEUES), jobs, p=(0.5, 0.2, 0.2, 0.1))
    task = draw.integers(0, 2, jobs)
    sizes = 1 / np.arange(1, shape.tenants + 1)
    tenant = draw.choice(shape.tenants, jobs, p=sizes / sizes.sum())
    parts = [_part("enqueued", np.arange(jobs), np.zeros(jobs, np.int64), enqueued, enqueued, enqueued, 0, draw)]
    ready, alive, job_seq = enqueued.copy(), np.arange(jobs), np.ones(jobs, np.int64)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        of = queue[alive]
        busy = 1 + 2 * np.clip(np.sin(((ready[alive] % DAY_MS) / DAY_MS - 0.35) * 2 * np.pi), 0, None)
        wait = (np.asarray(WAIT_MS)[of] * busy * draw.lognormal(0, 0.9, len(alive))).astype(np.int64)
        run = (np.asarray(RUN_MS)[of] * (1 + task[alive]) * draw.lognormal(0, 0.6, len(alive))).astype(np.int64) + 1
        started = ready[alive] + wait
        ended = started + run
        bad = draw.random(len(alive)) < np.asarray(FAILS)[of]
        last = bad & ((attempt == ATTEMPTS_MAX) | (draw.random(len(alive)) < 0.2))
        parts.append(_part("started", alive, job_seq[alive], started, ready[alive], started, attempt, draw))
        for kind, which in (("completed", ~bad), ("failed", last), ("retrying", bad & ~last)):
            rows = alive[which]
            parts.append(_part(kind, rows, job_seq[rows] + 1, ended[which], ready[rows], started[which], attempt, draw))
        ready[alive] = ended + RETRY_MS
        job_seq[alive] += 2
        alive = alive[bad & ~last]
    return _table(parts, enqueued, queue, task, tenant, shape, draw)


def _part(
    kind: str,
    job: NDArray[np.int64],
    job_seq: NDArray[np.int64],
    at: NDArray[np.int64],
    ready: NDArray[np.int64],
    started: NDArray[np.int64],
    attempt: int,
    draw: np.random.Generator,
) -> dict[str, NDArray[np.int64]]:
    count = len(job)
    number = KINDS.index(kind)
    return {
        "kind": np.full(count, number),
        "job": job,
        "job_seq": job_seq + 1,
        "at": at,
        "ready": ready,
        "started": started,
        "attempt": np.full(count, attempt),
        "error": draw.integers(0, 8, count),
    }


KINDS: Final = ("enqueued", "started", "completed", "failed", "retrying")
STATES: Final = ("ready", "running", "completed", "failed", "retrying")


def _table(
    parts: list[dict[str, NDArray[np.int64]]],
    enqueued: NDArray[np.int64],
    queue: NDArray[np.int64],
    task: NDArray[np.int64],
    tenant: NDArray[np.int64],
    shape: Shape,
    draw: np.random.Generator,
) -> pa.Table:
    row = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((row["job_seq"], row["at"]))
    row = {name: values[order] for name, values in row.items()}
    kind, job = row["kind"], row["job"]
    is_new, is_ended, is_bad = kind == 0, kind >= 2, kind >= 3
    error = np.where(row["error"] < 2, len(QUEUES) + row["error"] % 2, queue[job])
    worker = (job * 7 + row["attempt"]) % shape.workers

    def number(values: NDArray[np.int64], there: NDArray[np.bool_], type: pa.DataType) -> pa.Array:
        return pa.array(values, type, mask=~there)

    def time(values: NDArray[np.int64], there: NDArray[np.bool_]) -> pa.Array:
        return pa.array(values * 1000, pa.int64(), mask=~there).cast(pa.timestamp("us", tz="UTC"))

    def text(names: list[str] | tuple[str, ...], numbers: NDArray[np.int64], there: NDArray[np.bool_]) -> pa.Array:
        return pc.if_else(pa.array(there), _choose(names, numbers), pa.scalar(None, pa.string()))

    everywhere, is_run = np.ones(len(kind), bool), kind >= 1
    columns: dict[str, pa.Array] = {
        "seq": pa.array(np.arange(1, len(kind) + 1)),
        "job_seq": number(row["job_seq"], everywhere, pa.int32()),
        "at": time(row["at"], everywhere),
        "type": _choose(KINDS, kind),
        "tenant": _choose([f"tenant-{at:02}" for at in range(shape.tenants)], tenant[job]),
        "queue": _choose(QUEUES, queue[job]),
        "task": _choose([name for pair in TASKS for name in pair], queue[job] * 2 + task[job]),
        "job": pa.array(job + 1),
        "state": _choose(STATES, kind),
        "attempt": number(row["attempt"], everywhere, pa.int32()),
        "delivery": number(row["attempt"], everywhere, pa.int32()),
        "worker": text([f"worker-{at}" for at in range(shape.workers)], worker, is_run),
        "priority": number(np.zeros(len(kind), np.int64), is_new, pa.int32()),
        "max_attempts": number(np.full(len(kind), ATTEMPTS_MAX), is_new, pa.int32()),
        "payload_bytes": number(draw.integers(100, 4_000, len(kind)), is_new, pa.int64()),
        "enqueued_at": time(enqueued[job], is_ended),
        "ready_at": time(row["ready"], is_run),
        "started_at": time(row["started"], is_run),
        "wait_ms": number(row["started"] - row["ready"], is_run, pa.int64()),
        "run_ms": number(row["at"] - row["started"], is_ended, pa.int64()),
        "result_bytes": number(draw.integers(0, 900, len(kind)), is_ended, pa.int64()),
        "reason": text(("attempts_exhausted",), np.zeros(len(kind), np.int64), kind == 3),
        "error_type": text([each[0] for each in ERRORS], error, is_bad),
        "message": text([each[1] for each in ERRORS], error, is_bad),
        "fingerprint": text([each[2].encode().hex().ljust(16, "0") for each in ERRORS], error, is_bad),
    }
    blank = {field.name: pa.nulls(len(kind), field.type) for field in EVENTS if field.name not in columns}
    return pa.Table.from_arrays([(columns | blank)[field.name] for field in EVENTS], schema=EVENTS)


def write_segments(table: pa.Table, folder: Path, name: str = "made") -> list[Path]:
    """One file for each date, as the event lake has them."""
    days = pc.cast(pc.floor_temporal(table["at"], unit="day"), pa.int64())
    written: list[Path] = []
    for day in pc.unique(days).to_pylist():
        date = datetime.fromtimestamp(day / 1e6, UTC).date()
        path = folder / f"date={date}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.filter(pc.equal(days, day)), path, row_group_size=ROW_GROUP_ROWS, compression="zstd")
        written.append(path)
    return written
