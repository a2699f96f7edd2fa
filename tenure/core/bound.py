"""Every field's type and bound, in one place, and the makers of checked values.

A value that reaches a store was made here, so the engine does not check it again. A wrong one is refused with
`InvalidRequest`, which names the field, the value and the rule.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from tenure.core import dependency, job, retry
from tenure.core.error import InvalidRequest, PayloadTooLarge
from tenure.core.event import EVENT_NAMES
from tenure.core.job import Extras, Options
from tenure.core.limit import Rate
from tenure.core.packed import Texts
from tenure.core.request import CLAIM_BYTES_MAX, Claim, Failure, Pick, Scan
from tenure.core.state import STATE_NAMES
from tenure.core.table import COLUMNS
from tenure.core.table import PAGE_MAX as SCAN_PAGE_MAX

KIB: Final = 1024
MIB: Final = 1024 * 1024

TENANT_CHARS_MAX: Final = 128
NAME_CHARS_MAX: Final = 256
KEY_BYTES_MAX: Final = 512
TAGS_MAX: Final = 32
TAG_BYTES_MAX: Final = 128
METADATA_BYTES_MAX: Final = 4 * KIB
METADATA_ENTRIES_MAX: Final = 32
WORKER_BYTES_MAX: Final = 256
ERROR_TYPE_BYTES_MAX: Final = 256
ERROR_MESSAGE_BYTES_MAX: Final = 4 * KIB
ERROR_TRACE_BYTES_MAX: Final = 32 * KIB
LOG_LINE_BYTES_MAX: Final = 4 * KIB
LOG_LINES_MAX: Final = 100
HISTORY_MAX: Final = 100
STREAM_ITEM_BYTES_MAX: Final = 64 * KIB
STREAM_BYTES_MAX: Final = 16 * MIB
WAIT_MS_MAX: Final = 600_000
DELAY_MS_MAX: Final = retry.DELAY_MS_MAX
TIME_MS_MAX: Final = 253_402_300_800_000  # the year 10000
NAME_CHARS_COMPARED: Final = 64  # comparing takes time that grows with the length; no field has so long a name
BATCH_ITEMS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 16 * MIB
CLAIM_JOBS_MAX: Final = 10_000
DEPENDS_ON_MAX: Final = 10_000
LIMIT_KEYS_MAX: Final = 8
QUEUES_PER_TENANT_MAX: Final = 10_000
WORKERS_PER_TENANT_MAX: Final = 1_000
WORKERS_MAX: Final = 100_000
WORKER_BYTES_PER_TENANT: Final = 4 * MIB
WORKER_BYTES_IN_ALL: Final = 256 * MIB
CLAIM_QUEUES_MAX: Final = 1_000
CLAIM_TASKS_MAX: Final = 10_000
FOLLOWUPS_MAX: Final = 1_000
LIVE_JOBS_MAX: Final = 20_000_000
EVENTS_MAX: Final = 1_000_000
PAYLOAD_BYTES_DEFAULT: Final = MIB
PAYLOAD_BYTES_MAX: Final = 10 * MIB
BLOB_BYTES_MAX: Final = 256 * MIB  # what a worker can be expected to have in memory at once
LEASE_MS_MIN: Final = 1_000
LEASE_MS_MAX: Final = 12 * 3_600_000
ATTEMPTS_MAX: Final = 1_000_000
WEIGHT_MAX: Final = 1_000
RATE_MAX: Final = 1_000_000_000
PERIOD_MS_MAX: Final = 366 * 86_400_000
BUCKET_MAX: Final = 2**60
ID_MAX: Final = 2**53 - 1
TRACE_BYTES_MAX: Final = 512
PUBLISHED_BYTES_MAX: Final = 256 * KIB  # what a worker says of its tasks
OTHERS_PER_STEP: Final = 1_000

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]*\*")

Rule = Callable[[str, object], object]


def _name(chars_max: int) -> Rule:
    rule = f"it must be 1 to {chars_max} characters of A-Z a-z 0-9 _ . -"

    def check(field: str, value: object) -> object:
        if not isinstance(value, str) or len(value) > chars_max or _NAME.fullmatch(value) is None:
            raise InvalidRequest(field, value, rule)
        return value

    return check


def _text(bytes_max: int, empty: bool = False) -> Rule:
    rule = f"it must be text of {0 if empty else 1} to {bytes_max} bytes in UTF-8"

    def check(field: str, value: object) -> object:
        if not isinstance(value, str) or (not value and not empty) or utf8_bytes(value) > bytes_max:
            raise InvalidRequest(field, value, rule)
        return value

    return check


def _integer(low: int, high: int) -> Rule:
    rule = f"it must be a whole number from {low} to {high}"

    def check(field: str, value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise InvalidRequest(field, value, rule)
        return value

    return check


def _flag(field: str, value: object) -> object:
    if not isinstance(value, bool):
        raise InvalidRequest(field, value, "it must be true or false")
    return value


def _choice(names: tuple[str, ...]) -> Rule:
    rule = "it must be one of " + ", ".join(names)

    def check(field: str, value: object) -> object:
        if not isinstance(value, str) or value not in names:
            raise InvalidRequest(field, value, rule)
        return names.index(value)

    return check


def _texts(count_max: int, bytes_max: int) -> Rule:
    item = _text(bytes_max)
    rule = f"it must be a list of at most {count_max} different texts"

    def check(field: str, value: object) -> object:
        if not isinstance(value, (list, tuple)) or len(value) > count_max:
            raise InvalidRequest(field, value, rule)
        found = tuple(str(item(f"{field}[{at}]", text)) for at, text in enumerate(value))
        if len(set(found)) != len(found):
            raise InvalidRequest(field, value, rule)
        return found

    return check


def utf8_bytes(text: str) -> int:
    """The length in UTF-8; lone surrogates cannot be stored and count as too long."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 2**62


def _priority(field: str, value: object) -> object:
    if isinstance(value, str) and value in job.PRIORITIES:
        return job.PRIORITIES[value]
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**31) <= value < 2**31:
        raise InvalidRequest(field, value, "it must be a 32-bit whole number, or low, normal, high, critical")
    return value


def _max_attempts(field: str, value: object) -> object:
    if value is None:
        return job.ATTEMPTS_UNLIMITED
    return _integer(1, ATTEMPTS_MAX)(field, value)


def _backoff(field: str, value: object) -> object:
    if not isinstance(value, retry.Backoff):
        raise InvalidRequest(field, value, "it must be a Backoff")
    return value


def _metadata(field: str, value: object) -> object:
    rule = f"it must map at most {METADATA_ENTRIES_MAX} texts to texts, {METADATA_BYTES_MAX} bytes in all"
    if not isinstance(value, dict) or len(value) > METADATA_ENTRIES_MAX:
        raise InvalidRequest(field, value, rule)
    size = 0
    for key, text in value.items():
        if not isinstance(key, str) or not key or not isinstance(text, str):
            raise InvalidRequest(field, value, rule)
        size += utf8_bytes(key) + utf8_bytes(text)
    if size > METADATA_BYTES_MAX:
        raise InvalidRequest(field, value, rule)
    return dict(value)


def _depends_on(field: str, value: object) -> object:
    rule = f"it must be a list of at most {DEPENDS_ON_MAX} job ids"
    if not isinstance(value, (list, tuple)) or len(value) > DEPENDS_ON_MAX:
        raise InvalidRequest(field, value, rule)
    ids: dict[int, bool] = {}
    for id in value:
        if not isinstance(id, int) or isinstance(id, bool) or not 0 < id <= ID_MAX:
            raise InvalidRequest(field, id, rule)
        ids[id] = True
    return tuple(ids)


def _rate(field: str, value: object) -> object:
    if value is None:
        return None
    if not isinstance(value, Rate):
        raise InvalidRequest(field, value, "it must be a Rate or none")
    _integer(1, RATE_MAX)(f"{field}.tokens", value.tokens)
    _integer(1, PERIOD_MS_MAX)(f"{field}.period_ms", value.period_ms)
    _integer(1, RATE_MAX)(f"{field}.burst", value.burst)
    if value.burst * value.period_ms > BUCKET_MAX:
        raise InvalidRequest(field, value.burst, f"burst times period_ms must be at most {BUCKET_MAX}")
    return value


name: Final = _name(NAME_CHARS_MAX)
tenant_name: Final = _name(TENANT_CHARS_MAX)
key_text: Final = _text(KEY_BYTES_MAX)
duration_ms: Final = _integer(0, DELAY_MS_MAX)
instant_ms: Final = _integer(0, TIME_MS_MAX)
lease_ms: Final = _integer(LEASE_MS_MIN, LEASE_MS_MAX)
count: Final = _integer(0, RATE_MAX)
job_id: Final = _integer(1, ID_MAX)
priority: Final = _priority
metadata: Final = _metadata
tags: Final = _texts(TAGS_MAX, TAG_BYTES_MAX)
wait_ms: Final = _integer(0, WAIT_MS_MAX)
worker_name: Final = _text(WORKER_BYTES_MAX, empty=True)
whole: Final = _integer
choice: Final = _choice
text: Final = _text

OPTION_RULES: Final[dict[str, Rule]] = {
    "queue": name,
    "task": name,
    "priority": _priority,
    "delay_ms": duration_ms,
    "ttl_ms": _integer(1, DELAY_MS_MAX),
    "max_attempts": _max_attempts,
    "backoff": _backoff,
    "timeout_ms": _integer(1, DELAY_MS_MAX),
    "lease_ms": lease_ms,
    "on_conflict": _choice(job.CONFLICT_NAMES),
    "idempotency_ttl_ms": _integer(1_000, DELAY_MS_MAX),
    "debounce_ms": _integer(1, DELAY_MS_MAX),
    "debounce_mode": _choice(job.DEBOUNCE_NAMES),
    "debounce_max_wait_ms": _integer(1, DELAY_MS_MAX),
    "dependency_policy": _choice(dependency.POLICY_NAMES),
    "lifo": _flag,
    "limit_keys": _texts(LIMIT_KEYS_MAX, KEY_BYTES_MAX),
    "keep_completed_ms": duration_ms,
    "keep_completed_count": count,
    "keep_failed_ms": duration_ms,
    "keep_failed_count": count,
    "codec": name,
    "schema_version": _integer(0, 2**31 - 1),
}

EXTRA_RULES: Final[dict[str, Rule]] = {
    "custom_id": key_text,
    "unique_key": key_text,
    "idempotency_key": key_text,
    "debounce_key": key_text,
    "depends_on": _depends_on,
    "group": key_text,
    "run_at": instant_ms,
    "expires_at": _integer(1, TIME_MS_MAX),
    "tags": tags,
    "metadata": _metadata,
    "trace": _text(TRACE_BYTES_MAX),
}

QUEUE_RULES: Final[dict[str, Rule]] = {
    "paused": _flag,
    "rate": _rate,
    "concurrency": _integer(0, RATE_MAX),
    "enqueue_rate": _rate,
    "group_concurrency": _integer(1, RATE_MAX),
    "group_order": _choice(("strict", "relaxed")),
    "age_ms": _integer(0, DELAY_MS_MAX),
    "lease_ms": lease_ms,
    "slo_wait_ms": duration_ms,
    "jobs_max": count,
    "bytes_max": _integer(0, 2**53),
    "keep_completed_ms": duration_ms,
    "keep_completed_count": count,
    "keep_failed_ms": duration_ms,
    "keep_failed_count": count,
}

KEY_RULES: Final[dict[str, Rule]] = {
    "rate": _rate,
    "concurrency": _integer(0, RATE_MAX),
    "shared": _flag,
    "paused_ms": duration_ms,
}

TENANT_RULES: Final[dict[str, Rule]] = {
    "weight": _integer(1, WEIGHT_MAX),
    "jobs_max": count,
    "bytes_max": _integer(0, 2**53),
    "running_max": count,
    "rate": _rate,
    "enqueue_rate": _rate,
    "queues_max": _integer(1, 1_000_000),
    "workers_max": _integer(1, 1_000_000),
    "worker_bytes_max": _integer(1, 2**53),
    "keep_completed_ms": duration_ms,
    "keep_completed_count": count,
    "keep_failed_ms": duration_ms,
    "keep_failed_count": count,
}

STORE_RULES: Final[dict[str, Rule]] = {
    "jobs_max": count,
    "bytes_max": _integer(0, 2**53),
    "payload_bytes_max": _integer(1, PAYLOAD_BYTES_MAX),
    "terminal_jobs_max": count,
    "terminal_bytes_max": _integer(0, 2**53),
    "events_max": _integer(1, RATE_MAX),
    "workers_max": _integer(1, 1_000_000),
    "worker_bytes_max": _integer(1, 2**53),
    "keep_completed_ms": duration_ms,
    "keep_completed_count": count,
    "keep_failed_ms": duration_ms,
    "keep_failed_count": count,
}

WORKER_RULES: Final[dict[str, Rule]] = {
    "version": _text(WORKER_BYTES_MAX, empty=True),
    "tasks": _texts(CLAIM_TASKS_MAX, NAME_CHARS_MAX),
    "published": _text(PUBLISHED_BYTES_MAX, empty=True),
    "leaving": _flag,
    "stop": _flag,
    "alive": _flag,
}


def check_fields(rules: dict[str, Rule], fields: dict[str, object]) -> dict[str, object]:
    """The fields as their rules return them. An unknown field is refused, with the nearest known one."""
    checked: dict[str, object] = {}
    for field, value in fields.items():
        rule = rules.get(field)
        if rule is None:
            raise InvalidRequest(field, value, "there is no such field; " + nearest(field, rules))
        checked[field] = rule(field, value)
    return checked


def nearest(field: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    names = sorted(known)
    close = get_close_matches(field, names, 1) if len(field) <= NAME_CHARS_COMPARED else []
    return f"did you mean {close[0]}?" if close else "known are " + ", ".join(names)


def make_options(**fields: object) -> Options:
    """Checked options. `delay`, `priority` names and so on are the business of the layers above."""
    checked = check_fields(OPTION_RULES, fields)
    options = Options()
    for field, value in checked.items():
        setattr(options, field, value)
    if options.debounce_max_wait_ms and not options.debounce_ms:
        raise InvalidRequest("debounce_max_wait_ms", options.debounce_max_wait_ms, "it needs debounce_ms")
    return options


def make_extras(**fields: object) -> Extras:
    extras = Extras()
    for field, value in check_fields(EXTRA_RULES, fields).items():
        setattr(extras, field, value)
    return extras


def check_keys(count: int, keys: list[str] | Texts) -> list[str] | Texts:
    """Idempotency keys of a batch, one entry for each job; an empty one is none."""
    if len(keys) != count:
        raise InvalidRequest("idempotency_key", len(keys), _one_for_each(count))
    if isinstance(keys, Texts) and keys.packed.longest <= KEY_BYTES_MAX:
        return keys
    for key in keys:
        if utf8_bytes(key) > KEY_BYTES_MAX:
            key_text("idempotency_key", key)
    return keys


def _one_for_each(count: int) -> str:
    return f"there must be one entry for each of the {count} payloads"


def make_extras_of(count: int, columns: dict[str, list[object]]) -> list[Extras | None]:
    """Checked extras of a batch that says them in columns, one entry for each job; an empty entry is none."""
    made: list[Extras | None] = []
    for _ in range(count):
        made.append(Extras())
    for field, values in columns.items():
        if len(values) != count:
            raise InvalidRequest(field, len(values), _one_for_each(count))
        rule = EXTRA_RULES[field]
        for extras, value in zip(made, values):
            if value:
                setattr(extras, field, rule(field, value))
    return made


def make_claim(
    queues: object = ("default",),
    n: object = 1,
    wait_ms: object = 0,
    worker: object = "",
    tasks: object = None,
    max_bytes: object = CLAIM_BYTES_MAX,
    lease_ms: object = 0,
    strict: object = False,
    withdraw: object = False,
) -> Claim:
    """`queues`: names or prefixes ending in `*`, each alone or with its weight."""
    known: frozenset[str] | None = None
    if tasks is not None:
        if not isinstance(tasks, (list, tuple, set, frozenset)) or not 0 < len(tasks) <= CLAIM_TASKS_MAX:
            raise InvalidRequest("tasks", tasks, f"it must be 1 to {CLAIM_TASKS_MAX} task names, or none for all")
        known = frozenset(str(name("tasks", task)) for task in tasks)
    return Claim(
        _picks(queues),
        as_int(_integer(1, CLAIM_JOBS_MAX)("n", n)),
        as_int(_integer(0, WAIT_MS_MAX)("wait_ms", wait_ms)),
        str(worker_name("worker", worker)),
        known,
        as_int(_integer(1, CLAIM_BYTES_MAX)("max_bytes", max_bytes)),
        _lease_or_none(lease_ms),
        bool(_flag("strict", strict)),
        bool(_flag("withdraw", withdraw)),
    )


_lease: Final = _integer(LEASE_MS_MIN, LEASE_MS_MAX)


def _lease_or_none(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value == 0:
        return 0
    return as_int(_lease("lease_ms", value))


def as_int(value: object) -> int:
    assert isinstance(value, int)
    return value


def queue_or_prefix(field: str, value: object) -> str:
    """One queue, or all whose names begin so."""
    if (
        not isinstance(value, str)
        or len(value) > NAME_CHARS_MAX
        or (_NAME.fullmatch(value) is None and _PREFIX.fullmatch(value) is None)
    ):
        raise InvalidRequest(field, value, "each must be a queue's name or a prefix ending in *")
    return value


def _picks(queues: object) -> tuple[Pick, ...]:
    if isinstance(queues, str):
        queues = (queues,)
    if not isinstance(queues, (list, tuple)) or not 0 < len(queues) <= CLAIM_QUEUES_MAX:
        raise InvalidRequest("queues", queues, f"it must name 1 to {CLAIM_QUEUES_MAX} queues")
    picks: dict[str, Pick] = {}
    for entry in queues:
        queue, weight = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, 1)
        name = queue_or_prefix("queues", queue)
        picks[name] = Pick(name, as_int(_integer(1, WEIGHT_MAX)("weight", weight)))
    return tuple(picks.values())


def make_scan(
    table: object,
    after: object = 0,
    upto: object = 0,
    limit: object = 0,
    queue: object = "",
    states: object = (),
    types: object = (),
    columns: object = (),
) -> Scan:
    """`states` are those of jobs and `types` those of events; none of either is all."""
    choice(tuple(COLUMNS))("table", table)
    kind = str(table)
    chosen_states = _some("states", states, STATE_NAMES if kind == "jobs" else ())
    return Scan(
        kind,
        as_int(_integer(0, ID_MAX)("after", after)),
        as_int(_integer(0, ID_MAX)("upto", upto)),
        as_int(_integer(0, SCAN_PAGE_MAX)("limit", limit)),
        str(name("queue", queue)) if queue else "",
        sum(1 << STATE_NAMES.index(state) for state in set(chosen_states)),
        _some("types", types, EVENT_NAMES if kind == "events" else ()),
        _some("columns", columns, COLUMNS[kind]),
    )


def _some(field: str, values: object, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)):
        raise InvalidRequest(field, values, "it must be a list of names")
    for value in values:
        if value not in known:
            rule = "this table has none" if not known else "there is no such one; " + nearest(str(value), known)
            raise InvalidRequest(field, value, rule)
    return tuple(dict.fromkeys(str(value) for value in values))


def make_failure(
    type: object = "",
    message: object = "",
    trace: object = "",
    retryable: object = True,
    undecodable: object = False,
    delay_ms: object = -1,
) -> Failure:
    """Texts over their bound are cut, not refused: a failure report must get through."""
    return Failure(
        clip("type", type, ERROR_TYPE_BYTES_MAX),
        clip("message", message, ERROR_MESSAGE_BYTES_MAX),
        clip("trace", trace, ERROR_TRACE_BYTES_MAX),
        bool(_flag("retryable", retryable)),
        bool(_flag("undecodable", undecodable)),
        as_int(_integer(-1, DELAY_MS_MAX)("delay_ms", delay_ms)),
    )


def clip(field: str, text: object, bytes_max: int) -> str:
    if not isinstance(text, str):
        raise InvalidRequest(field, text, "it must be text")
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= bytes_max and text.isascii() else raw[:bytes_max].decode("utf-8", "ignore")


def check_payload_size(size: int, max: int) -> None:
    if size > max:
        raise PayloadTooLarge(size, max)
