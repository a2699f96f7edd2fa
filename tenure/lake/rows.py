"""Events as they are read one by one, as a batch of the table `events`."""

from collections.abc import Sequence

import msgspec
import pyarrow as pa

from tenure.core.record import Event
from tenure.lake.schema import EVENTS

TIMES = ("run_at", "expires_at", "enqueued_at", "ready_at", "started_at")
TEXTS = ("tenant", "queue", "task", "state", "worker", "cause", "group", "unique_hash", "reason", "error_type")
COMES_IN = frozenset({"enqueued"})


def row_of(event: Event) -> dict[str, object]:
    is_job = event.job != 0
    is_new = event.type in COMES_IN
    is_over = event.started_at != 0 and event.type != "started"
    row: dict[str, object] = {
        "seq": event.seq,
        "job_seq": event.job_seq,
        "at": event.at * 1000,
        "type": event.type,
        "job": event.job or None,
        "attempt": event.attempt if is_job else None,
        "delivery": event.delivery if is_job else None,
        "priority": event.priority if is_new else None,
        "max_attempts": event.max_attempts if is_new else None,
        "limit_keys": list(event.limit_keys) or None,
        "depends_on": list(event.depends_on) or None,
        "payload_bytes": event.payload_bytes if is_new else None,
        "wait_ms": event.wait_ms if event.started_at else None,
        "run_ms": event.run_ms if is_over else None,
        "result_bytes": event.result_bytes if is_over else None,
        "message": event.message or None,
        "fingerprint": event.fingerprint or None,
        "detail": msgspec.json.encode(event.detail).decode() if event.detail else None,
    }
    for name in TEXTS:
        row[name] = getattr(event, name) or None
    for name in TIMES:
        row[name] = getattr(event, name) * 1000 or None
    return row


def batch_of(events: Sequence[Event]) -> pa.RecordBatch:
    rows = [row_of(event) for event in events]
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in EVENTS]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)
