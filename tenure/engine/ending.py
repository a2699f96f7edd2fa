"""Every way out of `running`, and every end.

`end_lease` is the one function that takes a job out of `running`, whatever the cause: it ends the lease and frees slots
and group, or, when the worker has not said that its handler stopped (cancel, discard, timeout), hands them to a
holdover. `finish` is the one function that makes a job terminal: it frees keys, answers waiters and records what is
owed to dependents.
"""

import msgspec
from mypy_extensions import i32, i64

from tenure.core import bound
from tenure.core.record import Ended, Failed
from tenure.core.state import (
    CAUSE_NAMES,
    FAILED,
    RUNNING,
    SETTLE_CANCELLED,
    SETTLE_DISCARDED,
    SETTLE_TIMED_OUT,
    STATE_NAMES,
)
from tenure.core.tenant import Context
from tenure.core.token import claim_of
from tenure.engine import idempotency
from tenure.engine.alarm import EXPIRE, Alarm
from tenure.engine.clock import lease_due
from tenure.engine.job import Job, Lease, payload_bytes
from tenure.engine.journal import HOLDOVER, WINDOW
from tenure.engine.parking import give_back
from tenure.engine.place import (
    drop_if_empty,
    free_slot,
    give_up_slot,
    group_of,
    keep_slot,
    leave_group,
    make_ready,
    side_of,
    wait_for_run,
)
from tenure.engine.query import record
from tenure.engine.removal import keep
from tenure.engine.ring import activate, reactivate_tenant
from tenure.engine.transition import transition
from tenure.engine.world import OWED_DEPENDENTS, OWED_UNPIN, UNLIMITED, Holdover, Owed, Queue, World


def end_lease(w: World, q: Queue, job: Job, settled: i32) -> None:
    """The job is not running any more: it has made its step, and its lease goes."""
    lease = job.lease
    assert lease is not None
    job.settled = settled
    side = job.side
    if side is not None:
        side.settled_token = b""  # this end is the last settlement now
    held_over = settled == SETTLE_CANCELLED or settled == SETTLE_DISCARDED or settled == SETTLE_TIMED_OUT
    if held_over:
        _hold_over(w, q, job, lease)
    drop_from_lease(w, lease)
    if job.alarm is not None:
        w.served.cancel(job.alarm)
        job.alarm = None
    t = w.tenants[q.tenant]
    if held_over:
        return
    if side is not None and side.holds is not None:
        give_back(w, side.holds)
        side.holds = None
    if q.concurrency != UNLIMITED:
        activate(w, q)
    if t.held_queues:
        reactivate_tenant(w, t)


def drop_from_lease(w: World, lease: Lease) -> None:
    lease.count -= 1
    if lease.count == 0:
        w.served.cancel(lease)
        lease.clear()


def shorten(w: World, lease: Lease) -> None:
    """Forget the ended jobs of a lease that lives on, once they are the most of its list."""
    if lease.count > 0 and len(lease.ids) > 64 and lease.count * 4 < len(lease.ids):
        lease.ids = [id for id in lease.ids if _runs_under(w, id, lease)]


def _runs_under(w: World, id: int, lease: Lease) -> bool:
    job = w.index.get(id)
    return job is not None and job.lease is lease and job.state == RUNNING


def _hold_over(w: World, q: Queue, job: Job, lease: Lease) -> None:
    claim = claim_of(lease.token)
    holdover = Holdover(max(lease_due(w, lease), w.served_ms), w.next_alarm_id(), claim, job.id, q.number)
    side = job.side
    if side is not None:
        holdover.limits = side.holds
        side.holds = None
        if side.holds_group:
            assert side.extras is not None
            holdover.group = side.extras.group
            holdover.joined = side.joined
            side.holds_group = False
    q.held_over += 1
    w.tenants[q.tenant].held_over += 1
    w.holdovers[(claim, int(job.id))] = holdover
    w.journal.mark((HOLDOVER, claim, int(job.id)))
    w.served.add(holdover)


def confirm(w: World, context: Context, token: bytes, job_id: int) -> None:
    """A worker says, by a settlement that comes too late, that the handler of an ended attempt has stopped."""
    holdover = w.holdovers.get((claim_of(token), job_id))
    if holdover is None or not w.mint.is_genuine(token):
        return
    owner = w.queues[holdover.queue].tenant_name
    if owner == context.tenant if not context.tenants else ("*" in context.tenants or owner in context.tenants):
        w.served.cancel(holdover)
        end_holdover(w, holdover)


def end_holdover(w: World, holdover: Holdover) -> None:
    del w.holdovers[(int(holdover.claim), int(holdover.job))]
    w.journal.mark((HOLDOVER, int(holdover.claim), int(holdover.job)))
    q = w.queues[holdover.queue]
    t = w.tenants[q.tenant]
    q.held_over -= 1
    t.held_over -= 1
    if holdover.limits is not None:
        give_back(w, holdover.limits)
    if holdover.group and q.groups is not None:
        group = q.groups.get(holdover.group)
        assert group is not None
        job = w.index.get(holdover.job)
        fits = group.busy <= q.group_concurrency and not q.group_relaxed
        if job is not None and fits and _is_tried_again(job, holdover.joined):
            keep_slot(w, q, group, job)
        else:
            free_slot(w, q, group)
        drop_if_empty(q, group)
    activate(w, q)
    if t.held_queues:
        reactivate_tenant(w, t)


def _is_tried_again(job: Job, joined: i64) -> bool:
    """It timed out, waits for another try, and has not been replayed since: in strict order the slot is its own."""
    side = job.side
    return side is not None and side.joined == joined and job.state != RUNNING and not side.holds_group


def keep_or_give_up_slot(w: World, q: Queue, job: Job) -> None:
    """The job is to be tried again: in strict order its group's slot stays its own."""
    side = job.side
    if side is not None and side.holds_group:
        group = group_of(q, job)
        assert group is not None
        # With fewer slots than are taken (they were lowered) nobody keeps one while waiting.
        if q.group_relaxed or group.busy > q.group_concurrency:
            give_up_slot(w, q, job)
        else:
            keep_slot(w, q, group, job)


def finish(w: World, q: Queue, job: Job, reason: str) -> None:
    """The job has made its step to an end, and stands nowhere."""
    job.ended_at = w.at_ms
    count_live(w, q, job, -1)
    side = job.side
    if side is not None:
        side.reason = reason
        finish_side(w, q, job, i64(job.state))
    idempotency.has_ended(w, job)
    keep(w, q, job)


def count_live(w: World, q: Queue, job: Job, by: i64) -> None:
    """The job, with its payload, joins (1) or leaves (-1) what is alive in the store."""
    size: i64 = payload_bytes(job) * by
    t = w.tenants[q.tenant]
    t.jobs += by
    w.jobs += by
    q.bytes += size
    t.bytes += size
    w.bytes += len(job.payload) * by


def finish_side(w: World, q: Queue, job: Job, state: i64) -> None:
    """`state` is how others see that it ended."""
    side = side_of(job)
    if side.expiry is not None:
        w.wall.cancel(side.expiry)
        side.expiry = None
    extras = side.extras
    if extras is not None:
        if side.holds_unique:
            assert q.unique is not None
            q.unique.remove(extras.unique_key)
            side.holds_unique = False
            if q.unique.size == 0:
                q.unique = None
        if side.debounced:
            _close_window(w, q, extras.debounce_key, job)
        if extras.group:
            leave_group(w, q, job)
        if extras.depends_on:
            owed = Owed(OWED_UNPIN, job.id)
            owed.ids = list(extras.depends_on)
            w.owed.append(owed)
    if side.dependents is not None:
        owed = Owed(OWED_DEPENDENTS, job.id)
        owed.state = state
        owed.ids = side.dependents
        side.dependents = None
        w.owed.append(owed)
    if side.watchers is not None:
        _answer_watchers(w, job, state)


def _close_window(w: World, q: Queue, key: str, job: Job) -> None:
    """A trailing window ends when its job is no longer waiting to run."""
    side = side_of(job)
    side.debounced = False
    if q.windows is not None:
        window = q.windows.get(key)
        if window is not None and window.job == job.id:
            del q.windows[key]
            w.journal.mark((WINDOW, q.tenant_name, q.name, key))
            if not q.windows:
                q.windows = None


def _answer_watchers(w: World, job: Job, state: i64) -> None:
    side = side_of(job)
    assert side.watchers is not None
    told = msgspec.structs.replace(record(w, job), state=STATE_NAMES[state])
    for ticket in side.watchers:
        watch = w.watches.pop(ticket, None)
        if watch is not None:
            w.elapsed.cancel(watch)
            w.outbox.append((ticket, told))
            side.pins -= 1
    side.watchers = None


def remember(w: World, job: Job, attempt: i64, cause: i64, error: Failed | None) -> None:
    """Add the attempt that is over to the job's history."""
    side = side_of(job)
    if side.history is None:
        side.history = []
    worker = job.lease.worker if job.lease is not None else ""
    side.history.append(
        Ended(
            int(attempt),
            int(job.delivery),
            worker,
            int(job.started_at),
            int(w.at_ms),
            CAUSE_NAMES[cause],
            error,
        )
    )
    if len(side.history) > bound.HISTORY_MAX:
        del side.history[0]
    if error is not None:
        side.error = error


def fail_waiting(w: World, q: Queue, job: Job, cause: i64, reason: str) -> None:
    """A job that is not running (and stands nowhere any more) ends `failed`."""
    transition(w, q, job, cause, FAILED, reason)
    side_of(job)
    finish(w, q, job, reason)


def watch_expiry(w: World, job: Job) -> None:
    """A job that left `running` waits again: if its expiry was heard while it ran, it is heard once more."""
    side = job.side
    if side is not None and side.expires_at and side.expiry is None:
        side.expiry = Alarm(max(side.expires_at, w.wall_ms), EXPIRE, job.id)
        w.wall.add(side.expiry)


def try_again(w: World, q: Queue, job: Job, delay: i64) -> None:
    """After a failed attempt: retrying until `run_at`, which the caller has set, or ready at once."""
    watch_expiry(w, job)
    keep_or_give_up_slot(w, q, job)
    if delay > 0:
        wait_for_run(w, job)
    else:
        make_ready(w, q, job, True)
