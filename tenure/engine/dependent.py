"""Dependencies of one job: how they stand, what that means for it, and the reverse index of who waits for whom."""

from mypy_extensions import i64

from tenure.core import dependency
from tenure.core.state import (
    COMPLETED,
    is_terminal,
)
from tenure.engine.job import Job, Side
from tenure.engine.world import World


def judge(job: Job) -> int:
    """What its dependencies mean for the job now (`core.dependency`)."""
    side = job.side
    assert side is not None
    return dependency.decide(
        job.spec.options.dependency_policy, int(side.pending), int(side.succeeded), int(side.failed)
    )


def count_dependencies(w: World, tenant: i64, side: Side, depends_on: tuple[int, ...]) -> int:
    """Count how the dependencies stand; answers the first one that is not there, or 0."""
    side.pending = 0
    side.succeeded = 0
    side.failed = 0
    for id in depends_on:
        job = w.index.get(id)
        state: i64 = -1
        if job is not None:
            if job.spec.tenant != tenant:
                return id
            state = i64(job.state)
        else:
            state = w.outcomes.get(id, tenant)
            if state < 0:
                return id
        if state == COMPLETED:
            side.succeeded += 1
        elif is_terminal(int(state)):
            side.failed += 1
        else:
            side.pending += 1
    return 0


def depend(w: World, job: Job, again: bool) -> None:
    """Enter the job in the reverse index of what it waits for, and pin what it may still read."""
    assert job.side is not None and job.side.extras is not None
    for id in job.side.extras.depends_on:
        found = w.index.get(id)
        if found is None:
            continue
        if found.side is None:
            found.side = Side(None)
        found.side.pins += 1
        if not is_terminal(int(found.state)):
            if found.side.dependents is None:
                found.side.dependents = []
            # After a replay it may be there from the first time.
            if not again or int(job.id) not in found.side.dependents:
                found.side.dependents.append(int(job.id))
