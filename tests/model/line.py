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


def head_of(world: World, group: tuple[str, str, str]) -> Job | None:
    """Of the ready members that have a slot, or could take a free one, the one that joined first."""
    ready = [job for job in world.in_state(READY) if job.group == group]
    has_free = group_slots(world, group) < width_of(world, group)
    able = [job for job in ready if has_free or job.keeps_slot]
    return min(able, key=lambda job: job.joined or 0, default=None)


def width_of(world: World, group: tuple[str, str, str]) -> int:
    width = world.of_queue(group[0], group[1], "group_concurrency")
    assert isinstance(width, int)
    return width


def group_slots(world: World, group: tuple[str, str, str]) -> int:
    """Slots of a group that are taken: by running jobs, by attempts that were taken away, by who waits to run again."""
    held = [hold for hold in world.holdovers if hold.job.group == group]
    own = [job for job in world.live() if job.group == group and (job.state == RUNNING or job.keeps_slot)]
    return len(held) + len(own)


def held_by(world: World, job: Job) -> str:
    """What keeps a ready job from being leased now; empty when nothing does."""
    if job.expires_at and job.expires_at <= world.wall:
        return "expiry"
    return (
        held_by_queue(world, job) or held_by_tenant(world, job) or held_by_keys(world, job) or held_by_group(world, job)
    )


def held_by_group(world: World, job: Job) -> str:
    return "" if job.group is None or job is head_of(world, job.group) else "group"


def keep_slot(world: World, job: Job) -> None:
    """An attempt is over and the job is to be tried again. Its slot still counts as taken by that attempt."""
    if job.group is not None:
        is_strict = world.of_queue(job.tenant, job.queue, "group_order") == "strict"
        job.keeps_slot = is_strict and group_slots(world, job.group) <= width_of(world, job.group)


def give_up_slots(world: World, tenant: str, queue: str) -> None:
    """Settings of groups changed. With fewer slots than are taken, who is to be tried again gives its up, who joined
    last first; in relaxed order all do."""
    is_strict = world.of_queue(tenant, queue, "group_order") == "strict"
    keeping = [job for job in world.live() if job.keeps_slot and (job.tenant, job.queue) == (tenant, queue)]
    for job in sorted(keeping, key=lambda job: -(job.joined or 0)):
        assert job.group is not None
        if not is_strict or group_slots(world, job.group) > width_of(world, job.group):
            job.keeps_slot = False
