"""What happens by itself when its time has come.

All that is due is done at the time of the step, the most overdue first, then by (kind, id), leases in the order in
which they were given or renewed. How overdue something is, is told by its own clock: wall time for instants and
expiry, elapsed time for delays, served time for leases. A job that becomes due by what another one did is done in the
same step.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from tenure.core import state
from tenure.core.state import (
    ABANDON,
    BLOCKED,
    DUE,
    EXPIRE,
    EXPIRE_LEASE,
    FAILED,
    READY,
    RETRYING,
    RUNNING,
    SCHEDULED,
    SETTLE_EXPIRED,
    SETTLE_TIMED_OUT,
    TIME_OUT,
)
from tests.model.claim import must_abandon
from tests.model.ending import end_lease, finish, free, sweep
from tests.model.settle import try_again
from tests.model.turn import make_ready, refresh_turns
from tests.model.world import Holdover, Job, World

RUN: Final = 0
EXPIRY: Final = 1
LEASE: Final = 2
TIMEOUT: Final = 3
HOLDOVER: Final = 4

Timer = tuple[int, int, int, int, Callable[[], None]]


def apply_timers(world: World) -> None:
    sweep(world)
    while True:
        timers = sorted([*due_by_wall(world), *due_by_elapsed(world)], key=lambda timer: timer[:4])
        if not timers:
            break
        timers[0][4]()
    sweep(world)
    refresh_turns(world)


def due_by_wall(world: World) -> Iterator[Timer]:
    for job in world.in_state(SCHEDULED, RETRYING):
        late = world.overdue(job)
        if late >= 0:
            yield -late, RUN, 0, job.id, partial(make_ready, world, job, DUE, "ready")
    for job in world.in_state(SCHEDULED, BLOCKED, READY, RETRYING):
        if job.expires_at and job.expires_at <= world.wall:
            yield job.expires_at - world.wall, EXPIRY, 0, job.id, partial(expire, world, job)


def due_by_elapsed(world: World) -> Iterator[Timer]:
    for job in world.in_state(RUNNING):
        assert job.lease is not None
        if job.lease.deadline <= world.served:
            end = partial(end_by_time, world, job, SETTLE_EXPIRED)
            yield job.lease.deadline - world.served, LEASE, job.lease.order, job.id, end
        if job.lease.timeout_at is not None and job.lease.timeout_at <= world.served:
            end = partial(end_by_time, world, job, SETTLE_TIMED_OUT)
            yield job.lease.timeout_at - world.served, TIMEOUT, 0, job.id, end
    for hold in world.holdovers:
        if hold.deadline <= world.served:
            yield hold.deadline - world.served, HOLDOVER, 0, hold.job.id, partial(give_back_slots, world, hold)


def expire(world: World, job: Job) -> None:
    finish(world, job, EXPIRE, FAILED, "failed", state.REASON_EXPIRED)


def end_by_time(world: World, job: Job, verb: int) -> None:
    """The lease is over, or the attempt took too long; after a timeout the handler may still be running."""
    end_lease(world, job, verb, confirmed=verb == SETTLE_EXPIRED)
    if verb == SETTLE_EXPIRED:
        try_again(world, job, EXPIRE_LEASE, state.REASON_LEASE)
    else:
        try_again(world, job, TIME_OUT, state.REASON_TIMEOUT)


def give_back_slots(world: World, hold: Holdover) -> None:
    free(world, hold)
    refresh_turns(world)


def abandon(world: World, job: Job) -> None:
    finish(world, job, ABANDON, FAILED, "failed", state.REASON_UNKNOWN_TASK)


def abandon_due(world: World) -> None:
    for job in sorted(world.in_state(READY), key=lambda job: job.id):
        if must_abandon(world, job):
            abandon(world, job)


def next_due(world: World) -> tuple[int | None, int | None]:
    """When (wall, elapsed) something next happens to a job by itself."""
    waiting = world.in_state(SCHEDULED, RETRYING)
    wall = [job.run_at for job in waiting if not job.is_delayed]
    wall += [job.expires_at for job in world.live() if job.expires_at and job.state != RUNNING]
    elapsed = [job.run_at for job in waiting if job.is_delayed]
    served = [hold.deadline for hold in world.holdovers]
    for job in world.in_state(RUNNING):
        assert job.lease is not None
        served.append(job.lease.deadline)
        if job.lease.timeout_at is not None:
            served.append(job.lease.timeout_at)
    elapsed += [at + world.left_out for at in served]
    elapsed += [waiter.until for waiter in world.waiters] + [watch.until for watch in world.watches]
    return min(wall, default=None), min(elapsed, default=None)
