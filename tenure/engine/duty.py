"""What the engine does without being asked: alarms that ring, and work that earlier steps owe.

Each step does at most 1,000 jobs' worth of it, alarms first, so no step is long, whatever came due at once. Work that
is owed stands in one line and is done in the order it was recorded.
"""

from typing import Final

from mypy_extensions import i64

from tenure.core import bound, dependency
from tenure.core.answer import Claimed
from tenure.core.request import REPLAY
from tenure.core.state import (
    ABANDON as ABANDON_CAUSE,
)
from tenure.core.state import (
    BLOCKED,
    COMPLETED,
    DUE,
    FAIL_DEPENDENCY,
    REASON_DEPENDENCY,
    REASON_EXPIRED,
    REASON_UNKNOWN_TASK,
    RUNNING,
    SATISFY,
    SCHEDULED,
    is_terminal,
)
from tenure.core.state import (
    EXPIRE as EXPIRE_CAUSE,
)
from tenure.engine import alarm as kinds
from tenure.engine import idempotency, journal
from tenure.engine.alarm import NO_WHEEL, Alarm
from tenure.engine.blob import let_go, let_go_of_load, sweep_blob
from tenure.engine.change import apply, become_ready
from tenure.engine.claim import forget_waiter, serve
from tenure.engine.clock import lease_due, must_wait, on_elapsed
from tenure.engine.dependent import judge
from tenure.engine.ending import end_holdover, fail_waiting
from tenure.engine.job import IdempotencyKey, Job, Lease
from tenure.engine.load import has_let_in, let_go_of_all_room, let_go_of_room, let_in, let_in_run, mark_load
from tenure.engine.parking import settle_limits, top_up
from tenure.engine.place import ABANDON_MS, leave, side_of, step_back, wait_for_run, watch_aside
from tenure.engine.query import matches
from tenure.engine.removal import clear_out, forget_queue, hold_cap, remove, trim
from tenure.engine.ring import activate, reactivate_tenant
from tenure.engine.session import find_session, forget_session, sweep_done, tenant_of
from tenure.engine.settle import expire_lease, time_out
from tenure.engine.transition import transition
from tenure.engine.worker import miss_worker
from tenure.engine.world import (
    DAY_MS,
    NO_QUEUE,
    OWED_ASIDE,
    OWED_CAP,
    OWED_DEPENDENTS,
    OWED_KEPT,
    OWED_PUBLISH,
    OWED_SWEEP,
    OWED_TOP_UP,
    OWED_UNPIN,
    SESSION_KEPT_MS,
    Holdover,
    Owed,
    Queue,
    Waiter,
    Watch,
    Window,
    World,
)

BUDGET: Final = bound.OTHERS_PER_STEP
SCAN_PER_STEP: Final = 20_000


def ring_alarms(w: World, budget: i64) -> i64:
    """Do what is due at or before now, in the order (time, kind, id); answers the budget left."""
    while budget > 0:
        w.wall.peek(w.wall_ms)
        w.elapsed.peek(w.elapsed_ms)
        w.served.peek(w.served_ms)
        # How late the first of each is, on its own clock; the latest was due first.
        on_wall: i64 = w.wall_ms - w.wall.next_ms
        on_elapsed: i64 = w.elapsed_ms - w.elapsed.next_ms
        on_served: i64 = w.served_ms - w.served.next_ms
        latest: i64 = on_wall if on_wall > on_elapsed else on_elapsed
        if on_served > latest:
            latest = on_served
        if latest < 0:
            break
        wheel = NO_WHEEL
        now: i64 = 0
        if on_wall == latest:
            wheel = w.wall
            now = w.wall_ms
        if on_elapsed == latest and (wheel is NO_WHEEL or w.elapsed.head() < wheel.head()):
            wheel = w.elapsed
            now = w.elapsed_ms
        if on_served == latest and (wheel is NO_WHEEL or w.served.head() < wheel.head()):
            wheel = w.served
            now = w.served_ms
        alarm = wheel.pop(now)
        if alarm is not None:
            budget -= _ring(w, alarm, budget)
    return budget


def _ring(w: World, alarm: Alarm, budget: i64) -> i64:
    """Answers how many jobs it touched."""
    kind = alarm.kind
    if kind == kinds.RUN:
        job = w.index.get(alarm.id)
        if job is not None and job.alarm is alarm:
            _due(w, job)
    elif kind == kinds.LEASE:
        assert isinstance(alarm, Lease)
        return _end_leases(w, alarm, budget)
    elif kind == kinds.TIMEOUT:
        job = w.index.get(alarm.id)
        if job is not None and job.alarm is alarm and job.state == RUNNING:
            time_out(w, w.queue_of(job), job)
    elif kind == kinds.EXPIRE:
        _expire(w, alarm)
    elif kind == kinds.HOLDOVER:
        assert isinstance(alarm, Holdover)
        end_holdover(w, alarm)
    elif kind == kinds.LIMIT:
        w.changed_limits.append(int(alarm.id))
        return 1 + budget - settle_limits(w, budget)
    elif kind == kinds.QUEUE:
        activate(w, w.queues[alarm.id])
    elif kind == kinds.TENANT:
        reactivate_tenant(w, w.tenants[alarm.id])
    elif kind == kinds.ABANDON:
        return _abandon(w, alarm, budget)
    elif kind == kinds.RETAIN:
        return _retain(w, alarm, budget)
    elif kind == kinds.IDEMPOTENCY:
        assert isinstance(alarm, IdempotencyKey)
        idempotency.has_rung(w, alarm)
    elif kind == kinds.DEBOUNCE:
        assert isinstance(alarm, Window)
        _close_window(w, alarm)
    elif kind == kinds.OUTCOME:
        _trim_outcomes(w)
    elif kind == kinds.SESSION:
        _forget_session(w, alarm)
    elif kind == kinds.WAIT:
        _give_up(w, alarm)
    elif kind == kinds.WORKER:
        miss_worker(w, alarm)
    elif kind == kinds.LOAD:
        _forget_load(w, alarm)
    elif kind == kinds.FORGET:
        q = w.queues[alarm.id]
        if q.forget is alarm:
            forget_queue(w, q)
    return 1


def _due(w: World, job: Job) -> None:
    """`run_at` is reached."""
    q = w.queue_of(job)
    job.alarm = None
    job.place = 0
    become_ready(w, q, job, DUE)


def _expire(w: World, alarm: Alarm) -> None:
    job = w.index.get(alarm.id)
    if job is None or job.side is None or job.side.expiry is not alarm:
        return
    job.side.expiry = None
    if job.state == RUNNING or is_terminal(int(job.state)):
        return
    expire_waiting(w, w.queue_of(job), job)


def expire_waiting(w: World, q: Queue, job: Job) -> None:
    leave(w, q, job)
    fail_waiting(w, q, job, EXPIRE_CAUSE, REASON_EXPIRED)


def _end_leases(w: World, lease: Lease, budget: i64) -> i64:
    """All jobs still running under the lease lose it, by id; what is over the budget follows in the next step."""
    due: i64 = lease_due(w, lease)
    if due > w.served_ms:
        lease.due_ms = due
        lease.live = True
        w.served.add(lease)
        return 1
    touched: i64 = 0
    ids = lease.listed()
    ids.sort(reverse=True)
    while ids and touched < budget:
        job = w.index.get(ids[-1])
        if job is not None and job.state == RUNNING and job.lease is lease:
            touched += 1
            expire_lease(w, w.queue_of(job), job)
            ids = lease.ids
            if not ids:
                break
        if ids:
            ids.pop()
    if lease.count > 0:
        lease.live = True
        w.served.add(lease)
    return max(touched, 1)


def _abandon(w: World, alarm: Alarm, budget: i64) -> i64:
    """Jobs set aside for an hour, of a task nobody asked for in that time, become dead letters."""
    q = w.queues[alarm.id]
    touched: i64 = 0
    if q.asides is None:
        return 1
    for aside in [found for found in q.asides.values() if found.alarm is alarm]:
        aside.alarm = None
        while aside.order.size > 0:
            since, job = aside.oldest()
            due = max(since, aside.asked_at) + ABANDON_MS
            if due > w.elapsed_ms or touched >= budget:
                watch_aside(w, q, aside, max(due, w.elapsed_ms))
                break
            touched += 1
            step_back(w, q, job)
            fail_waiting(w, q, job, ABANDON_CAUSE, REASON_UNKNOWN_TASK)
    return max(touched, 1)


def _retain(w: World, alarm: Alarm, budget: i64) -> i64:
    kept = w.kepts[alarm.id]
    if kept.alarm is not alarm:
        return 1
    kept.alarm = None
    return max(budget - trim(w, kept, budget), 1)


def _close_window(w: World, window: Window) -> None:
    q = w.queues[window.queue]
    if q.windows is not None and q.windows.get(window.key) is window:
        del q.windows[window.key]
        w.journal.mark((journal.WINDOW, q.tenant_name, q.name, window.key))
        if not q.windows:
            q.windows = None


def _trim_outcomes(w: World) -> None:
    next_at = w.outcomes.trim(w.steady_ms)
    for t in w.tenants:
        kept = t.custom_outcomes
        while kept:
            first = next(iter(kept))
            until = kept[first][2]
            if until > w.steady_ms:
                next_at = until if next_at == 0 else min(next_at, until)
                break
            del kept[first]
            w.journal.mark((journal.CUSTOM, t.name, first))
    w.outcomes_alarm = None
    if next_at:
        w.outcomes_alarm = Alarm(on_elapsed(w, next_at), kinds.OUTCOME, 0)
        w.elapsed.add(w.outcomes_alarm)


def _forget_session(w: World, alarm: Alarm) -> None:
    name = w.session_names.get(int(alarm.id))
    session = None if name is None else find_session(w, tenant_of(name), name)
    if name is None or session is None:
        return  # others needed the room
    due = session.last_at + SESSION_KEPT_MS
    if due > w.elapsed_ms:
        w.elapsed.add(Alarm(due, kinds.SESSION, alarm.id))
    else:
        forget_session(w, name)


def _give_up(w: World, alarm: Alarm) -> None:
    if isinstance(alarm, Waiter):
        forget_waiter(w, alarm)
        w.outbox.append((int(alarm.id), Claimed()))
    elif isinstance(alarm, Watch):
        forget_watch(w, alarm)
        w.outbox.append((int(alarm.id), None))


def forget_watch(w: World, watch: Watch) -> None:
    """Nobody waits any more: the job loses a pin."""
    w.elapsed.cancel(watch)
    w.watches.pop(int(watch.id), None)
    job = w.index.get(watch.job)
    watchers = None if job is None or job.side is None else job.side.watchers
    if job is not None and watchers is not None and int(watch.id) in watchers:
        watchers.remove(int(watch.id))
        _unpin(w, job)


def _forget_load(w: World, alarm: Alarm) -> None:
    name = w.load_names.get(int(alarm.id))
    if name is None:
        return
    staged = w.loads.get(name)
    if staged is not None and staged.published and (not staged.done or staged in w.spent_loads):
        w.elapsed.add(Alarm(w.elapsed_ms + DAY_MS, kinds.LOAD, alarm.id))
        return
    del w.load_names[int(alarm.id)]
    if staged is not None:
        w.staged_jobs -= staged.jobs
        let_go_of_all_room(w, staged)
        mark_load(w, staged)
        let_go_of_load(w, staged)
        del w.loads[name]


# Owed work.


def work_off(w: World, budget: i64) -> i64:
    """Do what is owed, in order; answers the budget left."""
    budget = settle_limits(w, budget)
    stuck: i64 = 0
    while w.owed and budget > 0 and stuck < len(w.owed):
        owed = w.owed[0]
        kind = owed.kind
        if kind == OWED_SWEEP and owed.next_elapsed > w.elapsed_ms:
            # A slowed sweep whose time has not come lets the others pass.
            w.owed.append(w.owed.popleft())
            stuck += 1
            continue
        if kind == OWED_DEPENDENTS:
            budget = _tell_dependents(w, owed, budget)
        elif kind == OWED_UNPIN:
            budget = _unpin_all(w, owed, budget)
        elif kind == OWED_SWEEP:
            budget = _sweep(w, owed, budget)
        elif kind == OWED_TOP_UP:
            w.owed.popleft()
            limit = w.limits.get(int(owed.id))
            if limit is not None:
                budget = top_up(w, limit, budget)
        elif kind == OWED_PUBLISH:
            budget = _publish(w, owed, budget)
        elif kind == OWED_KEPT:
            budget = trim(w, w.kepts[owed.id], budget)
            if budget > 0:
                w.owed.popleft()
        elif kind == OWED_CAP:
            budget = hold_cap(w, budget)
            if budget > 0:
                w.owed.popleft()
        else:
            assert kind == OWED_ASIDE
            w.owed.popleft()
            q = w.queues[owed.id]
            if q is not NO_QUEUE and q.order.size > 0 and q.lane.waiting:
                # One claim's worth of passing over is all that a step may do.
                w.dirty.append(int(owed.id))
                return 0
        budget = settle_limits(w, budget)
    return budget


def _tell_dependents(w: World, owed: Owed, budget: i64) -> i64:
    ids = owed.ids
    while owed.at < len(ids) and budget > 0:
        job = w.index.get(ids[owed.at])
        owed.at += 1
        budget -= 1
        if job is not None:
            _hear(w, job, owed.state)
    if owed.at >= len(ids):
        w.owed.popleft()
    return budget


def _hear(w: World, job: Job, state: i64) -> None:
    """One of the job's dependencies has ended."""
    side = side_of(job)
    side.pending -= 1
    if state == COMPLETED:
        side.succeeded += 1
    else:
        side.failed += 1
    if job.state == BLOCKED:
        release_blocked(w, job)


def release_blocked(w: World, job: Job) -> None:
    """If its dependencies allow, or forbid for good, that the job runs, it stops waiting for them."""
    verdict = judge(job)
    if verdict == dependency.WAIT:
        return
    q = w.queue_of(job)
    if verdict == dependency.FAIL:
        fail_waiting(w, q, job, FAIL_DEPENDENCY, REASON_DEPENDENCY)
        return
    if must_wait(w, job):
        transition(w, q, job, SATISFY, SCHEDULED)
        wait_for_run(w, job)
    else:
        become_ready(w, q, job, SATISFY)


def _unpin_all(w: World, owed: Owed, budget: i64) -> i64:
    ids = owed.ids
    while owed.at < len(ids) and budget > 0:
        job = w.index.get(ids[owed.at])
        owed.at += 1
        budget -= 1
        if job is not None:
            _unpin(w, job)
    if owed.at >= len(ids):
        w.owed.popleft()
    return budget


def _unpin(w: World, job: Job) -> None:
    side = side_of(job)
    side.pins -= 1
    if side.pins == 0 and side.doomed:
        remove(w, w.queue_of(job), job, side.doomed)


def _sweep(w: World, owed: Owed, budget: i64) -> i64:
    """Go through the jobs that were there when the sweep began and change those that match."""
    w.journal.mark((journal.SWEEP, int(owed.id)))
    change = owed.change
    filter = owed.filter
    assert change is not None and filter is not None
    most = budget
    if change.rate_per_s and change.action == REPLAY:
        most = min(budget, max(change.rate_per_s, 1))
    scanned: i64 = 0
    changed: i64 = 0
    finished = False
    while changed < most and scanned < SCAN_PER_STEP:
        jobs = w.index.scan(owed.at, min(1000, SCAN_PER_STEP - scanned), owed.upto)
        if not jobs:
            finished = True
            break
        for job in jobs:
            owed.at = job.id
            scanned += 1
            if matches(job, filter, owed.tenant) and apply(w, job, change).error is None:
                changed += 1
                owed.count += 1
                if change.limit and owed.count >= change.limit:
                    finished = True
                    break
                if changed >= most:
                    break
        if finished:
            break
    if finished:
        w.owed.popleft()
        let_go(w, sweep_blob(owed))
        sweep_done(w, owed)
        w.outbox.append((int(owed.id), int(owed.count)))
    elif change.rate_per_s and change.action == REPLAY and changed:
        owed.next_elapsed = w.elapsed_ms + changed * 1000 // change.rate_per_s
        w.elapsed.add(Alarm(owed.next_elapsed, kinds.SWEEP, owed.id))
    return budget - max(changed, scanned // 20, 1)


def _publish(w: World, owed: Owed, budget: i64) -> i64:
    """Let the jobs of a published load in, like any enqueue; room was kept for them when they were staged."""
    staged = w.loads[w.load_names[int(owed.id)]]
    w.loaded_ms = w.elapsed_ms
    w.journal.mark((journal.LOAD, staged.tenant, staged.load_id))
    keys = list(staged.chunks)
    while owed.batches and budget > 0:
        batch = owed.batches[0]
        key = keys[len(keys) - len(owed.batches)]
        w.journal.mark((journal.GIVEN, staged.tenant, staged.load_id, *key))
        count: i64 = len(batch.payloads)
        while owed.at < count and budget > 0:
            done = let_in_run(w, staged, key, batch, owed.at, budget)
            if done == 0:
                let_in(w, staged, key, batch, int(owed.at))
                done = 1
            budget -= done
            owed.at += done
        if owed.at >= count:
            owed.batches.pop(0)
            owed.at = 0
            let_go_of_room(w, staged, key)
    if not owed.batches:
        has_let_in(w, staged)
        w.owed.popleft()
    return budget


def finish_step(w: World, budget: i64) -> i64:
    """The end of every step: owed work, those who wait, and retention; answers the budget left."""
    if w.owed or w.changed_limits:
        budget = work_off(w, budget)
    while w.dirty and budget > 0:
        budget = serve(w, budget)
        if w.owed or w.changed_limits:
            budget = work_off(w, budget)
    if w.ended:
        clear_out(w)
    return budget
