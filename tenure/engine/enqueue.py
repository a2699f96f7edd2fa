"""How jobs come in: one path for one and for ten thousand.

Each item is checked and decided on its own: bad input, duplicates, dependencies, room. What most jobs do not have costs
them one test. Nothing is changed for an item that is refused; an atomic batch is first decided as a whole (`rehearse`).
"""

from typing import Final, cast

from mypy_extensions import i32, i64

from tenure.core import bound, dependency, event
from tenure.core.answer import Answers, Outcome
from tenure.core.blob import Blob
from tenure.core.error import DependencyNotFound, Error, InvalidRequest, Overloaded
from tenure.core.job import Extras, Options
from tenure.core.packed import Packed, Texts
from tenure.core.request import Batch
from tenure.core.state import (
    BLOCKED,
    ENQUEUE,
    FAIL_DEPENDENCY,
    READY,
    REASON_DEPENDENCY,
    SCHEDULED,
)
from tenure.engine.alarm import EXPIRE, Alarm
from tenure.engine.atomic import rehearse
from tenure.engine.blob import put_payload
from tenure.engine.bundle import Bundle
from tenure.engine.check import asked_delay_ms, asked_run_at, check_item, content_bytes, expiry_time, held_bytes
from tenure.engine.clock import must_wait, run_after, run_at_instant, shown_run_at
from tenure.engine.dependent import count_dependencies, depend, judge
from tenure.engine.duplicate import find_duplicate, refused, take_keys
from tenure.engine.ending import count_live, fail_waiting
from tenure.engine.holders import code_of
from tenure.engine.idempotency import KeysOfRun
from tenure.engine.job import LINE, Job, Side, Spec
from tenure.engine.journal import Entity
from tenure.engine.line import Line
from tenure.engine.place import make_ready, side_of, wait_for_run
from tenure.engine.removal import drop_unused
from tenure.engine.ring import activate
from tenure.engine.room import NOTHING_AHEAD, has_bytes, overload, room_for, spend_rates
from tenure.engine.staged import Measured
from tenure.engine.world import Queue, World

BUNDLE_MIN: Final = 16  # jobs; fewer stand in line by themselves
BUNDLE_MAX: Final = 1_024  # jobs of a batch: the first claim of one makes them all


def enqueue(w: World, tenant: str, reach: tuple[str, ...], batch: Batch, above_limits: bool) -> Answers:
    """Store the batch's jobs. `reach` is the context's `queues`; `above_limits` is for follow-ups, which are accepted
    whatever is full.
    """
    _check_shape(batch)
    ids: list[int] = []
    if batch.atomic:
        refusal = rehearse(w, tenant, reach, batch, above_limits)
        if refusal is not None:
            refused_all = refusal.answers()
            _drop_unused(w, tenant, batch, refused_all)
            return refused_all
    answers = Answers(ids, READY)
    spec: Spec | None = None
    count: i64 = len(batch.payloads)
    if count > 0 and not above_limits:
        spec = spec_of_run(w, tenant, batch)
        if spec is not None and not _has_room(w, spec, batch):
            spec = None
    if isinstance(batch.payloads, Packed):
        if spec is not None and _take_packed(w, spec, batch, batch.payloads, ids):
            spend_rates(w, w.tenants[spec.tenant], w.queues[spec.queue], count)
            answers.count = len(ids)
            return answers
        batch = batch.unpacked()
    payloads: list[object] = cast("list[object]", batch.payloads)
    each = batch.each
    options = batch.options
    at: i64 = 0
    while at < count:
        if spec is not None and answers.state == READY:
            taken = take_run(w, spec, batch, at, count, ids)
            spend_rates(w, w.tenants[spec.tenant], w.queues[spec.queue], taken)
            at += taken
            if at == count:
                break
        if each is not None:
            options = each[at]
        outcome = enqueue_one(w, tenant, reach, options, payloads[at], batch.extra(int(at)), above_limits)
        ids.append(outcome.id)
        if len(ids) == 1 and outcome.error is None:
            answers.state = outcome.state
        if outcome.state != answers.state or outcome.duplicate or outcome.error is not None:
            if answers.other is None:
                answers.other = {}
            answers.other[int(at)] = outcome
        at += 1
    answers.count = len(ids)
    _drop_unused(w, tenant, batch, answers)
    return answers


def enqueue_followups(w: World, parent: Job, reach: tuple[str, ...], batch: Batch) -> Error | None:
    """Store the jobs that a completion asks for, whatever is full: all of them, or none, and the error says why. A
    follow-up that is there already keeps the parent that it has."""
    tenant = parent.spec.tenant_name
    _check_shape(batch)
    refusal = rehearse(w, tenant, reach, batch, True)
    if refusal is not None:
        _drop_unused(w, tenant, batch, refusal.answers())
        return refusal.error
    answers = enqueue(w, tenant, reach, batch, True)
    for at in range(len(answers.ids)):
        if not answers.item(at).duplicate:
            child = w.index.get(answers.ids[at])
            if child is not None:
                side_of(child).parent = parent.id
    return None


def _drop_unused(w: World, tenant: str, batch: Batch, answers: Answers) -> None:
    """Queues that were made for jobs that were refused."""
    if answers.other is None:
        return
    for at, outcome in answers.other.items():
        if outcome.error is not None:
            options = batch.options if batch.each is None else batch.each[at]
            q = w.find_queue(tenant, options.queue)
            if q is not None:
                drop_unused(w, q)


def _check_shape(batch: Batch) -> None:
    if isinstance(batch.keys, Texts):
        raise InvalidRequest("keys", "packed", "only a load takes its keys in one piece")
    count = len(batch.payloads)
    if count > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("payloads", count, f"a batch has at most {bound.BATCH_ITEMS_MAX} items")
    if batch.extras is not None and len(batch.extras) != count:
        raise InvalidRequest("extras", len(batch.extras), f"it must have one entry per payload ({count})")
    if batch.keys is not None and len(batch.keys) != count:
        raise InvalidRequest("keys", len(batch.keys), f"it must have one entry per payload ({count})")
    if batch.each is not None and len(batch.each) != count:
        raise InvalidRequest("each", len(batch.each), f"it must have one entry per payload ({count})")
    if count == 1:
        return
    size = _bytes_of(batch)
    if size > bound.BATCH_BYTES_MAX:
        raise InvalidRequest("payloads", int(size), f"a batch has at most {bound.BATCH_BYTES_MAX} bytes")


def _bytes_of(batch: Batch) -> i64:
    """Of all payloads, those in blobs aside."""
    if isinstance(batch.payloads, Packed):
        return batch.payloads.bytes
    size: i64 = 0
    payloads: list[object] = cast("list[object]", batch.payloads)
    for payload in payloads:
        if isinstance(payload, bytes):
            size += len(payload)
    return size


def spec_of_run(w: World, tenant: str, batch: Batch) -> Spec | None:
    """For `take_run`; none when the jobs are not all alike, or have more than a payload and a key."""
    options = batch.options
    if batch.extras is not None or batch.each is not None or batch.pasts is not None:
        return None
    if options.delay_ms or options.ttl_ms or options.debounce_ms or options.limit_keys:
        return None
    spec = w.spec(tenant, options)
    return spec if w.queues[spec.queue].age_ms == 0 else None


def _has_room(w: World, spec: Spec, batch: Batch) -> bool:
    q = w.queues[spec.queue]
    t = w.tenants[spec.tenant]
    count: i64 = len(batch.payloads)
    return room_for(w, t, q, count) >= count and has_bytes(w, t, q, _bytes_of(batch))


def take_run(w: World, spec: Spec, batch: Batch, first: i64, end: i64, ids: list[int]) -> i64:
    """The hot path: jobs of the batch from `first` on, up to one that needs a closer look because its key is taken or
    its payload is nothing to be stored here. There is room for all of them. Answers how many; their ids come in a row.
    """
    options = spec.options
    q = w.queues[spec.queue]
    payloads: list[object] = cast("list[object]", batch.payloads)
    keys: list[str] | None = cast("list[str] | None", batch.keys)
    if keys is None and not options.lifo and end - first >= BUNDLE_MIN:
        return _take_unmade(w, spec, payloads, first, end, ids)
    taken = KeysOfRun(w, q, options.task, keys)
    payload_max: i64 = w.payload_bytes_max
    now: i64 = w.at_ms
    until: i64 = w.steady_ms + options.idempotency_ttl_ms
    priority = i32(options.priority)
    rank: i64 = spec.rank
    lifo = options.lifo
    index = w.index
    line = q.order.line(rank)
    log = w.log
    size: i64 = 0
    id: i64 = w.last_id
    number: i64 = w.number_low if lifo else w.number_high
    at: i64 = first
    while at < end:
        payload = payloads[at]
        if not isinstance(payload, bytes) or len(payload) > payload_max:
            break
        key = "" if keys is None else keys[at]
        if key and not taken.take(at, code_of(key), id + 1):
            break
        id += 1
        job = Job(id, spec, payload, now, priority, rank)
        job.ready_at = now
        number = number - 1 if lifo else number + 1
        job.number = number
        job.place = LINE
        if key:
            job.key = key
            job.key_until = until
        index.add(job)
        if lifo:
            line.push(job)
        else:
            line.append(job)
        if at == first:
            log.enqueued(job, event.ENQUEUED, ENQUEUE)
        else:
            log.enqueued_next(len(payload))
        ids.append(id)
        size += len(payload)
        at += 1
    count: i64 = at - first
    if count == 0:
        return 0
    w.last_id = id
    if lifo:
        w.number_low = number
    else:
        w.number_high = number
    w.journal.born_in_a_row(id - count + 1, id)
    w.journal.bytes += size
    _count_in(w, q, spec, count, size)
    return count


def _take_unmade(w: World, spec: Spec, payloads: list[object], first: i64, end: i64, ids: list[int]) -> i64:
    """As `take_run`, for jobs that are not made before somebody looks at them."""
    payload_max: i64 = w.payload_bytes_max
    log = w.log
    size: i64 = 0
    at: i64 = first
    while at < end:
        payload = payloads[at]
        if not isinstance(payload, bytes) or len(payload) > payload_max:
            break
        if at == first:
            log.bundled(spec, w.last_id + 1, w.at_ms, len(payload))
        else:
            log.enqueued_next(len(payload))
        size += len(payload)
        at += 1
    if at > first:
        _bundle(w, spec, payloads, first, at - first, size, ids)
    return at - first


def _take_packed(w: World, spec: Spec, batch: Batch, packed: Packed, ids: list[int]) -> bool:
    """As `_take_unmade`, for all jobs of a batch; nothing is done for one in which some need a closer look."""
    count: i64 = packed.count
    if batch.keys is not None or spec.options.lifo or count < BUNDLE_MIN or packed.longest > w.payload_bytes_max:
        return False
    log = w.log
    log.bundled(spec, w.last_id + 1, w.at_ms, packed.size(0))
    at: i64 = 1
    while at < count:
        log.enqueued_next(packed.size(at))
        at += 1
    _bundle(w, spec, packed, 0, count, packed.bytes, ids)
    return True


def _bundle(
    w: World, spec: Spec, payloads: list[object] | Packed, first: i64, count: i64, size: i64, ids: list[int]
) -> None:
    """Jobs of a batch from `first` on, in bundles of which each is a chunk of the line. Each has its own payloads, so
    that they are gone with its jobs, whatever becomes of the others."""
    q = w.queues[spec.queue]
    line = q.order.line(spec.rank)
    ids.extend(range(int(w.last_id + 1), int(w.last_id + count + 1)))
    row: i64 = 0
    while row < count:
        few: i64 = min(count - row, BUNDLE_MAX)
        batch = Batch(spec.options, _part(payloads, first + row, few))
        bundle = Bundle(spec, batch, 0, w.last_id + 1, few, w.number_high + 1, w.at_ms, w.journal.on)
        w.journal.batched(bundle, size if row == 0 else 0)
        w.last_id += few
        w.number_high += few
        w.index.add_bundle(bundle)
        if few < BUNDLE_MIN:
            _stand_alone(w, line, bundle)
        else:
            line.append_bundle(bundle, w.index)
        row += few
    if isinstance(payloads, Packed):
        payloads.rest()
    _count_in(w, q, spec, count, size)


def _part(payloads: list[object] | Packed, first: i64, count: i64) -> "list[bytes | Blob] | Packed":
    if isinstance(payloads, Packed):
        return payloads if count == payloads.count else payloads.part(first, count)
    return cast("list[bytes | Blob]", payloads[first : first + count])


def take_bundle(w: World, spec: Spec, batch: Batch, measured: Measured, first: i64, end: i64, chunk: Entity) -> i64:
    """As `take_run`, of a staged chunk, for jobs that are not made before somebody looks at them."""
    options = spec.options
    q = w.queues[spec.queue]
    end = measured.fitting(first, end, w.payload_bytes_max)
    if len(measured.codes) > 0:
        keys = KeysOfRun(w, q, options.task, batch.keys)
        end = keys.take_all(measured.codes, first, end, w.last_id + 1)
    count: i64 = end - first
    if count == 0:
        return 0
    log = w.log
    size: i64 = measured.size(first)
    log.bundled(spec, w.last_id + 1, w.at_ms, size)
    at: i64 = first + 1
    while at < end:
        own: i64 = measured.size(at)
        log.enqueued_next(own)
        size += own
        at += 1
    bundle = Bundle(spec, batch, first, w.last_id + 1, count, w.number_high + 1, w.at_ms, w.journal.on)
    w.last_id += count
    w.number_high += count
    w.index.add_bundle(bundle)
    line = q.order.line(spec.rank)
    if count < BUNDLE_MIN:
        _stand_alone(w, line, bundle)
    else:
        line.append_bundle(bundle, w.index)
    w.journal.bundled(chunk, bundle)
    _count_in(w, q, spec, count, size)
    return count


def _stand_alone(w: World, line: Line, bundle: Bundle) -> None:
    """A chunk of a line for a few jobs would be too dear."""
    id: i64 = bundle.first
    while id <= bundle.last():
        job = w.index.get(id)
        assert job is not None
        line.append(job)
        id += 1


def _count_in(w: World, q: Queue, spec: Spec, count: i64, size: i64) -> None:
    """Jobs that are in line and in the index."""
    q.order.size += count
    spec.jobs += count
    q.ready += count
    t = w.tenants[spec.tenant]
    t.jobs += count
    w.jobs += count
    q.bytes += size
    t.bytes += size
    w.bytes += size
    if not q.in_ring:
        activate(w, q)


def enqueue_one(
    w: World,
    tenant: str,
    reach: tuple[str, ...],
    options: Options,
    payload: object,
    extras: Extras | None,
    above_limits: bool,
) -> Outcome:
    """One job, with everything that can be asked of it."""
    error = check_item(w, tenant, options, payload, extras)
    if error is not None:
        return refused(error)
    assert isinstance(payload, (bytes, Blob))
    expires_at = expiry_time(w, options, extras)
    try:
        spec = w.spec(tenant, options)
    except Overloaded as overloaded:
        return refused(overloaded)
    if extras is not None:
        existing = find_duplicate(w, reach, spec, options, extras, payload)
        if existing is not None:
            return existing
    return _insert(w, spec, payload, extras, expires_at, above_limits)


def _insert(
    w: World,
    spec: Spec,
    payload: bytes | Blob,
    extras: Extras | None,
    expires_at: i64,
    above_limits: bool,
) -> Outcome:
    q = w.queues[spec.queue]
    t = w.tenants[spec.tenant]
    side: Side | None = None
    blocked = False
    is_plain = extras is None or extras.is_key_alone()
    if expires_at or not is_plain:
        side = Side(None if is_plain else extras)
        side.expires_at = expires_at
        if extras is not None:
            side.metadata = extras.metadata
            side.tags = extras.tags
            if extras.depends_on:
                missing = count_dependencies(w, spec.tenant, side, extras.depends_on)
                if missing:
                    return refused(DependencyNotFound(missing))
                blocked = True
    if not above_limits:
        overloaded = overload(w, t, q, content_bytes(payload), held_bytes(payload), NOTHING_AHEAD)
        if overloaded is not None:
            return refused(overloaded)
        spend_rates(w, t, q, 1)
    w.last_id += 1
    job = Job(w.last_id, spec, b"", w.at_ms, i32(spec.options.priority), spec.rank)
    job.side = side
    put_payload(w, job, payload)
    delay_ms = asked_delay_ms(spec.options, extras)
    if delay_ms > 0:
        run_after(w, job, delay_ms)
    else:
        run_at_instant(job, asked_run_at(w, spec.options, extras))
    spec.jobs += 1
    w.index.add(job)
    w.journal.born(job)
    count_live(w, q, job, 1)
    if side is not None and expires_at:
        side.expiry = Alarm(expires_at, EXPIRE, job.id)
        w.wall.add(side.expiry)
    if extras is not None:
        take_keys(w, q, job, extras)
    _begin(w, q, job, blocked)
    return Outcome(int(job.id), int(job.state), run_at=int(shown_run_at(w, job)))


def _begin(w: World, q: Queue, job: Job, blocked: bool) -> None:
    """Where a new job starts its life: blocked, scheduled or ready."""
    verdict = dependency.GO
    if blocked:
        depend(w, job, False)
        verdict = judge(job)
    if verdict != dependency.GO:
        job.state = BLOCKED
        q.blocked += 1
    elif must_wait(w, job):
        job.state = SCHEDULED
        q.scheduled += 1
        wait_for_run(w, job)
    w.log.enqueued(job, event.ENQUEUED, ENQUEUE)
    if job.state == READY:
        make_ready(w, q, job, True)
    elif verdict == dependency.FAIL:
        fail_waiting(w, q, job, FAIL_DEPENDENCY, REASON_DEPENDENCY)
