"""Settings of queues, limit keys, tenants and the store."""

from typing import Final

from mypy_extensions import i64

from tenure.core import bound, event
from tenure.core.error import Forbidden, InvalidRequest, QueueNotFound
from tenure.core.job import Options
from tenure.core.limit import Bucket, Rate
from tenure.core.request import KEY, QUEUE, STORE, SUBJECT_NAMES, TASK, TENANT, WORKER, Configure
from tenure.core.tenant import Context
from tenure.engine import journal
from tenure.engine.job import Spec
from tenure.engine.parking import lift_pause
from tenure.engine.place import regroup
from tenure.engine.removal import is_empty, plan_forgetting, reconsider
from tenure.engine.ring import reactivate_tenant, refresh
from tenure.engine.worker import configure_worker, read_published, read_workers
from tenure.engine.world import (
    OWED_CAP,
    OWED_TOP_UP,
    UNLIMITED,
    LimitSettings,
    Owed,
    Queue,
    Settings,
    Tenant,
    World,
)

COMMON: Final = (
    "jobs_max",
    "bytes_max",
    "keep_completed_ms",
    "keep_completed_count",
    "keep_failed_ms",
    "keep_failed_count",
)


def configure(w: World, context: Context, request: Configure) -> dict[str, object]:
    subject = request.subject
    changes = request.changes
    if not QUEUE <= subject <= TASK:
        raise InvalidRequest("subject", subject, "it must be one of " + ", ".join(SUBJECT_NAMES))
    if subject == TASK and changes:
        raise InvalidRequest("changes", list(changes), "what is published of a task is set by its workers")
    if request.name == "*" and not changes and subject != TASK:
        return _read_all(w, context, subject)
    if subject == QUEUE:
        return _configure_queue(w, context, request.name, changes)
    if subject == KEY:
        return _configure_key(w, context, request.name, changes)
    if subject == TENANT:
        return _configure_tenant(w, request.name, changes)
    if subject == STORE:
        return _configure_store(w, changes)
    if subject == TASK:
        return read_published(w, context, request.name)
    return configure_worker(w, context, request.name, changes)


def _check(rules: dict[str, bound.Rule], changes: dict[str, object]) -> dict[str, object]:
    """The changes as their rules return them; None, back to the default, is always accepted for a known field."""
    checked = bound.check_fields(rules, {field: value for field, value in changes.items() if value is not None})
    for field in changes:
        if changes[field] is None:
            if field not in rules:
                raise InvalidRequest(field, None, "there is no such field; " + bound.nearest(field, rules))
            checked[field] = None
    return checked


def _number(value: object, default: i64) -> i64:
    return default if value is None else i64(bound.as_int(value))


def _set_common(settings: Settings, field: str, value: object) -> None:
    if field not in COMMON:
        return
    number = _number(value, UNLIMITED)
    if field == "jobs_max":
        settings.jobs_max = number
    elif field == "bytes_max":
        settings.bytes_max = number
    elif field == "keep_completed_ms":
        settings.keep_completed_ms = number
    elif field == "keep_completed_count":
        settings.keep_completed_count = number
    elif field == "keep_failed_ms":
        settings.keep_failed_ms = number
    elif field == "keep_failed_count":
        settings.keep_failed_count = number


def _note(settings: Settings, field: str, value: object, said: object) -> None:
    if value is None:
        settings.changed.pop(field, None)
    else:
        settings.changed[field] = said


def _bucket(w: World, bucket: Bucket | None, value: object) -> Bucket | None:
    if value is None:
        return None
    assert isinstance(value, Rate)
    if bucket is None:
        return Bucket(value, w.elapsed_ms)
    bucket.change(value, w.elapsed_ms)
    return bucket


def _shown(changed: dict[str, object]) -> dict[str, object]:
    """For people and events: a rate as its three numbers."""
    return {field: list(value.key()) if isinstance(value, Rate) else value for field, value in changed.items()}


# Queues.


def _configure_queue(w: World, context: Context, name: str, changes: dict[str, object]) -> dict[str, object]:
    bound.name("queue", name)
    if not changes:
        found = w.find_queue(context.tenant, name)
        if found is None:
            raise QueueNotFound(name)
        return _shown({} if found.settings is None else found.settings.changed)
    checked = _check(bound.QUEUE_RULES, changes)
    q = w.queue(w.tenant(context.tenant), name)
    if q.settings is None:
        q.settings = Settings()
    was_paused = q.paused
    for field, value in checked.items():
        _set_queue(w, q, field, value)
        _set_common(q.settings, field, value)
        _note(q.settings, field, value, changes[field])
    w.journal.mark((journal.QUEUE, q.tenant_name, q.name))
    _after_queue(w, q, set(checked), was_paused)
    shown = _shown(q.settings.changed)
    if not q.settings.changed:
        q.settings = None
        if is_empty(q):
            plan_forgetting(w, q)
    return shown


def _set_queue(w: World, q: Queue, field: str, value: object) -> None:
    if field == "paused":
        q.paused = bool(value)
    elif field == "rate":
        q.bucket = _bucket(w, q.bucket, value)
        if q.alarm is not None:
            w.elapsed.cancel(q.alarm)
            q.alarm = None
    elif field == "concurrency":
        q.concurrency = _number(value, UNLIMITED)
    elif field == "enqueue_rate":
        q.enqueue_bucket = _bucket(w, q.enqueue_bucket, value)
    elif field == "group_concurrency":
        q.group_concurrency = _number(value, 1)
    elif field == "group_order":
        q.group_relaxed = value == 1
    elif field == "age_ms":
        q.age_ms = _number(value, 0)
    elif field == "lease_ms":
        q.lease_ms = _number(value, 0)


def _after_queue(w: World, q: Queue, fields: set[str], was_paused: bool) -> None:
    spec = Spec(Options(queue=q.name, task=""), int(q.tenant), q.tenant_name, int(q.number))
    assert q.settings is not None
    if q.paused != was_paused:
        w.log.notice(None, event.PAUSED if q.paused else event.RESUMED, 0, spec, "", {})
    if fields & {"rate", "concurrency", "enqueue_rate", "group_concurrency", "jobs_max", "bytes_max", "slo_wait_ms"}:
        w.log.notice(None, event.LIMITS_CHANGED, 0, spec, "", _shown(q.settings.changed))
    if any(field.startswith("keep_") for field in fields):
        reconsider(w, q)
    if fields & {"group_concurrency", "group_order"} and q.groups is not None:
        for group in list(q.groups.values()):
            regroup(w, q, group)
    refresh(w, q)


# Limit keys.


def _configure_key(w: World, context: Context, prefix: str, changes: dict[str, object]) -> dict[str, object]:
    if prefix:
        bound.key_text("key", prefix)
    t = w.tenant(context.tenant)
    own = t.limit_settings
    settings = own.get(prefix) if own is not None else None
    if settings is None:
        settings = w.limit_settings_shared.get(prefix)
    was_shared = settings is not None and settings.shared
    if not changes:
        return {} if settings is None else _shown(settings.changed)
    checked = _check(bound.KEY_RULES, changes)
    if (was_shared or checked.get("shared")) and not context.reaches_all_tenants:
        raise Forbidden("a limit that tenants share is for those who reach all tenants")
    if settings is None:
        settings = LimitSettings(prefix)
    for field, value in checked.items():
        if field == "rate":
            assert value is None or isinstance(value, Rate)
            settings.rate = value
        elif field == "concurrency":
            settings.concurrency = _number(value, UNLIMITED)
        elif field == "shared":
            settings.shared = bool(value)
        elif field == "paused_ms":
            settings.paused_until = w.elapsed_ms + _number(value, 0)
        if value is None:
            settings.changed.pop(field, None)
        else:
            settings.changed[field] = changes[field]
    _file_key(w, t, settings, was_shared)
    w.journal.mark((journal.KEY, "" if was_shared else t.name, prefix))
    w.journal.mark((journal.KEY, "" if settings.shared else t.name, prefix))
    w.limits_version += 1
    is_lifted = "paused_ms" in checked and settings.paused_until <= w.elapsed_ms
    for limit in list(w.limits.values()):
        if limit.key.startswith(prefix):
            if is_lifted:
                lift_pause(w, limit, t, was_shared or settings.shared)
            w.owed.append(Owed(OWED_TOP_UP, limit.number))
    spec = Spec(Options(queue="", task=""), int(t.number), t.name, 0)
    w.log.notice(None, event.LIMITS_CHANGED, 0, spec, "", {"key": prefix, **_shown(settings.changed)})
    return _shown(settings.changed)


def _file_key(w: World, t: Tenant, settings: LimitSettings, was_shared: bool) -> None:
    """Under the tenant or, when shared, under the store; nowhere when nothing is set."""
    prefix = settings.prefix
    if was_shared:
        w.limit_settings_shared.pop(prefix, None)
    elif t.limit_settings is not None:
        t.limit_settings.pop(prefix, None)
    if settings.changed:
        if settings.shared:
            w.limit_settings_shared[prefix] = settings
        else:
            if t.limit_settings is None:
                t.limit_settings = {}
            t.limit_settings[prefix] = settings


# Tenants and the store.


def _configure_tenant(w: World, name: str, changes: dict[str, object]) -> dict[str, object]:
    bound.tenant_name("tenant", name)
    if not changes:
        number = w.tenant_numbers.get(name)
        settings = None if number is None else w.tenants[number].settings
        return {} if settings is None else _shown(settings.changed)
    checked = _check(bound.TENANT_RULES, changes)
    t = w.tenant(name)
    if t.settings is None:
        t.settings = Settings()
    for field, value in checked.items():
        if field == "weight":
            t.weight = _number(value, 1)
        elif field == "running_max":
            t.running_max = _number(value, UNLIMITED)
        elif field == "rate":
            t.bucket = _bucket(w, t.bucket, value)
        elif field == "enqueue_rate":
            t.enqueue_bucket = _bucket(w, t.enqueue_bucket, value)
        elif field == "queues_max":
            t.queues_max = _number(value, bound.QUEUES_PER_TENANT_MAX)
        elif field == "workers_max":
            t.workers_max = _number(value, bound.WORKERS_PER_TENANT_MAX)
        elif field == "worker_bytes_max":
            t.worker_bytes_max = _number(value, bound.WORKER_BYTES_PER_TENANT)
        _set_common(t.settings, field, value)
        _note(t.settings, field, value, changes[field])
    w.journal.mark((journal.TENANT, t.name))
    for number in t.queues.values():
        q = w.queues[number]
        if any(field.startswith("keep_") for field in checked):
            reconsider(w, q)
        q.credit = min(q.credit, t.weight)
        refresh(w, q)
    reactivate_tenant(w, t)
    spec = Spec(Options(queue="", task=""), int(t.number), t.name, 0)
    w.log.notice(None, event.LIMITS_CHANGED, 0, spec, "", {"tenant": name, **_shown(t.settings.changed)})
    return _shown(t.settings.changed)


def _configure_store(w: World, changes: dict[str, object]) -> dict[str, object]:
    checked = _check(bound.STORE_RULES, changes)
    settings = w.settings
    for field, value in checked.items():
        _set_common(settings, field, value)
        if field == "jobs_max" and value is None:
            settings.jobs_max = bound.LIVE_JOBS_MAX
        elif field == "payload_bytes_max":
            w.payload_bytes_max = _number(value, bound.PAYLOAD_BYTES_DEFAULT)
        elif field == "terminal_jobs_max":
            w.terminal_jobs_max = _number(value, 1_000_000)
        elif field == "terminal_bytes_max":
            w.terminal_bytes_max = _number(value, 1024 * bound.MIB)
        elif field == "events_max":
            w.log.events_max = _number(value, bound.EVENTS_MAX)
        elif field == "workers_max":
            w.workers_max = _number(value, bound.WORKERS_MAX)
        elif field == "worker_bytes_max":
            w.worker_bytes_max = _number(value, bound.WORKER_BYTES_IN_ALL)
        _note(settings, field, value, changes[field])
    w.journal.mark((journal.STORE,))
    if "terminal_jobs_max" in checked or "terminal_bytes_max" in checked:
        w.owed.append(Owed(OWED_CAP, 0))
    if any(field.startswith("keep_") for field in checked):
        for t in w.tenants:
            for number in t.queues.values():
                reconsider(w, w.queues[number])
    return _shown(settings.changed)


# Reading all of a kind.


def _read_all(w: World, context: Context, subject: int) -> dict[str, object]:
    if subject == WORKER:
        return read_workers(w, context)
    if subject == STORE:
        return _shown(w.settings.changed)
    if subject == TENANT:
        return {t.name: _shown({} if t.settings is None else t.settings.changed) for t in w.tenants}
    number = w.tenant_numbers.get(context.tenant)
    if number is None:
        return {}
    t = w.tenants[number]
    if subject == KEY:
        tables = [w.limit_settings_shared] + ([] if t.limit_settings is None else [t.limit_settings])
        return {prefix: _shown(found.changed) for table in tables for prefix, found in table.items()}
    return {name: _shown(_queue_settings(w.queues[found])) for name, found in t.queues.items()}


def _queue_settings(q: Queue) -> dict[str, object]:
    return {} if q.settings is None else q.settings.changed
