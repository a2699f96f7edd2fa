"""The tables that can be read in bulk, and their columns.

A page of a table is made of columns. Of events, one of numbers is eight bytes a row, low first; one of texts is a list
of the texts that occur and four bytes a row that say which; one that few rows have is a map from the row to its value.
A column of jobs is a list. What a row does not have is 0, an empty text, or none.
"""

from collections.abc import Iterable
from typing import Any, Final

EVENT_NUMBERS: Final = (
    "seq",
    "job_seq",
    "at",
    "job",
    "attempt",
    "delivery",
    "run_at",
    "expires_at",
    "priority",
    "max_attempts",
    "payload_bytes",
    "enqueued_at",
    "ready_at",
    "started_at",
    "run_ms",
    "result_bytes",
)
EVENT_TEXTS: Final = (
    "type",
    "tenant",
    "queue",
    "task",
    "state",
    "worker",
    "cause",
    "group",
    "unique_hash",
    "reason",
    "error_type",
    "message",
    "fingerprint",
)
EVENT_RARE: Final = ("limit_keys", "depends_on", "detail")
JOB_BYTES: Final = ("payload", "result")
JOB_COLUMNS: Final = (
    "id",
    "custom_id",
    "tenant",
    "queue",
    "task",
    "state",
    "priority",
    *JOB_BYTES,
    "codec",
    "schema_version",
    "attempt",
    "delivery",
    "max_attempts",
    "created_at",
    "run_at",
    "ready_at",
    "started_at",
    "ended_at",
    "expires_at",
    "lease_until",
    "worker",
    "progress",
    "error",
    "reason",
    "group",
    "tags",
    "metadata",
    "depends_on",
    "flow",
    "parent",
    "replays",
    "trace",
    "history",
    "payload_blob",
    "result_blob",
    "backoff",
    "timeout_ms",
    "lease_ms",
    "on_conflict",
    "idempotency_ttl_ms",
    "dependency_policy",
    "lifo",
    "limit_keys",
    "keep_completed_ms",
    "keep_completed_count",
    "keep_failed_ms",
    "keep_failed_count",
    "unique_key",
    "idempotency_key",
)
COLUMNS: Final = {"events": (*EVENT_NUMBERS, *EVENT_TEXTS, *EVENT_RARE), "jobs": JOB_COLUMNS}
PAGE_MAX: Final = 20_000


def rows_of_events(columns: dict[str, Any], rows: int) -> list[dict[str, object]]:
    """A page of events row by row, for those who have no use for columns; what a row does not have is left out."""
    found: list[dict[str, object]] = [{} for _ in range(rows)]
    for name, column in columns.items():
        if name in EVENT_NUMBERS:
            values: Iterable[tuple[int, object]] = enumerate(memoryview(column).cast("q"))
        elif name in EVENT_TEXTS:
            values = ((row, column[0][code]) for row, code in enumerate(memoryview(column[1]).cast("i")))
        else:
            values = column.items()
        for row, value in values:
            if value:
                found[row][name] = value
    return found
