"""How jobs come in: one path for one and for ten thousand.

Each item is checked and decided on its own: bad input, duplicates, dependencies, room. What most jobs do not have costs
them one test. Nothing is changed for an item that is refused; an atomic batch is first decided as a whole (`rehearse`).
"""

from mypy_extensions import i32, i64

from tenure.core import bound, dependency
from tenure.core.answer import Answers, Outcome
from tenure.core.blob import Blob
from tenure.core.error import DependencyNotFound, Error, InvalidRequest, Overloaded
from tenure.core.job import Extras, Options
from tenure.core.packed import Texts
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
from tenure.engine.check import asked_delay_ms, asked_run_at, check_item, content_bytes, expiry_time, held_bytes
from tenure.engine.clock import must_wait, run_after, run_at_instant, shown_run_at
from tenure.engine.dependent import count_dependencies, depend, judge
from tenure.engine.duplicate import find_duplicate, refused, take_keys
from tenure.engine.ending import count_live, fail_waiting
from tenure.engine.job import Job, Side, Spec
from tenure.engine.place import make_ready, side_of, wait_for_run
from tenure.engine.removal import drop_unused
from tenure.engine.room import NOTHING_AHEAD, has_bytes, overload, room_for, spend_rates
from tenure.engine.rows import Rows
from tenure.engine.run import admit_run, spec_of_run
from tenure.engine.transition import arrive
from tenure.engine.world import Queue, World


def enqueue(w: World, tenant: str, reach: tuple[str, ...], batch: Batch, above_limits: bool) -> Answers:
    """Store the batch's jobs. `reach` is the context's `queues`; `above_limits` is for follow-ups, which are accepted
    whatever is full.
    """
    rows = Rows(batch)
    _check_shape(batch, rows)
    if batch.atomic:
        refusal = rehearse(w, tenant, reach, batch, above_limits)
        if refusal is not None:
            refused_all = refusal.answers()
            _drop_unused(w, tenant, batch, refused_all)
            return refused_all
    ids: list[int] = []
    answers = Answers(ids, READY)
    spec = None if above_limits else _spec_of_admitted(w, tenant, rows)
    at: i64 = 0
    while at < rows.count:
        if spec is not None and answers.state == READY:
            taken = admit_run(w, spec, rows, at, rows.count)
            if taken > 0:
                if taken == 1:  # as in most calls: no range is made for it
                    ids.append(int(w.last_id))
                else:
                    ids.extend(range(int(w.last_id - taken + 1), int(w.last_id + 1)))
                spend_rates(w, w.tenants[spec.tenant], w.queues[spec.queue], taken)
                at += taken
                continue
        options = batch.options if batch.each is None else batch.each[at]
        outcome = enqueue_one(w, tenant, reach, options, rows.payload(at), batch.extra(int(at)), above_limits)
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


def _spec_of_admitted(w: World, tenant: str, rows: Rows) -> Spec | None:
    """Of jobs that are alike, when there is room for all of them."""
    if rows.count == 0:
        return None
    spec = spec_of_run(w, tenant, rows.batch)
    if spec is None:
        return None
    q = w.queues[spec.queue]
    t = w.tenants[spec.tenant]
    return spec if room_for(w, t, q, rows.count) >= rows.count and has_bytes(w, t, q, rows.bytes) else None


def enqueue_followups(w: World, parent: Job, reach: tuple[str, ...], batch: Batch) -> Error | None:
    """Store the jobs that a completion asks for, whatever is full: all of them, or none, and the error says why. A
    follow-up that is there already keeps the parent that it has."""
    tenant = parent.spec.tenant_name
    _check_shape(batch, Rows(batch))
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


def _check_shape(batch: Batch, rows: Rows) -> None:
    if isinstance(batch.keys, Texts):
        raise InvalidRequest("keys", "packed", "only a load takes its keys in one piece")
    count = int(rows.count)
    if count > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("payloads", count, f"a batch has at most {bound.BATCH_ITEMS_MAX} items")
    if batch.extras is not None and len(batch.extras) != count:
        raise InvalidRequest("extras", len(batch.extras), f"it must have one entry per payload ({count})")
    if batch.keys is not None and len(batch.keys) != count:
        raise InvalidRequest("keys", len(batch.keys), f"it must have one entry per payload ({count})")
    if batch.each is not None and len(batch.each) != count:
        raise InvalidRequest("each", len(batch.each), f"it must have one entry per payload ({count})")
    if count > 1 and rows.bytes > bound.BATCH_BYTES_MAX:
        raise InvalidRequest("payloads", int(rows.bytes), f"a batch has at most {bound.BATCH_BYTES_MAX} bytes")


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
        arrive(w, q, job, ENQUEUE, BLOCKED)
        if verdict == dependency.FAIL:
            fail_waiting(w, q, job, FAIL_DEPENDENCY, REASON_DEPENDENCY)
    elif must_wait(w, job):
        arrive(w, q, job, ENQUEUE, SCHEDULED)
        wait_for_run(w, job)
    else:
        arrive(w, q, job, ENQUEUE, READY)
        make_ready(w, q, job, True)
