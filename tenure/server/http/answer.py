"""What is answered, for the description of the API. The fields are those that the translators of `tenure.wire` say."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from tenure.core.record import DeadLetterGroup, Ended, Event, Explanation, Failed, LoadReport, Progress


class Refused(Struct):
    """Every error, and a refused item of a batch. `code` is one of the tree of errors, `detail` its fields."""

    error: str
    code: str
    detail: dict[str, Any] | UnsetType = UNSET
    retryAfter: int | UnsetType = UNSET  # noqa: N815
    ok: bool | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET


class Accepted(Struct):
    id: int
    state: str
    ok: bool = True
    duplicate: bool | UnsetType = UNSET
    replaced: bool | UnsetType = UNSET
    run_at: int | UnsetType = UNSET


class Each(Struct):
    """Item by item in the order in which they came; with `packed` in columns. The status is 207 if one was refused."""

    ids: list[int] | UnsetType = UNSET
    results: list[dict[str, Any]] | UnsetType = UNSET
    answers: Any = UNSET


class Changed(Struct):
    """Of `ids` item by item, of a `filter` how many."""

    count: int | UnsetType = UNSET
    ids: list[int] | UnsetType = UNSET
    results: list[dict[str, Any]] | UnsetType = UNSET
    answers: Any = UNSET
    id: int | UnsetType = UNSET
    state: str | UnsetType = UNSET


class LeasedJob(Struct):
    id: int
    queue: str
    task: str
    data: Any
    codec: str
    attempt: int
    token: bytes
    lease_until: int
    lease_ms: int
    tenant: str
    schema_version: int | UnsetType = UNSET
    timeout: int | UnsetType = UNSET
    custom_id: str | UnsetType = UNSET
    trace: str | UnsetType = UNSET


class Claims(Struct):
    """Nothing when nothing came in time."""

    jobs: list[LeasedJob] | UnsetType = UNSET
    claimed: Any = UNSET


class Renewed(Struct):
    lease_until: int
    lease_ms: int
    cancelled: bool


class RenewedEach(Struct):
    results: list[dict[str, Any]] | UnsetType = UNSET
    extended: Any = UNSET


class JobView(Struct):
    """A job. A field that says nothing is left out; times in milliseconds since 1970."""

    id: int
    tenant: str
    queue: str
    task: str
    state: str
    priority: int
    attempt: int
    data: Any = UNSET
    codec: str | UnsetType = UNSET
    custom_id: str | UnsetType = UNSET
    schema_version: int | UnsetType = UNSET
    delivery: int | UnsetType = UNSET
    max_attempts: int | UnsetType | None = UNSET
    created_at: int | UnsetType = UNSET
    run_at: int | UnsetType = UNSET
    ready_at: int | UnsetType = UNSET
    started_at: int | UnsetType = UNSET
    ended_at: int | UnsetType = UNSET
    expires_at: int | UnsetType = UNSET
    lease_until: int | UnsetType = UNSET
    worker: str | UnsetType = UNSET
    progress: Progress | UnsetType | None = UNSET
    result: Any = UNSET
    error: Failed | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET
    group: str | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    depends_on: list[int] | UnsetType = UNSET
    replays: int | UnsetType = UNSET
    trace: str | UnsetType = UNSET
    history: list[Ended] | UnsetType = UNSET


class OneJob(Struct):
    job: JobView


class Jobs(Struct):
    jobs: list[JobView | None]


class JobsPage(Struct):
    """`cursor` is empty at the end; a page may be short or empty and still have one."""

    jobs: list[JobView]
    cursor: str


class StateView(Struct):
    state: str


class ResultView(Struct):
    result: Any = None
    state: str | UnsetType = UNSET
    job: Any = UNSET


class ProgressView(Struct):
    progress: int
    message: str


class ProgressKept(Struct):
    progress: int


class Explained(Struct):
    explanation: Explanation


class Written(Struct):
    offset: int


class LogLine(Struct):
    offset: int
    at: int
    message: str


class Logs(Struct):
    logs: list[LogLine] | UnsetType = UNSET
    items: Any = UNSET


class Emitted(Struct):
    offset: int
    at: int
    data: Any


class Items(Struct):
    items: list[Emitted]


class Queues(Struct):
    queues: list[str]


class Counts(Struct):
    """Of one queue by state; where none is named, of all by queue and state."""

    counts: dict[str, int] | UnsetType = UNSET
    queues: dict[str, dict[str, int]] | UnsetType = UNSET


class StatsView(Struct):
    stats: dict[str, int]
    queues: int


class SettingsView(Struct):
    settings: dict[str, Any]


class Done(Struct):
    pass


class Paused(Struct):
    paused: bool


class Counted(Struct):
    count: int


class Groups(Struct):
    groups: list[DeadLetterGroup]


class Events(Struct):
    events: list[Event]
    cursor: str


class Loaded(Struct):
    load: LoadReport


class About(Struct):
    version: int
    server: str
    formats: list[str]
    limits: dict[str, int]
    capabilities: dict[str, Any]
