"""One eventful history on a fake clock: something of everything that events tell, in a few hundred of them.

Jobs have names, so that a test can speak of the one whose history it spoils.
"""

from typing import Final

from tenure.core import request, state
from tenure.core.answer import Claimed
from tenure.core.bound import make_claim, make_extras, make_failure, make_options
from tenure.core.clock import Now
from tenure.core.limit import Rate
from tenure.core.record import Event, Past
from tenure.core.request import Append, Batch, Change, Configure, Filter, Load, Settle
from tenure.core.retry import Backoff
from tenure.core.tenant import ALL_ROLES, ANY_TENANT, Context
from tenure.core.token import SECRET_BYTES
from tenure.engine.engine import Engine
from tests.simulation.clock import Clock

OWN: Final = {
    "delay_ms",
    "lease_ms",
    "max_attempts",
    "priority",
    "timeout_ms",
    "ttl_ms",
    "limit_keys",
    "keep_failed_ms",
}


class Scenario:
    def __init__(self) -> None:
        self.clock = Clock()
        self.engine = Engine(bytes(SECRET_BYTES), 1, self.now())
        self.jobs: dict[str, int] = {}
        self.tokens: dict[int, bytes] = {}

    def now(self) -> Now:
        return self.clock.now()

    def wait(self, ms: int) -> None:
        self.clock.pass_time(ms)
        while (again := self.engine.tick(self.now())) is not None:
            if again.wall_ms > self.clock.wall or again.elapsed_ms > self.clock.elapsed:
                return

    def context(self, tenant: str) -> Context:
        return Context(tenant=tenant, roles=ALL_ROLES)

    def set(self, subject: int, name: str, tenant: str = "acme", **changes: object) -> None:
        self.engine.configure(self.context(tenant), Configure(subject, name, changes), self.now())

    def put(self, name: str, queue: str = "plain", tenant: str = "acme", task: str = "work", **fields: object) -> int:
        own = {field: value for field, value in fields.items() if field in OWN or field.startswith("dependency")}
        extras = {field: value for field, value in fields.items() if field not in own}
        options = make_options(queue=queue, task=task, backoff=Backoff.fixed("1s"), **own)
        batch = Batch(options, [b"{}"], [make_extras(**extras)] if extras else None)
        answers = self.engine.enqueue(self.context(tenant), batch, self.now())
        assert not answers.errors(), answers.errors()
        self.jobs[name] = answers.ids[0]
        return answers.ids[0]

    def claim(self, *names: str, queue: str = "plain", tenant: str = "acme", worker: str = "w-1", n: int = 0) -> None:
        """Exactly these jobs are to be had, in this order."""
        claim = make_claim((queue,), n=n or len(names) or 1, worker=worker)
        claimed = self.engine.claim(self.context(tenant), claim, self.now())
        assert isinstance(claimed, Claimed)
        assert claimed.ids == [self.jobs[name] for name in names], (claimed.ids, names)
        for id in claimed.ids:
            self.tokens[id] = claimed.token

    def settle(self, verb: int, name: str, tenant: str = "acme", **fields: object) -> None:
        id = self.jobs[name]
        said = Settle(verb, [id], [self.tokens[id]])
        for field, value in fields.items():
            setattr(said, field, value)
        answers = self.engine.settle(self.context(tenant), said, self.now())
        assert not answers.errors(), answers.errors()

    def complete(self, *names: str, tenant: str = "acme") -> None:
        for name in names:
            self.settle(state.SETTLE_COMPLETE, name, tenant)

    def fail(self, name: str, retryable: bool = True) -> None:
        self.settle(state.SETTLE_FAIL, name, failures=[make_failure("Broken", "it broke", retryable=retryable)])

    def change(self, action: int, *names: str, tenant: str = "acme", **fields: object) -> None:
        change = Change(action, [self.jobs[name] for name in names])
        for field, value in fields.items():
            setattr(change, field, value)
        answers = self.engine.change(self.context(tenant), change, self.now())
        assert not answers.errors(), answers.errors()

    def bring(self, name: str, past: Past, queue: str = "plain", max_attempts: int = 3) -> None:
        """An imported job."""
        options = make_options(queue=queue, task="work", max_attempts=max_attempts)
        context = self.context("acme")
        batch = Batch(options, [b"{}"], pasts=[past])
        self.engine.load(context, Load(request.STAGE, name, 0, "w", 0, batch), self.now())
        self.engine.load(context, Load(request.PUBLISH, name, parts={0: "w"}), self.now())
        self.wait(1)
        [job] = [event.job for event in self.events()[-1:]]
        self.jobs[name] = job

    def events(self) -> list[Event]:
        found: list[Event] = []
        cursor = "e0"
        everyone = Context(tenant="operator", tenants=(ANY_TENANT,))
        while True:
            page = self.engine.events(everyone, cursor, 10_000, self.now())
            found += page.events
            if page.cursor == cursor or not page.events:
                return found
            cursor = page.cursor

    def states(self) -> list[tuple[int, str]]:
        """Every job that is there, with its state."""
        everyone = Context(tenant="operator", tenants=(ANY_TENANT,), roles=ALL_ROLES)
        page = self.engine.find(everyone, Filter(), 1_000, "", self.now())
        return [(job.id, job.state) for job in page.jobs]


def eventful() -> Scenario:
    play = Scenario()
    lives(play)
    times(play)
    limits(play)
    groups(play)
    needs(play)
    return play


def lives(play: Scenario) -> None:
    """Every way through the table."""
    play.put("simple")
    play.claim("simple")
    play.engine.append(
        play.context("acme"),
        Append(request.PROGRESS, play.jobs["simple"], play.tokens[play.jobs["simple"]], 50, "half"),
        play.now(),
    )
    play.wait(5)
    play.complete("simple")
    play.put("cancelled")
    play.change(request.CANCEL, "cancelled")
    play.put("stopped")  # while it runs: its slots are held over
    play.claim("stopped")
    play.change(request.CANCEL, "stopped")
    play.put("discarded")
    play.claim("discarded", worker="w-2")
    play.change(request.DISCARD, "discarded")
    play.put("retried", max_attempts=2)
    play.claim("retried")
    play.wait(10)
    play.fail("retried")
    play.wait(1_500)
    play.claim("retried", worker="w-2")
    play.complete("retried")
    play.put("exhausted", max_attempts=2)
    play.claim("exhausted")
    play.fail("exhausted")
    play.wait(1_500)
    play.claim("exhausted")
    play.fail("exhausted")
    play.put("permanent")
    play.claim("permanent")
    play.fail("permanent", retryable=False)
    play.change(request.REPLAY, "permanent")
    play.claim("permanent")
    play.complete("permanent")
    play.put("snoozed")
    play.claim("snoozed")
    play.settle(state.SETTLE_SNOOZE, "snoozed", delay_ms=500)
    play.wait(600)
    play.claim("snoozed")
    play.settle(state.SETTLE_RELEASE, "snoozed")
    play.claim("snoozed")
    play.complete("snoozed")
    play.put("lapsed", lease_ms=1_000)
    play.claim("lapsed")
    play.wait(1_100)
    play.wait(1_500)
    play.claim("lapsed")
    play.complete("lapsed")
    play.put("overtime", timeout_ms=500, max_attempts=1)
    play.claim("overtime")
    play.wait(600)
    play.put("removed")
    play.change(request.REMOVE, "removed")
    play.put("changed", priority=1)
    play.wait(2_000)
    play.change(request.PRIORITY, "changed", priority=7)
    play.change(request.UPDATE, "changed", payload=b"[]")
    play.put("last")
    play.claim("changed")
    play.complete("changed")
    play.claim("last")
    play.complete("last")
    at = play.clock.wall
    play.bring(
        "brought",
        Past(
            id=7,
            state="ready",
            attempt=1,
            delivery=1,
            created_at=at - 9_000,
            ready_at=at - 8_000,
            started_at=at - 7_000,
        ),
    )
    play.claim("brought")
    play.complete("brought")
    play.bring(
        "ended-elsewhere",
        Past(
            id=8,
            state="completed",
            attempt=1,
            delivery=1,
            created_at=at - 9_000,
            ready_at=at - 8_000,
            started_at=at - 7_000,
            ended_at=at - 6_000,
        ),
    )


def times(play: Scenario) -> None:
    play.put("delayed", queue="timed", delay_ms=1_000)
    play.put("promoted", queue="timed", delay_ms=60_000)
    play.wait(1_000)
    play.wait(100)
    play.claim("delayed", queue="timed")
    play.complete("delayed")
    play.change(request.PROMOTE, "promoted")
    play.claim("promoted", queue="timed")
    play.complete("promoted")
    play.put("postponed", queue="timed")
    play.change(request.DELAY, "postponed", run_at=play.clock.wall + 5_000)
    play.put("expires", queue="timed", ttl_ms=2_000, delay_ms=1_999)
    play.put("in-time", queue="timed", ttl_ms=4_000)
    play.claim("in-time", queue="timed")
    play.complete("in-time")
    play.wait(6_000)
    play.claim("postponed", queue="timed")
    play.complete("postponed")


def limits(play: Scenario) -> None:
    play.set(request.QUEUE, "narrow", concurrency=2)
    for name in ("narrow-1", "narrow-2", "narrow-3"):
        play.put(name, queue="narrow")
    play.claim("narrow-1", "narrow-2", queue="narrow", n=3)
    play.complete("narrow-1")
    play.claim("narrow-3", queue="narrow")
    play.set(request.QUEUE, "narrow", concurrency=1)  # two run on
    play.complete("narrow-2", "narrow-3")
    play.set(request.TENANT, "small", running_max=2)
    for name in ("small-1", "small-2"):
        play.put(name, tenant="small")
    play.claim("small-1", "small-2", tenant="small")
    play.complete("small-1", "small-2", tenant="small")
    play.set(request.KEY, "api:", concurrency=2)
    play.set(request.KEY, "api:slow:", concurrency=1)
    for name in ("keyed-1", "keyed-2"):
        play.put(name, limit_keys=["api:a"])
    play.put("keyed-slow", limit_keys=["api:slow:b"])
    play.claim("keyed-1", "keyed-2", "keyed-slow")
    play.complete("keyed-1", "keyed-2", "keyed-slow")
    play.set(request.KEY, "common:", shared=True, concurrency=2)
    play.put("common-1", limit_keys=["common:x"])
    play.put("common-2", tenant="small", limit_keys=["common:x"])
    play.claim("common-1")
    play.claim("common-2", tenant="small")
    play.complete("common-1")
    play.complete("common-2", tenant="small")
    play.set(request.QUEUE, "slow", rate=Rate(2, 1_000))
    for name in ("slow-1", "slow-2", "slow-3"):
        play.put(name, queue="slow")
    play.claim("slow-1", "slow-2", queue="slow", n=3)
    play.wait(500)
    play.claim("slow-3", queue="slow")
    play.complete("slow-1", "slow-2", "slow-3")
    play.set(request.KEY, "sms:", rate=Rate(2, 1_000))
    play.put("sms-1", limit_keys=["sms:1"])
    play.put("sms-2", limit_keys=["sms:1"])
    play.claim("sms-1", "sms-2")
    play.complete("sms-1", "sms-2")
    play.set(request.TENANT, "rated", rate=Rate(2, 1_000))
    play.put("rated-1", tenant="rated")
    play.put("rated-2", tenant="rated")
    play.claim("rated-1", "rated-2", tenant="rated")
    play.complete("rated-1", "rated-2", tenant="rated")
    play.set(request.QUEUE, "halted", paused=True)
    play.put("halted", queue="halted")
    play.set(request.QUEUE, "halted", paused=None)
    play.claim("halted", queue="halted")
    play.complete("halted")


def groups(play: Scenario) -> None:
    for name, group in (("first", "g1"), ("second", "g1"), ("other", "g2"), ("third", "g3"), ("ahead", "g4")):
        play.put(name, queue="line", group=group, priority=5 if name == "ahead" else 0)
    play.claim("ahead", queue="line")
    play.complete("ahead")
    play.claim("first", "other", queue="line", n=2)
    play.complete("first", "other")
    play.claim("second", queue="line")
    play.complete("second")
    play.claim("third", queue="line")
    play.complete("third")
    play.put("wide-1", queue="wide", group="w")
    play.put("wide-2", queue="wide", group="w")
    play.set(request.QUEUE, "wide", group_concurrency=2)
    play.claim("wide-1", "wide-2", queue="wide")
    play.complete("wide-1", "wide-2")
    play.put("unique", queue="keys", unique_key="one")
    play.put("unique-too", queue="keys", unique_key="two")
    play.claim("unique", "unique-too", queue="keys")
    play.complete("unique", "unique-too")
    play.put("unique-again", queue="keys", unique_key="one")
    play.claim("unique-again", queue="keys")
    play.complete("unique-again")


def needs(play: Scenario) -> None:
    play.put("need", queue="flow")
    play.put("need-2", queue="flow")
    play.put("waiting", queue="flow", depends_on=[play.jobs["need"], play.jobs["need-2"]])
    play.put("doomed", queue="flow", depends_on=[play.jobs["need-2"]])
    play.put("any", queue="flow", dependency_policy="any_success", depends_on=[play.jobs["need"], play.jobs["need-2"]])
    play.claim("need", "need-2", queue="flow")
    play.complete("need")
    play.wait(1)
    play.claim("any", queue="flow")
    play.complete("any")
    play.fail("need-2", retryable=False)
    play.wait(1)
    play.put("free", queue="flow")
    play.put("later", queue="flow")
    play.claim("free", queue="flow")
    play.claim("later", queue="flow")
    play.complete("free", "later")
    play.put("alive", queue="flow")
