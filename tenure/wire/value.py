"""The values of the core as structs that go over a wire, and back.

A struct has the fields of the class that it stands for, in the order of its constructor; a test holds them together.
What the jobs of a batch or of a claim share is sent once.
"""

from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import msgspec

from tenure.core.answer import Answers, Claimed, Extended, Outcome
from tenure.core.error import Error, from_fields
from tenure.core.job import Extras, Options
from tenure.core.limit import Rate
from tenure.core.packed import Packed, Texts
from tenure.core.record import Ended, Failed, Past, Progress, Scanned
from tenure.core.request import (
    Append,
    Batch,
    Change,
    Claim,
    Configure,
    Extend,
    Failure,
    Filter,
    Load,
    Pick,
    Scan,
    Settle,
)
from tenure.core.retry import Backoff
from tenure.core.table import JOB_BYTES
from tenure.core.tenant import Context, OpId
from tenure.wire.piece import InOnePiece, in_one_piece, packed_of

T = TypeVar("T")
M = TypeVar("M", bound=msgspec.Struct)

INT_MAX = 2**63 - 1

# Extensions of MessagePack.
RATE = 1
BACKOFF = 2

# Fields of `Past` that are structs; where another field is wrong, the store is to name that one.
PAST_STRUCTS: dict[str, Any] = {"progress": Progress | None, "error": Failed | None, "history": tuple[Ended, ...]}


class Wire(msgspec.Struct, array_like=True):
    """A value as an array of its fields."""


def _mirror(kind: type[M], value: object) -> M:
    return kind(*[getattr(value, field) for field in kind.__struct_fields__])


def _restore(kind: type[T], message: msgspec.Struct, **changed: object) -> T:
    """`changed` are the fields that are structs themselves, as values of the core."""
    values = msgspec.structs.astuple(message)
    if changed:
        fields = message.__struct_fields__
        return kind(*[changed.get(field, value) for field, value in zip(fields, values, strict=True)])
    return kind(*values)


def sendable(ids: list[int]) -> list[int]:
    """A number that no job can have goes as the largest that can be sent."""
    if ids and (max(ids) > INT_MAX or min(ids) < -INT_MAX):
        return [id if -INT_MAX <= id <= INT_MAX else INT_MAX for id in ids]
    return ids


class WireOpId(Wire):
    session: str
    counter: int


class WireContext(Wire):
    tenant: str
    tenants: tuple[str, ...]
    principal: str
    roles: int
    trace: str
    op: WireOpId | None
    connection: int
    durability: str
    tokenless: bool = False
    queues: tuple[str, ...] = ()
    reaches_all_tenants: bool = True


def pack_context(context: Context) -> WireContext:
    message = _mirror(WireContext, context)
    message.op = None if context.op is None else _mirror(WireOpId, context.op)
    return message


def unpack_context(message: WireContext) -> Context:
    return _restore(Context, message, op=None if message.op is None else _restore(OpId, message.op))


# What is enqueued.


class WireBackoff(Wire):
    kind: int
    base_ms: int
    factor: float
    cap_ms: int
    delays_ms: tuple[int, ...]


class WireOptions(Wire):
    queue: str
    task: str
    priority: int
    delay_ms: int
    ttl_ms: int
    max_attempts: int
    backoff: WireBackoff
    timeout_ms: int
    lease_ms: int
    on_conflict: int
    idempotency_ttl_ms: int
    debounce_ms: int
    debounce_mode: int
    debounce_max_wait_ms: int
    dependency_policy: int
    lifo: bool
    limit_keys: tuple[str, ...]
    keep_completed_ms: int
    keep_completed_count: int
    keep_failed_ms: int
    keep_failed_count: int
    codec: str
    schema_version: int


class WireExtras(Wire):
    custom_id: str
    unique_key: str
    idempotency_key: str
    debounce_key: str
    depends_on: tuple[int, ...]
    group: str
    run_at: int
    expires_at: int
    tags: tuple[str, ...]
    metadata: dict[str, str] | None
    trace: str


class WireBatch(Wire):
    options: WireOptions
    payloads: list[object] | InOnePiece  # the store refuses, one by one, what is not bytes
    extras: list[WireExtras | None] | None
    kinds: list[WireOptions] | None  # the options that differ, once each
    each: list[int] | None  # which of them every job has
    atomic: bool
    pasts: list[msgspec.Raw] | None  # the store names what is wrong with them
    keys: list[str] | InOnePiece | None


def _pack_options(options: Options) -> WireOptions:
    message = _mirror(WireOptions, options)
    message.backoff = _mirror(WireBackoff, options.backoff)
    return message


def _unpack_options(message: WireOptions) -> Options:
    return _restore(Options, message, backoff=_restore(Backoff, message.backoff))


def _pack_extras(extras: list[Extras | None]) -> list[WireExtras | None]:
    return [None if extra is None else _mirror(WireExtras, extra) for extra in extras]


def _unpack_extras(extras: list[WireExtras | None]) -> list[Extras | None]:
    return [None if extra is None else _restore(Extras, extra) for extra in extras]


def _pack_kinds(each: list[Options]) -> tuple[list[WireOptions], list[int]]:
    places: dict[int, int] = {}
    kinds: list[WireOptions] = []
    which: list[int] = []
    for options in each:
        at = places.get(id(options))
        if at is None:
            at = places[id(options)] = len(kinds)
            kinds.append(_pack_options(options))
        which.append(at)
    return kinds, which


def _unpack_kinds(kinds: list[WireOptions], which: list[int]) -> list[Options]:
    found = [_unpack_options(kind) for kind in kinds]
    return [found[at] for at in which]


def pack_batch(batch: Batch) -> WireBatch:
    kinds, each = (None, None) if batch.each is None else _pack_kinds(batch.each)
    extras = None if batch.extras is None else _pack_extras(batch.extras)
    payloads: object = in_one_piece(batch.payloads) if isinstance(batch.payloads, Packed) else batch.payloads
    keys = in_one_piece(batch.keys.packed) if isinstance(batch.keys, Texts) else batch.keys
    pasts = None if batch.pasts is None else [msgspec.Raw(msgspec.msgpack.encode(past)) for past in batch.pasts]
    return WireBatch(
        _pack_options(batch.options),
        cast("list[object] | InOnePiece", payloads),
        extras,
        kinds,
        each,
        batch.atomic,
        pasts,
        keys,
    )


def unpack_batch(message: WireBatch) -> Batch:
    each = None if message.kinds is None else _unpack_kinds(message.kinds, message.each or [])
    extras = None if message.extras is None else _unpack_extras(message.extras)
    found = message.payloads
    payloads = packed_of(found) if isinstance(found, InOnePiece) else cast("list[bytes]", found)
    keys = Texts(packed_of(message.keys)) if isinstance(message.keys, InOnePiece) else message.keys
    pasts = None if message.pasts is None else [unpack_past(past) for past in message.pasts]
    return Batch(_unpack_options(message.options), payloads, extras, each, message.atomic, pasts, keys)


def unpack_past(past: msgspec.Raw, decode: Callable[..., Any] = msgspec.msgpack.decode) -> Past:
    try:
        found: Past = decode(past, type=Past)
        return found
    except msgspec.ValidationError:
        fields = decode(past, type=dict[str, Any])
        for name, kind in PAST_STRUCTS.items():
            if name in fields:
                with suppress(msgspec.ValidationError):
                    fields[name] = msgspec.convert(fields[name], kind)
        return Past(**fields)


# Requests.


class WirePick(Wire):
    name: str
    weight: int


class WireClaim(Wire):
    queues: tuple[WirePick, ...]
    n: int
    wait_ms: int
    worker: str
    tasks: frozenset[str] | None
    max_bytes: int
    lease_ms: int
    strict: bool
    withdraw: bool = False


def pack_claim(claim: Claim) -> WireClaim:
    message = _mirror(WireClaim, claim)
    message.queues = tuple(_mirror(WirePick, pick) for pick in claim.queues)
    return message


def unpack_claim(message: WireClaim) -> Claim:
    return _restore(Claim, message, queues=tuple(_restore(Pick, pick) for pick in message.queues))


class WireFailure(Wire):
    type: str
    message: str
    trace: str
    retryable: bool
    undecodable: bool
    delay_ms: int


def pack_failure(failure: Failure) -> WireFailure:
    return _mirror(WireFailure, failure)


class WireSettle(Wire):
    verb: int
    ids: list[int]
    tokens: list[bytes] | None
    results: list[bytes | None] | None
    failures: list[WireFailure] | None
    followups: list[WireBatch | None] | None
    delay_ms: int
    pause_key: str


def pack_settle(settle: Settle) -> WireSettle:
    message = _mirror(WireSettle, settle)
    message.ids = sendable(settle.ids)
    if settle.failures is not None:
        message.failures = [pack_failure(failure) for failure in settle.failures]
    if settle.followups is not None:
        message.followups = [None if batch is None else pack_batch(batch) for batch in settle.followups]
    return message


def unpack_settle(message: WireSettle) -> Settle:
    failures, followups = None, None
    if message.failures is not None:
        failures = [_restore(Failure, failure) for failure in message.failures]
    if message.followups is not None:
        followups = [None if batch is None else unpack_batch(batch) for batch in message.followups]
    return _restore(Settle, message, failures=failures, followups=followups)


class WireExtend(Wire):
    ids: list[int]
    tokens: list[bytes] | None
    lease_ms: int


def pack_extend(extend: Extend) -> WireExtend:
    return WireExtend(sendable(extend.ids), extend.tokens, extend.lease_ms)


def unpack_extend(message: WireExtend) -> Extend:
    return _restore(Extend, message)


class WireGet(Wire):
    ids: list[int]
    custom_ids: list[str]


def pack_get(ids: list[int], custom_ids: list[str]) -> WireGet:
    return WireGet(sendable(ids), custom_ids)


class WireFilter(Wire):
    queue: str
    states: int
    task: str
    tag: str
    metadata: tuple[tuple[str, str], ...]
    worker: str
    error: str
    fingerprint: str
    reason: str
    created_from: int
    created_to: int
    ended_before: int
    group: str
    custom_id_prefix: str


def pack_filter(filter: Filter) -> WireFilter:
    return _mirror(WireFilter, filter)


def unpack_filter(message: WireFilter) -> Filter:
    return _restore(Filter, message)


class WireChange(Wire):
    action: int
    ids: list[int] | None
    filter: WireFilter | None
    priority: int
    payload: bytes | None
    metadata: dict[str, str] | None
    tags: tuple[str, ...] | None
    run_at: int
    reason: str
    limit: int
    rate_per_s: int


def pack_change(change: Change) -> WireChange:
    message = _mirror(WireChange, change)
    message.ids = None if change.ids is None else sendable(change.ids)
    message.filter = None if change.filter is None else pack_filter(change.filter)
    return message


def unpack_change(message: WireChange) -> Change:
    return _restore(Change, message, filter=None if message.filter is None else unpack_filter(message.filter))


class WireAppend(Wire):
    kind: int
    id: int
    token: bytes | None
    percent: int
    text: str
    data: bytes


def pack_append(append: Append) -> WireAppend:
    return _mirror(WireAppend, append)


def unpack_append(message: WireAppend) -> Append:
    return _restore(Append, message)


class WireConfigure(Wire):
    subject: int
    name: str
    changes: dict[str, object]


def pack_configure(configure: Configure) -> WireConfigure:
    return _mirror(WireConfigure, configure)


def unpack_configure(message: WireConfigure) -> Configure:
    return _restore(Configure, message)


class WireLoad(Wire):
    step: int
    load_id: str
    part: int
    writing: str
    chunk: int
    batch: WireBatch | None
    parts: dict[int, str] | None
    digest: str = ""


def pack_load(load: Load) -> WireLoad:
    message = _mirror(WireLoad, load)
    message.batch = None if load.batch is None else pack_batch(load.batch)
    return message


def unpack_load(message: WireLoad) -> Load:
    return _restore(Load, message, batch=None if message.batch is None else unpack_batch(message.batch))


class WireScan(Wire):
    table: str
    after: int
    upto: int
    limit: int
    queue: str
    states: int
    types: tuple[str, ...]
    columns: tuple[str, ...]


def pack_scan(scan: Scan) -> WireScan:
    return _mirror(WireScan, scan)


def unpack_scan(message: WireScan) -> Scan:
    return _restore(Scan, message)


# Answers.


class WireError(Wire):
    code: str
    message: str
    fields: dict[str, object]


def pack_error(error: Error) -> WireError:
    return WireError(error.code, error.message, error.fields)


def unpack_error(message: WireError) -> Error:
    return from_fields(message.code, message.message, message.fields)


class WireOutcome(Wire):
    id: int
    state: int
    duplicate: bool
    replaced: bool
    run_at: int
    error: WireError | None


class WireAnswers(Wire):
    ids: list[int]
    state: int
    other: dict[int, WireOutcome] | None
    count: int


def pack_answers(answers: Answers) -> WireAnswers:
    message = WireAnswers(answers.ids, answers.state, None, answers.count)
    if answers.other is not None:
        message.other = {at: _pack_outcome(outcome) for at, outcome in answers.other.items()}
    return message


def unpack_answers(message: WireAnswers) -> Answers:
    other = None
    if message.other is not None:
        other = {at: _unpack_outcome(outcome) for at, outcome in message.other.items()}
    return Answers(message.ids, message.state, other, message.count)


def _pack_outcome(outcome: Outcome) -> WireOutcome:
    error = None if outcome.error is None else pack_error(outcome.error)
    return WireOutcome(outcome.id, outcome.state, outcome.duplicate, outcome.replaced, outcome.run_at, error)


def _unpack_outcome(message: WireOutcome) -> Outcome:
    error = None if message.error is None else unpack_error(message.error)
    return Outcome(message.id, message.state, message.duplicate, message.replaced, message.run_at, error)


class WireClaimed(Wire):
    token: bytes
    ids: list[int]
    payloads: list[bytes]
    kinds: list[WireOptions]
    options: list[int]  # which of them every job has
    tenants: list[str]
    attempts: list[int]
    lease_until: list[int]
    extras: list[WireExtras | None]
    lease_ms: list[int]


def pack_claimed(claimed: Claimed) -> WireClaimed:
    kinds, which = _pack_kinds(claimed.options)
    return WireClaimed(
        claimed.token,
        claimed.ids,
        claimed.payloads,
        kinds,
        which,
        claimed.tenants,
        claimed.attempts,
        claimed.lease_until,
        _pack_extras(claimed.extras),
        claimed.lease_ms,
    )


def unpack_claimed(message: WireClaimed) -> Claimed:
    claimed = Claimed(message.token)
    claimed.ids = message.ids
    claimed.payloads = message.payloads
    claimed.options = _unpack_kinds(message.kinds, message.options)
    claimed.tenants = message.tenants
    claimed.attempts = message.attempts
    claimed.lease_until = message.lease_until
    claimed.lease_ms = message.lease_ms
    claimed.extras = _unpack_extras(message.extras)
    return claimed


class WireExtended(Wire):
    lease_until: list[int]
    errors: dict[int, WireError] | None
    lease_ms: list[int]


def pack_extended(extended: Extended) -> WireExtended:
    errors = None
    if extended.errors is not None:
        errors = {at: pack_error(error) for at, error in extended.errors.items()}
    return WireExtended(extended.lease_until, errors, extended.lease_ms)


def unpack_extended(message: WireExtended) -> Extended:
    errors = None
    if message.errors is not None:
        errors = {at: unpack_error(error) for at, error in message.errors.items()}
    return Extended(message.lease_until, message.lease_ms, errors)


# Values inside settings.


def extend_encoder(value: object) -> object:
    if isinstance(value, Rate):
        return msgspec.msgpack.Ext(RATE, msgspec.msgpack.encode(value.key()))
    if isinstance(value, Backoff):
        return msgspec.msgpack.Ext(BACKOFF, msgspec.msgpack.encode(value.key()))
    raise TypeError(f"a {type(value).__name__} cannot be sent")


def extend_decoder(code: int, data: memoryview) -> object:
    if code == RATE:
        return Rate(*msgspec.msgpack.decode(data, type=tuple[int, int, int]))
    if code == BACKOFF:
        return _restore(Backoff, msgspec.msgpack.decode(data, type=WireBackoff))
    raise ValueError(f"extension {code} is not known")


# Columns of tables: JSON has no bytes, and no numbers as keys.


def columns_of(scanned: Scanned) -> Scanned:
    """What was read of a page, in whichever format, as the store answered it."""
    return msgspec.structs.replace(
        scanned, columns={name: _column(name, column) for name, column in scanned.columns.items()}
    )


def _column(name: str, column: Any) -> object:
    if isinstance(column, str):
        return b64decode(column)
    if isinstance(column, dict):
        return {int(row): value for row, value in column.items()}
    if name in JOB_BYTES:
        return [b64decode(value) if isinstance(value, str) else value for value in column]
    if len(column) == 2 and isinstance(column[1], str) and isinstance(column[0], list):
        return [column[0], b64decode(column[1])]
    return column
