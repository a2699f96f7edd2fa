"""Entities as they are written down: what each is now, as plain values with named fields; None when it is gone.

`tenure.engine.restore` reads them. A field that is missing has its default there, so fields may be added; names are
never used again for something else.
"""

from typing import cast

import msgspec

from tenure.core.answer import Outcome
from tenure.core.blob import Blob
from tenure.core.error import Error, from_fields
from tenure.core.job import Extras, Options
from tenure.core.limit import Bucket, Rate
from tenure.core.packed import Packed, Texts
from tenure.core.record import Past
from tenure.core.request import Batch, Change, Filter
from tenure.engine import idempotency, journal
from tenure.engine.clock import clock_fact, on_steady
from tenure.engine.journal import Entity
from tenure.engine.session import find_session, tenant_of
from tenure.engine.specs import options_fact, read_options
from tenure.engine.staged import Given, Key
from tenure.engine.world import (
    OWED_PUBLISH,
    OWED_SWEEP,
    Limit,
    LimitSettings,
    Owed,
    Queue,
    Remembered,
    Settings,
    Tenant,
    World,
)

Fact = dict[str, object]

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Past).decode


def entity_fact(w: World, entity: Entity) -> Fact | None:
    kind = entity[0]
    if kind == journal.STORE:
        return {"settings": _settings_fact(w.settings)}
    if kind == journal.TENANT:
        return _tenant_fact(_tenant(w, str(entity[1])))
    if kind == journal.QUEUE:
        return _queue_fact(w.find_queue(str(entity[1]), str(entity[2])))
    if kind == journal.KEY:
        return _key_fact(_key_settings(w, str(entity[1]), str(entity[2])))
    if kind == journal.LIMIT:
        return _limit_fact(w, _limit(w, str(entity[1]), str(entity[2])))
    if kind == journal.HOLDOVER:
        return _holdover_fact(w, cast("tuple[int, int]", (entity[1], entity[2])))
    if kind == journal.SESSION or kind == journal.OPERATION:
        return _session_fact(w, entity)
    if kind == journal.IDEMPOTENCY or kind == journal.WINDOW:
        return _key_of_queue_fact(w, entity)
    if kind == journal.CUSTOM:
        return _custom_fact(w, str(entity[1]), str(entity[2]))
    if kind == journal.LOAD or kind == journal.CHUNK or kind == journal.GIVEN:
        return _load_fact(w, entity)
    if kind == journal.CLOCK:
        return clock_fact(w)
    assert kind == journal.SWEEP
    return _sweep_fact(_owed(w, OWED_SWEEP, cast("int", entity[1])))


# Settings and buckets.


def _settings_fact(settings: Settings | None) -> Fact:
    return {} if settings is None else _plain(settings.changed)


def _plain(changed: dict[str, object]) -> Fact:
    return {field: list(value.key()) if isinstance(value, Rate) else value for field, value in changed.items()}


def read_settings(fact: object) -> dict[str, object]:
    """As they were said."""
    said = dict(cast("dict[str, object]", fact))
    for field in ("rate", "enqueue_rate"):
        rate = said.get(field)
        if rate is not None:
            tokens, period_ms, burst = cast("list[int]", rate)
            said[field] = Rate(tokens, period_ms, burst)
    return said


def _bucket_fact(bucket: Bucket | None) -> object:
    return None if bucket is None else [int(bucket.level), int(bucket.at_ms)]


def fill_bucket(bucket: Bucket | None, fact: object) -> None:
    """Back to the level it had. Its rate is in the settings."""
    if bucket is not None and fact is not None:
        level, at_ms = cast("list[int]", fact)
        bucket.level = min(level, int(bucket.full))
        bucket.at_ms = at_ms


def _tenant(w: World, name: str) -> Tenant | None:
    number = w.tenant_numbers.get(name)
    return None if number is None else w.tenants[number]


def _tenant_fact(t: Tenant | None) -> Fact | None:
    if t is None or t.settings is None or not t.settings.changed:
        return None
    return {
        "settings": _settings_fact(t.settings),
        "bucket": _bucket_fact(t.bucket),
        "enqueue_bucket": _bucket_fact(t.enqueue_bucket),
    }


def _queue_fact(q: Queue | None) -> Fact | None:
    if q is None or q.settings is None:
        return None
    return {
        "settings": _settings_fact(q.settings),
        "bucket": _bucket_fact(q.bucket),
        "enqueue_bucket": _bucket_fact(q.enqueue_bucket),
    }


def _key_settings(w: World, tenant: str, prefix: str) -> LimitSettings | None:
    if not tenant:
        return w.limit_settings_shared.get(prefix)
    t = _tenant(w, tenant)
    return None if t is None or t.limit_settings is None else t.limit_settings.get(prefix)


def _key_fact(settings: LimitSettings | None) -> Fact | None:
    if settings is None:
        return None
    return {"settings": _plain(settings.changed), "paused_until": int(settings.paused_until)}


def _limit(w: World, tenant: str, key: str) -> Limit | None:
    if not tenant:
        number = w.limits_shared.get(key)
    else:
        t = _tenant(w, tenant)
        number = None if t is None or t.limits is None else t.limits.get(key)
    return None if number is None else w.limits[number]


def _limit_fact(w: World, limit: Limit | None) -> Fact | None:
    if limit is None:
        return None
    fact: Fact = {"bucket": _bucket_fact(limit.bucket), "paused_until": int(limit.paused_until)}
    if limit.pauses is not None:
        fact["pauses"] = [[w.tenants[tenant].name, until] for tenant, until in limit.pauses.items()]
    return fact


def fill_pauses(w: World, limit: Limit, fact: object) -> None:
    """Of a shared key, for single tenants, as `_limit_fact` wrote them, if there were any."""
    if fact is not None:
        pauses = cast("list[list[object]]", fact)
        limit.pauses = {int(w.tenant(str(tenant)).number): cast("int", until) for tenant, until in pauses}


# Holdovers, operations, keys.


def _holdover_fact(w: World, key: tuple[int, int]) -> Fact | None:
    holdover = w.holdovers.get(key)
    if holdover is None:
        return None
    q = w.queues[holdover.queue]
    limits = [] if holdover.limits is None else [w.limits[number] for number in holdover.limits]
    return {
        "due": int(holdover.due_ms),
        "tenant": q.tenant_name,
        "queue": q.name,
        "limits": [limit.key for limit in limits],
        "group": holdover.group,
        "joined": int(holdover.joined),
    }


def _session_fact(w: World, entity: Entity) -> Fact | None:
    name = str(entity[1])
    session = find_session(w, tenant_of(name), name)
    if session is None:
        return None
    if entity[0] == journal.SESSION:
        return {
            "newest": int(session.newest),
            "forgotten": int(session.forgotten),
            "last_at": int(session.last_at),
        }
    found = session.answers.get(cast("int", entity[2]))
    return None if found is None else _remembered_fact(found)


def _remembered_fact(remembered: Remembered) -> Fact:
    fact: Fact = {"verb": remembered.verb, "at": int(remembered.at_ms), "ids": remembered.ids}
    if remembered.token:
        return {**fact, "token": remembered.token}
    other = {} if remembered.other is None else remembered.other
    return {
        **fact,
        "state": int(remembered.state),
        "count": int(remembered.count),
        "ticket": int(remembered.ticket),
        "other": [[at, *_outcome_fact(outcome)] for at, outcome in other.items()],
    }


def _outcome_fact(outcome: Outcome) -> list[object]:
    error = outcome.error
    said: object = None if error is None else [error.code, error.message, _error_fields(error)]
    return [outcome.id, outcome.state, outcome.duplicate, outcome.replaced, outcome.run_at, said]


def _error_fields(error: Error) -> Fact:
    return {name: value if isinstance(value, (str, int)) else repr(value) for name, value in error.fields.items()}


def read_remembered(fact: Fact) -> Remembered:
    token = cast("bytes", fact.get("token", b""))
    remembered = Remembered(str(fact["verb"]), cast("int", fact["at"]), cast("bytes", fact["ids"]), token)
    if token:
        return remembered
    other: dict[int, Outcome] = {}
    for row in cast("list[list[object]]", fact["other"]):
        at, id, state, duplicate, replaced, run_at, said = row
        error: Error | None = None
        if said is not None:
            code, message, fields = cast("list[object]", said)
            error = from_fields(str(code), str(message), cast("dict[str, object]", fields))
        other[cast("int", at)] = Outcome(
            cast("int", id), cast("int", state), bool(duplicate), bool(replaced), cast("int", run_at), error
        )
    remembered.state = cast("int", fact["state"])
    remembered.other = other or None
    remembered.count = cast("int", fact["count"])
    remembered.ticket = cast("int", fact["ticket"])
    return remembered


def _key_of_queue_fact(w: World, entity: Entity) -> Fact | None:
    q = w.find_queue(str(entity[1]), str(entity[2]))
    if q is None:
        return None
    key = str(entity[3])
    if entity[0] == journal.IDEMPOTENCY:
        return idempotency.fact_of(w, q, key, str(entity[4]))
    window = None if q.windows is None else q.windows.get(key)
    if window is None:
        return None
    return {
        "job": int(window.job),
        "due": int(on_steady(w, window.due_ms)),
        "first_at": int(window.first_at),
        "trailing": window.trailing,
    }


def _custom_fact(w: World, tenant: str, custom_id: str) -> Fact | None:
    t = _tenant(w, tenant)
    kept = None if t is None or t.custom_outcomes is None else t.custom_outcomes.get(custom_id)
    return None if kept is None else {"job": kept[0], "state": kept[1], "until": kept[2], "queue": kept[3]}


# Loads and sweeps.


def _owed(w: World, kind: int, id: int) -> Owed | None:
    for owed in w.owed:
        if owed.kind == kind and owed.id == id:
            return owed
    return None


def _load_fact(w: World, entity: Entity) -> Fact | None:
    staged = w.loads.get((str(entity[1]), str(entity[2])))
    if staged is None:
        return None
    if entity[0] != journal.LOAD:
        key = cast("Key", (entity[3], entity[4], entity[5]))
        if entity[0] == journal.GIVEN:
            return _given_fact(staged.given.get(key))
        batch = staged.chunks.get(key)
        return None if batch is None else batch_fact(batch)
    owed = _owed(w, OWED_PUBLISH, int(staged.number))
    return {
        "jobs": int(staged.jobs),
        "published": staged.published,
        "done": staged.done,
        "parts": [[part, writing] for part, writing in staged.parts.items()],
        "digest": staged.digest,
        "rows": int(staged.rows),
        "new": int(staged.new),
        "duplicates": int(staged.duplicates),
        "refused": int(staged.refused),
        "due": 0 if staged.alarm is None else int(on_steady(w, staged.alarm.due_ms)),
        "left": 0 if owed is None else len(owed.batches),
        "at": 0 if owed is None else int(owed.at),
    }


def _given_fact(given: Given | None) -> Fact | None:
    if given is None:
        return None
    refused = [[at, code, message] for at, (code, message) in given.refused.items()]
    return {"ids": given.ids, "sources": given.sources, "duplicates": given.duplicates, "refused": refused}


def read_given(fact: Fact) -> Given:
    given = Given()
    given.ids = cast("list[int]", fact["ids"])
    given.sources = cast("list[int]", fact["sources"])
    given.duplicates = cast("list[int]", fact["duplicates"])
    for row in cast("list[list[object]]", fact["refused"]):
        given.refused[cast("int", row[0])] = (str(row[1]), str(row[2]))
    given.rows = sum(given.ids[1::2])
    return given


def batch_fact(batch: Batch) -> Fact:
    each = [batch.options] if batch.each is None else batch.each
    known: dict[Options, int] = {}
    places = [known.setdefault(options, len(known)) for options in each]
    return {
        "options": [options_fact(options) for options in known],
        "each": None if batch.each is None else places,
        "payloads": _payloads_fact(batch),
        "extras": None if batch.extras is None else [_extras_fact(extras) for extras in batch.extras],
        "pasts": None if batch.pasts is None else [_pack(past) for past in batch.pasts],
        "keys": _packed_fact(batch.keys.packed) if isinstance(batch.keys, Texts) else batch.keys,
    }


def _payloads_fact(batch: Batch) -> object:
    if isinstance(batch.payloads, Packed):
        return _packed_fact(batch.payloads)
    return _contents_fact(cast("list[object]", batch.payloads))


def _packed_fact(packed: Packed) -> Fact:
    return {"content": packed.content, "ends": packed.ends, "zstd": packed.is_compressed}


def _read_packed(fact: Fact) -> Packed:
    packed = Packed(cast("bytes", fact["content"]), cast("bytes", fact["ends"]), bool(fact["zstd"]))
    packed.rest()
    return packed


def _contents_fact(contents: list[object]) -> list[object]:
    for content in contents:
        if isinstance(content, Blob):
            return [_content_fact(cast("bytes | Blob", each)) for each in contents]
    return contents


def _content_fact(content: bytes | Blob | None) -> object:
    return [content.name, content.size] if isinstance(content, Blob) else content


def _read_content(fact: object) -> bytes | Blob:
    if isinstance(fact, bytes):
        return fact
    name, size = cast("list[object]", fact)
    return Blob(str(name), cast("int", size))


def read_batch(fact: Fact) -> Batch:
    options = [read_options(each) for each in cast("list[Fact]", fact["options"])]
    places = cast("list[int] | None", fact["each"])
    extras = cast("list[Fact | None] | None", fact["extras"])
    pasts = cast("list[bytes] | None", fact.get("pasts"))
    return Batch(
        options[0],
        _read_payloads(fact["payloads"]),
        None if extras is None else [None if each is None else read_extras(each) for each in extras],
        None if places is None else [options[place] for place in places],
        pasts=None if pasts is None else [_unpack(past) for past in pasts],
        keys=_read_keys(fact.get("keys")),
    )


def _read_payloads(fact: object) -> list[bytes | Blob] | Packed:
    if isinstance(fact, dict):
        return _read_packed(fact)
    return [_read_content(payload) for payload in cast("list[object]", fact)]


def _read_keys(fact: object) -> list[str] | Texts | None:
    return Texts(_read_packed(fact)) if isinstance(fact, dict) else cast("list[str] | None", fact)


def _extras_fact(extras: Extras | None) -> Fact | None:
    if extras is None:
        return None
    fact: Fact = {}
    if extras.custom_id:
        fact["custom_id"] = extras.custom_id
    if extras.unique_key:
        fact["unique_key"] = extras.unique_key
    if extras.idempotency_key:
        fact["idempotency_key"] = extras.idempotency_key
    if extras.debounce_key:
        fact["debounce_key"] = extras.debounce_key
    if extras.depends_on:
        fact["depends_on"] = extras.depends_on
    if extras.group:
        fact["group"] = extras.group
    if extras.run_at:
        fact["run_at"] = extras.run_at
    if extras.expires_at:
        fact["expires_at"] = extras.expires_at
    if extras.tags:
        fact["tags"] = extras.tags
    if extras.metadata:
        fact["metadata"] = extras.metadata
    if extras.trace:
        fact["trace"] = extras.trace
    return fact


def read_extras(fact: Fact) -> Extras:
    extras = Extras()
    for name, value in fact.items():
        setattr(extras, name, tuple(value) if isinstance(value, list) else value)
    return extras


FILTER_FIELDS = (
    "queue",
    "states",
    "task",
    "tag",
    "worker",
    "error",
    "fingerprint",
    "reason",
    "created_from",
    "created_to",
    "ended_before",
    "group",
    "custom_id_prefix",
)
CHANGE_FIELDS = ("action", "priority", "metadata", "run_at", "reason", "limit", "rate_per_s")


def _sweep_fact(owed: Owed | None) -> Fact | None:
    if owed is None:
        return None
    assert owed.filter is not None and owed.change is not None
    filter: Fact = {name: getattr(owed.filter, name) for name in FILTER_FIELDS}
    filter["metadata"] = [list(pair) for pair in owed.filter.metadata]
    change: Fact = {name: getattr(owed.change, name) for name in CHANGE_FIELDS}
    change["tags"] = owed.change.tags
    change["payload"] = _content_fact(owed.change.payload)
    return {
        "tenant": owed.tenant,
        "upto": int(owed.upto),
        "at": int(owed.at),
        "count": int(owed.count),
        "filter": filter,
        "change": change,
    }


def read_sweep(fact: Fact, id: int) -> Owed:
    owed = Owed(OWED_SWEEP, id)
    owed.tenant = str(fact["tenant"])
    owed.upto = cast("int", fact["upto"])
    owed.at = cast("int", fact["at"])
    owed.count = cast("int", fact["count"])
    said = dict(cast("Fact", fact["filter"]))
    metadata = cast("list[list[str]]", said.pop("metadata"))
    filter = Filter(metadata=tuple((pair[0], pair[1]) for pair in metadata))
    for name, value in said.items():
        setattr(filter, name, value)
    said = dict(cast("Fact", fact["change"]))
    tags = cast("list[str] | None", said.pop("tags"))
    change = Change(cast("int", said["action"]), None, filter, tags=None if tags is None else tuple(tags))
    payload = said.pop("payload")
    for name, value in said.items():
        setattr(change, name, value)
    change.payload = None if payload is None else _read_content(payload)
    owed.filter = filter
    owed.change = change
    return owed
