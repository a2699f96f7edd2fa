"""The tables of Tenure as Arrow schemas: what a reader of the lake, of a scan or of Spark sees.

Names are those of the contract. Times are timestamps in UTC, and what a row does not have is null: a time that is not
set, an empty text, the wait of an event that ended no attempt.
"""

from typing import Final

import pyarrow as pa

VERSION: Final = 1  # rises when a column changes its meaning or goes; a new column at the end does not raise it

TIME: Final = pa.timestamp("us", tz="UTC")
TEXTS: Final = pa.list_(pa.string())
NUMBERS: Final = pa.list_(pa.int64())
ERROR: Final = pa.struct(
    [("type", pa.string()), ("message", pa.string()), ("trace", pa.string()), ("fingerprint", pa.string())]
)
PROGRESS: Final = pa.struct([("percent", pa.int32()), ("message", pa.string()), ("at", TIME)])
HISTORY: Final = pa.list_(
    pa.struct(
        [
            ("attempt", pa.int32()),
            ("delivery", pa.int32()),
            ("worker", pa.string()),
            ("started_at", TIME),
            ("ended_at", TIME),
            ("cause", pa.string()),
            ("error", ERROR),
        ]
    )
)

EVENTS: Final = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("job_seq", pa.int32(), nullable=False),
        pa.field("at", TIME, nullable=False),
        pa.field("type", pa.string(), nullable=False),
        ("tenant", pa.string()),
        ("queue", pa.string()),
        ("task", pa.string()),
        ("job", pa.int64()),
        ("state", pa.string()),
        ("attempt", pa.int32()),
        ("delivery", pa.int32()),
        ("worker", pa.string()),
        ("cause", pa.string()),
        ("run_at", TIME),
        ("expires_at", TIME),
        ("priority", pa.int32()),
        ("max_attempts", pa.int32()),
        ("group", pa.string()),
        ("limit_keys", TEXTS),
        ("depends_on", NUMBERS),
        ("unique_hash", pa.string()),
        ("payload_bytes", pa.int64()),
        ("enqueued_at", TIME),
        ("ready_at", TIME),
        ("started_at", TIME),
        ("wait_ms", pa.int64()),
        ("run_ms", pa.int64()),
        ("result_bytes", pa.int64()),
        ("reason", pa.string()),
        ("error_type", pa.string()),
        ("message", pa.string()),
        ("fingerprint", pa.string()),
        ("detail", pa.string()),  # JSON
    ]
)

# A row says all there is to say of a job, so that another store can be given the same job.
JOBS: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("custom_id", pa.string()),
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("queue", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        ("priority", pa.int32()),
        ("payload", pa.binary()),
        ("codec", pa.string()),
        ("schema_version", pa.int32()),
        ("attempt", pa.int32()),
        ("delivery", pa.int32()),
        ("max_attempts", pa.int32()),
        ("created_at", TIME),
        ("run_at", TIME),
        ("ready_at", TIME),
        ("started_at", TIME),
        ("ended_at", TIME),
        ("expires_at", TIME),
        ("lease_until", TIME),
        ("worker", pa.string()),
        ("progress", PROGRESS),
        ("result", pa.binary()),
        ("error", ERROR),
        ("reason", pa.string()),
        ("group", pa.string()),
        ("tags", TEXTS),
        ("metadata", pa.map_(pa.string(), pa.string())),
        ("depends_on", NUMBERS),
        ("flow", pa.int64()),
        ("parent", pa.int64()),
        ("replays", pa.int32()),
        ("trace", pa.string()),
        ("history", HISTORY),
        # What readers of single jobs are not shown.
        ("backoff", pa.string()),  # JSON, as the wire has it
        ("timeout_ms", pa.int64()),
        ("lease_ms", pa.int64()),
        ("on_conflict", pa.string()),
        ("idempotency_ttl_ms", pa.int64()),
        ("dependency_policy", pa.string()),
        ("lifo", pa.bool_()),
        ("limit_keys", TEXTS),
        ("keep_completed_ms", pa.int64()),
        ("keep_completed_count", pa.int64()),
        ("keep_failed_ms", pa.int64()),
        ("keep_failed_count", pa.int64()),
        ("unique_key", pa.string()),
        ("idempotency_key", pa.string()),
        # The name of a payload or result that is in the blob store; its bytes are not in the row.
        ("payload_blob", pa.string()),
        ("result_blob", pa.string()),
    ]
)

# One row for every attempt that is over, as the event that ended it says.
ATTEMPTS: Final = pa.schema(
    [
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("job_seq", pa.int32(), nullable=False),
        pa.field("job", pa.int64(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        ("delivery", pa.int32()),
        ("tenant", pa.string()),
        ("queue", pa.string()),
        ("task", pa.string()),
        ("worker", pa.string()),
        ("outcome", pa.string()),  # the type of the event
        ("cause", pa.string()),
        ("enqueued_at", TIME),
        ("ready_at", TIME),
        ("started_at", TIME),
        ("ended_at", TIME),
        ("wait_ms", pa.int64()),
        ("run_ms", pa.int64()),
        ("result_bytes", pa.int64()),
        ("reason", pa.string()),
        ("error_type", pa.string()),
        ("message", pa.string()),
        ("fingerprint", pa.string()),
    ]
)

RESULTS: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("custom_id", pa.string()),
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("queue", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        ("created_at", TIME),
        ("started_at", TIME),
        ("ended_at", TIME),
        ("attempt", pa.int32()),
        ("worker", pa.string()),
        ("codec", pa.string()),
        ("result", pa.binary()),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)

DEAD_LETTERS: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("custom_id", pa.string()),
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("queue", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        ("created_at", TIME),
        ("ended_at", TIME),
        ("attempt", pa.int32()),
        ("replays", pa.int32()),
        ("worker", pa.string()),
        ("reason", pa.string()),
        ("error_type", pa.string()),
        ("message", pa.string()),
        ("trace", pa.string()),
        ("fingerprint", pa.string()),
        ("codec", pa.string()),
        ("payload", pa.binary()),
        ("tags", TEXTS),
        ("metadata", pa.map_(pa.string(), pa.string())),
    ]
)

QUEUES: Final = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("queue", pa.string(), nullable=False),
        ("scheduled", pa.int64()),
        ("blocked", pa.int64()),
        ("ready", pa.int64()),
        ("running", pa.int64()),
        ("retrying", pa.int64()),
        ("completed", pa.int64()),
        ("failed", pa.int64()),
        ("cancelled", pa.int64()),
        ("paused", pa.bool_()),
        ("settings", pa.string()),  # JSON
    ]
)

TABLES: Final = {
    "events": EVENTS,
    "jobs": JOBS,
    "attempts": ATTEMPTS,
    "results": RESULTS,
    "dead_letters": DEAD_LETTERS,
    "queues": QUEUES,
}
