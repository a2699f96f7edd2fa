"""How ended jobs go: retention by age and count, the store's caps, and removal itself.

Each queue keeps its ended jobs in lines, oldest first, one line per policy. Only the oldest of a line can be due, so a
line has at most one alarm, and a job costs a place in a line and nothing else. A job that a live one depends on, or
that somebody waits for, stays until that is over.
"""

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import i64

from tenure.core.bound import OTHERS_PER_STEP
from tenure.core.state import FAILED, GONE, REMOVE
from tenure.engine.alarm import FORGET, OUTCOME, RETAIN, Alarm
from tenure.engine.blob import let_go_of_job
from tenure.engine.clock import on_elapsed
from tenure.engine.idempotency import outlive
from tenure.engine.job import Job, Spec
from tenure.engine.journal import CUSTOM
from tenure.engine.ring import purge
from tenure.engine.transition import transition
from tenure.engine.world import (
    CUSTOM_OUTCOMES_MAX,
    DAY_MS,
    HOUR_MS,
    KEEP_MIN_MS,
    NO_QUEUE,
    OWED_KEPT,
    UNLIMITED,
    Kept,
    Owed,
    Queue,
    Settings,
    World,
)

KEEP_COMPLETED_MS: Final = DAY_MS
KEEP_COMPLETED_COUNT: Final = 10_000
KEEP_FAILED_MS: Final = 30 * DAY_MS


def keep(w: World, q: Queue, job: Job) -> None:
    """A job has ended: put it in its line, and let go of what is over."""
    spec = job.spec
    failed = job.state == FAILED
    number = spec.kept_failed if failed else spec.kept_done
    if number < 0:
        number = _kept_for(w, q, spec, failed)
    kept = w.kepts[number]
    w.last_ended += 1
    job.number = w.last_ended
    # On the steady clock. One that was imported ended before.
    job.rank = w.steady_ms if job.ended_at == w.at_ms else min(job.ended_at - w.shift_ms, w.steady_ms)
    w.terminal_jobs += 1
    w.terminal_bytes += size_of(job)
    w.ended += 1
    if kept.age_ms == 0 or kept.count_max == 0:
        w.leaving.append(int(job.id))
        return
    line = kept.line
    line.push(job)
    first = line.first()
    if not kept.in_heap:
        kept.in_heap = True
        heappush(w.kept_heap, _heap_entry(job, kept))
    elif first is job and job.rank < w.steady_ms:
        w.is_heap_stale = True  # it was imported: the others end now
    if kept.alarm is None or first is job:
        _set_alarm(w, kept)
    if kept.count_max != UNLIMITED and line.size > kept.count_max and not kept.over:
        if w.steady_ms >= first.rank + KEEP_MIN_MS:
            kept.over = True
            w.over.append(int(kept.number))
        elif line.size == kept.count_max + 1:
            _set_alarm(w, kept)


def keep_again(w: World, q: Queue, job: Job) -> None:
    """A job that had ended before the engine was restored; they come in the order of `end_order`."""
    failed = job.state == FAILED
    number = job.spec.kept_failed if failed else job.spec.kept_done
    if number < 0:
        number = _kept_for(w, q, job.spec, failed)
    kept = w.kepts[number]
    w.terminal_jobs += 1
    w.terminal_bytes += size_of(job)
    if job.side is not None and job.side.doomed:
        return
    kept.line.append(job)
    if not kept.in_heap:
        kept.in_heap = True
        heappush(w.kept_heap, _heap_entry(job, kept))
    if kept.line.size == 1 or kept.line.size == kept.count_max + 1:
        _set_alarm(w, kept)


def end_order(job: Job) -> tuple[int, int]:
    return int(job.rank), int(job.number)


def _heap_entry(job: Job, kept: Kept) -> tuple[int, int, int]:
    return int(job.rank), int(job.number), int(kept.number)


def clear_out(w: World) -> None:
    """At the end of a step: let go of what is over.

    For each job that ended at most one other goes, and 1,000 besides.
    """
    leaving = w.leaving
    if leaving:
        w.leaving = []
        for id in leaving:
            job = w.index.get(id)
            if job is not None:
                let_go(w, w.queue_of(job), job, "zero")
    budget: i64 = w.ended + OTHERS_PER_STEP
    w.ended = 0
    if w.over:
        over = w.over
        w.over = []
        for number in over:
            w.kepts[number].over = False
            budget = trim(w, w.kepts[number], budget)
    if w.terminal_jobs > w.terminal_jobs_max or w.terminal_bytes > w.terminal_bytes_max:
        hold_cap(w, budget)


def size_of(job: Job) -> i64:
    size: i64 = len(job.payload)
    side = job.side
    if side is not None:
        if side.result is not None:
            size += len(side.result)
        size += side.stream_bytes
    return size


def _kept_for(w: World, q: Queue, spec: Spec, failed: bool) -> i64:
    options = spec.options
    own_ms = i64(options.keep_failed_ms if failed else options.keep_completed_ms)
    own_count = i64(options.keep_failed_count if failed else options.keep_completed_count)
    found: i64 = -1
    for number in q.kepts:
        kept = w.kepts[number]
        if kept.failed == failed and kept.own_ms == own_ms and kept.own_count == own_count:
            found = kept.number
    if found < 0:
        if w.kepts_free:
            found = w.kepts_free.pop()
            was_in_heap = w.kepts[found].in_heap
            w.kepts[found] = Kept(found, q.number, failed, own_ms, own_count)
            w.kepts[found].in_heap = was_in_heap  # with an older job: that is put right when its turn comes
        else:
            found = len(w.kepts)
            w.kepts.append(Kept(found, q.number, failed, own_ms, own_count))
        q.kepts.append(found)
        set_policy(w, q, w.kepts[found])
    if failed:
        spec.kept_failed = found
    else:
        spec.kept_done = found
    return found


def set_policy(w: World, q: Queue, kept: Kept) -> None:
    """The policy in force: the jobs' own numbers, else the queue's, the tenant's, the store's, the default."""
    t = w.tenants[q.tenant]
    levels: list[Settings] = [w.settings]
    if t.settings is not None:
        levels.insert(0, t.settings)
    if q.settings is not None:
        levels.insert(0, q.settings)
    age: i64 = kept.own_ms
    count: i64 = kept.own_count
    for settings in levels:
        if age == UNLIMITED:
            age = settings.keep_failed_ms if kept.failed else settings.keep_completed_ms
        if count == UNLIMITED:
            count = settings.keep_failed_count if kept.failed else settings.keep_completed_count
    if age == UNLIMITED:
        age = KEEP_FAILED_MS if kept.failed else KEEP_COMPLETED_MS
    if count == UNLIMITED and not kept.failed:
        count = KEEP_COMPLETED_COUNT
    kept.age_ms = max(age, KEEP_MIN_MS) if age else 0
    kept.count_max = count


def reconsider(w: World, q: Queue) -> None:
    """The queue's policies may have changed: what is over the new ones is owed."""
    for number in q.kepts:
        kept = w.kepts[number]
        set_policy(w, q, kept)
        w.owed.append(Owed(OWED_KEPT, number))


def trim(w: World, kept: Kept, budget: i64) -> i64:
    """Remove, oldest first, what is past its age or over the count; answers the budget left."""
    q = w.queues[kept.queue]
    line = kept.line
    while line.size > 0 and budget > 0:
        job = line.first()
        over = kept.count_max != UNLIMITED and line.size > kept.count_max
        if w.steady_ms >= job.rank + kept.age_ms:
            reason = "age"
        elif over and w.steady_ms >= job.rank + KEEP_MIN_MS:
            reason = "count"
        else:
            break
        line.pop()
        let_go(w, q, job, reason)
        budget -= 1
    _set_alarm(w, kept)
    return budget


def _set_alarm(w: World, kept: Kept) -> None:
    """For when the oldest is due. An alarm that stands already may be early, never late."""
    line = kept.line
    if line.size == 0:
        return
    over = kept.count_max != UNLIMITED and line.size > kept.count_max
    due: i64 = on_elapsed(w, line.first().rank + (KEEP_MIN_MS if over else kept.age_ms))
    alarm = kept.alarm
    if alarm is not None and alarm.live:
        if alarm.due_ms <= due:
            return
        w.elapsed.cancel(alarm)
    kept.alarm = Alarm(due, RETAIN, kept.number)
    w.elapsed.add(kept.alarm)


def hold_cap(w: World, budget: i64) -> i64:
    """The store has too many ended jobs, or too many bytes of them: the oldest of all go; answers the budget left."""
    if w.is_heap_stale:
        w.is_heap_stale = False
        lines = [w.kepts[entry[2]] for entry in w.kept_heap]
        w.kept_heap = [_heap_entry(kept.line.first(), kept) for kept in lines if kept.line.size > 0]
        heapify(w.kept_heap)
        for kept in lines:
            kept.in_heap = kept.line.size > 0
    while budget > 0 and w.kept_heap:
        if w.terminal_jobs <= w.terminal_jobs_max and w.terminal_bytes <= w.terminal_bytes_max:
            break
        _, number, at = w.kept_heap[0]
        kept = w.kepts[at]
        line = kept.line
        if line.size == 0:
            heappop(w.kept_heap)
            kept.in_heap = False
            continue
        job = line.first()
        if job.number != number:
            heappop(w.kept_heap)
            heappush(w.kept_heap, _heap_entry(job, kept))
            if w.kept_heap[0][2] != at:
                continue
        line.pop()
        let_go(w, w.queues[kept.queue], job, "store_cap")
        budget -= 1
    return budget


def let_go(w: World, q: Queue, job: Job, reason: str) -> None:
    """Remove an ended job that is out of its line; if it is pinned, once it no longer is."""
    side = job.side
    if side is not None and side.pins > 0:
        side.doomed = reason
        w.journal.touch(job)
    else:
        remove(w, q, job, reason)


def take_from_kept(w: World, job: Job) -> None:
    """An ended job leaves its line on request: to be replayed, or removed."""
    side = job.side
    if side is not None and side.doomed:
        side.doomed = ""
        return
    failed = job.state == FAILED
    w.kepts[job.spec.kept_failed if failed else job.spec.kept_done].line.remove(job)


def uncount_terminal(w: World, job: Job) -> None:
    w.terminal_jobs -= 1
    w.terminal_bytes -= size_of(job)


def remove(w: World, q: Queue, job: Job, reason: str) -> None:
    """The ended job, which is in no line any more, goes; its outcome stays for a day."""
    uncount_terminal(w, job)
    keep_outcome(w, job, i64(job.state))
    erase(w, q, job, reason)


def keep_outcome(w: World, job: Job, state: i64) -> None:
    w.journal.forget(job, state)
    w.outcomes.add(job.id, state, job.spec.tenant, w.steady_ms)
    if w.outcomes_alarm is None:
        w.outcomes_alarm = Alarm(w.elapsed_ms + DAY_MS, OUTCOME, 0)
        w.elapsed.add(w.outcomes_alarm)
    side = job.side
    if side is not None and side.holds_custom:
        _keep_custom_outcome(w, job, state)


def erase(w: World, q: Queue, job: Job, reason: str) -> None:
    """Out of counts and index, with its event. The job stands nowhere and holds nothing any more."""
    transition(w, q, job, REMOVE, GONE, reason)
    job.spec.jobs -= 1
    w.index.remove(job.id)
    let_go_of_job(w, job)
    outlive(w, q, job)
    job.lease = None
    if is_empty(q):
        plan_forgetting(w, q)


def _keep_custom_outcome(w: World, job: Job, state: i64) -> None:
    side = job.side
    assert side is not None and side.extras is not None
    t = w.tenant_of(job)
    custom_id = side.extras.custom_id
    if t.custom_ids is not None:
        t.custom_ids.remove(custom_id)
    side.holds_custom = False
    if t.custom_outcomes is None:
        t.custom_outcomes = OrderedDict()
    t.custom_outcomes[custom_id] = (int(job.id), int(state), int(w.steady_ms + DAY_MS), w.queue_of(job).name)
    w.journal.mark((CUSTOM, t.name, custom_id))
    while len(t.custom_outcomes) > CUSTOM_OUTCOMES_MAX:
        oldest, _ = t.custom_outcomes.popitem(last=False)
        w.journal.mark((CUSTOM, t.name, oldest))


def is_empty(q: Queue) -> bool:
    return q.live() == 0 and q.completed == 0 and q.failed == 0 and q.cancelled == 0


def plan_forgetting(w: World, q: Queue) -> None:
    """An hour after it is empty and unset a queue is forgotten."""
    if q.forget is None:
        q.forget = Alarm(w.elapsed_ms + HOUR_MS, FORGET, q.number)
        w.elapsed.add(q.forget)


def drop_unused(w: World, q: Queue) -> None:
    """A queue that was made for a job that was refused goes at once."""
    if q.forget is None and is_empty(q):
        forget_queue(w, q)


def forget_queue(w: World, q: Queue) -> None:
    """The alarm rang: if the queue is still empty and unset, it goes."""
    q.forget = None
    if q is NO_QUEUE or not is_empty(q) or q.settings is not None or q.held_over > 0:
        return
    if q.left_keys or q.windows:
        plan_forgetting(w, q)
        return
    t = w.tenants[q.tenant]
    del t.queues[q.name]
    if w.journal.on:
        w.journal.dropped_queues.append((t.name, q.name))
    for number in q.kepts:
        kept = w.kepts[number]
        if kept.alarm is not None:
            w.elapsed.cancel(kept.alarm)
        w.kepts_free.append(number)  # an entry of it may stay in `kept_heap`, see `_kept_for`
    purge(w, q)
    lane = q.lane
    lane.queues -= 1
    if lane.queues == 0 and lane.waiting == 0:
        del w.lanes[lane.name]
        for lanes in w.prefixes.values():
            if lane in lanes:
                lanes.remove(lane)
    if q.alarm is not None:
        w.elapsed.cancel(q.alarm)
    t.seen_spec = None
    w.queues[q.number] = NO_QUEUE
    w.queues_free.append(q.number)
