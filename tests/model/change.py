"""What producers and operators do to jobs: cancel, discard, promote, priority, update, delay, clone, replay, remove."""

from tenure.core import dependency, request, state
from tenure.core.answer import Outcome
from tenure.core.error import AlreadySettled, Conflict, Error, JobNotFound
from tenure.core.fingerprint import fingerprint
from tenure.core.job import Extras
from tenure.core.request import Change, Filter
from tenure.core.state import (
    BLOCKED,
    CANCEL,
    CANCELLED,
    DELAY,
    DISCARD,
    FAILED,
    PROMOTE,
    READY,
    REPLAY,
    RETRYING,
    RUNNING,
    SCHEDULED,
    SETTLE_CANCELLED,
    SETTLE_DISCARDED,
    UPDATE,
)
from tenure.core.tenant import Context
from tests.model.ending import decide, end_lease, finish, hear, is_pinned, remove
from tests.model.enqueue import enqueue, holder_of_idempotency_key, holder_of_unique_key, start
from tests.model.turn import make_ready, refresh_turns
from tests.model.world import Job, World, sees


def change_ids(world: World, context: Context, order: Change) -> list[Outcome]:
    answers: list[Outcome] = []
    for id in order.ids or []:
        job = world.visible(context, id)
        try:
            if job is None:
                raise JobNotFound(id)
            before = job.state
            changed = change(world, job, order)
            is_gone = order.action == request.REMOVE
            answers.append(Outcome(changed.id, before if is_gone else changed.state))
        except Error as error:
            answers.append(Outcome(0, error=error))
    return answers


def change_matching(world: World, context: Context, order: Change) -> int:
    """The jobs that exist now and match, in the order of their ids. What cannot be changed is passed over."""
    assert order.filter is not None
    count = 0
    for id in sorted(world.jobs):
        job = world.jobs.get(id)
        if job is None or not sees(context, job.tenant) or not is_match(job, order.filter):
            continue
        if order.limit and count >= order.limit:
            break
        try:
            change(world, job, order)
            count += 1
        except Error:
            continue
    return count


def change(world: World, job: Job, order: Change) -> Job:
    """The job afterwards: the same one, or the clone."""
    action = order.action
    if action == request.CLONE:
        return clone(world, job, order)
    if action == request.REPLAY:
        return replay(world, job, order)
    if action == request.REMOVE:
        return take_out(world, job)
    if action == request.CANCEL and job.state == CANCELLED:
        return job
    if job.is_terminal:
        raise AlreadySettled(job.id, state.STATE_NAMES[job.state])
    if action in (request.CANCEL, request.DISCARD):
        stop(world, job, action)
    elif action == request.PROMOTE:
        promote(world, job)
    elif action == request.DELAY:
        delay(world, job, order.run_at)
    else:
        update(world, job, order)
    return job


def stop(world: World, job: Job, action: int) -> None:
    """Cancel wins over a running attempt at once; its slots wait for the worker's word, or the old deadline."""
    is_cancel = action == request.CANCEL
    if job.state == RUNNING:
        end_lease(world, job, SETTLE_CANCELLED if is_cancel else SETTLE_DISCARDED, confirmed=False)
    if is_cancel:
        finish(world, job, CANCEL, CANCELLED, "cancelled")
    else:
        finish(world, job, DISCARD, FAILED, "failed", state.REASON_DISCARDED)


def promote(world: World, job: Job) -> None:
    if job.state not in (SCHEDULED, RETRYING):
        raise Conflict("only a scheduled or retrying job can be promoted", job.id)
    make_ready(world, job, PROMOTE, "ready")


def delay(world: World, job: Job, run_at: int) -> None:
    if job.state in (RUNNING, BLOCKED):
        raise Conflict("a running or blocked job cannot be delayed", job.id)
    if run_at > world.wall:
        job.run_at = run_at
        job.is_delayed = False
        world.move(job, DELAY, SCHEDULED, "updated")
        refresh_turns(world)
    elif job.state != READY:
        promote(world, job)


def update(world: World, job: Job, order: Change) -> None:
    if order.action == request.PRIORITY:
        job.priority = order.priority
    edit(job, order)
    world.move(job, UPDATE, job.state, "updated")


def edit(job: Job, order: Change) -> None:
    if order.action == request.PRIORITY:
        return
    if order.payload is not None:
        assert isinstance(order.payload, bytes)
        job.payload = order.payload
    if order.metadata is not None:
        job.metadata = dict(order.metadata)
    if order.tags is not None:
        job.tags = order.tags


def clone(world: World, job: Job, order: Change) -> Job:
    """A new job like this one, without keys, dependencies, delay or expiry."""
    extras = Extras(group=job.extras.group, trace=job.extras.trace, tags=job.tags, metadata=dict(job.metadata))
    options = job.options.without_times()
    options.priority = job.priority
    payload = job.payload if order.payload is None else order.payload
    if order.tags is not None:
        extras.tags = order.tags
    if order.metadata is not None:
        extras.metadata = order.metadata
    return world.jobs[enqueue(world, job.tenant, options, extras, payload).id]


def replay(world: World, job: Job, order: Change) -> Job:
    if job.state != FAILED:
        raise Conflict("only a failed job can be replayed", job.id)
    for other in holders_of_keys(world, job):
        raise Conflict("its key is taken", other.id)
    is_unknown = any(world.outcome(job.tenant, id) is None for id in job.extras.depends_on)
    hear(world, job)
    if is_unknown or (job.extras.depends_on and decide(job) == dependency.FAIL):
        raise Conflict("a dependency failed", job.id)
    edit(job, order)
    job.attempt = 0
    job.replays += 1
    world.run_after(job, 0)
    job.expires_at = 0
    job.ended_at = 0
    job.reason = ""
    job.joined = None
    job.is_doomed = False
    job.error = None
    job.result = None
    start(world, job, REPLAY, "replayed")
    return job


def holders_of_keys(world: World, job: Job) -> list[Job]:
    found = (
        holder_of_idempotency_key(world, job.tenant, job.options, job.extras.idempotency_key),
        holder_of_unique_key(world, job.tenant, job.queue, job.extras.unique_key),
    )
    return [other for other in found if other is not None and other is not job]


def take_out(world: World, job: Job) -> Job:
    """One that ended and is still needed goes as soon as it is not."""
    if job.state == RUNNING:
        raise Conflict("a running job cannot be removed", job.id)
    if job.is_terminal and is_pinned(world, job):
        job.is_doomed = True
    else:
        remove(world, job, "removed")
    return job


def is_match(job: Job, filter: Filter) -> bool:
    """All conditions that are set hold."""
    error_type, message = job.error or ("", "")
    return (
        (not filter.queue or job.queue == filter.queue)
        and (not filter.states or bool(filter.states & 1 << job.state))
        and (not filter.task or job.task == filter.task)
        and (not filter.tag or filter.tag in job.tags)
        and all(job.metadata.get(key) == value for key, value in filter.metadata)
        and (not filter.worker or job.worker == filter.worker)
        and (not filter.reason or job.reason == filter.reason)
        and (
            not filter.fingerprint or (job.error is not None and fingerprint(error_type, message) == filter.fingerprint)
        )
        and (not filter.created_from or job.created_at >= filter.created_from)
        and (not filter.created_to or job.created_at < filter.created_to)
        and (not filter.ended_before or (job.is_terminal and job.ended_at < filter.ended_before))
        and (not filter.group or job.extras.group == filter.group)
        and (not filter.custom_id_prefix or job.extras.custom_id.startswith(filter.custom_id_prefix))
    )
