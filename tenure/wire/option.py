"""What is asked of a job, as it goes over the public wire, and the options and extras it becomes.

Names are those of the protocol: durations in milliseconds under plain names (`delay`, `ttl`, `timeout`), times in
milliseconds since 1970. Older names for the same thing are read too.
"""

import re
from typing import Annotated, Any, TypeVar, cast

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field
from msgspec.structs import astuple

from tenure.core import bound, dependency, job, retry
from tenure.core.duration import milliseconds
from tenure.core.error import Error, InvalidRequest, from_fields
from tenure.core.job import DEFAULT_OPTIONS, Extras, Options
from tenure.core.retry import Backoff

T = TypeVar("T")
Few = Annotated[list[T], Meta(max_length=bound.BATCH_ITEMS_MAX)]  # a longer one is refused before it is read

# Public names of options and extras that differ from the core's, and other names under which they are known.
CORE_NAMES = {
    "delay": "delay_ms",
    "ttl": "ttl_ms",
    "timeout": "timeout_ms",
    "lease": "lease_ms",
    "idempotency_ttl": "idempotency_ttl_ms",
    "debounce_ttl": "debounce_ms",
    "debounce_max_wait": "debounce_max_wait_ms",
    "debounce_id": "debounce_key",
    "group_id": "group",
    "keep_completed_age": "keep_completed_ms",
    "keep_failed_age": "keep_failed_ms",
}
ALIASES = {"stall_timeout": "lease", "job_id": "custom_id", "group": "group_id", "debounce_key": "debounce_id"}
# In the older protocol 0 says nothing of these; `remove_on_complete` asks for what a zero age would.
ZERO_IS_NONE = frozenset(
    {"ttl_ms", "timeout_ms", "lease_ms", "max_attempts", "keep_completed_ms", "keep_completed_count"}
)
PUBLIC_NAMES = {core: public for public, core in CORE_NAMES.items()}
# Fields of commands and jobs that are durations: milliseconds, and over HTTP also text with a unit.
DURATIONS = frozenset(
    {
        *(public for public, core in CORE_NAMES.items() if core.endswith("_ms")),
        *("backoff", "base", "cap", "grace", "period", "retry_after"),
    }
)
DURATION_RULE = "it must be whole milliseconds, or text such as 250ms, 30s, 5m, 1h, 7d"
CHOICES: dict[str, tuple[str, ...]] = {
    "on_conflict": job.CONFLICT_NAMES,
    "debounce_mode": job.DEBOUNCE_NAMES,
    "dependency_policy": dependency.POLICY_NAMES,
}


class WireBackoff(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """How long to wait before the next attempt; times in milliseconds."""

    kind: str = retry.KIND_NAMES[retry.DEFAULT.kind]
    base: int = retry.DEFAULT.base_ms
    factor: float = retry.DEFAULT.factor
    cap: int = retry.DEFAULT.cap_ms
    delays: Annotated[tuple[int, ...], Meta(max_length=retry.DELAYS_MAX)] = ()


class JobFields(Struct, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be asked of a job besides its queue and data."""

    task: str | UnsetType = UNSET
    codec: str | UnsetType = UNSET
    schema_version: int | UnsetType = UNSET
    priority: int | str | UnsetType = UNSET
    delay: int | UnsetType = UNSET
    run_at: int | UnsetType = UNSET
    ttl: int | UnsetType = UNSET
    expires_at: int | UnsetType = UNSET
    timeout: int | UnsetType = UNSET
    lease: int | UnsetType = UNSET
    max_attempts: int | UnsetType | None = UNSET
    backoff: WireBackoff | int | UnsetType = UNSET
    custom_id: str | UnsetType = UNSET
    unique_key: str | UnsetType = UNSET
    idempotency_key: str | UnsetType = UNSET
    idempotency_ttl: int | UnsetType = UNSET
    on_conflict: str | UnsetType = UNSET
    debounce_id: str | UnsetType = UNSET
    debounce_ttl: int | UnsetType = UNSET
    debounce_mode: str | UnsetType = UNSET
    debounce_max_wait: int | UnsetType = UNSET
    depends_on: Few[int] | UnsetType = UNSET
    dependency_policy: str | UnsetType = UNSET
    group_id: str | UnsetType = UNSET
    lifo: bool | UnsetType = UNSET
    limit_keys: Few[str] | UnsetType = UNSET
    tags: Few[str] | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    remove_on_complete: bool | UnsetType = UNSET
    remove_on_fail: bool | UnsetType = UNSET
    keep_completed_age: int | UnsetType = UNSET
    keep_completed_count: int | UnsetType = UNSET
    keep_failed_age: int | UnsetType = UNSET
    keep_failed_count: int | UnsetType = UNSET
    trace: str | UnsetType = UNSET


class JustData(Struct, forbid_unknown_fields=True, gc=False):
    """A job of a batch that asks for nothing of its own: most of them."""

    data: Raw


class Item(JobFields):
    """A job of a batch with its own wishes over those of the batch."""

    data: Raw = field(default_factory=lambda: Raw(b""))
    queue: str | UnsetType = UNSET


JOB_FIELDS = JobFields.__struct_fields__  # which stand together, in this order, wherever they are
NOTHING_ASKED = (UNSET,) * len(JOB_FIELDS)
_first_at: dict[type[JobFields], int] = {}


def asked(message: JobFields) -> dict[str, Any]:
    """The fields that were given, by the core's names."""
    kind = type(message)
    at = _first_at.get(kind)
    if at is None:
        at = _first_at[kind] = kind.__struct_fields__.index(JOB_FIELDS[0])
    found: dict[str, Any] = {}
    values = astuple(message)
    if values[at : at + len(JOB_FIELDS)] == NOTHING_ASKED:
        return found
    for name, value in zip(JOB_FIELDS, values[at:], strict=False):
        if value is not UNSET:
            found[CORE_NAMES.get(name, name)] = value
    return found


def split(fields: dict[str, Any], is_old: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that jobs may share and those of one job. `is_old`: said by a client of the older protocol, to whom null is
    no value, and 0 none for some."""
    options: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    for name, value in fields.items():
        if name in bound.EXTRA_RULES:
            extras[name] = value
        elif name == "remove_on_complete":
            if value:
                options["keep_completed_ms"] = 0
        elif name == "remove_on_fail":
            if value:
                options["keep_failed_ms"] = 0
        elif name == "backoff":
            options["backoff"] = backoff_of(value)
        elif not (is_old and (value is None or (value == 0 and name in ZERO_IS_NONE))):
            options[name] = value
    return options, extras


def duration_of(name: str, text: str) -> int:
    """Milliseconds from text with a unit."""
    try:
        return milliseconds(name, text)
    except InvalidRequest:
        raise InvalidRequest(name, text, DURATION_RULE) from None


def backoff_of(value: WireBackoff | int) -> Backoff:
    if isinstance(value, int):
        value = WireBackoff("exponential", value)
    if value.kind not in retry.KIND_NAMES:
        raise InvalidRequest("backoff.kind", value.kind, "it must be one of " + ", ".join(retry.KIND_NAMES))
    if not 1.0 <= value.factor <= 100.0:
        raise InvalidRequest("backoff.factor", value.factor, "it must be from 1 to 100")
    kind = retry.KIND_NAMES.index(value.kind)
    if len(value.delays) > retry.DELAYS_MAX or (kind == retry.LISTED) != bool(value.delays):
        raise InvalidRequest(
            "backoff.delays", len(value.delays), f"it must list 1 to {retry.DELAYS_MAX} delays, for the kind list"
        )
    for name, delay in (("base", value.base), ("cap", value.cap), *(("delays", delay) for delay in value.delays)):
        bound.duration_ms(f"backoff.{name}", delay)
    return Backoff(kind, value.base, value.factor, value.cap, value.delays)


# The way back, for a client.


_told: dict[int, tuple[Options, dict[str, Any]]] = {}  # by identity: options do not change once they are made
TOLD_MAX = 256


def fields_of(options: Options) -> dict[str, Any]:
    """What differs from the defaults, by public names; `queue` and `codec` always. Not to be changed."""
    known = _told.get(id(options))
    if known is not None and known[0] is options:
        return known[1]
    if len(_told) >= TOLD_MAX:
        _told.clear()
    found = _fields_of(options)
    _told[id(options)] = (options, found)
    return found


def _fields_of(options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {"queue": options.queue, "codec": options.codec}
    for name in bound.OPTION_RULES:
        value = getattr(options, name)
        if value == getattr(DEFAULT_OPTIONS, name) and name not in found:
            continue
        public = PUBLIC_NAMES.get(name, name)
        if name in CHOICES:
            value = CHOICES[name][value]
        elif name == "max_attempts":
            value = value or None
        elif name == "backoff":
            value = wire_backoff(value)
        found[public] = value
    return found


def extra_fields(extras: Extras) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in bound.EXTRA_RULES:
        value = getattr(extras, name)
        if value or (name == "metadata" and value is not None):
            found[PUBLIC_NAMES.get(name, name)] = value
    return found


def wire_backoff(backoff: Backoff) -> WireBackoff:
    kind = retry.KIND_NAMES[backoff.kind]
    return WireBackoff(kind, backoff.base_ms, backoff.factor, backoff.cap_ms, backoff.delays_ms)


# The names of fields in errors. The wire has shorter ones than the core, and some that depend on the command.

WIRE_NAMES = {
    **PUBLIC_NAMES,
    "wait_ms": "timeout",
    "n": "count",
    "percent": "progress",
    "text": "message",
    "payload": "data",
    "payloads": "jobs",
    "batch": "jobs",
    "op_id": "opId",
    "rate_per_s": "rate",
}
_RATES = {f"{name}.period_ms": f"{name}.period" for name in ("rate", "enqueue_rate")}
# Commands whose fields, settings and columns have the names of the core, but for these.
_AS_IN_CORE: dict[str, dict[str, str]] = {
    **dict.fromkeys(("QUEUE", "LIMIT", "TENANT", "SETTINGS"), _RATES),
    "WORKERS": {"worker": "name"},
    "SCAN": {},
}
_OF_COMMAND = {
    "GETJOBS": {**WIRE_NAMES, "group": "group"},
    "DLQ": {**WIRE_NAMES, "limit": "count"},
    "EVENTS": {**WIRE_NAMES, "cursor": "after"},
    "SUBSCRIBE": {**WIRE_NAMES, "cursor": "after"},
    "SETCONCURRENCY": {"concurrency": "limit"},
    "RATELIMIT": {"rate.tokens": "limit", "rate.period_ms": "period", "rate.burst": "burst", "rate": "burst"},
}
_OF_VERB = {
    "claim": {"count": "n", "timeout": "wait_ms"},
    "append": {"progress": "percent", "message": "text"},
    "change": {"rate": "rate_per_s"},
    "watch": {"timeout": "wait_ms"},
    "stream": {"timeout": "wait_ms"},
    "events": {"timeout": "wait_ms", "after": "cursor"},
    "configure": {public: core for core, public in _RATES.items()},
}
_OF_ANY_VERB = {**CORE_NAMES, "opId": "op_id", "data": "payload", "jobs": "payloads"}
_WORDS = re.compile(r"\b(" + "|".join(name for name in WIRE_NAMES if "_" in name) + r")\b")


def in_wire_terms(error: Error, command: str) -> Error:
    """The error as it leaves by a door: the field, and those that its rule speaks of, as the command calls them."""
    if not isinstance(error, InvalidRequest):
        return error
    if command in _AS_IN_CORE:
        return _renamed(error, _AS_IN_CORE[command])
    rule = _WORDS.sub(lambda found: WIRE_NAMES[found[0]], error.rule)
    return _renamed(error, _OF_COMMAND.get(command, WIRE_NAMES), rule)


def in_core_terms(error: InvalidRequest, verb: str) -> InvalidRequest:
    """The way back, for a client."""
    return _renamed(error, {**_OF_ANY_VERB, **_OF_VERB.get(verb, {})} if verb != "configure" else _OF_VERB[verb])


def _renamed(error: InvalidRequest, names: dict[str, str], rule: str = "") -> InvalidRequest:
    field = error.field
    root = re.split(r"[.\[]", field, maxsplit=1)[0]
    name = names[field] if field in names else names.get(root, root) + field[len(root) :]
    rule = rule or error.rule
    if name == field and rule == error.rule:
        return error
    message = name + error.message[len(field) :] if error.message.startswith(field) else error.message
    if message.endswith(error.rule):
        message = message[: len(message) - len(error.rule)] + rule
    found = from_fields(error.code, message, {**error.fields, "field": name, "rule": rule})
    return cast("InvalidRequest", found)
