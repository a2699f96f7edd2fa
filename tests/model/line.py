"""Who is next in a queue: order, groups, and what holds a ready job back."""

from tenure.core.state import READY, RUNNING
from tests.model.limit import held_by_keys, held_by_queue, held_by_tenant
from tests.model.world import Job, World


def line_of(world: World, tenant: str, queue: str) -> list[Job]:
    """The ready jobs of a queue in the order in which they are taken: of each group only its first."""
    ready = [job for job in world.in_state(READY) if job.tenant == tenant and job.queue == queue]
    heads = [job for job in ready if job.group is None or job is head_of(world, job.group)]
    return sorted(heads, key=lambda job: line_key(world, job))


def line_key(world: World, job: Job) -> tuple[int, int]:
    age_ms = world.of_queue(job.tenant, job.queue, "age_ms")
    assert isinstance(age_ms, int)
    if age_ms:
        return (job.ready_at - job.priority * age_ms, job.number)
    return (-job.priority, job.number)


def head_of(world: World, group: tuple[str, str, str]) -> Job:
    members = [job for job in world.in_state(READY) if job.group == group]
    return min(members, key=lambda job: job.joined or 0)


def group_slots(world: World, group: tuple[str, str, str], but: Job) -> int:
    """Slots of a group that are taken, not counting one that `but` kept for itself."""
    held = [hold.job for hold in world.holdovers if hold.job.group == group]
    running = [job for job in world.in_state(RUNNING) if job.group == group]
    kept = [job for job in world.live() if job.group == group and job.keeps_slot and job is not but and job not in held]
    return len(held) + len(running) + len(kept)


def held_by(world: World, job: Job) -> str:
    """What keeps a ready job from being leased now; empty when nothing does."""
    if job.expires_at and job.expires_at <= world.wall:
        return "expiry"
    return (
        held_by_queue(world, job) or held_by_tenant(world, job) or held_by_keys(world, job) or held_by_group(world, job)
    )


def held_by_group(world: World, job: Job) -> str:
    if job.group is None:
        return ""
    slots = world.of_queue(job.tenant, job.queue, "group_concurrency")
    assert isinstance(slots, int)
    if job is not head_of(world, job.group):
        return "group order"
    return "group" if group_slots(world, job.group, job) >= slots else ""


def give_up_slots(world: World, tenant: str, queue: str) -> None:
    """Groups have fewer slots than are taken: who waits for another try gives its up, who joined last first."""
    width = world.of_queue(tenant, queue, "group_concurrency")
    assert isinstance(width, int)
    keeping = [job for job in world.live() if job.keeps_slot and (job.tenant, job.queue) == (tenant, queue)]
    for job in sorted(keeping, key=lambda job: -(job.joined or 0)):
        assert job.group is not None
        if group_slots(world, job.group, job) >= width:
            job.keeps_slot = False
