"""The commands of the public protocol: one struct each, the same in JSON and MessagePack."""

import functools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from tenure.wire.option import Few, Item, JobFields, JustData
from tenure.wire.piece import InOnePiece

PULL_WAIT_MS = 60_000
WAIT_MS = 30_000
NO_DATA = Raw(b"")


class Command(Struct, tag_field="cmd", kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`tenant` owns what is enqueued and named; `tenants` are those that are reached besides, `*` all of them.
    `op_id` is a session and a counter, `session:7`: a repeat of a changing request is answered, not done again."""

    req_id: str | int | None = field(default=None, name="reqId")
    tenant: str = ""
    tenants: Few[str] | None = None
    op_id: str = field(default="", name="opId")
    durability: str = ""


def _join(name: str, base: type[Struct], other: type[Struct]) -> Any:
    """A struct with the fields of both; structs cannot have two bases."""
    hints = get_type_hints(other, include_extras=True)
    fields: list[Any] = []
    for part in msgspec.structs.fields(other):
        given = {
            key: value
            for key, value in (("default", part.default), ("default_factory", part.default_factory))
            if value is not msgspec.NODEFAULT
        }
        fields.append((part.name, hints[part.name], field(name=part.encode_name, **given)))
    return msgspec.defstruct(
        name, fields, bases=(base,), kw_only=True, omit_defaults=True, forbid_unknown_fields=True, module=__name__
    )


class Which(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Jobs by what they are; every condition given must hold. Times in milliseconds since 1970."""

    queue: str = ""
    state: str | Few[str] = ""
    task: str = ""
    tag: str = ""
    metadata: dict[str, str] = {}
    worker: str = ""
    error: str = ""
    fingerprint: str = ""
    reason: str = ""
    from_: int = field(default=0, name="from")
    to: int = 0
    ended_before: int = 0
    group: str = ""
    custom_id_prefix: str = ""


if TYPE_CHECKING:

    class JobCommand(Command, JobFields):
        pass

    class WhichCommand(Command, Which):
        pass

else:
    JobCommand = _join("JobCommand", Command, JobFields)
    WhichCommand = _join("WhichCommand", Command, Which)


class Hello(Command, tag="HELLO", kw_only=True):
    version: int = 1
    client: str = ""


class Auth(Command, tag="AUTH", kw_only=True):
    token: str = ""


class Ping(Command, tag="PING", kw_only=True):
    pass


class Abort(Command, tag="ABORT", kw_only=True):
    """Ends the request on this connection that has that id."""

    id: str | int


# Enqueue.


class Push(JobCommand, tag="PUSH", kw_only=True):
    queue: str
    data: Raw = NO_DATA


class Pushing(JobCommand, kw_only=True):
    """`packed` asks for answers in columns."""

    queue: str | UnsetType = UNSET
    atomic: bool = False
    packed: bool = False


class PushMany(Pushing, tag="PUSHB", kw_only=True):
    jobs: Few[JustData]


class PushColumn(Pushing, tag="PUSHB", kw_only=True):
    """A batch in MessagePack, of which no job was read yet."""

    jobs: Raw


class PushManyItems(Pushing, tag="PUSHB", kw_only=True):
    """A batch whose jobs differ, or have something wrong: each is read on its own."""

    jobs: Few[Raw]


class JobColumns(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Jobs in columns, with an entry for each: a tenth of the work of reading one after the other. Data is binary; an
    empty entry asks for nothing. `kinds` are the options that differ, once each, and `kind` says which a job has."""

    data: Few[bytes] | InOnePiece
    kinds: Few[Item] | None = None
    kind: Few[int] | None = None
    custom_id: Few[str] | None = None
    unique_key: Few[str] | None = None
    idempotency_key: Few[str] | InOnePiece | None = None
    debounce_id: Few[str] | None = None
    depends_on: Few[Few[int]] | None = None
    group_id: Few[str] | None = None
    run_at: Few[int] | None = None
    expires_at: Few[int] | None = None
    tags: Few[Few[str]] | None = None
    metadata: Few[dict[str, str] | None] | None = None
    trace: Few[str] | None = None


class Loading(JobCommand, kw_only=True):
    load_id: str
    step: str  # stage, publish, abort, read
    part: int = 0
    writing: str = ""
    chunk: int = 0
    parts: dict[int, str] | None = None
    digest: str = ""
    queue: str | UnsetType = UNSET
    pasts: Few[Raw] | None = None
    columns: JobColumns | None = None


class LoadJobs(Loading, tag="LOAD", kw_only=True):
    jobs: Few[JustData] | None = None


class LoadItems(Loading, tag="LOAD", kw_only=True):
    jobs: Few[Raw] | None = None


# Claim and settle.


class Pull(Command, tag="PULL", kw_only=True):
    queue: str = ""
    queues: Few[str | tuple[str, int]] | None = None
    timeout: int = PULL_WAIT_MS
    worker: str = ""
    lease: int = 0
    tasks: Few[str] | None = None
    max_bytes: int | UnsetType = UNSET
    order: str = "weighted"
    withdraw: bool = False


class PullMany(Pull, tag="PULLB", kw_only=True):
    count: int = 1
    packed: bool = False


class Of(Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One of several leased jobs."""

    id: int
    token: bytes | None = None


class Done(Of, kw_only=True):
    result: Raw | UnsetType = UNSET


class Failed(Of, kw_only=True):
    error: str = ""
    type: str = ""
    trace: str = ""
    reason: str = ""
    retryable: bool = True
    retry_after: int | UnsetType = UNSET
    retry_at: int | UnsetType = UNSET


class Followups(JobFields, kw_only=True):
    """Jobs that come into being with the completion."""

    queue: str | UnsetType = UNSET
    jobs: Few[Raw]


if TYPE_CHECKING:

    class FailCommand(Command, Failed):
        pass

else:
    FailCommand = _join("FailCommand", Command, Failed)


class Ack(Command, tag="ACK", kw_only=True):
    id: int
    token: bytes | None = None
    result: Raw | UnsetType = UNSET
    codec: str | UnsetType = UNSET
    followups: Followups | None = None


class AckMany(Command, tag="ACKB", kw_only=True):
    """Jobs one by one in `items`, or, where they need no result, in the columns `ids` and `token` or `tokens`."""

    items: Few[Done] = []
    ids: Few[int] = []
    token: bytes | None = None
    tokens: Few[bytes] | None = None


class Fail(FailCommand, tag="FAIL", kw_only=True):
    pass


class FailMany(Command, tag="FAILB", kw_only=True):
    items: Few[Failed]


class Release(Command, tag="RELEASE", kw_only=True):
    id: int
    token: bytes | None = None
    delay: int = 0
    pause_key: str = ""


class Snooze(Release, tag="SNOOZE", kw_only=True):
    pass


class SettleFailure(Struct, array_like=True):
    type: str
    message: str
    trace: str
    retryable: bool
    undecodable: bool
    delay_ms: int


class SettleMany(Command, tag="SETTLE", kw_only=True):
    """The verb itself, in columns; results are binary."""

    verb: str
    ids: Few[int]
    tokens: Few[bytes] | None = None
    results: Few[bytes | None] | None = None
    failures: Few[SettleFailure] | None = None
    followups: Few[Followups | None] | None = None
    delay: int = 0
    pause_key: str = ""


class Heartbeat(Command, tag="HEARTBEAT", kw_only=True):
    id: int
    token: bytes | None = None
    lease: int = 0


class HeartbeatMany(Command, tag="HEARTBEATB", kw_only=True):
    items: Few[Of] = []
    ids: Few[int] = []
    tokens: Few[bytes] | None = None
    lease: int = 0
    packed: bool = False


# Read. `packed` asks for records with binary payloads.


class GetJob(Command, tag="GETJOB", kw_only=True):
    id: int


class GetState(Command, tag="GETSTATE", kw_only=True):
    id: int


class GetResult(Command, tag="GETRESULT", kw_only=True):
    id: int


class GetProgress(Command, tag="GETPROGRESS", kw_only=True):
    id: int


class GetJobByCustomId(Command, tag="GETJOBBYCUSTOMID", kw_only=True):
    custom_id: str


class GetJobs(Command, tag="GETJOBSBATCH", kw_only=True):
    ids: Few[int] = []
    custom_ids: Few[str] = []
    packed: bool = False


class WaitJob(Command, tag="WAITJOB", kw_only=True):
    id: int
    timeout: int = WAIT_MS
    packed: bool = False


class Explain(Command, tag="EXPLAIN", kw_only=True):
    id: int


class Find(WhichCommand, tag="GETJOBS", kw_only=True):
    """From the `cursor` of the page before, or after the first `offset` jobs."""

    limit: int = 100
    cursor: str = ""
    offset: int = 0
    packed: bool = False


class OfQueue(Command, tag="GETJOBCOUNTS", kw_only=True):
    queue: str = ""
    packed: bool = False


class Count(Command, tag="COUNT", kw_only=True):
    queue: str


class ListQueues(Command, tag="LISTQUEUES", kw_only=True):
    pass


class Stats(Command, tag="STATS", kw_only=True):
    pass


# Change.


class Changing(Command, kw_only=True):
    """One job by `id`, several by `ids`, or all that `filter` finds."""

    id: int | UnsetType = UNSET
    ids: Few[int] | None = None
    filter: Which | None = None
    limit: int = 0
    reason: str = ""
    packed: bool = False


class Cancel(Changing, tag="CANCEL", kw_only=True):
    token: bytes | None = None


class Discard(Changing, tag="DISCARD", kw_only=True):
    pass


class Promote(Changing, tag="PROMOTE", kw_only=True):
    pass


class ChangePriority(Changing, tag="CHANGEPRIORITY", kw_only=True):
    priority: int | str


class Rewriting(Changing, kw_only=True):
    data: Raw | UnsetType = UNSET
    codec: str | UnsetType = UNSET
    metadata: dict[str, str] | None = None
    tags: Few[str] | None = None


class UpdateJob(Rewriting, tag="UPDATEJOB", kw_only=True):
    pass


class MoveToDelayed(Changing, tag="MOVETODELAYED", kw_only=True):
    delay: int | UnsetType = UNSET
    run_at: int | UnsetType = UNSET


class Clone(Rewriting, tag="CLONE", kw_only=True):
    pass


class RetryDead(Rewriting, tag="RETRYDLQ", kw_only=True):
    queue: str = ""
    fingerprint: str = ""
    count: int = 0
    rate: int = 0
    before: int = 0


class Remove(Changing, tag="REMOVE", kw_only=True):
    pass


class Dead(Command, tag="DLQ", kw_only=True):
    queue: str = ""
    count: int = 100
    fingerprint: str = ""
    before: int = 0
    cursor: str = ""


class DeadGroups(Command, tag="DLQGROUPS", kw_only=True):
    queue: str = ""


class PurgeDead(Command, tag="PURGEDLQ", kw_only=True):
    queue: str = ""
    id: int | UnsetType = UNSET
    fingerprint: str = ""
    count: int = 0
    before: int = 0


class Drain(Command, tag="DRAIN", kw_only=True):
    queue: str


class Clean(Command, tag="CLEAN", kw_only=True):
    queue: str
    grace: int = 0
    state: str = "completed"
    limit: int = 0


class Obliterate(Command, tag="OBLITERATE", kw_only=True):
    """Pauses a queue and removes all its jobs; while some run only by `force`, which cancels them."""

    queue: str
    force: bool = False


# What a running job says.


class SetProgress(Command, tag="PROGRESS", kw_only=True):
    id: int
    token: bytes | None = None
    progress: int = 0
    message: str = ""


class WriteLog(Command, tag="LOG", kw_only=True):
    id: int
    token: bytes | None = None
    message: str


class Partial(Command, tag="PARTIAL", kw_only=True):
    id: int
    token: bytes | None = None
    data: Raw
    codec: str | UnsetType = UNSET


class GetLogs(Command, tag="GETLOGS", kw_only=True):
    id: int
    offset: int = 0
    limit: int = 100
    timeout: int = 0
    packed: bool = False


class ReadStream(GetLogs, tag="STREAM", kw_only=True):
    pass


# Settings.


class WireRate(Struct, forbid_unknown_fields=True):
    """`tokens` per `period` (milliseconds), `burst` at once at most."""

    tokens: int
    period: int = 1_000
    burst: int | UnsetType = UNSET


class Pause(Command, tag="PAUSE", kw_only=True):
    queue: str


class Resume(Command, tag="RESUME", kw_only=True):
    queue: str


class IsPaused(Command, tag="ISPAUSED", kw_only=True):
    queue: str


class RateLimit(Command, tag="RATELIMIT", kw_only=True):
    queue: str
    limit: int
    period: int = 1_000
    burst: int | UnsetType = UNSET


class RateLimitClear(Command, tag="RATELIMITCLEAR", kw_only=True):
    queue: str


class SetConcurrency(Command, tag="SETCONCURRENCY", kw_only=True):
    queue: str
    limit: int


class ClearConcurrency(Command, tag="CLEARCONCURRENCY", kw_only=True):
    queue: str


class Configuring(Command, kw_only=True):
    """`changes` maps a name to its value, null puts it back; without changes it only reads."""

    changes: dict[str, Any] = {}
    packed: bool = False


class Settings(Configuring, tag="QUEUE", kw_only=True):
    queue: str


class Limit(Configuring, tag="LIMIT", kw_only=True):
    """Settings of a limit key, or of all that begin with it."""

    key: str


class Tenant(Configuring, tag="TENANT", kw_only=True):
    name: str | UnsetType = UNSET


class StoreSettings(Configuring, tag="SETTINGS", kw_only=True):
    pass


class Workers(Configuring, tag="WORKERS", kw_only=True):
    """What is known of workers, or published of a `task`; with a `name` and `changes`, what one says of itself."""

    name: str = "*"
    task: str = ""


# Events.


class ReadEvents(Command, tag="EVENTS", kw_only=True):
    after: int | str = ""
    limit: int = 1_000
    timeout: int = 0
    queue: str = ""
    events: Few[str] | None = None
    packed: bool = False


class Subscribe(Command, tag="SUBSCRIBE", kw_only=True):
    after: int | str = "end"
    queue: str = ""
    events: Few[str] | None = None


class ScanTable(Command, tag="SCAN", kw_only=True):
    """Rows in bulk. Without a `limit` it asks how far the table reaches, and for `parts` to read it in."""

    table: str
    parts: int = 0
    after: int = 0
    upto: int = 0
    limit: int = 0
    queue: str = ""
    states: Few[str] = []
    types: Few[str] = []
    columns: Few[str] = []


class Unsubscribe(Command, tag="UNSUBSCRIBE", kw_only=True):
    id: str | int | None = None


def _kinds(kind: type[Command]) -> list[type[Command]]:
    return [found for child in kind.__subclasses__() for found in (child, *_kinds(child))]


# Commands of the protocol whose features are not there yet.
UNSUPPORTED = frozenset(
    {
        *("METRICS", "CLUSTER", "TOKEN", "WEBHOOK", "BLOB"),
        *("CRON", "CRONDELETE", "CRONLIST", "CRONPAUSE", "CRONRUN", "CRONNEXT"),
        *("FLOW", "GETCHILDREN", "FLOWGET", "FLOWCANCEL", "FLOWREPLAY", "SIGNAL"),
        # flashQ's store of keys and its channels.
        *("KVSET", "KVGET", "KVDEL", "KVMGET", "KVMSET", "KVEXISTS", "KVEXPIRE", "KVTTL", "KVKEYS", "KVINCR"),
        *("PUB", "SUB", "PSUB", "UNSUB", "PUNSUB", "PUBSUBCHANNELS", "PUBSUBNUMSUB"),
    }
)
OLD_NAMES = {"UPDATE": "UPDATEJOB"}  # of commands, on connections without HELLO
_OTHERWISE_READ = (PushColumn, PushManyItems, LoadItems)
COMMANDS: dict[str, type[Command]] = {}
for _kind in _kinds(Command):
    if _kind not in _OTHERWISE_READ and _kind.__struct_config__.tag != _kind.__name__:
        COMMANDS[str(_kind.__struct_config__.tag)] = _kind
# Read job by job where they cannot be read in one go.
IN_FULL: dict[str, type[Command]] = {**COMMANDS, "PUSHB": PushManyItems, "LOAD": LoadItems}


def _any(kinds: Iterable[type[Command]]) -> Any:
    return functools.reduce(operator.or_, kinds)


AnyCommand: Any = _any(COMMANDS.values())
AnyInMessagePack: Any = _any(PushColumn if kind is PushMany else kind for kind in COMMANDS.values())
