"""Limits of queues, tenants and keys: slots, token buckets, pauses."""

from tenure.core.limit import Rate
from tenure.core.state import RUNNING
from tests.model.world import Bucket, Job, World


def working(world: World) -> list[Job]:
    """The jobs whose slots are taken, one entry for each attempt that holds them."""
    return world.in_state(RUNNING) + [hold.job for hold in world.holdovers]


def held_by_queue(world: World, job: Job) -> str:
    if world.of_queue(job.tenant, job.queue, "paused"):
        return "paused"
    busy = [other for other in working(world) if other.tenant == job.tenant and other.queue == job.queue]
    if is_full(world.of_queue(job.tenant, job.queue, "concurrency"), busy):
        return "queue concurrency"
    return "" if has_token(world, ("queue", job.tenant, job.queue)) else "queue rate"


def held_by_tenant(world: World, job: Job) -> str:
    busy = [other for other in working(world) if other.tenant == job.tenant]
    if is_full(world.of_tenant(job.tenant, "running_max"), busy):
        return "tenant running"
    return "" if has_token(world, ("tenant", job.tenant)) else "tenant rate"


def held_by_keys(world: World, job: Job) -> str:
    for key in job.options.limit_keys:
        if is_paused(world, job.tenant, key):
            return f"pause of {key}"
        found = world.of_key(job.tenant, key)
        if found is None:
            continue
        owner, settings = found
        busy = [
            other
            for other in working(world)
            if key in other.options.limit_keys and (owner == "" or other.tenant == job.tenant)
        ]
        if is_full(settings.get("concurrency"), busy):
            return f"concurrency of {key}"
        if not has_token(world, ("key", owner, key)):
            return f"rate of {key}"
    return ""


def is_full(limit: object, busy: list[Job]) -> bool:
    return isinstance(limit, int) and len(busy) >= limit


def is_paused(world: World, tenant: str, key: str) -> bool:
    for (owner, name, is_prefix), until in world.pauses.items():
        if owner in (tenant, "") and until > world.elapsed and (key.startswith(name) if is_prefix else key == name):
            return True
    return False


def bucket_of(world: World, name: tuple[str, ...]) -> Bucket | None:
    """The bucket of ("queue", tenant, queue), ("tenant", tenant), ("key", owner, key); a new one starts full."""
    rate = rate_of(world, name)
    if rate is None:
        return None
    if name not in world.buckets:
        world.buckets[name] = Bucket(rate, world.elapsed)
    return world.buckets[name]


def rate_of(world: World, name: tuple[str, ...]) -> Rate | None:
    found: object = None
    if name[0] == "queue":
        found = world.of_queue(name[1], name[2], "rate")
    elif name[0] == "tenant":
        found = world.of_tenant(name[1], "rate")
    elif name[0] == "key":
        settings = world.of_key(name[1], name[2])
        found = settings[1].get("rate") if settings is not None else None
    elif name[0] == "enqueue queue":
        found = world.of_queue(name[1], name[2], "enqueue_rate")
    else:
        found = world.of_tenant(name[1], "enqueue_rate")
    return found if isinstance(found, Rate) else None


def has_token(world: World, name: tuple[str, ...]) -> bool:
    bucket = bucket_of(world, name)
    return bucket is None or bucket.has_token(world.elapsed)


def take_tokens(world: World, job: Job) -> None:
    names: list[tuple[str, ...]] = [("queue", job.tenant, job.queue), ("tenant", job.tenant)]
    for key in job.options.limit_keys:
        found = world.of_key(job.tenant, key)
        if found is not None:
            names.append(("key", found[0], key))
    for name in names:
        bucket = bucket_of(world, name)
        if bucket is not None:
            bucket.take()


def change_buckets(world: World) -> None:
    """Settings changed: every bucket goes on under its new rate, one that has none any more is gone."""
    for name, bucket in list(world.buckets.items()):
        rate = rate_of(world, name)
        if rate is None:
            del world.buckets[name]
        elif rate.key() != bucket.rate.key():
            bucket.change(rate, world.elapsed)
