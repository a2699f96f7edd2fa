"""What is read of a job, an event, a queue: frozen values, one name per field on every layer."""

from datetime import datetime
from typing import Any

import msgspec

from tenure.core.duration import datetime_of
from tenure.core.error import InvalidRequest

TIMES = frozenset({"at", "since", "earliest", "lease_until"})  # and whatever ends in _at


class Timed(msgspec.Struct, frozen=True):
    """A record with times: milliseconds since 1970, 0 when there is none."""

    def time(self, field: str) -> datetime | None:
        """That time as a datetime in UTC; None when there is none: `record.time("ended_at")`."""
        times = [name for name in self.__struct_fields__ if name in TIMES or name.endswith("_at")]
        if field not in times:
            raise InvalidRequest("field", field, "it must be one of " + ", ".join(times))
        return datetime_of(getattr(self, field))


class Failed(msgspec.Struct, frozen=True):
    """How an attempt ended badly. `fingerprint` groups failures that are the same."""

    type: str = ""
    message: str = ""
    trace: str = ""
    fingerprint: str = ""


class Ended(Timed, frozen=True):
    """One line of a job's history: an attempt that is over, and why."""

    attempt: int
    delivery: int
    worker: str
    started_at: int
    ended_at: int
    cause: str
    error: Failed | None = None


class Progress(Timed, frozen=True):
    percent: int = 0
    message: str = ""
    at: int = 0


class BlobRecord(msgspec.Struct, frozen=True):
    """That a payload or result is in the blob store. `absent` says why its bytes are not in the record: `not_read`,
    `missing`, `damaged`; it is empty when they are.
    """

    name: str
    size: int
    absent: str = "not_read"


class JobRecord(Timed, frozen=True, kw_only=True):
    """A job as it is read. Times in milliseconds since 1970, 0 when there is none; `time` answers datetimes."""

    id: int
    custom_id: str = ""
    tenant: str
    queue: str
    task: str
    state: str
    priority: int = 0
    payload: bytes = b""
    codec: str = "json"
    schema_version: int = 0
    attempt: int = 0
    delivery: int = 0
    max_attempts: int | None = 3
    created_at: int = 0
    run_at: int = 0
    ready_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    expires_at: int = 0
    lease_until: int = 0
    worker: str = ""
    progress: Progress | None = None
    result: bytes | None = None
    error: Failed | None = None
    reason: str = ""
    group: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    depends_on: tuple[int, ...] = ()
    flow: int = 0
    parent: int = 0
    replays: int = 0
    trace: str = ""
    history: tuple[Ended, ...] = ()
    payload_blob: BlobRecord | None = None
    result_blob: BlobRecord | None = None


class Event(Timed, frozen=True, kw_only=True, omit_defaults=True):
    """One transition. Which of the later fields are set depends on the type; see docs/semantics.md, section 15."""

    seq: int
    job_seq: int = 0
    at: int
    type: str
    tenant: str = ""
    queue: str = ""
    task: str = ""
    job: int = 0
    state: str = ""
    attempt: int = 0
    delivery: int = 0
    worker: str = ""
    cause: str = ""
    run_at: int = 0
    expires_at: int = 0
    priority: int = 0
    max_attempts: int | None = None
    group: str = ""
    limit_keys: tuple[str, ...] = ()
    depends_on: tuple[int, ...] = ()
    unique_hash: str = ""
    payload_bytes: int = 0
    enqueued_at: int = 0
    ready_at: int = 0
    started_at: int = 0
    wait_ms: int = 0
    run_ms: int = 0
    result_bytes: int = 0
    reason: str = ""
    error_type: str = ""
    message: str = ""
    fingerprint: str = ""
    detail: dict[str, object] = {}


class Explanation(Timed, frozen=True, kw_only=True):
    """Why a job is where it is. `held_by` names what holds it, `place` its place in line (-1: over 1,000 or none)."""

    id: int
    state: str
    held_by: str
    detail: str
    since: int
    place: int = -1
    earliest: int = 0


class StreamItem(Timed, frozen=True):
    offset: int
    at: int
    data: bytes


class Past(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a job that is imported has behind it, in the words of `JobRecord`; `id` and `parent` are the old store's."""

    id: int = 0
    state: str = "ready"
    attempt: int = 0
    delivery: int = 0
    created_at: int = 0
    run_at: int = 0
    ready_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    lease_until: int = 0
    worker: str = ""
    progress: Progress | None = None
    result: bytes | None = None
    error: Failed | None = None
    reason: str = ""
    parent: int = 0
    replays: int = 0
    history: tuple[Ended, ...] = ()


class LoadedRow(msgspec.Struct, frozen=True):
    """What became of one row of a load: its id, or why it was refused. `source` is the id it had in the old store."""

    id: int
    source: int = 0
    duplicate: bool = False
    code: str = ""
    message: str = ""


class LoadReport(msgspec.Struct, frozen=True):
    """What a load holds: rows staged and, once published, how many were new, there already, or refused.

    `outcomes` is filled by READ: what became of each row of one chunk, as far as they have been let in. `digest` is
    what the publication said of its rows.
    """

    rows: int
    new: int = 0
    duplicates: int = 0
    refused: int = 0
    published: bool = False
    done: bool = False
    outcomes: tuple[LoadedRow, ...] = ()
    digest: str = ""


class JobPage(msgspec.Struct, frozen=True):
    """A page of jobs; `cursor` is empty at the end. Only the last page has fewer jobs than were asked for, and one that
    would be too large for a message."""

    jobs: tuple[JobRecord, ...]
    cursor: str = ""


class EventPage(msgspec.Struct, frozen=True):
    events: tuple[Event, ...]
    cursor: str


class Scanned(msgspec.Struct, frozen=True):
    """A page of a table in columns, see `core.table`. The table now reaches from `first` to `last`; all up to `next`
    was looked at, so the next page begins after it. A page may be short or empty and still not be the last."""

    first: int
    last: int
    next: int = 0
    rows: int = 0
    columns: dict[str, Any] = {}


class DeadLetterGroup(Timed, frozen=True, kw_only=True):
    fingerprint: str
    reason: str
    type: str
    message: str
    count: int
    first_at: int
    last_at: int
    example: int
