"""The reference model by itself: it must say what docs/semantics.md says before it may judge anything else."""

from typing import Any

from tenure.core.answer import Outcome
from tenure.core.bound import make_claim, make_extras, make_failure, make_options
from tenure.core.clock import Now
from tenure.core.limit import Rate
from tenure.core.request import CANCEL, KEY, QUEUE, REPLAY, TENANT, Batch, Change, Configure, Extend, Settle
from tenure.core.retry import FIXED, LISTED, Backoff
from tenure.core.state import (
    SETTLE_COMPLETE,
    SETTLE_FAIL,
    SETTLE_RELEASE,
    SETTLE_SNOOZE,
    STATE_NAMES,
)
from tenure.core.tenant import Context
from tests.model.model import Model, Observed

START = 1_000_000_000
SECOND = Backoff(FIXED, 1_000)


class Script:
    """A model with a clock, told what to do in few words."""

    def __init__(self) -> None:
        self.model = Model(b"s" * 32, 1, Now(START, 0))
        self.elapsed = 0
        self.token = b""

    def wait(self, ms: int) -> None:
        self.elapsed += ms
        self.begin()
        self.model.end(Observed())

    def begin(self) -> None:
        self.model.begin(Now(START + self.elapsed, self.elapsed), Observed())

    def add(self, tenant: str = "a", extras: dict[str, object] | None = None, **options: object) -> Outcome:
        self.begin()
        batch = Batch(make_options(**options), [b"x"], [make_extras(**(extras or {}))])
        [answer] = self.model.enqueue(Context(tenant), batch)
        self.model.end(Observed())
        return answer

    def take(self, n: int = 1, tenants: tuple[str, ...] = (), wait_ms: int = 0, **wish: object) -> list[int]:
        self.begin()
        claim = make_claim(n=n, wait_ms=wait_ms, **wish)
        ids = self.model.claim(Context("a", tenants), claim, Observed(ticket=77 if wait_ms else 0))
        self.token = self.model.mint.token(self.model.claims)
        self.model.end(Observed())
        return ids

    def say(self, verb: int, id: int, token: bytes | None = None, **order: object) -> Outcome:
        self.begin()
        settle = Settle(verb, [id], [token or self.token])
        for name, value in order.items():
            setattr(settle, name, value)
        [answer] = self.model.settle(Context("a", ("*",)), settle)
        self.model.end(Observed())
        return answer

    def fail(self, id: int, token: bytes | None = None, **failure: object) -> Outcome:
        return self.say(SETTLE_FAIL, id, token, failures=[make_failure(**failure)])

    def do(self, action: int, id: int) -> Outcome:
        self.begin()
        answers = self.model.change(Context("a"), Change(action, [id]))
        self.model.end(Observed())
        assert isinstance(answers, list)
        return answers[0]

    def set(self, subject: int, name: str, **changes: object) -> None:
        self.begin()
        self.model.configure(Context("a"), Configure(subject, name, changes))
        self.model.end(Observed())

    def state(self, id: int) -> str:
        return STATE_NAMES[self.model.world.jobs[id].state]

    def types(self) -> list[str]:
        return [seen.type for seen in self.model.seen]


def code(answer: Outcome) -> str:
    return answer.error.code if answer.error is not None else ""


def test_higher_priority_goes_first_then_order_of_readiness() -> None:
    script = Script()
    ids = [script.add(priority=priority).id for priority in (0, 5, 0, 5)]
    assert script.take(4) == [ids[1], ids[3], ids[0], ids[2]]


def test_scheduled_job_with_high_priority_is_not_in_front() -> None:
    script = Script()
    script.add(priority=9, delay_ms=100)
    low = script.add()
    assert script.take(2) == [low.id]


def test_lifo_goes_in_front_of_its_priority() -> None:
    script = Script()
    first, last = script.add().id, script.add(lifo=True).id
    assert script.take(2) == [last, first]


def test_ageing_lets_an_old_job_pass_a_newer_one_of_higher_priority() -> None:
    script = Script()
    script.set(QUEUE, "default", age_ms=1_000)
    old = script.add().id
    script.wait(10_000)
    new = script.add(priority=5).id
    assert script.take(2) == [old, new]


def test_released_job_keeps_its_place_and_its_attempt() -> None:
    script = Script()
    first, second = script.add().id, script.add().id
    script.take()
    assert STATE_NAMES[script.say(SETTLE_RELEASE, first).state] == "ready"
    assert script.model.world.jobs[first].attempt == 0
    assert script.take(2) == [first, second]


def test_failed_job_is_retried_then_dead() -> None:
    script = Script()
    id = script.add(max_attempts=2, backoff=SECOND).id
    script.take()
    assert STATE_NAMES[script.fail(id).state] == "retrying"
    script.wait(999)
    assert script.state(id) == "retrying"
    script.wait(1)
    assert script.take() == [id]
    assert STATE_NAMES[script.fail(id).state] == "failed"
    assert script.model.world.jobs[id].reason == "attempts_exhausted"


def test_zero_delay_makes_ready_at_once_with_a_new_number() -> None:
    script = Script()
    first, second = script.add(backoff=Backoff(LISTED, delays_ms=(0,))).id, script.add().id
    script.take()
    script.fail(first)
    assert script.types() == ["retrying"]
    assert script.take(2) == [second, first]


def test_lease_is_over_at_its_deadline() -> None:
    script = Script()
    id = script.add(backoff=SECOND).id
    script.take(lease_ms=1_000)
    script.wait(999)
    assert script.state(id) == "running"
    script.wait(1)
    assert script.state(id) == "retrying"
    late = script.say(SETTLE_COMPLETE, id)
    assert code(late) == "LeaseLost"


def test_extension_does_not_pass_the_timeout_nor_shorten() -> None:
    script = Script()
    id = script.add(timeout_ms=5_000).id
    script.take(lease_ms=3_000)
    script.begin()
    order = Extend([id], [script.token], 60_000)
    assert script.model.extend(Context("a"), order) == [START + 5_000]
    assert script.model.extend(Context("a"), Extend([id], [script.token], 1_000)) == [START + 5_000]


def test_order_of_checks_in_settle() -> None:
    script = Script()
    id = script.add(backoff=Backoff(LISTED, delays_ms=(0,))).id
    script.take()
    first = script.token
    assert code(script.say(SETTLE_COMPLETE, id, b"?" * 20)) == "LeaseLost"
    assert code(script.say(SETTLE_COMPLETE, 99, first)) == "AlreadySettled"
    assert code(script.say(SETTLE_COMPLETE, 99, b"?" * 20)) == "JobNotFound"
    answer = script.fail(id)
    assert (script.fail(id).state, code(script.say(SETTLE_COMPLETE, id))) == (answer.state, "AlreadySettled")
    script.take()
    assert script.fail(id, first).state == answer.state
    script.say(SETTLE_COMPLETE, id)
    assert code(script.fail(id, first)) == "LeaseLost"


def test_cancel_wins_and_holds_the_slot_until_the_worker_confirms() -> None:
    script = Script()
    script.set(QUEUE, "default", concurrency=1)
    id, next_id = script.add().id, script.add().id
    script.take()
    token = script.token
    script.do(CANCEL, id)
    assert script.take() == []
    assert code(script.say(SETTLE_COMPLETE, id, token)) == "JobCancelled"
    assert script.take() == [next_id]


def test_holdover_ends_at_the_old_deadline() -> None:
    script = Script()
    script.set(QUEUE, "default", concurrency=1)
    id, next_id = script.add().id, script.add().id
    script.take(lease_ms=5_000)
    script.do(CANCEL, id)
    script.wait(4_999)
    assert script.take() == []
    script.wait(1)
    assert script.take() == [next_id]


def test_strict_group_waits_for_its_retrying_head_and_relaxed_does_not() -> None:
    for order, expected in (("strict", False), ("relaxed", True)):
        script = Script()
        script.set(QUEUE, "default", group_order=order)
        first = script.add(extras={"group": "g"}, backoff=SECOND).id
        second = script.add(extras={"group": "g"}, priority=9).id
        assert script.take(2) == [first]
        script.fail(first)
        assert (script.take(2) == [second]) is expected


def test_key_concurrency_holds_only_jobs_of_the_key() -> None:
    script = Script()
    script.set(KEY, "k", concurrency=1)
    first = script.add(limit_keys=("k1",)).id
    script.add(limit_keys=("k1",))
    free = script.add().id
    assert script.take(3) == [first, free]


def test_rate_is_taken_only_when_leased_and_refills() -> None:
    script = Script()
    script.set(QUEUE, "default", rate=Rate(1, 1_000))
    assert script.take() == []
    ids = [script.add().id for _ in range(3)]
    assert script.take(3) == ids[:1]
    script.wait(999)
    assert script.take(3) == []
    script.wait(1)
    assert script.take(3) == ids[1:2]


def test_tenants_take_turns_by_weight() -> None:
    script = Script()
    script.set(TENANT, "b", weight=2)
    ids = {tenant: [script.add(tenant).id for _ in range(4)] for tenant in "ab"}
    a, b = ids["a"], ids["b"]
    assert script.take(8, ("*",)) == [a[0], b[0], b[1], a[1], b[2], b[3], a[2], a[3]]
    assert not script.model.fairness.problems


def test_dependent_waits_and_fails_with_its_dependency() -> None:
    script = Script()
    first = script.add().id
    after = script.add(extras={"depends_on": [first]}).id
    done = script.add(extras={"depends_on": [first]}, dependency_policy="all_done").id
    assert script.state(after) == "blocked"
    script.do(CANCEL, first)
    assert (script.state(after), script.state(done)) == ("failed", "ready")
    assert code(script.add(extras={"depends_on": [99]})) == "DependencyNotFound"
    assert code(script.do(REPLAY, after)) == "Conflict"


def test_unique_key_is_free_when_the_job_ends() -> None:
    script = Script()
    first = script.add(extras={"unique_key": "u"})
    again = script.add(extras={"unique_key": "u"})
    assert (again.id, again.duplicate) == (first.id, True)
    script.take()
    script.say(SETTLE_COMPLETE, first.id)
    assert not script.add(extras={"unique_key": "u"}).duplicate


def test_idempotency_key_outlives_its_job() -> None:
    script = Script()
    extras: dict[str, object] = {"idempotency_key": "i"}
    first = script.add(extras=extras, idempotency_ttl_ms=10_000, keep_completed_ms=0)
    script.take()
    script.say(SETTLE_COMPLETE, first.id)
    assert first.id not in script.model.world.jobs
    again = script.add(extras=extras)
    assert (again.id, STATE_NAMES[again.state]) == (first.id, "completed")
    script.wait(10_000)
    assert not script.add(extras=extras).duplicate


def test_trailing_debounce_moves_and_replaces_within_its_bound() -> None:
    script = Script()
    options: Any = {"debounce_ms": 100, "debounce_mode": "trailing", "debounce_max_wait_ms": 150}
    first = script.add(extras={"debounce_key": "d"}, **options)
    script.wait(90)
    again = script.add(extras={"debounce_key": "d"}, **options)
    assert (again.id, again.duplicate, again.replaced) == (first.id, True, True)
    script.wait(59)
    assert script.state(first.id) == "scheduled"
    script.wait(1)
    assert script.state(first.id) == "ready"
    assert script.add(extras={"debounce_key": "d"}, **options).id != first.id


def test_atomic_batch_stores_nothing_when_one_item_is_bad() -> None:
    script = Script()
    script.begin()
    batch = Batch(make_options(lifo=True), [b"x", b"y"], [None, make_extras(group="g")], atomic=True)
    answers = script.model.enqueue(Context("a"), batch)
    assert [code(answer) for answer in answers] == ["Conflict", "InvalidRequest"]
    assert not script.model.world.jobs
    assert script.add().id == 1


def test_waiting_claims_are_served_first_come_first_served() -> None:
    script = Script()
    assert script.take(wait_ms=1_000) == []
    id = script.add().id
    assert script.model.expected.claims == {77: [id]}
    assert script.take(wait_ms=1_000) == []
    script.wait(1_000)
    assert script.model.expected.claims == {77: []}


def test_unknown_task_is_abandoned_after_an_hour() -> None:
    script = Script()
    id = script.add(task="odd").id
    assert script.take(tasks=["known"]) == []
    script.wait(3_599_999)
    assert script.state(id) == "ready"
    script.wait(1)
    assert script.model.world.jobs[id].reason == "unknown_task"


def test_retention_by_count_spares_the_last_minute() -> None:
    script = Script()
    ids = [script.add(keep_completed_count=1).id for _ in range(2)]
    script.take(2)
    for id in ids:
        script.say(SETTLE_COMPLETE, id)
    script.wait(59_999)
    assert sorted(script.model.world.jobs) == ids
    script.wait(1)
    assert sorted(script.model.world.jobs) == ids[1:]
    assert script.model.seen[-1].reason == "count"


def test_releases_are_bounded_and_snoozes_are_not() -> None:
    script = Script()
    id = script.add(max_attempts=1).id
    for _ in range(60):
        script.take()
        assert STATE_NAMES[script.say(SETTLE_SNOOZE, id).state] == "ready"
    for _ in range(50):
        script.take()
        assert STATE_NAMES[script.say(SETTLE_RELEASE, id).state] == "ready"
    script.take()
    assert STATE_NAMES[script.say(SETTLE_RELEASE, id).state] == "failed"
    assert script.model.world.jobs[id].reason == "delivery_limit"


def test_expiry_spares_a_running_attempt_but_not_the_next() -> None:
    script = Script()
    id = script.add(ttl_ms=500).id
    script.take()
    script.wait(1_000)
    assert script.state(id) == "running"
    script.fail(id)
    script.wait(0)
    assert script.model.world.jobs[id].reason == "expired"
