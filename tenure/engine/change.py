"""What others than its worker do to a job: cancel, discard, promote, update, delay, clone, replay, remove."""

from mypy_extensions import i32, i64

from tenure.core import bound, dependency
from tenure.core import request as ask
from tenure.core.answer import Answers, Outcome
from tenure.core.blob import Blob
from tenure.core.error import AlreadySettled, Conflict, Error, InvalidRequest, JobNotFound
from tenure.core.job import Extras
from tenure.core.request import Change
from tenure.core.state import (
    BLOCKED,
    CANCEL,
    CANCELLED,
    COMPLETED,
    DELAY,
    DISCARD,
    FAILED,
    PROMOTE,
    READY,
    REASON_DISCARDED,
    REPLAY,
    RETRYING,
    RUNNING,
    SCHEDULED,
    SETTLE_CANCELLED,
    SETTLE_DISCARDED,
    STATE_NAMES,
    UPDATE,
    is_terminal,
)
from tenure.core.tenant import Context
from tenure.engine import idempotency
from tenure.engine.blob import hold, put_result, sweep_blob
from tenure.engine.check import check_content
from tenure.engine.clock import run_at_instant, shown_run_at
from tenure.engine.dependent import count_dependencies, depend, judge
from tenure.engine.duplicate import set_payload, take_keys
from tenure.engine.ending import count_live, end_lease, finish, finish_side
from tenure.engine.enqueue import enqueue_one
from tenure.engine.job import ASIDE, LINE, PARKED, Job
from tenure.engine.journal import SWEEP
from tenure.engine.place import leave, make_ready, set_rank, side_of, step_back, wait_for_run
from tenure.engine.removal import erase, keep_outcome, let_go, take_from_kept, uncount_terminal
from tenure.engine.transition import transition
from tenure.engine.world import OWED_SWEEP, Owed, Queue, World


def change(w: World, context: Context, request: Change) -> Answers:
    _check_shape(request)
    if request.ids is None:
        return _begin_sweep(w, context, request)
    answers = Answers([], -1)
    ids: list[object] = list(request.ids)
    for at in range(len(ids)):
        id = ids[at]
        outcome = change_one(w, context, request, id)
        answers.ids.append(outcome.id)
        if answers.other is None:
            answers.other = {}
        answers.other[at] = outcome
        if outcome.error is None:
            answers.count += 1
    return answers


def _check_shape(request: Change) -> None:
    if not ask.CANCEL <= request.action <= ask.REMOVE:
        raise InvalidRequest("action", request.action, "it must be one of " + ", ".join(ask.ACTION_NAMES))
    if (request.ids is None) == (request.filter is None):
        raise InvalidRequest("ids", request.ids, "give either ids or a filter")
    if request.ids is not None and len(request.ids) > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("ids", len(request.ids), f"at most {bound.BATCH_ITEMS_MAX} jobs are changed at once")
    if request.action == ask.DELAY and not 0 <= request.run_at <= bound.TIME_MS_MAX:
        raise InvalidRequest("run_at", request.run_at, "it must be a time in milliseconds since 1970")
    if request.action == ask.PRIORITY:
        bound.priority("priority", request.priority)
    if request.metadata is not None:
        bound.metadata("metadata", request.metadata)
    if request.tags is not None:
        bound.tags("tags", request.tags)
    if request.limit < 0 or request.rate_per_s < 0:
        raise InvalidRequest("limit", request.limit, "limit and rate_per_s are not negative")


def _begin_sweep(w: World, context: Context, request: Change) -> Answers:
    w.last_ticket += 1
    owed = Owed(OWED_SWEEP, w.last_ticket)
    owed.filter = request.filter
    owed.change = request
    owed.tenant = context.tenant
    owed.upto = w.last_id
    hold(w, sweep_blob(owed))
    w.owed.append(owed)
    w.journal.mark((SWEEP, int(owed.id)))
    return Answers([], -1, None, 0, int(w.last_ticket))


def change_one(w: World, context: Context, request: Change, id: object) -> Outcome:
    if not isinstance(id, int) or isinstance(id, bool):
        return Outcome(0, READY, error=InvalidRequest("id", id, "it must be a job id"))
    job = w.find(id)
    if job is None or not w.is_visible(job, context.tenant, context.tenants):
        return Outcome(id, READY, error=JobNotFound(id))
    return apply(w, job, request)


def apply(w: World, job: Job, request: Change) -> Outcome:
    """Do the request's action to the job, which is there and may be seen."""
    error = _refuse(w, job, request)
    id = int(job.id)
    if error is not None:
        return Outcome(id, int(job.state), error=error)
    q = w.queue_of(job)
    action = request.action
    if action == ask.CANCEL:
        if job.state != CANCELLED:
            stop(w, q, job, CANCEL)
    elif action == ask.DISCARD:
        stop(w, q, job, DISCARD)
    elif action == ask.PROMOTE:
        _promote(w, q, job)
    elif action == ask.PRIORITY:
        _reprioritise(w, q, job, request.priority)
    elif action == ask.UPDATE:
        _update(w, q, job, request)
    elif action == ask.DELAY:
        _delay(w, q, job, request.run_at)
    elif action == ask.CLONE:
        return _clone(w, job, request)
    elif action == ask.REPLAY:
        conflict = replay(w, q, job, request)
        if conflict is not None:
            return Outcome(id, int(job.state), error=conflict)
    else:
        last = Outcome(id, int(job.state), run_at=int(shown_run_at(w, job)))
        discard_record(w, q, job)
        return last
    return Outcome(id, int(job.state), run_at=int(shown_run_at(w, job)))


def _refuse(w: World, job: Job, request: Change) -> Error | None:
    """Why the action is not for a job in this state, or None."""
    action = request.action
    state = int(job.state)
    id = int(job.id)
    if request.payload is not None:
        error = check_content(w, request.payload, "payload")
        if error is not None:
            return error
    if action == ask.CLONE:
        return None
    if action == ask.REMOVE:
        return Conflict(f"job {id} is running; cancel it first", id) if state == RUNNING else None
    if action == ask.REPLAY:
        return (
            None
            if state == FAILED
            else Conflict(f"job {id} is {STATE_NAMES[state]}, only failed jobs are replayed", id)
        )
    if is_terminal(state):
        if action == ask.CANCEL and state == CANCELLED:
            return None
        return AlreadySettled(id, STATE_NAMES[state])
    if action == ask.PROMOTE and state != SCHEDULED and state != RETRYING:
        return Conflict(f"job {id} is {STATE_NAMES[state]}; only scheduled and retrying jobs are promoted", id)
    if action == ask.DELAY and (state == RUNNING or state == BLOCKED):
        return Conflict(f"job {id} is {STATE_NAMES[state]}; only scheduled, ready and retrying jobs are delayed", id)
    return None


def stop(w: World, q: Queue, job: Job, cause: i64) -> None:
    """Cancel or discard. A running job loses its lease at once; its slots stay held until the worker confirms."""
    cancelled = cause == CANCEL
    after: i32 = CANCELLED if cancelled else FAILED
    reason = "" if cancelled else REASON_DISCARDED
    side_of(job)
    if job.state == RUNNING:
        transition(w, q, job, cause, after, reason)
        end_lease(w, q, job, SETTLE_CANCELLED if cancelled else SETTLE_DISCARDED)
    else:
        leave(w, q, job)
        transition(w, q, job, cause, after, reason)
    finish(w, q, job, reason)


def _promote(w: World, q: Queue, job: Job) -> None:
    leave(w, q, job)
    run_at_instant(job, w.wall_ms)
    become_ready(w, q, job, PROMOTE)


def become_ready(w: World, q: Queue, job: Job, cause: i64) -> None:
    """The event, then the line. The job stands nowhere."""
    transition(w, q, job, cause, READY)
    make_ready(w, q, job, True)


def _reprioritise(w: World, q: Queue, job: Job, priority: int) -> None:
    place = job.place
    if place == LINE or place == ASIDE or place == PARKED:
        # Out and in again: every order is sorted by rank.
        step_back(w, q, job)
        _set_priority(q, job, priority)
        transition(w, q, job, UPDATE, job.state)
        number = job.number
        ready_at = job.ready_at
        make_ready(w, q, job, False)
        job.number = number
        job.ready_at = ready_at
        return
    _set_priority(q, job, priority)
    transition(w, q, job, UPDATE, job.state)


def _set_priority(q: Queue, job: Job, priority: int) -> None:
    """Its rank too, also while it runs: when it is released it stands by the new one."""
    if job.aged and q.age_ms > 0:
        # Its age counts from when it got its number, which a release does not change.
        job.rank += (i64(job.priority) - i64(priority)) * q.age_ms
        job.priority = i32(priority)
    else:
        job.priority = i32(priority)
        set_rank(q, job)


def _update(w: World, q: Queue, job: Job, request: Change) -> None:
    if request.payload is not None:
        set_payload(w, job, request.payload)
    if request.metadata is not None:
        side_of(job).metadata = request.metadata
    if request.tags is not None:
        side_of(job).tags = request.tags
    transition(w, q, job, UPDATE, job.state)


def _delay(w: World, q: Queue, job: Job, run_at: i64) -> None:
    if run_at <= w.wall_ms:
        if job.state != READY:
            _promote(w, q, job)
        return
    if job.state == READY:
        step_back(w, q, job)
    else:
        leave(w, q, job)
    run_at_instant(job, run_at)
    transition(w, q, job, DELAY, SCHEDULED)
    wait_for_run(w, job)


def _clone(w: World, job: Job, request: Change) -> Outcome:
    side = job.side
    extras: Extras | None = None
    metadata = request.metadata
    tags = request.tags
    group = ""
    if side is not None:
        metadata = metadata if metadata is not None else side.metadata
        tags = tags if tags is not None else side.tags
        group = side.extras.group if side.extras is not None else ""
    if group or metadata is not None or tags:
        extras = Extras(group=group, metadata=metadata, tags=tags or ())
    payload: bytes | Blob = job.payload
    if request.payload is not None:
        payload = request.payload
    elif side is not None and side.payload_blob is not None:
        payload = side.payload_blob
    options = job.spec.options
    priority = int(job.priority)
    if options.delay_ms or options.ttl_ms or options.debounce_ms or options.priority != priority:
        options = options.without_times()
        options.priority = priority
    return enqueue_one(w, job.spec.tenant_name, (), options, payload, extras, False)


def replay(w: World, q: Queue, job: Job, request: Change) -> Error | None:
    """A dead letter starts again; refused, with nothing changed, while a key is taken or a dependency has failed."""
    side = side_of(job)
    extras = side.extras
    id = int(job.id)
    if extras is not None and extras.unique_key and q.unique is not None:
        other = q.unique.get(extras.unique_key)
        if other:
            return Conflict(f"job {other} has the unique key now", other)
    if job.key:
        other = idempotency.holder_of(w, q, job.spec.options.task, job.key)
        if other and other != id:
            return Conflict(f"job {other} has the idempotency key now", other)
    verdict = dependency.GO
    if extras is not None and extras.depends_on:
        missing = count_dependencies(w, job.spec.tenant, side, extras.depends_on)
        verdict = dependency.FAIL if missing else judge(job)
        if verdict == dependency.FAIL:
            return Conflict(
                f"a dependency of job {id} has failed; replay that first", missing or _failed_dependency(w, job)
            )
    _restart(w, q, job, request, verdict)
    return None


def _failed_dependency(w: World, job: Job) -> int:
    assert job.side is not None and job.side.extras is not None
    for id in job.side.extras.depends_on:
        found = w.index.get(id)
        state = w.outcomes.get(id, job.spec.tenant) if found is None else i64(found.state)
        if state != COMPLETED and is_terminal(int(state)):
            return id
    return 0


def _restart(w: World, q: Queue, job: Job, request: Change, verdict: int) -> None:
    take_from_kept(w, job)
    uncount_terminal(w, job)
    count_live(w, q, job, 1)
    side = side_of(job)
    side.replays += 1
    if side.pins > 0:
        side.told_upto = w.last_id
    side.reason = ""
    side.error = None
    side.expires_at = 0
    put_result(w, side, None)
    job.attempt = 0
    job.ended_at = 0
    job.number = 0
    run_at_instant(job, w.wall_ms)
    if request.payload is not None:
        set_payload(w, job, request.payload)
    if request.metadata is not None:
        side.metadata = request.metadata
    if request.tags is not None:
        side.tags = request.tags
    if job.key and not idempotency.is_held(w, job):
        idempotency.hold(w, q, job, job.key, w.steady_ms + job.spec.options.idempotency_ttl_ms)
    if side.extras is not None:
        take_keys(w, q, job, Extras(unique_key=side.extras.unique_key))  # others it kept, or they are over
        if side.extras.depends_on:
            side.rejoined = w.last_id
            depend(w, job, True)
    if verdict == dependency.WAIT:
        transition(w, q, job, REPLAY, BLOCKED)
    else:
        transition(w, q, job, REPLAY, READY)
        make_ready(w, q, job, True)


def discard_record(w: World, q: Queue, job: Job) -> None:
    """Remove a job that does not run. A live one's dependents see it as cancelled; an ended one goes once no live job
    depends on it and nobody waits for it.
    """
    if is_terminal(int(job.state)):
        take_from_kept(w, job)
        let_go(w, q, job, "removed")
        return
    leave(w, q, job)
    side_of(job)
    count_live(w, q, job, -1)
    finish_side(w, q, job, CANCELLED)
    idempotency.has_ended(w, job)
    keep_outcome(w, job, CANCELLED)
    erase(w, q, job, "removed")
