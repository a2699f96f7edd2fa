"""What a seed makes of the place: tenants, queues, keys, tasks, and how many jobs there will be."""

from dataclasses import dataclass
from random import Random
from typing import Final

from tenure.core import request
from tenure.core.limit import Rate
from tenure.core.tenant import Context
from tests.simulation.world import EVERYONE, World

TASKS: Final = ("send", "resize", "report", "rare")
PREFIXES: Final = ("api:", "api:slow:", "db:", "shared:")


@dataclass
class Scenario:
    tenants: list[str]
    queues: list[str]
    keys: list[str]
    jobs: int
    large: int  # one in so many moves of the clock is large

    def context(self, random: Random) -> Context:
        return Context(tenant=random.choice(self.tenants))


def plan(random: Random, jobs_most: int | None = None) -> Scenario:
    tenants = [f"tenant-{at}" for at in range(random.randint(2, 4))]
    queues = ["mail", "media.small", "media.large", "slow"][: random.randint(2, 4)]
    keys = ["api:a", "api:b", "api:slow:c", "db:x", "shared:s", "free:f"]
    jobs = random.choice((200, 300, 400, 600, 1_500) if jobs_most is None else (jobs_most // 2, jobs_most))
    return Scenario(tenants, queues, keys, jobs, random.choice((30, 100, 400)))


def furnish(world: World, scenario: Scenario) -> None:
    """The settings before the first job."""
    random = world.random
    world.configure(EVERYONE, request.STORE, "", {"events_max": random.choice((51_200, 102_400))})
    for tenant in scenario.tenants:
        context = Context(tenant=tenant)
        world.configure(EVERYONE, request.TENANT, tenant, {"weight": random.randint(1, 5)})
        for queue in scenario.queues:
            changes = queue_settings(random)
            if changes:
                world.configure(context, request.QUEUE, queue, changes)
        for prefix in PREFIXES[:3]:
            if random.random() < 0.7:
                world.configure(context, request.KEY, prefix, key_settings(random))
    if random.random() < 0.5:
        world.configure(
            Context(tenant=scenario.tenants[0]), request.KEY, PREFIXES[3], {"shared": True, "concurrency": 2}
        )


def queue_settings(random: Random) -> dict[str, object]:
    found: dict[str, object] = {}
    if random.random() < 0.3:
        found["concurrency"] = random.choice((0, 1, 2, 5, None))
    if random.random() < 0.2:
        found["rate"] = random.choice((Rate(5, 1_000), Rate(3, 1_000, 10), Rate(60, 60_000, 1), None))
    if random.random() < 0.3:
        found["group_concurrency"] = random.choice((1, 2, 3, None))
    if random.random() < 0.3:
        found["group_order"] = random.choice(("strict", "relaxed"))
    if random.random() < 0.15:
        found["age_ms"] = random.choice((0, 1_000, 60_000))
    if random.random() < 0.2:
        found["lease_ms"] = random.choice((1_000, 5_000, 60_000, None))
    if random.random() < 0.2:
        found["keep_completed_ms"] = random.choice((0, 60_000, 3_600_000, None))
    if random.random() < 0.15:
        found["keep_completed_count"] = random.choice((0, 3, 20, None))
    if random.random() < 0.15:
        found["keep_failed_count"] = random.choice((1, 10, None))
    if random.random() < 0.1:
        found["jobs_max"] = random.choice((20, 100, None))
    if random.random() < 0.1:
        found["enqueue_rate"] = random.choice((Rate(50, 1_000), None))
    return found


def key_settings(random: Random) -> dict[str, object]:
    found: dict[str, object] = {"concurrency": random.choice((0, 1, 1, 2, 3, None))}
    if random.random() < 0.3:
        found["rate"] = random.choice((Rate(2, 1_000), Rate(10, 60_000, 3), None))
    if random.random() < 0.15:
        found["paused_ms"] = random.choice((0, 500, 20_000, None))
    return found
