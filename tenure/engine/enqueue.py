"""How jobs come in: one path for one and for ten thousand.

Each item is checked and decided on its own: bad input, duplicates, dependencies, room. What most jobs do not have costs
them one test. Nothing is changed for an item that is refused; an atomic batch is first decided as a whole (`rehearse`).
"""

from typing import cast

from mypy_extensions import i32, i64

from tenure.core import bound, dependency, event
from tenure.core.answer import Answers, Outcome
from tenure.core.error import Conflict, DependencyNotFound, Error, InvalidRequest, Overloaded, PayloadTooLarge
from tenure.core.job import DEBOUNCE_WINDOWS_MAX, REPLACE, TRAILING, Extras, Options
from tenure.core.job import ERROR as ON_CONFLICT_ERROR
from tenure.core.request import Batch
from tenure.core.state import (
    BLOCKED,
    COMPLETED,
    ENQUEUE,
    FAIL_DEPENDENCY,
    READY,
    REASON_DEPENDENCY,
    RUNNING,
    SCHEDULED,
    UPDATE,
    is_terminal,
)
from tenure.engine.alarm import EXPIRE, Alarm
from tenure.engine.ending import count_live, fail_waiting
from tenure.engine.eventlog import NO_FAILURE
from tenure.engine.job import LINE, Job, Side, Spec
from tenure.engine.keys import Keys
from tenure.engine.place import make_ready, wait_until
from tenure.engine.ring import activate
from tenure.engine.world import IdempotencyKey, Queue, Settings, Tenant, Window, World

RETRY_AFTER_MS = 1_000


def enqueue(w: World, tenant: str, batch: Batch, above_limits: bool) -> Answers:
    """Store the batch's jobs. `above_limits` is for follow-ups, which are accepted whatever is full."""
    _check_shape(batch)
    payloads = batch.payloads
    ids: list[int] = []
    if batch.atomic:
        refusal = _rehearse(w, tenant, batch, above_limits)
        if refusal is not None:
            return refusal
    answers = Answers(ids, READY)
    extras = batch.extras
    each = batch.each
    options = batch.options
    plain = extras is None and each is None and len(payloads) > 0
    at: i64 = 0
    if plain and not above_limits:
        at = _enqueue_plain(w, tenant, batch, answers)
    count: i64 = len(payloads)
    while at < count:
        extra = extras[at] if extras is not None else None
        if each is not None:
            options = each[at]
        outcome = enqueue_one(w, tenant, options, payloads[at], extra, above_limits)
        ids.append(outcome.id)
        if outcome.state != READY or outcome.duplicate or outcome.error is not None:
            if answers.other is None:
                answers.other = {}
            answers.other[int(at)] = outcome
        at += 1
    answers.count = len(ids)
    return answers


def _check_shape(batch: Batch) -> None:
    count = len(batch.payloads)
    if count > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("payloads", count, f"a batch has at most {bound.BATCH_ITEMS_MAX} items")
    if batch.extras is not None and len(batch.extras) != count:
        raise InvalidRequest("extras", len(batch.extras), f"it must have one entry per payload ({count})")
    if batch.each is not None and len(batch.each) != count:
        raise InvalidRequest("each", len(batch.each), f"it must have one entry per payload ({count})")
    if count == 1:
        return
    size: i64 = 0
    payloads: list[object] = cast("list[object]", batch.payloads)
    for payload in payloads:
        if isinstance(payload, bytes):
            size += len(payload)
    if size > bound.BATCH_BYTES_MAX:
        raise InvalidRequest("payloads", int(size), f"a batch has at most {bound.BATCH_BYTES_MAX} bytes")


def _enqueue_plain(w: World, tenant: str, batch: Batch, answers: Answers) -> i64:
    """The hot path: jobs with nothing but a payload, all alike. Answers how many it took; 0 when it is not for it."""
    options = batch.options
    if options.delay_ms or options.ttl_ms or options.debounce_ms or options.limit_keys:
        return 0
    spec = w.spec(tenant, options)
    q = w.queues[spec.queue]
    t = w.tenants[spec.tenant]
    payloads: list[object] = cast("list[object]", batch.payloads)
    count: i64 = len(payloads)
    if q.age_ms or _room(w, t, q, count) < count:
        return 0
    size: i64 = 0
    payload_max: i64 = w.payload_bytes_max
    for payload in payloads:
        if not isinstance(payload, bytes) or len(payload) > payload_max:
            return 0
        size += len(payload)
    if not _has_bytes(w, t, q, size):
        return 0
    _spend_rates(w, t, q, count)
    now: i64 = w.wall_ms
    priority = i32(options.priority)
    rank: i64 = spec.rank
    lifo = options.lifo
    index = w.index
    order = q.order
    log = w.log
    ids = answers.ids
    id: i64 = w.last_id
    number: i64 = w.number_low if lifo else w.number_high
    for payload in payloads:
        assert isinstance(payload, bytes)
        id += 1
        job = Job(id, spec, payload, now, priority, rank)
        job.ready_at = now
        number = number - 1 if lifo else number + 1
        job.number = number
        job.place = LINE
        index.add(job)
        order.push(job)
        log.enqueued(job, event.ENQUEUED, ENQUEUE)
        ids.append(id)
    w.last_id = id
    if lifo:
        w.number_low = number
    else:
        w.number_high = number
    spec.jobs += count
    q.ready += count
    t.jobs += count
    w.jobs += count
    q.bytes += size
    t.bytes += size
    w.bytes += size
    if not q.in_ring:
        activate(w, q)
    return count


def _room(w: World, t: Tenant, q: Queue, count: i64) -> i64:
    """How many of `count` jobs there is room for, by numbers and rates."""
    found: i64 = min(count, w.settings.jobs_max - w.jobs - w.staged_jobs)
    if t.settings is not None and t.settings.jobs_max >= 0:
        found = min(found, t.settings.jobs_max - t.jobs)
    if q.settings is not None and q.settings.jobs_max >= 0:
        found = min(found, q.settings.jobs_max - q.live())
    if t.enqueue_bucket is not None:
        found = min(found, t.enqueue_bucket.available(w.elapsed_ms))
    if q.enqueue_bucket is not None:
        found = min(found, q.enqueue_bucket.available(w.elapsed_ms))
    return found


def _has_bytes(w: World, t: Tenant, q: Queue, size: i64) -> bool:
    return (
        _fits(w.settings, w.bytes, size)
        and (t.settings is None or _fits(t.settings, t.bytes, size))
        and (q.settings is None or _fits(q.settings, q.bytes, size))
    )


def _fits(settings: Settings, bytes_now: i64, size: i64) -> bool:
    return settings.bytes_max < 0 or bytes_now + size <= settings.bytes_max


def _spend_rates(w: World, t: Tenant, q: Queue, count: i64) -> None:
    if t.enqueue_bucket is not None:
        t.enqueue_bucket.take(count)
    if q.enqueue_bucket is not None:
        q.enqueue_bucket.take(count)


def enqueue_one(
    w: World, tenant: str, options: Options, payload: object, extras: Extras | None, above_limits: bool
) -> Outcome:
    """One job, with everything that can be asked of it."""
    if not isinstance(payload, bytes):
        return _refused(InvalidRequest("payload", payload, "it must be bytes"))
    if len(payload) > w.payload_bytes_max:
        return _refused(PayloadTooLarge(len(payload), int(w.payload_bytes_max)))
    error = _check_options(w, tenant, options, extras)
    if error is not None:
        return _refused(error)
    run_at: i64 = 0
    if extras is not None and extras.run_at:
        run_at = extras.run_at
    elif options.delay_ms:
        run_at = w.wall_ms + options.delay_ms
    if extras is not None and extras.debounce_key and options.debounce_mode == TRAILING:
        run_at = w.wall_ms + options.debounce_ms
    run_at = max(run_at, w.wall_ms)
    expires_at: i64 = 0
    if extras is not None and extras.expires_at:
        expires_at = extras.expires_at
    elif options.ttl_ms:
        expires_at = w.wall_ms + options.ttl_ms
    if expires_at and expires_at <= run_at:
        return _refused(InvalidRequest("expires_at", int(expires_at), f"it must be after the run time, {int(run_at)}"))
    try:
        spec = w.spec(tenant, options)
    except Overloaded as overloaded:
        return _refused(overloaded)
    if extras is not None:
        existing = find_duplicate(w, spec, options, extras, payload)
        if existing is not None:
            return existing
    return _insert(w, spec, payload, extras, run_at, expires_at, above_limits)


def _refused(error: Error) -> Outcome:
    return Outcome(0, READY, error=error)


def _check_options(w: World, tenant: str, options: Options, extras: Extras | None) -> Error | None:
    if options.lifo:
        if extras is not None and extras.group:
            return InvalidRequest("lifo", True, "a group keeps the order of joining; leave out lifo or group")
        q = w.find_queue(tenant, options.queue)
        if q is not None and q.age_ms:
            return InvalidRequest("lifo", True, f"queue {options.queue} has ageing (age_ms); leave out lifo")
    if extras is None:
        if options.debounce_ms:
            return InvalidRequest("debounce_ms", options.debounce_ms, "it needs a debounce_key")
        return None
    if extras.run_at and options.delay_ms:
        return InvalidRequest("run_at", extras.run_at, "give either run_at or delay_ms")
    if extras.expires_at and options.ttl_ms:
        return InvalidRequest("expires_at", extras.expires_at, "give either expires_at or ttl_ms")
    if extras.debounce_key and not options.debounce_ms:
        return InvalidRequest("debounce_key", extras.debounce_key, "it needs debounce_ms")
    if options.debounce_ms and not extras.debounce_key:
        return InvalidRequest("debounce_ms", options.debounce_ms, "it needs a debounce_key")
    return None


# Duplicates.


def find_duplicate(w: World, spec: Spec, options: Options, extras: Extras, payload: bytes) -> Outcome | None:
    """The answer if the job is there already, by any of its keys; the first hit decides."""
    q = w.queues[spec.queue]
    t = w.tenants[spec.tenant]
    if extras.custom_id:
        if t.custom_ids is not None:
            id = t.custom_ids.get(extras.custom_id)
            if id:
                return _meet(w, id, options, extras, payload)
        if t.custom_outcomes is not None:
            kept = t.custom_outcomes.get(extras.custom_id)
            if kept is not None:
                if kept[2] > w.wall_ms:
                    return _meet_gone(kept[0], kept[1], options)
                del t.custom_outcomes[extras.custom_id]
    if extras.idempotency_key and q.idempotent is not None:
        entry = q.idempotent.get(f"{options.task}\n{extras.idempotency_key}")
        if entry is not None:
            return _meet(w, int(entry.job), options, extras, payload)
    if extras.unique_key and q.unique is not None:
        id = q.unique.get(extras.unique_key)
        if id:
            return _meet(w, id, options, extras, payload)
    if extras.debounce_key and q.windows is not None:
        window = q.windows.get(extras.debounce_key)
        if window is not None:
            return _debounce(w, window, options, extras, payload)
    return None


def _meet(w: World, id: int, options: Options, extras: Extras, payload: bytes) -> Outcome:
    job = w.index.get(id)
    if job is None:
        return _meet_gone(id, -1, options)
    state = int(job.state)
    if options.on_conflict == ON_CONFLICT_ERROR:
        return _refused(Conflict(f"job {id} has this key already", id))
    replaced = False
    if options.on_conflict == REPLACE and state != RUNNING and not is_terminal(state):
        replace(w, job, payload, extras)
        replaced = True
    return Outcome(id, state, True, replaced, int(job.run_at))


def _meet_gone(id: int, state: int, options: Options) -> Outcome:
    if options.on_conflict == ON_CONFLICT_ERROR:
        return _refused(Conflict(f"job {id} had this key", id))
    return Outcome(id, state if state >= 0 else COMPLETED, True, False)


def replace(w: World, job: Job, payload: bytes, extras: Extras | None) -> None:
    """New payload and metadata for a waiting job."""
    set_payload(w, job, payload)
    if extras is not None and job.side is not None:
        job.side.metadata = extras.metadata
        job.side.tags = extras.tags
    job.seq += 1
    w.log.plain(job, event.UPDATED, UPDATE, job.state, "", NO_FAILURE)


def set_payload(w: World, job: Job, payload: bytes) -> None:
    grown: i64 = len(payload) - len(job.payload)
    job.payload = payload
    w.queue_of(job).bytes += grown
    w.tenant_of(job).bytes += grown
    w.bytes += grown


def _debounce(w: World, window: Window, options: Options, extras: Extras, payload: bytes) -> Outcome | None:
    job = w.index.get(window.job)
    if not window.trailing:
        if job is None:
            return Outcome(int(window.job), COMPLETED, True, False)
        return Outcome(int(job.id), int(job.state), True, False, int(job.run_at))
    if job is None or job.state != SCHEDULED:
        return None
    most: i64 = options.debounce_max_wait_ms or options.debounce_ms * DEBOUNCE_WINDOWS_MAX
    run_at: i64 = min(w.wall_ms + options.debounce_ms, window.first_at + most)
    if run_at > job.run_at:
        if job.alarm is not None:
            w.wall.cancel(job.alarm)
        wait_until(w, job, run_at)
    replace(w, job, payload, extras)
    return Outcome(int(job.id), SCHEDULED, True, True, int(job.run_at))


def take_keys(w: World, q: Queue, job: Job, extras: Extras) -> None:
    """Write down that the job has its keys now."""
    side = job.side
    assert side is not None
    options = job.spec.options
    if extras.custom_id:
        t = w.tenants[q.tenant]
        if t.custom_ids is None:
            t.custom_ids = Keys()
        t.custom_ids.set(extras.custom_id, job.id)
        side.holds_custom = True
    if extras.unique_key:
        if q.unique is None:
            q.unique = Keys()
        q.unique.set(extras.unique_key, job.id)
        side.holds_unique = True
    if extras.idempotency_key:
        if q.idempotent is None:
            q.idempotent = {}
        name = f"{options.task}\n{extras.idempotency_key}"
        entry = IdempotencyKey(w.wall_ms + options.idempotency_ttl_ms, w.next_alarm_id(), q.number, name, job.id)
        q.idempotent[name] = entry
        w.wall.add(entry)
    if extras.debounce_key:
        _open_window(w, q, job, extras.debounce_key)


def _open_window(w: World, q: Queue, job: Job, key: str) -> None:
    options = job.spec.options
    if q.windows is None:
        q.windows = {}
    trailing = options.debounce_mode == TRAILING
    window = Window(w.wall_ms + options.debounce_ms, w.next_alarm_id(), q.number, key, job.id, w.wall_ms, trailing)
    q.windows[key] = window
    if trailing:
        assert job.side is not None
        job.side.debounced = True
    else:
        w.wall.add(window)


# Inserting.


def _insert(
    w: World, spec: Spec, payload: bytes, extras: Extras | None, run_at: i64, expires_at: i64, above_limits: bool
) -> Outcome:
    q = w.queues[spec.queue]
    t = w.tenants[spec.tenant]
    side: Side | None = None
    blocked = False
    if extras is not None or expires_at:
        side = Side(extras)
        side.expires_at = expires_at
        if extras is not None:
            side.metadata = extras.metadata
            side.tags = extras.tags
            if extras.depends_on:
                missing = count_dependencies(w, spec.tenant, side, extras.depends_on)
                if missing:
                    return _refused(DependencyNotFound(missing))
                blocked = True
    if not above_limits:
        overloaded = _overload(w, t, q, len(payload))
        if overloaded is not None:
            return _refused(overloaded)
        _spend_rates(w, t, q, 1)
    w.last_id += 1
    job = Job(w.last_id, spec, payload, w.wall_ms, i32(spec.options.priority), spec.rank)
    job.side = side
    job.run_at = run_at
    spec.jobs += 1
    w.index.add(job)
    count_live(w, q, job, 1)
    if side is not None:
        if expires_at:
            side.expiry = Alarm(expires_at, EXPIRE, job.id)
            w.wall.add(side.expiry)
        if extras is not None:
            take_keys(w, q, job, extras)
    _begin(w, q, job, blocked)
    return Outcome(int(job.id), int(job.state), run_at=int(job.run_at))


def _begin(w: World, q: Queue, job: Job, blocked: bool) -> None:
    """Where a new job starts its life: blocked, scheduled or ready."""
    verdict = dependency.GO
    if blocked:
        depend(w, job)
        verdict = judge(job)
    if verdict != dependency.GO:
        job.state = BLOCKED
        q.blocked += 1
    elif job.run_at > w.wall_ms:
        job.state = SCHEDULED
        q.scheduled += 1
        wait_until(w, job, job.run_at)
    w.log.enqueued(job, event.ENQUEUED, ENQUEUE)
    if job.state == READY:
        make_ready(w, q, job, True)
    elif verdict == dependency.FAIL:
        fail_waiting(w, q, job, FAIL_DEPENDENCY, REASON_DEPENDENCY)


def judge(job: Job) -> int:
    """What its dependencies mean for the job now (`core.dependency`)."""
    side = job.side
    assert side is not None
    return dependency.decide(
        job.spec.options.dependency_policy, int(side.pending), int(side.succeeded), int(side.failed)
    )


def count_dependencies(w: World, tenant: i64, side: Side, depends_on: tuple[int, ...]) -> int:
    """Count how the dependencies stand; answers the first one that is not there, or 0."""
    side.pending = 0
    side.succeeded = 0
    side.failed = 0
    for id in depends_on:
        job = w.index.get(id)
        state: i64 = -1
        if job is not None:
            if job.spec.tenant != tenant:
                return id
            state = i64(job.state)
        else:
            state = w.outcomes.get(id, tenant)
            if state < 0:
                return id
        if state == COMPLETED:
            side.succeeded += 1
        elif is_terminal(int(state)):
            side.failed += 1
        else:
            side.pending += 1
    return 0


def depend(w: World, job: Job) -> None:
    """Enter the job in the reverse index of what it waits for, and pin what it may still read."""
    assert job.side is not None and job.side.extras is not None
    for id in job.side.extras.depends_on:
        found = w.index.get(id)
        if found is None:
            continue
        if found.side is None:
            found.side = Side(None)
        found.side.pins += 1
        if not is_terminal(int(found.state)):
            if found.side.dependents is None:
                found.side.dependents = []
            found.side.dependents.append(int(job.id))


def _overload(w: World, t: Tenant, q: Queue, size: i64) -> Overloaded | None:
    if w.jobs + w.staged_jobs >= w.settings.jobs_max:
        return Overloaded(f"the store ({int(w.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
    if not _fits(w.settings, w.bytes, size):
        return Overloaded(f"the store ({int(w.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    if t.settings is not None:
        if 0 <= t.settings.jobs_max <= t.jobs:
            return Overloaded(f"tenant {t.name} ({int(t.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
        if not _fits(t.settings, t.bytes, size):
            return Overloaded(f"tenant {t.name} ({int(t.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    if q.settings is not None:
        if 0 <= q.settings.jobs_max <= q.live():
            return Overloaded(f"queue {q.name} ({int(q.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
        if not _fits(q.settings, q.bytes, size):
            return Overloaded(f"queue {q.name} ({int(q.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    for name, bucket in ((f"tenant {t.name}", t.enqueue_bucket), (f"queue {q.name}", q.enqueue_bucket)):
        if bucket is not None and bucket.available(w.elapsed_ms) < 1:
            return Overloaded(f"{name} (enqueue rate)", int(bucket.next_at_ms() - w.elapsed_ms))
    return None


# Atomic batches.


def _rehearse(w: World, tenant: str, batch: Batch, above_limits: bool) -> Answers | None:
    """The refusal of an atomic batch, or None when every item will be taken. Changes nothing."""
    fresh = _Fresh(above_limits)
    count = len(batch.payloads)
    payloads: list[object] = list(batch.payloads)
    for at in range(count):
        options = batch.options if batch.each is None else batch.each[at]
        extras = None if batch.extras is None else batch.extras[at]
        error = _rehearse_one(w, tenant, options, payloads[at], extras, fresh)
        if error is not None:
            other = {
                i: Outcome(0, READY, error=error if i == at else Conflict("another item of the batch was refused", 0))
                for i in range(count)
            }
            return Answers([0] * count, READY, other)
    return None


class _Fresh:
    """What the items before this one would have used up."""

    def __init__(self, above_limits: bool) -> None:
        self.above_limits = above_limits
        self.jobs: i64 = 0
        self.bytes: i64 = 0
        self.keys: dict[tuple[str, str, str], bool] = {}


def _rehearse_one(
    w: World, tenant: str, options: Options, payload: object, extras: Extras | None, fresh: _Fresh
) -> Error | None:
    if not isinstance(payload, bytes):
        return InvalidRequest("payload", payload, "it must be bytes")
    if len(payload) > w.payload_bytes_max:
        return PayloadTooLarge(len(payload), int(w.payload_bytes_max))
    error = _check_options(w, tenant, options, extras)
    if error is not None:
        return error
    run_at = max(extras.run_at if extras is not None else 0, int(w.wall_ms) + options.delay_ms)
    expires_at = extras.expires_at if extras is not None and extras.expires_at else 0
    if options.ttl_ms:
        expires_at = int(w.wall_ms) + options.ttl_ms
    if expires_at and expires_at <= run_at:
        return InvalidRequest("expires_at", expires_at, f"it must be after the run time, {run_at}")
    q = w.find_queue(tenant, options.queue)
    t = w.tenants[w.tenant_numbers[tenant]] if tenant in w.tenant_numbers else None
    if extras is not None:
        hit = _rehearse_keys(w, t, q, options, extras, fresh)
        if hit >= 0:
            return (
                Conflict(f"job {hit} has this key already", hit) if options.on_conflict == ON_CONFLICT_ERROR else None
            )
        for id in extras.depends_on:
            job = w.index.get(id)
            number = -1 if t is None else int(t.number)
            known = job.spec.tenant == number if job is not None else w.outcomes.get(id, number) >= 0
            if not known:
                return DependencyNotFound(id)
    if fresh.above_limits:
        return None
    fresh.jobs += 1
    fresh.bytes += len(payload)
    if w.jobs + w.staged_jobs + fresh.jobs > w.settings.jobs_max:
        return Overloaded(f"the store ({int(w.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
    if (
        t is not None
        and q is not None
        and (_room(w, t, q, fresh.jobs) < fresh.jobs or not _has_bytes(w, t, q, fresh.bytes))
    ):
        return Overloaded(f"queue {q.name}, its tenant or the store", RETRY_AFTER_MS)
    return None


def _rehearse_keys(w: World, t: Tenant | None, q: Queue | None, options: Options, extras: Extras, fresh: _Fresh) -> int:
    """The job that has one of the keys already (0 for an earlier item of this batch), or -1."""
    named = (
        ("custom_id", "", extras.custom_id),
        ("idempotency_key", f"{options.queue}\n{options.task}", extras.idempotency_key),
        ("unique_key", options.queue, extras.unique_key),
    )
    hit = -1
    for field, scope, key in named:
        if key and hit < 0:
            if field == "custom_id" and t is not None and t.custom_ids is not None:
                hit = t.custom_ids.get(key) or -1
            elif field == "idempotency_key" and q is not None and q.idempotent is not None:
                entry = q.idempotent.get(f"{options.task}\n{key}")
                hit = -1 if entry is None else int(entry.job)
            elif field == "unique_key" and q is not None and q.unique is not None:
                hit = q.unique.get(key) or -1
            if hit < 0 and (field, scope, key) in fresh.keys:
                hit = 0
    if hit < 0:
        for field, scope, key in named:
            if key:
                fresh.keys[(field, scope, key)] = True
    return hit
