"""The one place where a job changes its state.

`core.state` says which steps there are. A step is looked up there; one that it does not have is a bug, and nothing is
changed. Then the counts of the queue follow, the job's state, and the event. What else belongs to a step (leases,
places in line, keys) is its caller's: what the job leaves before the step, where it goes after it.
"""

from typing import Final

from mypy_extensions import i32, i64

from tenure.core.event import type_of_step
from tenure.core.record import Failed
from tenure.core.state import (
    CAUSE_NAMES,
    CLAIM,
    ENQUEUE,
    GONE,
    IMPORT,
    NEW,
    READY,
    RUNNING,
    STATE_NAMES,
    STATES,
    TRANSITIONS,
    allows,
)
from tenure.engine.eventlog import NO_FAILURE
from tenure.engine.job import Job, Spec
from tenure.engine.rows import Rows
from tenure.engine.world import Queue, World

NO_STEP: Final = 255


def _all_steps() -> bytes:
    """The type of the event of every step, by cause, state before and state after."""
    found = bytearray([NO_STEP]) * (len(CAUSE_NAMES) * STATES * STATES)
    for cause in TRANSITIONS:
        for before in range(STATES):
            for after in range(STATES):
                if allows(cause, before, after):
                    found[(cause * STATES + before) * STATES + after] = type_of_step(cause, after)
    return bytes(found)


_STEPS: Final = _all_steps()


def _type_of(job: i64, cause: i64, before: i64, after: i64) -> i64:
    found: i64 = _STEPS[(cause * STATES + before) * STATES + after]
    if found == NO_STEP:
        names = (*STATE_NAMES, "new", "gone")
        raise AssertionError(f"job {job}: {CAUSE_NAMES[cause]} does not lead from {names[before]} to {names[after]}")
    return found


def transition(
    w: World,
    q: Queue,
    job: Job,
    cause: i64,
    after: i32,
    reason: str = "",
    failed: Failed = NO_FAILURE,
    attempt: i64 = -1,
    result_bytes: i64 = 0,
) -> None:
    """`attempt` is the one that ended when the job has another number by now; -1 is the job's own."""
    before = job.state
    type = _type_of(job.id, cause, i64(before), i64(after))
    q.count(i64(before), -1)
    if after != GONE:
        q.count(i64(after), 1)
    job.state = after
    job.seq += 1
    log = w.log
    if before == RUNNING and after != RUNNING:
        lease = job.lease
        assert lease is not None
        w.tenants[q.tenant].running -= 1
        log.ended(
            job, type, cause, lease.worker, reason, failed, i64(job.attempt) if attempt < 0 else attempt, result_bytes
        )
    elif cause == CLAIM:
        lease = job.lease
        assert lease is not None
        w.tenants[q.tenant].running += 1
        log.started(job, lease.worker, cause)
    else:
        log.plain(job, type, cause, after, reason, failed)


def arrive(w: World, q: Queue, job: Job, cause: i64, after: i32, reason: str = "") -> None:
    """The first step of a job: it is enqueued, or imported in the state it was in."""
    type = _type_of(job.id, cause, NEW, i64(after))
    q.count(i64(after), 1)
    job.state = after
    if cause == IMPORT:
        w.log.imported(job, type, cause, reason)
    else:
        w.log.enqueued(job, type, cause)


def arrive_run(w: World, q: Queue, spec: Spec, rows: Rows, first: i64, end: i64) -> i64:
    """As `arrive`, for jobs in a row with ids from the next one on. They are ready at once, the state in which jobs are
    made. Returns how many bytes their payloads have."""
    type = _type_of(w.last_id + 1, ENQUEUE, NEW, READY)
    q.count(READY, end - first)
    log = w.log
    size: i64 = rows.size(first)
    log.enqueued_first(spec, type, w.last_id + 1, w.at_ms, size)
    at: i64 = first + 1
    while at < end:
        own: i64 = rows.size(at)
        log.enqueued_next(own)
        size += own
        at += 1
    return size
