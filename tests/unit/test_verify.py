"""`Engine.verify` finds damage: each kind is planted in an engine with something of everything, and must be named."""

from collections.abc import Callable

import pytest

from tenure.core import request, state
from tenure.core.bound import make_claim, make_extras, make_options
from tenure.core.clock import Now
from tenure.core.limit import Bucket, Rate
from tenure.core.request import Batch, Change, Configure, Settle
from tenure.core.tenant import Context
from tenure.core.token import SECRET_BYTES
from tenure.engine.alarm import Alarm
from tenure.engine.engine import Engine
from tenure.engine.holders import Holders
from tenure.engine.idempotency import leave
from tenure.engine.job import LINE, NOWHERE, Job, Lease, Side
from tenure.engine.ring import deactivate
from tenure.engine.staged import Share
from tenure.engine.world import Group, Limit, Queue, Tenant, World

NOW = Now(1_700_000_000_000, 5_000)
ACME = Context(tenant="acme")
OPTIONS = {"queue", "task", "delay_ms", "limit_keys", "priority", "max_attempts", "ttl_ms"}


def spent_bucket() -> Bucket:
    """One token a second, and none left."""
    bucket = Bucket(Rate(1, 1_000), NOW.elapsed_ms)
    bucket.take(1)
    return bucket


class Rig:
    """An engine with jobs in every state and place, and what is needed to break it."""

    def __init__(self) -> None:
        self.engine = Engine(bytes(range(SECRET_BYTES)), 1, NOW)
        self.engine.configure(ACME, Configure(request.KEY, "api:", {"concurrency": 1}), NOW)
        self.lined = [self.enqueue(queue="lined") for _ in range(3)]
        self.scheduled = self.enqueue(queue="timed", delay_ms=60_000, ttl_ms=120_000)
        self.blocked = self.enqueue(queue="timed", depends_on=[self.scheduled])
        self.running = [self.enqueue(queue="busy", payload=b"work") for _ in range(2)]
        self.claim("busy", 2)
        self.completed = self.enqueue(queue="done", payload=b"done")
        self.settle(state.SETTLE_COMPLETE, self.completed, self.claim("done"))
        self.failed = self.enqueue(queue="done", max_attempts=1)
        self.settle(state.SETTLE_FAIL, self.failed, self.claim("done"))
        self.retrying = self.enqueue(queue="timed")
        self.settle(state.SETTLE_FAIL, self.retrying, self.claim("timed"))
        self.grouped = [self.enqueue(queue="group", group="g") for _ in range(3)]
        self.claim("group")
        self.limited = [self.enqueue(queue="limit", limit_keys=["api:x"]) for _ in range(3)]
        self.claim("limit", 3)
        self.aside = self.enqueue(queue="aside", task="rare")
        self.claim("aside", tasks=["common"])
        self.keyed = self.enqueue(queue="keyed", unique_key="u", custom_id="c", idempotency_key="i")
        self.cancelled = self.enqueue(queue="cancel", group="h", limit_keys=["api:y"])
        self.claim("cancel")
        self.engine.change(ACME, Change(request.CANCEL, [self.cancelled]), NOW)
        self.engine.claim(ACME, make_claim("nothing", wait_ms=1_000), NOW)

    @property
    def w(self) -> World:
        return self.engine._w

    def enqueue(self, payload: bytes = b"", **fields: object) -> int:
        options = make_options(**{field: value for field, value in fields.items() if field in OPTIONS})
        extras = make_extras(**{field: value for field, value in fields.items() if field not in OPTIONS})
        answers = self.engine.enqueue(ACME, Batch(options, [payload], [extras]), NOW)
        assert not answers.errors()
        return answers.ids[0]

    def claim(self, queue: str, n: int = 1, tasks: list[str] | None = None) -> bytes:
        return self.engine.claim(ACME, make_claim(queue, n, tasks=tasks), NOW).token

    def settle(self, verb: int, id: int, token: bytes) -> None:
        assert not self.engine.settle(ACME, Settle(verb, [id], [token]), NOW).errors()

    # Where to reach in.

    def job(self, id: int) -> Job:
        found = self.w.index.get(id)
        assert found is not None
        return found

    def side(self, id: int) -> Side:
        found = self.job(id).side
        assert found is not None
        return found

    def lease(self, id: int) -> Lease:
        found = self.job(id).lease
        assert found is not None
        return found

    def alarm(self, id: int) -> Alarm:
        found = self.job(id).alarm
        assert found is not None
        return found

    def queue(self, name: str) -> Queue:
        found = self.w.find_queue("acme", name)
        assert found is not None
        return found

    def holders(self, queue: str) -> Holders:
        tables = self.queue(queue).holders
        assert tables is not None
        return tables["default"]

    @property
    def tenant(self) -> Tenant:
        return self.w.tenants[self.w.tenant_numbers["acme"]]

    def group(self, queue: str, name: str) -> Group:
        groups = self.queue(queue).groups
        assert groups is not None
        return groups[name]

    def limit(self, key: str) -> Limit:
        limits = self.tenant.limits
        assert limits is not None
        return self.w.limits[limits[key]]


def test_sound_engine_has_nothing_to_say() -> None:
    rig = Rig()
    assert rig.engine.verify() == []
    counts = rig.engine.count(ACME, "", NOW)
    present = {name for of_queue in counts.values() for name, number in of_queue.items() if number}
    assert present == set(state.STATE_NAMES)


# Each kind of damage: its name, a piece of what `verify` must say, and how it is done.
Damage = Callable[[Rig], None]
DAMAGES: list[tuple[str, str, Damage]] = []


def damage(finding: str) -> Callable[[Damage], Damage]:
    def note(plant: Damage) -> Damage:
        DAMAGES.append((plant.__name__, finding, plant))
        return plant

    return note


# Counts.


@damage("queue acme/lined counts 4 ready, has 3")
def count_of_a_queue(rig: Rig) -> None:
    rig.queue("lined").ready += 1


@damage("queue acme/timed counts 0 scheduled, has 1")
def count_of_scheduled(rig: Rig) -> None:
    rig.queue("timed").scheduled -= 1


@damage("queue acme/timed counts 2 blocked, has 1")
def count_of_blocked(rig: Rig) -> None:
    rig.queue("timed").blocked += 1


@damage("queue acme/timed counts 0 retrying, has 1")
def count_of_retrying(rig: Rig) -> None:
    rig.queue("timed").retrying -= 1


@damage("queue acme/busy counts 1 running, has 2")
def count_of_running(rig: Rig) -> None:
    rig.queue("busy").running -= 1


@damage("queue acme/done counts 2 completed, has 1")
def count_of_completed(rig: Rig) -> None:
    rig.queue("done").completed += 1


@damage("queue acme/done counts 0 failed, has 1")
def count_of_failed(rig: Rig) -> None:
    rig.queue("done").failed -= 1


@damage("queue acme/cancel counts 2 cancelled, has 1")
def count_of_cancelled(rig: Rig) -> None:
    rig.queue("cancel").cancelled += 1


@damage("queue acme/busy counts 9 bytes, has 8")
def bytes_of_a_queue(rig: Rig) -> None:
    rig.queue("busy").bytes += 1


@damage("queue acme/limit counts 1 parked")
def count_of_parked(rig: Rig) -> None:
    rig.queue("limit").parked -= 1


@damage("queue acme/cancel")
def held_over_of_a_queue(rig: Rig) -> None:
    rig.queue("cancel").held_over += 1


@damage("store counts")
def live_jobs_of_the_store(rig: Rig) -> None:
    rig.w.jobs += 1


@damage("store counts")
def ended_jobs_of_the_store(rig: Rig) -> None:
    rig.w.terminal_jobs -= 1


@damage("store counts 9 bytes, has 8")
def bytes_of_the_store(rig: Rig) -> None:
    rig.w.bytes += 1


@damage("store counts 5 ended bytes, has 4")
def ended_bytes_of_the_store(rig: Rig) -> None:
    rig.w.terminal_bytes += 1


@damage("store")
def staged_jobs_of_the_store(rig: Rig) -> None:
    rig.w.staged_jobs += 1


@damage("store keeps room")
def room_that_is_kept_for_no_load(rig: Rig) -> None:
    rig.w.kept["acme", "lined"] = Share("lined")


@damage("store keeps room")
def bytes_that_are_kept_for_no_load(rig: Rig) -> None:
    rig.w.kept_held += 1


@damage("tenant acme counts")
def jobs_of_a_tenant(rig: Rig) -> None:
    rig.tenant.jobs -= 1


@damage("tenant acme counts")
def running_jobs_of_a_tenant(rig: Rig) -> None:
    rig.tenant.running += 1


@damage("tenant acme counts 2 held over, has 1")
def held_over_of_a_tenant(rig: Rig) -> None:
    rig.tenant.held_over += 1


@damage("tenant acme")
def bytes_of_a_tenant(rig: Rig) -> None:
    rig.tenant.bytes += 1


@damage("index has")
def size_of_the_index(rig: Rig) -> None:
    rig.w.index.size += 1


@damage("queue acme/lined")
def jobs_of_shared_options(rig: Rig) -> None:
    rig.job(rig.lined[0]).spec.jobs += 1


# Lines and places.


@damage("queue acme/lined: its line holds [1, 2], should hold [1, 2, 3]")
def job_missing_from_its_line(rig: Rig) -> None:
    rig.queue("lined").order.remove(rig.job(rig.lined[2]))


@damage("queue acme/lined: its line is out of order")
def line_out_of_order(rig: Rig) -> None:
    first, last = rig.job(rig.lined[0]), rig.job(rig.lined[2])
    first.number, last.number = last.number, first.number


@damage("job 1 (ready) stands in nowhere")
def ready_job_that_stands_nowhere(rig: Rig) -> None:
    rig.job(rig.lined[0]).place = NOWHERE


@damage("(running) stands in line")
def running_job_that_stands_in_line(rig: Rig) -> None:
    rig.job(rig.running[0]).place = LINE


@damage("(scheduled) stands in timed")
def scheduled_job_without_an_alarm(rig: Rig) -> None:
    rig.job(rig.scheduled).alarm = None


@damage("(retrying) stands in timed")
def retrying_job_whose_alarm_is_dead(rig: Rig) -> None:
    rig.w.wall.cancel(rig.alarm(rig.retrying))


@damage("(scheduled) stands in timed")
def scheduled_job_whose_alarm_rings_at_another_time(rig: Rig) -> None:
    rig.job(rig.scheduled).run_at += 1


@damage("(scheduled)")
def expiry_that_will_not_ring(rig: Rig) -> None:
    expiry = rig.side(rig.scheduled).expiry
    assert expiry is not None
    rig.w.wall.cancel(expiry)


@damage("queue acme/done: ended jobs")
def ended_job_missing_from_its_line(rig: Rig) -> None:
    job = rig.job(rig.completed)
    rig.w.kepts[job.spec.kept_done].line.remove(job)


@damage("queue acme/lined: in ring False, claimable True")
def claimable_queue_outside_its_ring(rig: Rig) -> None:
    rig.queue("lined").in_ring = False


@damage("rings count")
def ring_that_counts_too_many(rig: Rig) -> None:
    rig.queue("lined").lane.ring.valid += 1


@damage("set aside")
def job_missing_from_its_aside(rig: Rig) -> None:
    asides = rig.queue("aside").asides
    assert asides is not None
    asides["rare"].order.remove(rig.job(rig.aside))


@damage("aside rare has no alarm")
def aside_without_an_alarm(rig: Rig) -> None:
    asides = rig.queue("aside").asides
    assert asides is not None
    asides["rare"].alarm = None


# Groups.


@damage("group g counts 2 busy")
def busy_slots_of_a_group(rig: Rig) -> None:
    rig.group("group", "g").busy += 1


@damage("group g counts 2 jobs")
def jobs_of_a_group(rig: Rig) -> None:
    rig.group("group", "g").jobs -= 1


@damage("queue acme/group: group members hold")
def member_missing_from_its_group(rig: Rig) -> None:
    rig.group("group", "g").members.remove(rig.job(rig.grouped[1]))


@damage("group g lets nobody out")
def group_with_room_that_lets_nobody_out(rig: Rig) -> None:
    rig.side(rig.grouped[0]).holds_group = False
    rig.group("group", "g").busy = 0


@damage("queue acme/group has lost a group")
def group_that_is_lost(rig: Rig) -> None:
    rig.queue("group").groups = None


@damage("let out job")
def group_that_let_out_a_stranger(rig: Rig) -> None:
    rig.group("group", "g").standing.append(rig.completed)


@damage("group g")
def group_that_keeps_a_slot_for_nobody(rig: Rig) -> None:
    rig.group("group", "g").kept.append(rig.lined[0])


@damage("still holds a group or key")
def ended_job_that_holds_its_group(rig: Rig) -> None:
    rig.side(rig.cancelled).holds_group = True


# Limits.


@damage("limit api:x counts 2 running")
def running_jobs_of_a_limit(rig: Rig) -> None:
    rig.limit("api:x").running += 1


@damage("limit api:x parks 1, jobs say 2")
def job_missing_from_its_limit(rig: Rig) -> None:
    parked = rig.limit("api:x").parked
    assert parked is not None
    parked[rig.queue("limit").number].remove(rig.job(rig.limited[1]))


@damage("limit api:x has 1 candidates")
def candidate_that_is_none(rig: Rig) -> None:
    rig.limit("api:x").candidates = {int(rig.queue("limit").number): 1}


@damage("are held but gone")
def limit_that_is_lost(rig: Rig) -> None:
    del rig.w.limits[rig.limit("api:x").number]


@damage("limit api:x has room and holds back jobs of ")
def limit_with_room_that_holds_jobs_back(rig: Rig) -> None:
    rig.limit("api:x").concurrency = 2


@damage("limit api:x waits until 6000, its alarm is of 0")
def pause_of_a_limit_that_nobody_ends(rig: Rig) -> None:
    rig.limit("api:x").paused_until = NOW.elapsed_ms + 1_000


@damage("limit api:x waits until 6000, its alarm is of 0")
def rate_of_a_limit_that_nobody_looks_at(rig: Rig) -> None:
    rig.limit("api:x").bucket = spent_bucket()


@damage("queue acme/lined waits for its rate and has no alarm")
def rate_of_a_queue_that_nobody_looks_at(rig: Rig) -> None:
    queue = rig.queue("lined")
    queue.bucket = spent_bucket()
    deactivate(rig.w, queue)


@damage("queue acme/lined waits for its tenant, which does not know")
def queue_that_its_tenant_does_not_wake(rig: Rig) -> None:
    rig.tenant.running_max = 0
    deactivate(rig.w, rig.queue("lined"))


@damage("queue acme/lined waits for its tenant's rate and has no alarm")
def rate_of_a_tenant_that_nobody_looks_at(rig: Rig) -> None:
    queue = rig.queue("lined")
    rig.tenant.bucket = spent_bucket()
    rig.tenant.held_queues = [int(queue.number)]
    queue.held = True
    deactivate(rig.w, queue)


@damage("group g holds back job ")
def group_that_let_out_the_second_before_the_first(rig: Rig) -> None:
    group = rig.group("group", "g")
    third = rig.job(rig.grouped[2])
    group.members.remove(third)
    group.standing.append(rig.grouped[2])
    third.place = LINE
    rig.queue("group").group_concurrency = 2


@damage("holds limit slots")
def waiting_job_that_holds_slots(rig: Rig) -> None:
    rig.side(rig.keyed).holds = [int(rig.limit("api:x").number)]


@damage("limit api:y counts 1 running")
def holdover_that_forgot_its_limit(rig: Rig) -> None:
    for holdover in rig.w.holdovers.values():
        holdover.limits = None


# Leases.


@damage("has no live lease")
def running_job_without_a_lease(rig: Rig) -> None:
    rig.job(rig.running[0]).lease = None


@damage("has no live lease")
def running_job_whose_lease_is_over(rig: Rig) -> None:
    rig.w.elapsed.cancel(rig.lease(rig.running[0]))


@damage("counts 3 jobs")
def jobs_of_a_lease(rig: Rig) -> None:
    rig.lease(rig.running[0]).count += 1


@damage("is not in its lease's list")
def job_missing_from_its_lease(rig: Rig) -> None:
    rig.lease(rig.running[0]).ids.remove(rig.running[0])


@damage("has two tokens")
def claim_with_two_tokens(rig: Rig) -> None:
    lease = rig.lease(rig.running[0])
    other = Lease(lease.due_ms, 9_999, lease.token[:-1] + b"\0", "", 1, 0)
    other.count = 1
    other.ids.append(rig.running[0])
    lease.count -= 1
    rig.job(rig.running[0]).lease = other


@damage("is at attempt 4 of 3")
def attempt_too_many(rig: Rig) -> None:
    rig.job(rig.running[0]).attempt = 4


# Keys.


@damage("tenant acme: custom ids")
def custom_id_that_is_lost(rig: Rig) -> None:
    assert rig.tenant.custom_ids is not None
    rig.tenant.custom_ids.remove("c")


@damage("tenant acme: custom ids")
def custom_id_of_another_job(rig: Rig) -> None:
    assert rig.tenant.custom_ids is not None
    rig.tenant.custom_ids.set("c", rig.lined[0])


@damage("queue acme/keyed: unique keys")
def unique_key_that_is_lost(rig: Rig) -> None:
    unique = rig.queue("keyed").unique
    assert unique is not None
    unique.remove("u")


@damage("queue acme/keyed: unique keys")
def unique_key_held_by_nobody(rig: Rig) -> None:
    unique = rig.queue("keyed").unique
    assert unique is not None
    unique.set("stray", rig.lined[0])


@damage("queue acme/keyed")
def idempotency_key_that_will_not_end(rig: Rig) -> None:
    rig.w.wall.cancel(leave(rig.w, rig.queue("keyed"), "default", "j", 0, rig.w.wall_ms + 1))


@damage("the job is there")
def idempotency_key_kept_beside_its_job(rig: Rig) -> None:
    leave(rig.w, rig.queue("keyed"), "default", "j", rig.keyed, rig.w.wall_ms + 1)


@damage("does not have the idempotency key it is said to")
def idempotency_key_of_another(rig: Rig) -> None:
    rig.holders("keyed").put("j", rig.lined[0])


@damage("does not have the idempotency key it is said to")
def idempotency_key_with_another_text(rig: Rig) -> None:
    rig.job(rig.keyed).key = "j"


@damage("counts 2")
def idempotency_keys_that_are_miscounted(rig: Rig) -> None:
    rig.holders("keyed").size += 1


@damage("hold idempotency keys of nobody")
def idempotency_key_that_is_nowhere(rig: Rig) -> None:
    rig.holders("keyed").drop("i", rig.keyed)


# Dependencies and waits.


@damage("waits for nothing")
def blocked_job_that_waits_for_nothing(rig: Rig) -> None:
    rig.side(rig.blocked).pending = 0


@damage("(blocked)")
def blocked_job_that_counts_too_many(rig: Rig) -> None:
    rig.side(rig.blocked).pending = 2


@damage("job ")
def dependency_that_forgot_its_dependent(rig: Rig) -> None:
    rig.side(rig.scheduled).dependents = None


@damage("has -1 pins")
def pins_below_nothing(rig: Rig) -> None:
    rig.side(rig.blocked).pins = -1


@damage("(scheduled)")
def pin_of_nobody(rig: Rig) -> None:
    rig.side(rig.scheduled).pins += 1


@damage("still has watchers")
def ended_job_with_watchers(rig: Rig) -> None:
    rig.side(rig.failed).watchers = [1]


@damage("lanes count 2 waiting claims, waiters say 1")
def waiting_claim_that_is_counted_twice(rig: Rig) -> None:
    rig.w.lanes["nothing"].waiting += 1


@pytest.mark.parametrize(("finding", "plant"), [pytest.param(text, plant, id=name) for name, text, plant in DAMAGES])
def test_planted_damage_is_named(finding: str, plant: Damage) -> None:
    rig = Rig()
    plant(rig)
    found = rig.engine.verify()
    assert any(finding in text for text in found), found


def test_findings_are_bounded() -> None:
    rig = Rig()
    for _ in range(300):
        rig.enqueue(queue="lined")
    for job in rig.queue("lined").order.jobs():
        job.place = NOWHERE
    assert 0 < len(rig.engine.verify()) <= 100


def test_verifying_changes_nothing() -> None:
    rig = Rig()
    before = rig.engine.events(ACME, "", 1_000, NOW)
    rig.engine.verify()
    assert rig.engine.events(ACME, "", 1_000, NOW) == before
    assert rig.engine.verify() == []
