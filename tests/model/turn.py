"""Fairness: the order in which tenants are served, and how a job gets into line."""

from tenure.core.state import READY
from tests.model.line import held_by
from tests.model.world import Job, World


def make_ready(world: World, job: Job, cause: int, type: str) -> None:
    """A job becomes ready: it gets a number, and joins its group if it never did."""
    if job.options.lifo:
        world.number_low -= 1
        job.number = world.number_low
    else:
        world.number_high += 1
        job.number = world.number_high
    job.ready_at = world.wall
    if job.group is not None and job.joined is None:
        world.last_joined += 1
        job.joined = world.last_joined
    forget_aside(job)
    world.move(job, cause, READY, type)
    refresh_turns(world)


def forget_aside(job: Job) -> None:
    job.aside_from = None
    job.aside_sure = None
    job.asked_at = 0


def refresh_turns(world: World) -> None:
    """Who stands in the order of turns: whoever has a claimable job, newcomers at the end with a full turn."""
    ready = world.in_state(READY)
    for tenant in sorted({job.tenant for job in ready} | set(world.turns) | world.unsure):
        own = [job for job in ready if job.tenant == tenant]
        stands = tenant in world.turns
        if not own:
            leave_turns(world, tenant)
            world.unsure.discard(tenant)
        elif not any(is_claimable(world, job) for job in own):
            world.unsure.add(tenant)
            leave_turns(world, tenant)
        elif not stands:
            world.turns.append(tenant)
            world.stays[tenant] = world.stays.get(tenant, 0) + 1
            start_turn(world, tenant)


def is_claimable(world: World, job: Job) -> bool:
    return job.aside_from is None and not held_by(world, job)


def leave_turns(world: World, tenant: str) -> None:
    if tenant in world.turns:
        world.turns.remove(tenant)


def start_turn(world: World, tenant: str) -> None:
    weight = world.of_tenant(tenant, "weight")
    assert isinstance(weight, int)
    world.credit[tenant] = weight


def spend_turn(world: World, tenant: str) -> None:
    """A job of the tenant was leased: after as many as its weight it goes to the end of the order."""
    world.credit[tenant] = world.credit.get(tenant, 1) - 1
    if world.credit[tenant] <= 0:
        leave_turns(world, tenant)
        world.turns.append(tenant)
        start_turn(world, tenant)
