"""The verbs of a store as commands of the public protocol, for a client: how to ask, and how to read the answer."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct

from tenure.core import bound, request
from tenure.core.error import InvalidRequest
from tenure.core.job import Extras, Options
from tenure.core.limit import Rate
from tenure.core.packed import Packed, Texts
from tenure.core.record import (
    DeadLetterGroup,
    Event,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadReport,
    Scanned,
    StreamItem,
)
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Filter, Load, Scan, Settle
from tenure.core.state import STATE_NAMES
from tenure.core.tenant import Context
from tenure.wire import value
from tenure.wire.format import Format
from tenure.wire.option import PUBLIC_NAMES, extra_fields, fields_of
from tenure.wire.piece import squeezed
from tenure.wire.work import LOAD_STEPS, SETTLE_VERBS

Fields = dict[str, Any]

ACTIONS = {
    request.CANCEL: "CANCEL",
    request.DISCARD: "DISCARD",
    request.PROMOTE: "PROMOTE",
    request.PRIORITY: "CHANGEPRIORITY",
    request.UPDATE: "UPDATEJOB",
    request.DELAY: "MOVETODELAYED",
    request.CLONE: "CLONE",
    request.REPLAY: "RETRYDLQ",
    request.REMOVE: "REMOVE",
}
REWRITES = frozenset({request.UPDATE, request.CLONE, request.REPLAY})
APPENDS = {request.PROGRESS: "PROGRESS", request.LOG: "LOG", request.EMIT: "PARTIAL"}
SUBJECTS = {
    request.QUEUE: ("QUEUE", "queue"),
    request.KEY: ("LIMIT", "key"),
    request.TENANT: ("TENANT", "name"),
    request.STORE: ("SETTINGS", ""),
    request.WORKER: ("WORKERS", "name"),
    request.TASK: ("WORKERS", "task"),
}
SETTLE_NAMES = {code: name for name, code in SETTLE_VERBS.items()}
NO_EXTRAS = Extras()
STEP_NAMES = {code: name for name, code in LOAD_STEPS.items()}


class Answered(Struct):
    answers: value.WireAnswers


class Leased(Struct):
    claimed: value.WireClaimed


class Renewed(Struct):
    extended: value.WireExtended


class Found(Struct):
    jobs: list[JobRecord | None]


class Page(Struct):
    jobs: tuple[JobRecord, ...]
    cursor: str


class Counted(Struct):
    queues: dict[str, dict[str, int]]


class Grouped(Struct):
    groups: list[DeadLetterGroup]


class Explained(Struct):
    explanation: Explanation


class Settings(Struct):
    settings: dict[str, Any]


class Watched(Struct):
    job: JobRecord


class Events(Struct):
    events: tuple[Event, ...]
    cursor: str


class Appended(Struct):
    offset: int = 0
    progress: int = 0


class Items(Struct):
    items: list[StreamItem]


class Loaded(Struct):
    load: LoadReport


class Rows(Struct):
    scan: Scanned


class Verb(NamedTuple):
    ask: Callable[..., Fields]  # from the form and the arguments
    kind: type[Struct]
    read: Callable[[Any], Any]


def _name(field: str, names: dict[int, str], code: int) -> str:
    found = names.get(code)
    if found is None:
        raise InvalidRequest(field, code, "it must be the number of one of " + ", ".join(names.values()))
    return found


def header(context: Context) -> Fields:
    """What every command says of who asks; the server knows the rest."""
    fields: Fields = {}
    if context.tenant or not context.tenants:
        fields["tenant"] = bound.tenant_name("tenant", context.tenant)
    if context.tenants:
        fields["tenants"] = context.tenants
    if context.op is not None:
        fields["opId"] = f"{context.op.session}:{context.op.counter}"
    if context.durability:
        fields["durability"] = context.durability
    return fields


def _batch(form: Format, batch: Batch) -> Fields:
    """What all jobs share at the top, what each has besides with its data."""
    wrap: Callable[[Any], object] = form.of_bytes
    count = len(batch.payloads)
    _check_lengths(batch)
    extras = list(map(batch.extra, range(count)))
    if batch.each is None:
        jobs = [_job(wrap(payload), None, extra) for payload, extra in zip(batch.payloads, extras, strict=True)]
        return {**fields_of(batch.options), "jobs": jobs}
    rows = zip(batch.payloads, batch.each, extras, strict=True)
    return {"jobs": [_job(wrap(payload), options, extra) for payload, options, extra in rows]}


def _check_lengths(batch: Batch) -> None:
    count = len(batch.payloads)
    for name in ("extras", "each", "pasts", "keys"):
        column = getattr(batch, name)
        if column is not None and len(column) != count:
            raise InvalidRequest(name, len(column), f"there must be one for each of the {count} payloads")


def _job(data: object, options: Options | None, extras: Extras | None) -> Fields:
    fields: Fields = {"data": data}
    if options is not None:
        fields.update(fields_of(options))
    if extras is not None:
        fields.update(extra_fields(extras))
    return fields


def _enqueue(form: Format, batch: Batch) -> Fields:
    return {"cmd": "PUSHB", "packed": True, "atomic": batch.atomic, **_batch(form, batch)}


def _claim(form: Format, claim: Claim) -> Fields:
    fields: Fields = {
        "cmd": "PULLB",
        "queues": [(pick.name, pick.weight) for pick in claim.queues],
        "count": claim.n,
        "timeout": claim.wait_ms,
        "worker": claim.worker,
        "lease": claim.lease_ms,
        "max_bytes": claim.max_bytes,
        "order": "strict" if claim.strict else "weighted",
        "packed": True,
    }
    if claim.tasks is not None:
        fields["tasks"] = sorted(claim.tasks)
    if claim.withdraw:
        fields["withdraw"] = True
    return fields


def _settle(form: Format, settle: Settle) -> Fields:
    fields: Fields = {
        "cmd": "SETTLE",
        "verb": _name("verb", SETTLE_NAMES, settle.verb),
        "ids": value.sendable(settle.ids),
    }
    if settle.tokens is not None:
        fields["tokens"] = settle.tokens
    if settle.results is not None:
        fields["results"] = settle.results
    if settle.failures is not None:
        fields["failures"] = [value.pack_failure(failure) for failure in settle.failures]
    if settle.followups is not None:
        fields["followups"] = [None if batch is None else _batch(form, batch) for batch in settle.followups]
    if settle.delay_ms:
        fields["delay"] = settle.delay_ms
    if settle.pause_key:
        fields["pause_key"] = settle.pause_key
    return fields


def _extend(form: Format, extend: Extend) -> Fields:
    fields: Fields = {"cmd": "HEARTBEATB", "ids": value.sendable(extend.ids), "lease": extend.lease_ms, "packed": True}
    if extend.tokens is not None:
        fields["tokens"] = extend.tokens
    return fields


def _which(filter: Filter) -> Fields:
    states = [name for code, name in enumerate(STATE_NAMES) if filter.states & 1 << code]
    renamed = {"created_from": "from", "created_to": "to"}
    fields: Fields = {"state": states, "metadata": dict(filter.metadata)}
    for name in value.WireFilter.__struct_fields__:
        if name not in ("states", "metadata"):
            fields[renamed.get(name, name)] = getattr(filter, name)
    return {name: given for name, given in fields.items() if given}


def _change(form: Format, change: Change) -> Fields:
    fields: Fields = {"cmd": _name("action", ACTIONS, change.action), "packed": True}
    if change.ids is not None:
        fields["ids"] = value.sendable(change.ids)
    if change.filter is not None:
        fields["filter"] = _which(change.filter)
    if change.action == request.PRIORITY:
        fields["priority"] = change.priority
    if change.action == request.DELAY:
        fields["run_at"] = change.run_at
    if change.payload is not None and change.action in REWRITES:
        fields["data"] = form.of_bytes(change.payload) if isinstance(change.payload, bytes) else change.payload
        fields["codec"] = "binary"
    for name in ("metadata", "tags"):
        given = getattr(change, name)
        if given is not None and change.action in REWRITES:
            fields[name] = given
    for name, given in (("reason", change.reason), ("limit", change.limit)):
        if given:
            fields[name] = given
    if change.rate_per_s and change.action == request.REPLAY:
        fields["rate"] = change.rate_per_s
    return fields


def _find(form: Format, filter: Filter, limit: int, cursor: str) -> Fields:
    return {"cmd": "GETJOBS", **_which(filter), "limit": limit, "cursor": cursor, "packed": True}


def _configure(form: Format, configure: Configure) -> Fields:
    if configure.subject not in SUBJECTS:
        raise InvalidRequest("subject", configure.subject, "it must be one of " + ", ".join(request.SUBJECT_NAMES))
    command, name = SUBJECTS[configure.subject]
    fields: Fields = {
        "cmd": command,
        "packed": True,
        "changes": {key: _setting(given) for key, given in configure.changes.items()},
    }
    if name:
        fields[name] = configure.name
    return fields


def _setting(given: object) -> object:
    if isinstance(given, Rate):
        return {"tokens": given.tokens, "period": given.period_ms, "burst": given.burst}
    return given


def _append(form: Format, append: Append) -> Fields:
    fields: Fields = {"cmd": _name("kind", APPENDS, append.kind), "id": append.id}
    if append.token is not None:
        fields["token"] = append.token
    if append.kind == request.PROGRESS:
        fields.update(progress=append.percent, message=append.text)
    elif append.kind == request.LOG:
        fields["message"] = append.text
    else:
        fields.update(data=form.of_bytes(append.data), codec="binary")
    return fields


def _stream(form: Format, id: int, kind: int, offset: int, limit: int, wait_ms: int) -> Fields:
    if kind not in (request.LOG, request.EMIT):
        raise InvalidRequest("kind", kind, "it must be the log or the stream")
    command = "GETLOGS" if kind == request.LOG else "STREAM"
    return {"cmd": command, "id": id, "offset": offset, "limit": limit, "timeout": wait_ms, "packed": True}


def _load(form: Format, load: Load) -> Fields:
    fields: Fields = {
        "cmd": "LOAD",
        "load_id": load.load_id,
        "step": _name("step", STEP_NAMES, load.step),
        "part": load.part,
    }
    fields.update(writing=load.writing, chunk=load.chunk)
    if load.parts is not None:
        fields["parts"] = load.parts
    if load.digest:
        fields["digest"] = load.digest
    if load.batch is not None:
        if load.batch.pasts is None:
            fields.update(_columns(load.batch))
        else:
            fields.update(_batch(form, load.batch), pasts=load.batch.pasts)
    return fields


def _scan(form: Format, scan: Scan) -> Fields:
    states = [name for at, name in enumerate(STATE_NAMES) if scan.states >> at & 1]
    return {
        "cmd": "SCAN",
        "table": scan.table,
        "after": scan.after,
        "upto": scan.upto,
        "limit": scan.limit,
        "queue": scan.queue,
        "states": states,
        "types": scan.types,
        "columns": scan.columns,
    }


def _columns(batch: Batch) -> Fields:
    """What all jobs share at the top, what they have besides in columns."""
    _check_lengths(batch)
    columns: Fields = {"data": batch.payloads}
    if isinstance(batch.payloads, Packed):
        columns["data"] = squeezed(batch.payloads)
    if batch.keys is not None:
        columns["idempotency_key"] = squeezed(batch.keys.packed) if isinstance(batch.keys, Texts) else batch.keys
    if batch.extras is not None:
        extras = [NO_EXTRAS if extra is None else extra for extra in batch.extras]
        for name in bound.EXTRA_RULES:
            column = list(map(attrgetter(name), extras))
            if any(column):
                columns[PUBLIC_NAMES.get(name, name)] = column
    if batch.each is not None:
        places: dict[int, int] = {}
        columns["kind"] = [places.setdefault(id(options), len(places)) for options in batch.each]
        kinds = {id(options): options for options in batch.each}
        columns["kinds"] = [fields_of(kinds[each]) for each in places]
    return {**fields_of(batch.options), "columns": columns}


VERBS: dict[str, Verb] = {
    "enqueue": Verb(_enqueue, Answered, lambda found: value.unpack_answers(found.answers)),
    "claim": Verb(_claim, Leased, lambda found: value.unpack_claimed(found.claimed)),
    "settle": Verb(_settle, Answered, lambda found: value.unpack_answers(found.answers)),
    "extend": Verb(_extend, Renewed, lambda found: value.unpack_extended(found.extended)),
    "change": Verb(_change, Answered, lambda found: value.unpack_answers(found.answers)),
    "get": Verb(
        lambda form, ids, names: {
            "cmd": "GETJOBSBATCH",
            "ids": value.sendable(ids),
            "custom_ids": names,
            "packed": True,
        },
        Found,
        lambda found: found.jobs,
    ),
    "find": Verb(_find, Page, lambda found: JobPage(found.jobs, found.cursor)),
    "count": Verb(
        lambda form, queue: {"cmd": "GETJOBCOUNTS", "queue": queue, "packed": True}, Counted, lambda found: found.queues
    ),
    "groups": Verb(lambda form, queue: {"cmd": "DLQGROUPS", "queue": queue}, Grouped, lambda found: found.groups),
    "explain": Verb(lambda form, id: {"cmd": "EXPLAIN", "id": id}, Explained, lambda found: found.explanation),
    "configure": Verb(_configure, Settings, lambda found: found.settings),
    "watch": Verb(
        lambda form, id, wait_ms: {"cmd": "WAITJOB", "id": id, "timeout": wait_ms, "packed": True},
        Watched,
        lambda found: found.job,
    ),
    "events": Verb(
        lambda form, cursor, limit, wait_ms: {
            "cmd": "EVENTS",
            "after": cursor,
            "limit": limit,
            "timeout": wait_ms,
            "packed": True,
        },
        Events,
        lambda found: EventPage(found.events, found.cursor),
    ),
    "append": Verb(_append, Appended, lambda found: found.offset or found.progress),
    "stream": Verb(_stream, Items, lambda found: found.items),
    "load": Verb(_load, Loaded, lambda found: found.load),
    "scan": Verb(_scan, Rows, lambda found: value.columns_of(found.scan)),
}
