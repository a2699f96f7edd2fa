"""How a job gets into line, and whose turn it is when the model itself may choose."""

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
    job.ready_at = world.at
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
    """Who has something to claim. Where a queue of a tenant has anew, its wait is counted from now."""
    standing: dict[tuple[str, str], None] = {}
    for job in world.in_state(READY):
        if (job.tenant, job.queue) not in standing and not held_by(world, job):
            standing[job.tenant, job.queue] = None
    for pair in standing:
        if pair not in world.standing:
            world.stays[pair] = world.stays.get(pair, 0) + 1
    world.standing = standing
    claimable = list(dict.fromkeys(tenant for tenant, _ in standing))
    world.turns = [tenant for tenant in world.turns if tenant in claimable]
    for tenant in claimable:
        if tenant not in world.turns:
            world.turns.append(tenant)
            start_turn(world, tenant)


def start_turn(world: World, tenant: str) -> None:
    weight = world.of_tenant(tenant, "weight")
    assert isinstance(weight, int)
    world.credit[tenant] = weight


def spend_turn(world: World, tenant: str) -> None:
    """A job of the tenant was leased: after as many as its weight it goes to the end of the order."""
    world.credit[tenant] = world.credit.get(tenant, 1) - 1
    if world.credit[tenant] <= 0 and tenant in world.turns:
        world.turns.remove(tenant)
        world.turns.append(tenant)
        start_turn(world, tenant)
