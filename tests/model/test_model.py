"""The engine against the model: random histories, every step compared.

The test runs the same histories every time; `python -m tests.model` (`make model`) runs new ones.
"""

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tenure.core import request
from tenure.core.answer import Claimed
from tenure.core.bound import make_failure
from tenure.core.job import Extras
from tenure.core.request import Append, Batch, Change, Configure, Extend, Filter, Settle
from tenure.core.state import (
    SETTLE_CANCEL,
    SETTLE_COMPLETE,
    SETTLE_FAIL,
    SETTLE_RELEASE,
    SETTLE_SNOOZE,
)
from tenure.core.tenant import Context, OpId
from tests.model import wish
from tests.model.pair import Pair
from tests.model.timer import next_due
from tests.model.wish import TENANTS, Item, Wish

tenants = st.sampled_from(TENANTS)
JOBS_MAX = 30
connections = st.sampled_from((0, 1, 2, 3))
PRINCIPALS = ("", "one", "one", "two")  # by connection


def has_leases(machine: Any) -> bool:
    return bool(machine.pair.granted)


def has_room(machine: Any) -> bool:
    """Many jobs make steps slow and find nothing that few do not."""
    return len(machine.pair.model.world.jobs) < JOBS_MAX


def has_jobs(machine: Any) -> bool:
    return bool(machine.pair.model.world.last_id)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pair = self.make_pair()
        self.counters = dict.fromkeys(TENANTS, 0)
        self.repeatable: list[tuple[str, Context, Any]] = []
        self.tickets: list[int] = []
        self.limits: list[tuple[int, str, tuple[str, ...], str]] = []

    def make_pair(self) -> Pair:
        return Pair(TENANTS)

    @initialize(
        aged=st.booleans(),
        relaxed=st.booleans(),
        kept=st.sampled_from((None, 1)),
    )
    def settings_of_this_run(self, aged: bool, relaxed: bool, kept: int | None) -> None:
        self.configure(request.STORE, "", {"payload_bytes_max": wish.PAYLOAD_BYTES_MAX})
        for tenant in TENANTS:
            if aged:
                self.configure(request.QUEUE, "aged", {"age_ms": 1_000}, tenant)
            if relaxed:
                self.configure(request.QUEUE, "q2", {"group_order": "relaxed"}, tenant)
            if kept is not None:
                self.configure(request.QUEUE, "q2", {"keep_completed_count": kept}, tenant)

    @initialize(theme=wish.themes, tenant=tenants, width=st.sampled_from((None, 1, 2)))
    def first_jobs(self, theme: Item, tenant: str, width: int | None) -> None:
        """Something to work on from the start, and perhaps a limit on the key that many jobs have."""
        if width is not None:
            self.configure(request.KEY, "k", {"concurrency": width}, tenant)
        self.do("enqueue", self.context(tenant), self.batch(tenant, [theme] * 3, False))

    # Producers.

    @precondition(has_room)
    @rule(tenant=tenants, items=wish.batches, atomic=st.sampled_from((False, False, True)), op=st.booleans())
    def enqueue(self, tenant: str, items: list[Item], atomic: bool, op: bool) -> None:
        self.do("enqueue", self.context(tenant, op), self.batch(tenant, items, atomic))

    @precondition(has_room)
    @rule(tenant=tenants, theme=wish.themes, count=st.integers(1, 4))
    def enqueue_alike(self, tenant: str, theme: Item, count: int) -> None:
        self.do("enqueue", self.context(tenant), self.batch(tenant, [theme] * count, False))

    @precondition(has_room)
    @rule(theme=wish.themes)
    def enqueue_everywhere(self, theme: Item) -> None:
        for tenant in TENANTS:
            self.do("enqueue", self.context(tenant), self.batch(tenant, [theme, theme], False))

    # Workers.

    @rule(tenant=tenants, wanted=wish.wishes, connection=connections, op=st.booleans())
    def claim(self, tenant: str, wanted: Wish, connection: int, op: bool) -> None:
        context = self.context(tenant, op and not wanted.wait_ms, wanted.tenants, connection)
        answer = self.do("claim", context, wish.claim_of(wanted))
        if isinstance(answer, Claimed) and answer.ticket:
            self.tickets.append(answer.ticket)

    @rule(n=st.sampled_from((1, 2, 5)), connection=connections)
    def claim_anything(self, n: int, connection: int) -> None:
        wanted = Wish(("*",), n, 0, "w1", None, 1_000, 0, False, ("*",))
        self.do("claim", self.context("a", False, wanted.tenants, connection), wish.claim_of(wanted))

    @rule(
        n=st.sampled_from((1, 2, 5)),
        verb=st.sampled_from((SETTLE_COMPLETE, SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE)),
        after_ms=st.sampled_from((0, 0, 1_000, 2_000)),
    )
    def work(self, n: int, verb: int, after_ms: int) -> None:
        """What a worker does: claim, take its time, settle."""
        self.claim_anything(n, 0)
        if after_ms:
            self.pair.advance(after_ms, after_ms)
        mine = self.pair.granted[-n:]
        order = Settle(verb, [id for id, _ in mine], [token for _, token in mine])
        self.do("settle", self.context("a", False, ("*",)), order)

    @precondition(has_leases)
    @rule(places=wish.places, result=st.sampled_from((None, b"ok", b"r" * 65)), op=st.booleans())
    def complete(self, places: list[int], result: bytes | None, op: bool) -> None:
        ids, tokens = self.leases(places)
        self.do("settle", self.context("a", op, ("*",)), Settle(SETTLE_COMPLETE, ids, tokens, [result] * len(ids)))

    @precondition(has_leases)
    @rule(places=wish.places, failure=wish.failures, op=st.booleans())
    def fail(self, places: list[int], failure: dict[str, object], op: bool) -> None:
        ids, tokens = self.leases(places)
        order = Settle(SETTLE_FAIL, ids, tokens, failures=[make_failure(**failure)] * len(ids))
        self.do("settle", self.context("a", op, ("*",)), order)

    @precondition(has_leases)
    @rule(
        verb=st.sampled_from((SETTLE_RELEASE, SETTLE_SNOOZE, SETTLE_CANCEL)),
        places=wish.places,
        delay_ms=st.sampled_from((0, 0, 2_000)),
        pause_key=st.sampled_from(("", "", "k1")),
    )
    def give_back(self, verb: int, places: list[int], delay_ms: int, pause_key: str) -> None:
        ids, tokens = self.leases(places)
        delay = 0 if verb == SETTLE_CANCEL else delay_ms
        order = Settle(verb, ids, tokens, delay_ms=delay, pause_key=pause_key if delay else "")
        self.do("settle", self.context("a", False, ("*",)), order)

    @precondition(has_leases)
    @rule(place=st.integers(0, 40), items=wish.batches)
    def complete_with_followups(self, place: int, items: list[Item]) -> None:
        ids, tokens = self.leases([place])
        batch = self.batch("", [item._replace(extras=()) for item in items], False)
        order = Settle(SETTLE_COMPLETE, ids, tokens, followups=[batch])
        self.do("settle", self.context("a", False, ("*",)), order)

    @precondition(has_leases)
    @rule(
        verb=st.sampled_from((SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE)),
        tenant=tenants,
        place=st.integers(0, 40),
        connection=connections,
        how=st.sampled_from(("forged", "mixed", "own tenant")),
    )
    def settle_wrongly(self, verb: int, tenant: str, place: int, connection: int, how: str) -> None:
        """With an invented token, with another job's, for another tenant."""
        [id], [token] = self.leases([place])
        context = self.context(tenant, False, (), connection)
        tokens = [token]
        if how == "forged":
            tokens = [token[:-1] + bytes([token[-1] ^ 1])]
        elif how == "mixed":
            tokens = self.leases([place + 1])[1]
        self.do("settle", context, Settle(verb, [id], tokens))

    @precondition(has_leases)
    @rule(
        verb=st.sampled_from((SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_SNOOZE, SETTLE_CANCEL)),
        place=st.integers(0, 40),
        connection=connections,
        tokenless=st.booleans(),
        how=st.sampled_from(("settle", "settle", "settle", "extend", "append")),
        own=st.booleans(),
    )
    def leave_out_the_token(self, verb: int, place: int, connection: int, tokenless: bool, how: str, own: bool) -> None:
        [id], _ = self.leases([place])
        job = self.pair.model.world.jobs.get(id)
        tenant = job.tenant if own and job is not None else "a"
        context = Context(tenant, (), PRINCIPALS[connection], connection=connection, tokenless=tokenless)
        if how == "settle":
            self.do("settle", context, Settle(verb, [id], None))
        elif how == "extend":
            self.do("extend", context, Extend([id], None, 0))
        else:
            self.do("append", context, Append(request.EMIT, id, None, 0, "", b"data"))

    @precondition(has_leases)
    @rule(places=wish.places, lease_ms=st.sampled_from((0, 1_000, 20_000)), kind=st.sampled_from((0, 1, 2, 3, 4)))
    def extend_or_append(self, places: list[int], lease_ms: int, kind: int) -> None:
        ids, tokens = self.leases(places)
        context = self.context("a", False, ("*",))
        if kind > request.EMIT:
            self.do("extend", context, Extend(ids, tokens, lease_ms))
        else:
            percent = (-1, 0, 40, 100)[places[0] % 4]
            self.do("append", context, Append(kind, ids[0], tokens[0], percent, "text", b"data"))

    # Operators.

    @precondition(has_jobs)
    @rule(
        tenant=tenants,
        action=st.sampled_from(range(9)),
        places=wish.places,
        op=st.booleans(),
        run_at=st.sampled_from((-1_000, 0, 1_500)),
    )
    def change(self, tenant: str, action: int, places: list[int], op: bool, run_at: int) -> None:
        ids = [self.job_at(place) for place in places]
        owner = self.pair.model.world.jobs.get(ids[0])
        context = self.context(owner.tenant if owner is not None and places[0] % 8 else tenant, op)
        self.do("change", context, self.order(action, run_at, ids, None))

    @precondition(has_jobs)
    @rule(
        tenant=tenants,
        action=st.sampled_from(range(9)),
        filter=wish.filters,
        limit=st.sampled_from((0, 0, 2)),
        run_at=st.sampled_from((0, 1_500)),
    )
    def sweep(self, tenant: str, action: int, filter: dict[str, Any], limit: int, run_at: int) -> None:
        order = self.order(action, run_at, None, Filter(**filter))
        order.limit = limit
        self.pair.sweep(self.context(tenant), order)

    @rule(
        tenant=tenants,
        what=st.one_of(
            st.tuples(st.just(request.QUEUE), st.sampled_from(wish.QUEUES), wish.queue_settings),
            st.tuples(st.just(request.KEY), st.sampled_from(wish.PREFIXES), wish.key_settings),
            st.tuples(st.just(request.TENANT), tenants, wish.tenant_settings),
        ),
    )
    def limit(self, tenant: str, what: tuple[int, str, dict[str, object]]) -> None:
        subject, name, changes = what
        owner = name if subject == request.TENANT else tenant
        self.configure(subject, name, changes, owner)
        self.limits.append((subject, name, tuple(changes), owner))

    @precondition(lambda self: bool(self.limits))
    @rule(place=st.integers(0, 40))
    def lift_limit(self, place: int) -> None:
        subject, name, fields, owner = self.limits.pop(place % len(self.limits))
        self.configure(subject, name, dict.fromkeys(fields), owner)

    # Waits, repeats, time.

    @precondition(has_jobs)
    @rule(tenant=tenants, place=st.integers(0, 40), wait_ms=st.sampled_from((0, 500, 60_000)))
    def watch_or_withdraw(self, tenant: str, place: int, wait_ms: int) -> None:
        if not wait_ms and self.tickets:
            self.pair.withdraw(self.tickets[-1 - place % len(self.tickets)])
            return
        id = self.job_at(place)
        owner = self.pair.model.world.jobs.get(id)
        answer = self.pair.watch(self.context(owner.tenant if owner is not None else tenant), id, wait_ms)
        if isinstance(answer, int) and answer:
            self.tickets.append(answer)

    @precondition(lambda self: bool(self.repeatable))
    @rule(place=st.integers(0, 40), tenant=tenants, foreign=st.booleans())
    def repeat(self, place: int, tenant: str, foreign: bool) -> None:
        """The same operation id once more; from another tenant it is an operation of its own."""
        verb, context, order = self.repeatable[-1 - place % len(self.repeatable)]
        if foreign:
            context = Context(tenant, context.tenants, context.principal, op=context.op, connection=context.connection)
        getattr(self.pair, verb)(context, order)

    @rule()
    def restart(self) -> None:
        self.pair.restart()
        self.tickets.clear()

    @rule(ms=st.sampled_from((1, 499, 1_000, 1_000, 2_000, 5_000, 31_000, 61_000)))
    def pass_time(self, ms: int) -> None:
        self.pair.advance(ms, ms)

    @rule(ms=st.sampled_from((1_500, 20_000, 31_000, 3_600_000)), before=st.sampled_from((0, 0, 400, 2_000)))
    def stop_the_owner(self, ms: int, before: int) -> None:
        """The owner does not run for a while, and perhaps did for a moment before."""
        self.pair.advance(ms + before, ms + before, ms)

    @rule(
        how=st.sampled_from(
            ("wall", "wall", "elapsed", "elapsed", "hour", "day", "clock back", "clock on", "clock astray")
        ),
        early=st.sampled_from((0, 0, 1)),
    )
    def pass_chosen_time(self, how: str, early: int) -> None:
        """To the very millisecond in which something is due, or to the one before; long times; steps of the clock,
        which end no lease and no delay."""
        wall, elapsed = next_due(self.pair.model.world)
        ahead = {
            "wall": (wall or 0) - self.pair.wall - early,
            "elapsed": (elapsed or 0) - self.pair.elapsed - early,
            "hour": 3_600_000,
            "day": 90_000_000,
        }.get(how, 0)
        if how.startswith("clock"):
            self.pair.advance({"clock back": -60_000, "clock on": 1_500, "clock astray": -700}[how], 0)
        elif ahead > 0:
            self.pair.advance(ahead, ahead)

    # Making requests.

    def do(self, verb: str, context: Context, order: Any) -> object:
        answer: object = getattr(self.pair, verb)(context, order)
        if context.op is not None:
            self.repeatable.append((verb, context, order))
        return answer

    def context(self, tenant: str, op: bool = False, tenants: tuple[str, ...] = (), connection: int = 0) -> Context:
        op_id = None
        if op:
            self.counters[tenant] += 1
            op_id = OpId(f"session of {tenant}", self.counters[tenant])
        return Context(tenant, tenants, PRINCIPALS[connection], op=op_id, connection=connection)

    def batch(self, tenant: str, items: list[Item], atomic: bool) -> Batch:
        jobs = self.pair.model.world.jobs.values()
        ids = [job.id for job in jobs if job.tenant == tenant or job.id % 7 == 0]
        options = [wish.options_of(item) for item in items]
        extras: list[Extras | None] = [wish.extras_of(item, self.pair.wall, ids) for item in items]
        payloads = [item.payload for item in items]
        if len({each.key() for each in options}) == 1 and all(
            extra is None or extra.is_key_alone() for extra in extras
        ):
            keys = ["" if extra is None else extra.idempotency_key for extra in extras]
            return Batch(options[0], payloads, atomic=atomic, keys=keys)
        return Batch(options[0], payloads, extras, options, atomic)

    def leases(self, places: list[int]) -> tuple[list[int], list[bytes]]:
        """Leases counted back from the newest; now and then one that never was."""
        ids: list[int] = []
        tokens: list[bytes] = []
        for place in places:
            known = self.pair.granted
            if place % 13 == 12:
                id, token = 1_000_000 + place, known[-1][1] if place % 2 else b"?" * 20
            else:
                id, token = known[-1 - place % 13 % len(known)]
            ids.append(id)
            tokens.append(token)
        return ids, tokens

    def job_at(self, place: int) -> int:
        """A job counted back from the newest, a removed one now and then, or one that never was."""
        newest = self.pair.model.world.last_id
        return newest + 1_000 if place % 13 == 12 else max(newest - place % 13, 1)

    def order(self, action: int, run_at: int, ids: list[int] | None, filter: Filter | None) -> Change:
        is_edit = action in (request.UPDATE, request.CLONE, request.REPLAY) and run_at > 0
        return Change(
            action,
            ids,
            filter,
            priority=3,
            payload=b"edited" if is_edit else None,
            metadata={"colour": "blue"} if is_edit else None,
            tags=("red", "new") if is_edit else None,
            run_at=max(self.pair.wall + run_at, 0),
        )

    def configure(self, subject: int, name: str, changes: dict[str, object], tenant: str = "a") -> None:
        self.pair.configure(Context(tenant), Configure(subject, name, wish.settings_of(changes)))


TestModel = Machine.TestCase
TestModel.settings = settings(
    max_examples=150,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    print_blob=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
