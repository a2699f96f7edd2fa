"""One seed from beginning to end: life, winding down, and the time after."""

from dataclasses import dataclass
from random import Random
from typing import Final

from tenure.core import request, state
from tenure.core.bound import make_claim
from tenure.core.request import Settle
from tenure.core.tenant import ANY_TENANT, Context
from tests.simulation.operator import Operator
from tests.simulation.producer import Producer
from tests.simulation.residue import residue
from tests.simulation.scenario import PREFIXES, Scenario, furnish, plan
from tests.simulation.worker import Worker
from tests.simulation.world import EVERYONE, Breach, World

VERIFY_EVERY: Final = 150
DRAIN_ROUNDS: Final = 5_000
DAY_MS: Final = 86_400_000
AFTER_DAYS: Final = 45
QUEUE_DEFAULTS: Final = (
    "paused",
    "rate",
    "concurrency",
    "enqueue_rate",
    "group_concurrency",
    "group_order",
    "age_ms",
    "lease_ms",
    "jobs_max",
    "keep_completed_ms",
    "keep_completed_count",
    "keep_failed_count",
)


@dataclass(frozen=True)
class Result:
    seed: int
    steps: int
    jobs: int
    events: int
    digest: str

    def line(self) -> str:
        return f"seed {self.seed}: {self.steps} steps, {self.jobs} jobs, {self.events} events, {self.digest}"


class Failed(Exception):
    """A seed that found something."""

    def __init__(self, seed: int, step: int, findings: list[str], world: World) -> None:
        super().__init__(f"seed {seed}, step {step}: " + "; ".join(findings[:10]))
        self.seed = seed
        self.step = step
        self.findings = findings
        self.world = world


def run(seed: int, keep: bool = False) -> tuple[Result, World]:
    """Run a seed; raises Failed when the store breaks a promise or itself."""
    world = World(Random(seed), keep)
    return run_in(world, seed), world


def run_in(world: World, seed: int, jobs_most: int | None = None) -> Result:
    try:
        scenario = plan(world.random, jobs_most)
        furnish(world, scenario)
        live(world, scenario)
        wind_down(world, scenario)
        let_time_pass(world, scenario)
    except Breach as breach:
        raise Failed(seed, breach.step, breach.findings, world) from breach
    except Exception as error:
        raise Failed(seed, world.step, [f"the store broke: {type(error).__name__}: {error}"], world) from error
    return Result(seed, world.step, world.checker.accepted, world.trace.events, world.trace.digest())


def live(world: World, scenario: Scenario) -> None:
    random = world.random
    producers = [Producer(world, scenario, f"producer-{at}") for at in range(random.randint(2, 4))]
    workers = [Worker(world, scenario, at) for at in range(random.randint(3, 8))]
    operator = Operator(world, scenario)
    verify_at = VERIFY_EVERY
    extra = random.randint(100, 400)  # turns after the last job was sent
    while extra:
        choice = random.random()
        is_producing = world.checker.accepted < scenario.jobs
        if is_producing and choice < 0.25:
            random.choice(producers).act()
        elif choice < 0.85:
            random.choice(workers).act()
        elif choice < 0.95:
            operator.act()
        else:
            world.tick()
        extra -= not is_producing
        move_clock(world, scenario)
        if world.step >= verify_at:
            world.verify()
            verify_at = world.step + VERIFY_EVERY
    for worker in workers:
        worker.stop()
    world.calm()
    world.verify()


def move_clock(world: World, scenario: Scenario) -> None:
    random = world.random
    choice = random.random()
    if choice < 0.3:
        return
    if choice < 0.85:
        world.clock.pass_time(random.choice((1, 5, 20, 50, 200)))
    elif choice < 0.93:
        go_to_next(world)
    elif choice < 0.97:
        world.clock.pass_time(random.choice((700, 1_500, 4_000)))
    elif random.randrange(scenario.large) == 0:
        world.clock.pass_time(random.choice((60_000, 600_000, 3_700_000, 90_000_000)))
    elif random.random() < 0.2:
        world.clock.stop(random.choice((1_500, 20_000, 45_000)))
    elif random.random() < 0.25:
        world.clock.set_wall(random.choice((-30_000, -400, 300, 20_000, 3_600_000)))


def go_to_next(world: World) -> bool:
    """Tick, and move the clock exactly to when the store wants to be called again."""
    again = world.tick()
    if again is None:
        return False
    checker = world.checker
    waits = (int(again.wall_ms) - world.clock.wall, int(again.elapsed_ms) - checker.elapsed)
    world.clock.pass_time(max(0, min(waits)))
    return True


def wind_down(world: World, scenario: Scenario) -> None:
    """Everything is allowed again, and workers go on until nothing is left alive."""
    for tenant in scenario.tenants:
        context = Context(tenant=tenant)
        defaults = {"weight": None, "running_max": None, "rate": None}
        world.configure(EVERYONE, request.TENANT, tenant, dict(defaults))
        for queue in scenario.queues:
            world.configure(context, request.QUEUE, queue, dict.fromkeys(QUEUE_DEFAULTS))
        for prefix in PREFIXES:
            changes = dict.fromkeys(("concurrency", "rate", "paused_ms", "shared"))
            world.configure(context, request.KEY, prefix, dict(changes))
    everywhere = Context(tenant=scenario.tenants[0], tenants=(ANY_TENANT,))
    claim = make_claim(("*",), n=100, worker="last")
    for _ in range(DRAIN_ROUNDS):
        claimed = world.claim(everywhere, claim)
        if claimed is not None and claimed.ids:
            tokens = [claimed.token] * len(claimed.ids)
            world.settle(everywhere, Settle(state.SETTLE_COMPLETE, claimed.ids, tokens))
        elif not go_to_next(world) or not world.checker.live():
            break
    left = world.checker.live()
    if left:
        raise Breach(world.step, [f"{left} jobs cannot be brought to an end"])
    world.verify()


def let_time_pass(world: World, scenario: Scenario) -> None:
    """All retention passes, and everything returns."""
    for _ in range(AFTER_DAYS):
        world.clock.pass_time(DAY_MS)
        world.tick()
    world.verify()
    for tenant in scenario.tenants:
        world.count(tenant)
        world.read_events(tenant)
    found = world.checker.leftovers() + residue(world.engine)
    if found:
        raise Breach(world.step, found)
