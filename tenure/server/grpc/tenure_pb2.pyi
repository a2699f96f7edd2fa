from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LoadStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOAD_STEP_UNSPECIFIED: _ClassVar[LoadStep]
    LOAD_STEP_STAGE: _ClassVar[LoadStep]
    LOAD_STEP_PUBLISH: _ClassVar[LoadStep]
    LOAD_STEP_ABORT: _ClassVar[LoadStep]
    LOAD_STEP_READ: _ClassVar[LoadStep]

class SettleVerb(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLE_VERB_UNSPECIFIED: _ClassVar[SettleVerb]
    SETTLE_VERB_COMPLETE: _ClassVar[SettleVerb]
    SETTLE_VERB_FAIL: _ClassVar[SettleVerb]
    SETTLE_VERB_RELEASE: _ClassVar[SettleVerb]
    SETTLE_VERB_SNOOZE: _ClassVar[SettleVerb]
    SETTLE_VERB_CANCEL: _ClassVar[SettleVerb]

class StreamKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STREAM_KIND_EMIT: _ClassVar[StreamKind]
    STREAM_KIND_LOG: _ClassVar[StreamKind]

class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTION_UNSPECIFIED: _ClassVar[Action]
    ACTION_CANCEL: _ClassVar[Action]
    ACTION_DISCARD: _ClassVar[Action]
    ACTION_PROMOTE: _ClassVar[Action]
    ACTION_PRIORITY: _ClassVar[Action]
    ACTION_UPDATE: _ClassVar[Action]
    ACTION_DELAY: _ClassVar[Action]
    ACTION_CLONE: _ClassVar[Action]
    ACTION_REPLAY: _ClassVar[Action]
    ACTION_REMOVE: _ClassVar[Action]

class Subject(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBJECT_UNSPECIFIED: _ClassVar[Subject]
    SUBJECT_QUEUE: _ClassVar[Subject]
    SUBJECT_KEY: _ClassVar[Subject]
    SUBJECT_TENANT: _ClassVar[Subject]
    SUBJECT_STORE: _ClassVar[Subject]
    SUBJECT_WORKER: _ClassVar[Subject]
    SUBJECT_TASK: _ClassVar[Subject]
LOAD_STEP_UNSPECIFIED: LoadStep
LOAD_STEP_STAGE: LoadStep
LOAD_STEP_PUBLISH: LoadStep
LOAD_STEP_ABORT: LoadStep
LOAD_STEP_READ: LoadStep
SETTLE_VERB_UNSPECIFIED: SettleVerb
SETTLE_VERB_COMPLETE: SettleVerb
SETTLE_VERB_FAIL: SettleVerb
SETTLE_VERB_RELEASE: SettleVerb
SETTLE_VERB_SNOOZE: SettleVerb
SETTLE_VERB_CANCEL: SettleVerb
STREAM_KIND_EMIT: StreamKind
STREAM_KIND_LOG: StreamKind
ACTION_UNSPECIFIED: Action
ACTION_CANCEL: Action
ACTION_DISCARD: Action
ACTION_PROMOTE: Action
ACTION_PRIORITY: Action
ACTION_UPDATE: Action
ACTION_DELAY: Action
ACTION_CLONE: Action
ACTION_REPLAY: Action
ACTION_REMOVE: Action
SUBJECT_UNSPECIFIED: Subject
SUBJECT_QUEUE: Subject
SUBJECT_KEY: Subject
SUBJECT_TENANT: Subject
SUBJECT_STORE: Subject
SUBJECT_WORKER: Subject
SUBJECT_TASK: Subject

class Header(_message.Message):
    __slots__ = ("tenant", "tenants", "op_id", "durability")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    tenants: _containers.RepeatedScalarFieldContainer[str]
    op_id: str
    durability: str
    def __init__(self, tenant: _Optional[str] = ..., tenants: _Optional[_Iterable[str]] = ..., op_id: _Optional[str] = ..., durability: _Optional[str] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "detail", "retryable", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    detail: _struct_pb2.Struct
    retryable: bool
    retry_after_ms: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., detail: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., retryable: _Optional[bool] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("id", "state", "duplicate", "replaced", "run_at", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: str
    duplicate: bool
    replaced: bool
    run_at: int
    error: Error
    def __init__(self, id: _Optional[int] = ..., state: _Optional[str] = ..., duplicate: _Optional[bool] = ..., replaced: _Optional[bool] = ..., run_at: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Answers(_message.Message):
    __slots__ = ("outcomes", "count")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    count: int
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., count: _Optional[int] = ...) -> None: ...

class Backoff(_message.Message):
    __slots__ = ("kind", "base_ms", "factor", "cap_ms", "delays_ms")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BASE_MS_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    CAP_MS_FIELD_NUMBER: _ClassVar[int]
    DELAYS_MS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    base_ms: int
    factor: float
    cap_ms: int
    delays_ms: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[str] = ..., base_ms: _Optional[int] = ..., factor: _Optional[float] = ..., cap_ms: _Optional[int] = ..., delays_ms: _Optional[_Iterable[int]] = ...) -> None: ...

class JobOptions(_message.Message):
    __slots__ = ("queue", "task", "codec", "schema_version", "priority", "delay_ms", "run_at", "ttl_ms", "expires_at", "timeout_ms", "lease_ms", "max_attempts", "backoff", "custom_id", "unique_key", "idempotency_key", "idempotency_ttl_ms", "on_conflict", "debounce_key", "debounce_ms", "debounce_mode", "debounce_max_wait_ms", "depends_on", "dependency_policy", "group", "lifo", "limit_keys", "tags", "metadata", "keep_completed_ms", "keep_completed_count", "keep_failed_ms", "keep_failed_count", "trace")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_ID_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_KEY_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    ON_CONFLICT_FIELD_NUMBER: _ClassVar[int]
    DEBOUNCE_KEY_FIELD_NUMBER: _ClassVar[int]
    DEBOUNCE_MS_FIELD_NUMBER: _ClassVar[int]
    DEBOUNCE_MODE_FIELD_NUMBER: _ClassVar[int]
    DEBOUNCE_MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCY_POLICY_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LIFO_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEYS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    KEEP_COMPLETED_MS_FIELD_NUMBER: _ClassVar[int]
    KEEP_COMPLETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    KEEP_FAILED_MS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    task: str
    codec: str
    schema_version: int
    priority: int
    delay_ms: int
    run_at: int
    ttl_ms: int
    expires_at: int
    timeout_ms: int
    lease_ms: int
    max_attempts: int
    backoff: Backoff
    custom_id: str
    unique_key: str
    idempotency_key: str
    idempotency_ttl_ms: int
    on_conflict: str
    debounce_key: str
    debounce_ms: int
    debounce_mode: str
    debounce_max_wait_ms: int
    depends_on: _containers.RepeatedScalarFieldContainer[int]
    dependency_policy: str
    group: str
    lifo: bool
    limit_keys: _containers.RepeatedScalarFieldContainer[str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    keep_completed_ms: int
    keep_completed_count: int
    keep_failed_ms: int
    keep_failed_count: int
    trace: str
    def __init__(self, queue: _Optional[str] = ..., task: _Optional[str] = ..., codec: _Optional[str] = ..., schema_version: _Optional[int] = ..., priority: _Optional[int] = ..., delay_ms: _Optional[int] = ..., run_at: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., expires_at: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., lease_ms: _Optional[int] = ..., max_attempts: _Optional[int] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ..., custom_id: _Optional[str] = ..., unique_key: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., idempotency_ttl_ms: _Optional[int] = ..., on_conflict: _Optional[str] = ..., debounce_key: _Optional[str] = ..., debounce_ms: _Optional[int] = ..., debounce_mode: _Optional[str] = ..., debounce_max_wait_ms: _Optional[int] = ..., depends_on: _Optional[_Iterable[int]] = ..., dependency_policy: _Optional[str] = ..., group: _Optional[str] = ..., lifo: _Optional[bool] = ..., limit_keys: _Optional[_Iterable[str]] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., keep_completed_ms: _Optional[int] = ..., keep_completed_count: _Optional[int] = ..., keep_failed_ms: _Optional[int] = ..., keep_failed_count: _Optional[int] = ..., trace: _Optional[str] = ...) -> None: ...

class NewJob(_message.Message):
    __slots__ = ("payload", "options")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    options: JobOptions
    def __init__(self, payload: _Optional[bytes] = ..., options: _Optional[_Union[JobOptions, _Mapping]] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("options", "jobs")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    options: JobOptions
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    def __init__(self, options: _Optional[_Union[JobOptions, _Mapping]] = ..., jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ...) -> None: ...

class EnqueueRequest(_message.Message):
    __slots__ = ("header", "batch", "atomic")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ATOMIC_FIELD_NUMBER: _ClassVar[int]
    header: Header
    batch: Batch
    atomic: bool
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., atomic: _Optional[bool] = ...) -> None: ...

class LoadRequest(_message.Message):
    __slots__ = ("header", "load_id", "step", "part", "writing", "chunk", "batch", "parts", "pasts", "digest")
    class PartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    LOAD_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    WRITING_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    PASTS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    header: Header
    load_id: str
    step: LoadStep
    part: int
    writing: str
    chunk: int
    batch: Batch
    parts: _containers.ScalarMap[int, str]
    pasts: _containers.RepeatedCompositeFieldContainer[Past]
    digest: str
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., load_id: _Optional[str] = ..., step: _Optional[_Union[LoadStep, str]] = ..., part: _Optional[int] = ..., writing: _Optional[str] = ..., chunk: _Optional[int] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., parts: _Optional[_Mapping[int, str]] = ..., pasts: _Optional[_Iterable[_Union[Past, _Mapping]]] = ..., digest: _Optional[str] = ...) -> None: ...

class Past(_message.Message):
    __slots__ = ("id", "state", "attempt", "delivery", "created_at", "run_at", "ready_at", "started_at", "ended_at", "lease_until", "worker", "progress", "result", "error", "reason", "parent", "replays", "history")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    READY_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    REPLAYS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: str
    attempt: int
    delivery: int
    created_at: int
    run_at: int
    ready_at: int
    started_at: int
    ended_at: int
    lease_until: int
    worker: str
    progress: Progress
    result: bytes
    error: JobError
    reason: str
    parent: int
    replays: int
    history: _containers.RepeatedCompositeFieldContainer[Attempt]
    def __init__(self, id: _Optional[int] = ..., state: _Optional[str] = ..., attempt: _Optional[int] = ..., delivery: _Optional[int] = ..., created_at: _Optional[int] = ..., run_at: _Optional[int] = ..., ready_at: _Optional[int] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., lease_until: _Optional[int] = ..., worker: _Optional[str] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., result: _Optional[bytes] = ..., error: _Optional[_Union[JobError, _Mapping]] = ..., reason: _Optional[str] = ..., parent: _Optional[int] = ..., replays: _Optional[int] = ..., history: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ...) -> None: ...

class LoadedRow(_message.Message):
    __slots__ = ("id", "source", "duplicate", "code", "message")
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    id: int
    source: int
    duplicate: bool
    code: str
    message: str
    def __init__(self, id: _Optional[int] = ..., source: _Optional[int] = ..., duplicate: _Optional[bool] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class LoadReport(_message.Message):
    __slots__ = ("rows", "new", "duplicates", "refused", "published", "done", "outcomes", "digest")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    rows: int
    new: int
    duplicates: int
    refused: int
    published: bool
    done: bool
    outcomes: _containers.RepeatedCompositeFieldContainer[LoadedRow]
    digest: str
    def __init__(self, rows: _Optional[int] = ..., new: _Optional[int] = ..., duplicates: _Optional[int] = ..., refused: _Optional[int] = ..., published: _Optional[bool] = ..., done: _Optional[bool] = ..., outcomes: _Optional[_Iterable[_Union[LoadedRow, _Mapping]]] = ..., digest: _Optional[str] = ...) -> None: ...

class QueuePick(_message.Message):
    __slots__ = ("name", "weight")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: int
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[int] = ...) -> None: ...

class Wish(_message.Message):
    __slots__ = ("queues", "tasks", "worker", "lease_ms", "strict", "max_bytes")
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[QueuePick]
    tasks: _containers.RepeatedScalarFieldContainer[str]
    worker: str
    lease_ms: int
    strict: bool
    max_bytes: int
    def __init__(self, queues: _Optional[_Iterable[_Union[QueuePick, _Mapping]]] = ..., tasks: _Optional[_Iterable[str]] = ..., worker: _Optional[str] = ..., lease_ms: _Optional[int] = ..., strict: _Optional[bool] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("header", "wish", "count", "wait_ms", "withdraw")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    WISH_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    header: Header
    wish: Wish
    count: int
    wait_ms: int
    withdraw: bool
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., wish: _Optional[_Union[Wish, _Mapping]] = ..., count: _Optional[int] = ..., wait_ms: _Optional[int] = ..., withdraw: _Optional[bool] = ...) -> None: ...

class LeasedJob(_message.Message):
    __slots__ = ("id", "token", "tenant", "queue", "task", "payload", "codec", "schema_version", "attempt", "lease_until", "timeout_ms", "custom_id", "trace", "options", "lease_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    token: bytes
    tenant: str
    queue: str
    task: str
    payload: bytes
    codec: str
    schema_version: int
    attempt: int
    lease_until: int
    timeout_ms: int
    custom_id: str
    trace: str
    options: JobOptions
    lease_ms: int
    def __init__(self, id: _Optional[int] = ..., token: _Optional[bytes] = ..., tenant: _Optional[str] = ..., queue: _Optional[str] = ..., task: _Optional[str] = ..., payload: _Optional[bytes] = ..., codec: _Optional[str] = ..., schema_version: _Optional[int] = ..., attempt: _Optional[int] = ..., lease_until: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., custom_id: _Optional[str] = ..., trace: _Optional[str] = ..., options: _Optional[_Union[JobOptions, _Mapping]] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[LeasedJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[LeasedJob, _Mapping]]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("type", "message", "trace", "permanent", "undecodable", "retry_after_ms")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    UNDECODABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    trace: str
    permanent: bool
    undecodable: bool
    retry_after_ms: int
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., trace: _Optional[str] = ..., permanent: _Optional[bool] = ..., undecodable: _Optional[bool] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Settlement(_message.Message):
    __slots__ = ("id", "token", "result", "followups", "failure")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FOLLOWUPS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    id: int
    token: bytes
    result: bytes
    followups: Batch
    failure: Failure
    def __init__(self, id: _Optional[int] = ..., token: _Optional[bytes] = ..., result: _Optional[bytes] = ..., followups: _Optional[_Union[Batch, _Mapping]] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("header", "verb", "items", "delay_ms", "pause_key")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_KEY_FIELD_NUMBER: _ClassVar[int]
    header: Header
    verb: SettleVerb
    items: _containers.RepeatedCompositeFieldContainer[Settlement]
    delay_ms: int
    pause_key: str
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., verb: _Optional[_Union[SettleVerb, str]] = ..., items: _Optional[_Iterable[_Union[Settlement, _Mapping]]] = ..., delay_ms: _Optional[int] = ..., pause_key: _Optional[str] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("header", "id", "token", "result", "followups")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FOLLOWUPS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    token: bytes
    result: bytes
    followups: Batch
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ..., token: _Optional[bytes] = ..., result: _Optional[bytes] = ..., followups: _Optional[_Union[Batch, _Mapping]] = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ("header", "id", "token", "failure")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    token: bytes
    failure: Failure
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ..., token: _Optional[bytes] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("header", "id", "token", "delay_ms", "pause_key")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    PAUSE_KEY_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    token: bytes
    delay_ms: int
    pause_key: str
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ..., token: _Optional[bytes] = ..., delay_ms: _Optional[int] = ..., pause_key: _Optional[str] = ...) -> None: ...

class SnoozeRequest(_message.Message):
    __slots__ = ("header", "id", "token", "delay_ms")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    token: bytes
    delay_ms: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ..., token: _Optional[bytes] = ..., delay_ms: _Optional[int] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("id", "token")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: int
    token: bytes
    def __init__(self, id: _Optional[int] = ..., token: _Optional[bytes] = ...) -> None: ...

class ExtendRequest(_message.Message):
    __slots__ = ("header", "jobs", "lease_ms")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    jobs: _containers.RepeatedCompositeFieldContainer[Held]
    lease_ms: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., jobs: _Optional[_Iterable[_Union[Held, _Mapping]]] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class Extended(_message.Message):
    __slots__ = ("lease_until", "error", "lease_ms")
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    lease_until: int
    error: Error
    lease_ms: int
    def __init__(self, lease_until: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., lease_ms: _Optional[int] = ...) -> None: ...

class ExtendResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Extended]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Extended, _Mapping]]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("percent", "message", "at")
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    percent: int
    message: str
    at: int
    def __init__(self, percent: _Optional[int] = ..., message: _Optional[str] = ..., at: _Optional[int] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("header", "id", "token", "progress", "log", "emit")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    EMIT_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    token: bytes
    progress: Progress
    log: str
    emit: bytes
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ..., token: _Optional[bytes] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., log: _Optional[str] = ..., emit: _Optional[bytes] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ("ref", "open", "credits", "settle", "extend", "append")
    REF_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    ref: int
    open: Open
    credits: int
    settle: SettleRequest
    extend: ExtendRequest
    append: AppendRequest
    def __init__(self, ref: _Optional[int] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., credits: _Optional[int] = ..., settle: _Optional[_Union[SettleRequest, _Mapping]] = ..., extend: _Optional[_Union[ExtendRequest, _Mapping]] = ..., append: _Optional[_Union[AppendRequest, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("header", "wish", "credits")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    WISH_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    wish: Wish
    credits: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., wish: _Optional[_Union[Wish, _Mapping]] = ..., credits: _Optional[int] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("worker",)
    WORKER_FIELD_NUMBER: _ClassVar[int]
    worker: str
    def __init__(self, worker: _Optional[str] = ...) -> None: ...

class Cancelled(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("ref", "opened", "job", "cancelled", "settled", "extended", "appended", "error")
    REF_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ref: int
    opened: Opened
    job: LeasedJob
    cancelled: Cancelled
    settled: Answers
    extended: ExtendResponse
    appended: AppendResponse
    error: Error
    def __init__(self, ref: _Optional[int] = ..., opened: _Optional[_Union[Opened, _Mapping]] = ..., job: _Optional[_Union[LeasedJob, _Mapping]] = ..., cancelled: _Optional[_Union[Cancelled, _Mapping]] = ..., settled: _Optional[_Union[Answers, _Mapping]] = ..., extended: _Optional[_Union[ExtendResponse, _Mapping]] = ..., appended: _Optional[_Union[AppendResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class JobError(_message.Message):
    __slots__ = ("type", "message", "trace", "fingerprint")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    type: str
    message: str
    trace: str
    fingerprint: str
    def __init__(self, type: _Optional[str] = ..., message: _Optional[str] = ..., trace: _Optional[str] = ..., fingerprint: _Optional[str] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("attempt", "delivery", "worker", "started_at", "ended_at", "cause", "error")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    delivery: int
    worker: str
    started_at: int
    ended_at: int
    cause: str
    error: JobError
    def __init__(self, attempt: _Optional[int] = ..., delivery: _Optional[int] = ..., worker: _Optional[str] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., cause: _Optional[str] = ..., error: _Optional[_Union[JobError, _Mapping]] = ...) -> None: ...

class Blob(_message.Message):
    __slots__ = ("name", "size", "absent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    absent: str
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., absent: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "custom_id", "tenant", "queue", "task", "state", "priority", "payload", "codec", "schema_version", "attempt", "delivery", "max_attempts", "created_at", "run_at", "ready_at", "started_at", "ended_at", "expires_at", "lease_until", "worker", "progress", "result", "error", "reason", "group", "tags", "metadata", "depends_on", "flow", "parent", "replays", "trace", "history", "payload_blob", "result_blob")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    READY_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    FLOW_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    REPLAYS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BLOB_FIELD_NUMBER: _ClassVar[int]
    RESULT_BLOB_FIELD_NUMBER: _ClassVar[int]
    id: int
    custom_id: str
    tenant: str
    queue: str
    task: str
    state: str
    priority: int
    payload: bytes
    codec: str
    schema_version: int
    attempt: int
    delivery: int
    max_attempts: int
    created_at: int
    run_at: int
    ready_at: int
    started_at: int
    ended_at: int
    expires_at: int
    lease_until: int
    worker: str
    progress: Progress
    result: bytes
    error: JobError
    reason: str
    group: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _containers.ScalarMap[str, str]
    depends_on: _containers.RepeatedScalarFieldContainer[int]
    flow: int
    parent: int
    replays: int
    trace: str
    history: _containers.RepeatedCompositeFieldContainer[Attempt]
    payload_blob: Blob
    result_blob: Blob
    def __init__(self, id: _Optional[int] = ..., custom_id: _Optional[str] = ..., tenant: _Optional[str] = ..., queue: _Optional[str] = ..., task: _Optional[str] = ..., state: _Optional[str] = ..., priority: _Optional[int] = ..., payload: _Optional[bytes] = ..., codec: _Optional[str] = ..., schema_version: _Optional[int] = ..., attempt: _Optional[int] = ..., delivery: _Optional[int] = ..., max_attempts: _Optional[int] = ..., created_at: _Optional[int] = ..., run_at: _Optional[int] = ..., ready_at: _Optional[int] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., expires_at: _Optional[int] = ..., lease_until: _Optional[int] = ..., worker: _Optional[str] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., result: _Optional[bytes] = ..., error: _Optional[_Union[JobError, _Mapping]] = ..., reason: _Optional[str] = ..., group: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Mapping[str, str]] = ..., depends_on: _Optional[_Iterable[int]] = ..., flow: _Optional[int] = ..., parent: _Optional[int] = ..., replays: _Optional[int] = ..., trace: _Optional[str] = ..., history: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., payload_blob: _Optional[_Union[Blob, _Mapping]] = ..., result_blob: _Optional[_Union[Blob, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("header", "ids", "custom_ids")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_IDS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    ids: _containers.RepeatedScalarFieldContainer[int]
    custom_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., ids: _Optional[_Iterable[int]] = ..., custom_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Found(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Found]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Found, _Mapping]]] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("queue", "states", "task", "tag", "metadata", "worker", "error", "fingerprint", "reason", "created_from", "created_to", "ended_before", "group", "custom_id_prefix")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CREATED_FROM_FIELD_NUMBER: _ClassVar[int]
    CREATED_TO_FIELD_NUMBER: _ClassVar[int]
    ENDED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    queue: str
    states: _containers.RepeatedScalarFieldContainer[str]
    task: str
    tag: str
    metadata: _containers.ScalarMap[str, str]
    worker: str
    error: str
    fingerprint: str
    reason: str
    created_from: int
    created_to: int
    ended_before: int
    group: str
    custom_id_prefix: str
    def __init__(self, queue: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., task: _Optional[str] = ..., tag: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., worker: _Optional[str] = ..., error: _Optional[str] = ..., fingerprint: _Optional[str] = ..., reason: _Optional[str] = ..., created_from: _Optional[int] = ..., created_to: _Optional[int] = ..., ended_before: _Optional[int] = ..., group: _Optional[str] = ..., custom_id_prefix: _Optional[str] = ...) -> None: ...

class FindRequest(_message.Message):
    __slots__ = ("header", "filter", "limit", "cursor")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    header: Header
    filter: Filter
    limit: int
    cursor: str
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class FindResponse(_message.Message):
    __slots__ = ("jobs", "cursor")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    cursor: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...

class CountRequest(_message.Message):
    __slots__ = ("header", "queue")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    header: Header
    queue: str
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., queue: _Optional[str] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("states",)
    class StatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.ScalarMap[str, int]
    def __init__(self, states: _Optional[_Mapping[str, int]] = ...) -> None: ...

class CountResponse(_message.Message):
    __slots__ = ("queues",)
    class QueuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Counts
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Counts, _Mapping]] = ...) -> None: ...
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.MessageMap[str, Counts]
    def __init__(self, queues: _Optional[_Mapping[str, Counts]] = ...) -> None: ...

class GroupsRequest(_message.Message):
    __slots__ = ("header", "queue")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    header: Header
    queue: str
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., queue: _Optional[str] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("fingerprint", "reason", "type", "message", "count", "first_at", "last_at", "example")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    reason: str
    type: str
    message: str
    count: int
    first_at: int
    last_at: int
    example: int
    def __init__(self, fingerprint: _Optional[str] = ..., reason: _Optional[str] = ..., type: _Optional[str] = ..., message: _Optional[str] = ..., count: _Optional[int] = ..., first_at: _Optional[int] = ..., last_at: _Optional[int] = ..., example: _Optional[int] = ...) -> None: ...

class GroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[Group]
    def __init__(self, groups: _Optional[_Iterable[_Union[Group, _Mapping]]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("header", "id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("id", "state", "held_by", "detail", "since", "place", "earliest")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    id: int
    state: str
    held_by: str
    detail: str
    since: int
    place: int
    earliest: int
    def __init__(self, id: _Optional[int] = ..., state: _Optional[str] = ..., held_by: _Optional[str] = ..., detail: _Optional[str] = ..., since: _Optional[int] = ..., place: _Optional[int] = ..., earliest: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("header", "id", "wait_ms")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    wait_ms: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("header", "id", "kind", "offset", "limit", "wait_ms")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    id: int
    kind: StreamKind
    offset: int
    limit: int
    wait_ms: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., id: _Optional[int] = ..., kind: _Optional[_Union[StreamKind, str]] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class StreamItem(_message.Message):
    __slots__ = ("offset", "at", "data")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    offset: int
    at: int
    data: bytes
    def __init__(self, offset: _Optional[int] = ..., at: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class StreamResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[StreamItem]
    def __init__(self, items: _Optional[_Iterable[_Union[StreamItem, _Mapping]]] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("header", "after", "queue", "types", "follow", "limit", "wait_ms")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    header: Header
    after: str
    queue: str
    types: _containers.RepeatedScalarFieldContainer[str]
    follow: bool
    limit: int
    wait_ms: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., after: _Optional[str] = ..., queue: _Optional[str] = ..., types: _Optional[_Iterable[str]] = ..., follow: _Optional[bool] = ..., limit: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("seq", "job_seq", "at", "type", "tenant", "queue", "task", "job", "state", "attempt", "delivery", "worker", "cause", "run_at", "expires_at", "priority", "max_attempts", "group", "limit_keys", "depends_on", "unique_hash", "payload_bytes", "enqueued_at", "ready_at", "started_at", "wait_ms", "run_ms", "result_bytes", "reason", "error_type", "message", "fingerprint", "detail")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    JOB_SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEYS_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_HASH_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    READY_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_MS_FIELD_NUMBER: _ClassVar[int]
    RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    seq: int
    job_seq: int
    at: int
    type: str
    tenant: str
    queue: str
    task: str
    job: int
    state: str
    attempt: int
    delivery: int
    worker: str
    cause: str
    run_at: int
    expires_at: int
    priority: int
    max_attempts: int
    group: str
    limit_keys: _containers.RepeatedScalarFieldContainer[str]
    depends_on: _containers.RepeatedScalarFieldContainer[int]
    unique_hash: str
    payload_bytes: int
    enqueued_at: int
    ready_at: int
    started_at: int
    wait_ms: int
    run_ms: int
    result_bytes: int
    reason: str
    error_type: str
    message: str
    fingerprint: str
    detail: _struct_pb2.Struct
    def __init__(self, seq: _Optional[int] = ..., job_seq: _Optional[int] = ..., at: _Optional[int] = ..., type: _Optional[str] = ..., tenant: _Optional[str] = ..., queue: _Optional[str] = ..., task: _Optional[str] = ..., job: _Optional[int] = ..., state: _Optional[str] = ..., attempt: _Optional[int] = ..., delivery: _Optional[int] = ..., worker: _Optional[str] = ..., cause: _Optional[str] = ..., run_at: _Optional[int] = ..., expires_at: _Optional[int] = ..., priority: _Optional[int] = ..., max_attempts: _Optional[int] = ..., group: _Optional[str] = ..., limit_keys: _Optional[_Iterable[str]] = ..., depends_on: _Optional[_Iterable[int]] = ..., unique_hash: _Optional[str] = ..., payload_bytes: _Optional[int] = ..., enqueued_at: _Optional[int] = ..., ready_at: _Optional[int] = ..., started_at: _Optional[int] = ..., wait_ms: _Optional[int] = ..., run_ms: _Optional[int] = ..., result_bytes: _Optional[int] = ..., reason: _Optional[str] = ..., error_type: _Optional[str] = ..., message: _Optional[str] = ..., fingerprint: _Optional[str] = ..., detail: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class EventPage(_message.Message):
    __slots__ = ("events", "cursor")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    cursor: str
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., cursor: _Optional[str] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("entries",)
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.ScalarMap[str, str]
    def __init__(self, entries: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Tags(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, values: _Optional[_Iterable[str]] = ...) -> None: ...

class ChangeRequest(_message.Message):
    __slots__ = ("header", "action", "ids", "filter", "limit", "reason", "priority", "run_at", "delay_ms", "payload", "metadata", "tags", "rate")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_FIELD_NUMBER: _ClassVar[int]
    DELAY_MS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    header: Header
    action: Action
    ids: _containers.RepeatedScalarFieldContainer[int]
    filter: Filter
    limit: int
    reason: str
    priority: int
    run_at: int
    delay_ms: int
    payload: bytes
    metadata: Metadata
    tags: Tags
    rate: int
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., action: _Optional[_Union[Action, str]] = ..., ids: _Optional[_Iterable[int]] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., limit: _Optional[int] = ..., reason: _Optional[str] = ..., priority: _Optional[int] = ..., run_at: _Optional[int] = ..., delay_ms: _Optional[int] = ..., payload: _Optional[bytes] = ..., metadata: _Optional[_Union[Metadata, _Mapping]] = ..., tags: _Optional[_Union[Tags, _Mapping]] = ..., rate: _Optional[int] = ...) -> None: ...

class ConfigureRequest(_message.Message):
    __slots__ = ("header", "subject", "name", "changes")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    header: Header
    subject: Subject
    name: str
    changes: _struct_pb2.Struct
    def __init__(self, header: _Optional[_Union[Header, _Mapping]] = ..., subject: _Optional[_Union[Subject, str]] = ..., name: _Optional[str] = ..., changes: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class ConfigureResponse(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: _struct_pb2.Struct
    def __init__(self, settings: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...
