"""Claims jobs and does everything to them that workers do, the wrong things included."""

from dataclasses import dataclass
from typing import Final

from tenure.core import request, state
from tenure.core.answer import Claimed
from tenure.core.bound import make_claim, make_failure, make_options
from tenure.core.request import Append, Batch, Claim, Extend, Failure, Settle
from tenure.core.tenant import ANY_TENANT, Context, OpId
from tests.simulation.scenario import TASKS, Scenario
from tests.simulation.world import World

VERBS: Final = (
    state.SETTLE_COMPLETE,
    state.SETTLE_COMPLETE,
    state.SETTLE_COMPLETE,
    state.SETTLE_COMPLETE,
    state.SETTLE_FAIL,
    state.SETTLE_FAIL,
    state.SETTLE_RELEASE,
    state.SETTLE_SNOOZE,
    state.SETTLE_CANCEL,
)
OLD_KEPT: Final = 40


@dataclass
class Held:
    id: int
    token: bytes
    queue: str
    task: str


class Worker:
    def __init__(self, world: World, scenario: Scenario, at: int) -> None:
        self._world = world
        self._random = random = world.random
        self._scenario = scenario
        self._name = f"worker-{at}"
        self._tenants = random.choice(((), (), (ANY_TENANT,), tuple(scenario.tenants[:2])))
        self._tenant = random.choice(scenario.tenants)
        self._connection = random.choice((0, at + 1))
        self._claim = self._wish()
        self._held: list[Held] = []
        self._old: list[Held] = []
        self._ticket = 0
        self._counter = 0
        self._last: tuple[Context, Claim] | None = None
        self._words: list[tuple[Context, Settle]] = []
        self._asleep = 0  # turns that it does not take: it stalls, or is dead and comes back

    def _wish(self) -> Claim:
        random = self._random
        queues = random.choice(
            (
                ("*",),
                ("media.*", "mail"),
                (random.choice(self._scenario.queues),),
                tuple((queue, random.randint(1, 4)) for queue in self._scenario.queues),
            )
        )
        return make_claim(
            queues,
            n=random.choice((1, 1, 3, 10)),
            wait_ms=random.choice((0, 0, 500, 20_000)),
            worker=self._name,
            tasks=random.choice((None, None, TASKS[:3], TASKS[:2], TASKS)),
            lease_ms=random.choice((0, 0, 0, 1_000, 15_000)),
            strict=random.random() < 0.2,
            max_bytes=random.choice((8 * 1024 * 1024, 30)),
        )

    def _context(self, op: bool = False) -> Context:
        if not op:
            return Context(tenant=self._tenant, tenants=self._tenants, connection=self._connection)
        self._counter += 1
        name = OpId(self._name, self._counter)
        return Context(tenant=self._tenant, tenants=self._tenants, connection=self._connection, op=name)

    def act(self) -> None:
        random = self._random
        self._fetch()
        if self._asleep:
            self._asleep -= 1
            return
        choice = random.random()
        if choice < 0.02:
            self._asleep = random.choice((2, 10, 40))
        elif choice < 0.03:
            self._die()
        elif choice < 0.06 and self._old:
            self._settle([random.choice(self._old)], random.choice(VERBS))
        elif choice < 0.08 and self._words:
            self._world.settle(*random.choice(self._words))
        elif choice < 0.10 and self._held:
            self._forge()
        elif choice < 0.12 and self._last is not None:
            self._keep(self._world.claim(*self._last))
        elif self._held and choice < 0.65:
            self._work()
        elif not self._ticket:
            self._ask()
        elif choice > 0.98:
            self._world.withdraw(self._ticket)
            self._ticket = 0

    def _ask(self) -> None:
        context = self._context(self._random.random() < 0.5)
        claimed = self._world.claim(context, self._claim)
        if context.op is not None:
            self._last = (context, self._claim)
        if claimed is not None and claimed.ticket:
            self._ticket = claimed.ticket
            return
        self._keep(claimed)
        if self._random.random() < 0.02:
            self._claim = self._wish()

    def _fetch(self) -> None:
        """A waiting claim may have been answered."""
        answer = self._world.mail.pop(self._ticket, None) if self._ticket else None
        if isinstance(answer, Claimed):
            self._ticket = 0
            self._keep(answer)

    def _keep(self, claimed: Claimed | None) -> None:
        if claimed is None:
            return
        if claimed.ticket:
            # A repeated claim found its leases over, and waits anew.
            if self._ticket:
                self._world.withdraw(self._ticket)
            self._ticket = claimed.ticket
            return
        known = [(held.id, held.token) for held in self._held]
        for id, options in zip(claimed.ids, claimed.options, strict=True):
            if (id, claimed.token) not in known:
                self._held.append(Held(id, claimed.token, options.queue, options.task))

    def _die(self) -> None:
        """It forgets what it holds; what comes back later knows only some old tokens."""
        self._remember(self._held)
        self._held = []
        self._asleep = self._random.choice((5, 30))
        if self._ticket:
            self._world.withdraw(self._ticket)
            self._ticket = 0
        if self._random.random() < 0.3:
            self._world.configure(self._context(), request.WORKER, self._name, {"leaving": True})

    def _remember(self, jobs: list[Held]) -> None:
        self._old += jobs
        del self._old[:-OLD_KEPT]

    def _work(self) -> None:
        random = self._random
        choice = random.random()
        if choice < 0.12:
            jobs = random.sample(self._held, min(len(self._held), random.randint(1, 4)))
            ids, tokens = [held.id for held in jobs], [held.token for held in jobs]
            self._world.extend(self._context(), Extend(ids, tokens, random.choice((0, 0, 2_000, 60_000))))
        elif choice < 0.2:
            held = random.choice(self._held)
            kind = random.choice((request.PROGRESS, request.LOG, request.EMIT))
            append = Append(kind, held.id, held.token, random.randint(0, 100), "text", b"data")
            self._world.append(self._context(), append)
        else:
            count = min(len(self._held), random.choice((1, 1, 2, 10)))
            jobs = self._held[:count]
            self._held = self._held[count:]
            self._settle(jobs, random.choice(VERBS))
            self._remember(jobs)

    def _settle(self, jobs: list[Held], verb: int) -> None:
        random = self._random
        jobs = [*jobs, jobs[0]] if random.random() < 0.03 else jobs
        tokens: list[bytes] | None = [held.token for held in jobs]
        if self._connection and random.random() < 0.1:
            tokens = None
        settle = Settle(verb, [held.id for held in jobs], tokens)
        if verb == state.SETTLE_COMPLETE:
            if random.random() < 0.3:
                settle.results = [b"result" if random.random() < 0.5 else None for _ in jobs]
            if random.random() < 0.1:
                settle.followups = [self._followups(held) for held in jobs]
        elif verb == state.SETTLE_FAIL:
            settle.failures = [self._failure() for _ in jobs]
        elif verb in (state.SETTLE_RELEASE, state.SETTLE_SNOOZE):
            settle.delay_ms = random.choice((0, 0, 100, 5_000))
            if random.random() < 0.1:
                settle.pause_key = random.choice(self._scenario.keys)
        context = self._context(random.random() < 0.4)
        if context.op is not None:
            self._words.append((context, settle))
            del self._words[:-10]
        self._world.settle(context, settle)

    def _failure(self) -> Failure:
        random = self._random
        return make_failure(
            type=random.choice(("ValueError", "TimeoutError")),
            message=f"item {random.randrange(5)} is bad",
            retryable=random.random() < 0.9,
            undecodable=random.random() < 0.03,
            delay_ms=random.choice((-1, -1, -1, 0, 700)),
        )

    def _followups(self, held: Held) -> Batch | None:
        random = self._random
        if random.random() < 0.5:
            return None
        return Batch(make_options(queue=held.queue, task=held.task), [b"f"] * random.randint(1, 3))

    def _forge(self) -> None:
        """A token that is not genuine, and a job of somebody else."""
        random = self._random
        held = random.choice(self._held)
        settle = Settle(random.choice(VERBS), [held.id], [bytes(20)])
        self._world.settle(self._context(), settle)
        others = [tenant for tenant in self._scenario.tenants if tenant != self._tenant]
        self._world.settle(Context(tenant=random.choice(others)), Settle(settle.verb, [held.id + 1], [held.token]))

    def stop(self) -> None:
        if self._ticket:
            self._world.withdraw(self._ticket)
            self._ticket = 0
