"""How jobs end: leases, terminal states, dependents, watchers, retention."""

from tenure.core import dependency, state
from tenure.core.state import (
    BLOCKED,
    CANCELLED,
    COMPLETED,
    FAIL_DEPENDENCY,
    FAILED,
    GONE,
    REASON_DEPENDENCY,
    REMOVE,
    RUNNING,
    SATISFY,
    SCHEDULED,
)
from tests.model.line import keep_slot
from tests.model.turn import make_ready, refresh_turns
from tests.model.world import MINUTE_MS, Holdover, Job, Settlement, World


def end_lease(world: World, job: Job, verb: int, confirmed: bool) -> None:
    """Every way out of `running` comes through here. Unconfirmed, the slots stay taken until the old deadline."""
    assert job.state == RUNNING
    assert job.lease is not None
    job.last = Settlement(job.lease.token, verb, -1, 0)
    if not confirmed:
        world.holdovers.append(Holdover(job, job.lease.token, job.lease.deadline, job.joined))
    job.lease = None


def free(world: World, hold: Holdover) -> None:
    """Nobody works on the attempt any more. If it timed out and its job is to be tried again, the slot is the job's."""
    job = hold.job
    if job.joined == hold.joined and job.state != RUNNING and not job.is_terminal and not job.keeps_slot:
        keep_slot(world, job)
    world.holdovers.remove(hold)


def finish(world: World, job: Job, cause: int, after: int, type: str, reason: str = "") -> None:
    """A job reaches a terminal state. Its dependents hear of it at the end of the step, its watchers at once."""
    end(world, job, cause, after, type, reason)
    world.ended.append((job, after))
    refresh_turns(world)


def settle_debts(world: World) -> None:
    """The end of a step: dependents are told, and what is not needed any more goes."""
    resolve(world)
    sweep(world)
    refresh_turns(world)


def end(world: World, job: Job, cause: int, after: int, type: str, reason: str) -> None:
    world.move(job, cause, after, type, reason)
    world.last_ended += 1
    job.ended_order = world.last_ended
    job.ended_at = world.at
    job.ended_elapsed = world.elapsed
    job.reason = reason
    job.keeps_slot = False
    for watch in [watch for watch in world.watches if watch.job == job.id]:
        world.watches.remove(watch)
        world.answers.append((watch.ticket, state.STATE_NAMES[after]))


def resolve(world: World) -> None:
    """Dependents of what ended go on, or fail, and so on for theirs."""
    while world.ended:
        done, how = world.ended.pop(0)
        for job in world.dependents(done.id):
            job.heard.setdefault(done.id, how)
            if job.state != BLOCKED:
                continue
            decision = decide(job)
            if decision == dependency.FAIL:
                finish(world, job, FAIL_DEPENDENCY, FAILED, "failed", REASON_DEPENDENCY)
            elif decision == dependency.GO:
                unblock(world, job)


def hear(world: World, job: Job) -> None:
    """A job that begins, or begins again, counts what has ended already."""
    job.heard = {}
    for id in job.extras.depends_on:
        found = world.jobs.get(id) or world.graves.get(id)
        if found is not None and found.is_terminal:
            job.heard[id] = found.state


def decide(job: Job) -> int:
    """What the dependencies of a job mean for it. One that ended counts as it ended, also when it is replayed."""
    pending = len(job.extras.depends_on) - len(job.heard)
    succeeded = list(job.heard.values()).count(COMPLETED)
    return dependency.decide(job.options.dependency_policy, pending, succeeded, len(job.heard) - succeeded)


def unblock(world: World, job: Job) -> None:
    if world.overdue(job) < 0:
        world.move(job, SATISFY, SCHEDULED, "updated")
    else:
        make_ready(world, job, SATISFY, "ready")


def remove(world: World, job: Job, reason: str) -> None:
    """The job goes. One that had not ended is as good as cancelled, for its dependents and for its keys."""
    was_ended = job.is_terminal
    last = job.state if was_ended else CANCELLED
    world.move(job, REMOVE, GONE, "removed", reason)
    job.state = last
    job.removed_elapsed = world.elapsed
    del world.jobs[job.id]
    world.graves[job.id] = job
    for watch in [watch for watch in world.watches if watch.job == job.id]:
        world.watches.remove(watch)
        world.answers.append((watch.ticket, state.STATE_NAMES[last]))
    if not was_ended:
        world.ended.append((job, last))
    refresh_turns(world)


def sweep(world: World) -> None:
    """Retention: removes every ended job that is past its age, or too many, and that nobody needs any more."""
    again = True
    while again:
        again = False
        for job in sorted(world.in_state(*state.TERMINAL), key=lambda job: job.ended_order):
            why = surplus(world, job)
            if why and not is_pinned(world, job):
                remove(world, job, why)
                again = True


def is_pinned(world: World, job: Job) -> bool:
    return bool(world.dependents(job.id)) or any(watch.job == job.id for watch in world.watches)


def surplus(world: World, job: Job) -> str:
    """Why an ended job is not kept any longer; empty while it is."""
    keep_ms, keep_count = world.keep(job)
    if job.is_doomed:
        return "removed"
    if keep_ms == 0 or keep_count == 0:
        return "zero"
    age_ms = world.elapsed - job.ended_elapsed
    if age_ms >= max(keep_ms, MINUTE_MS):
        return "age"
    if age_ms >= MINUTE_MS and newer(world, job) >= keep_count:
        return "count"
    return ""


def newer(world: World, job: Job) -> int:
    """How many jobs of the same queue, kind of ending and policy ended after this one."""
    same = [
        other
        for other in world.in_state(*state.TERMINAL)
        if (other.tenant, other.queue) == (job.tenant, job.queue)
        and (other.state == FAILED) == (job.state == FAILED)
        and policy(other) == policy(job)
    ]
    return sum(1 for other in same if other.ended_order > job.ended_order)


def policy(job: Job) -> tuple[int, int]:
    options = job.options
    if job.state == FAILED:
        return (options.keep_failed_ms, options.keep_failed_count)
    return (options.keep_completed_ms, options.keep_completed_count)


def next_retention(world: World, job: Job) -> int:
    """When (elapsed) an ended job may next become surplus by itself."""
    keep_ms, _ = world.keep(job)
    minimum = job.ended_elapsed + MINUTE_MS
    return minimum if minimum > world.elapsed else job.ended_elapsed + max(keep_ms, MINUTE_MS)
