"""The engine against the model: random histories, every step compared.

HYPOTHESIS_PROFILE=long python -m pytest tests/model/test_model.py     # a campaign
"""

import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

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
connections = st.sampled_from((0, 1, 2))


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair(TENANTS)
        self.counters = dict.fromkeys(TENANTS, 0)
        self.repeatable: list[tuple[str, Context, Any]] = []
        self.tickets: list[int] = []

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

    # Producers.

    @rule(tenant=tenants, items=wish.batches, atomic=st.booleans(), op=st.booleans())
    def enqueue(self, tenant: str, items: list[Item], atomic: bool, op: bool) -> None:
        self.do("enqueue", self.context(tenant, op), self.batch(tenant, items, atomic))

    @rule(tenant=tenants, queue=st.sampled_from(wish.QUEUES), count=st.integers(1, 4))
    def enqueue_plain(self, tenant: str, queue: str, count: int) -> None:
        items = [Item(queue, (), (), b"a")] * count
        self.do("enqueue", self.context(tenant), self.batch(tenant, items, False))

    # Workers.

    @rule(tenant=tenants, wanted=wish.wishes, connection=connections, op=st.booleans())
    def claim(self, tenant: str, wanted: Wish, connection: int, op: bool) -> None:
        context = self.context(tenant, op and not wanted.wait_ms, wanted.tenants, connection)
        answer = self.do("claim", context, wish.claim_of(wanted))
        if isinstance(answer, Claimed) and answer.ticket:
            self.tickets.append(answer.ticket)

    @rule(
        verb=st.sampled_from((SETTLE_COMPLETE, SETTLE_COMPLETE, SETTLE_RELEASE, SETTLE_SNOOZE, SETTLE_CANCEL)),
        places=wish.places,
        delay_ms=st.sampled_from((0, 0, 2_000)),
        pause_key=st.sampled_from(("", "", "k1")),
        result=st.sampled_from((None, b"ok", b"r" * 65)),
        op=st.booleans(),
    )
    def settle(
        self, verb: int, places: list[int], delay_ms: int, pause_key: str, result: bytes | None, op: bool
    ) -> None:
        ids, tokens = self.leases(places)
        results = [result] * len(ids) if verb == SETTLE_COMPLETE else None
        delay = 0 if verb in (SETTLE_COMPLETE, SETTLE_CANCEL) else delay_ms
        order = Settle(verb, ids, tokens, results, delay_ms=delay, pause_key=pause_key if delay else "")
        self.do("settle", self.context("a", op, ("*",)), order)

    @rule(places=wish.places, failure=wish.failures, op=st.booleans())
    def fail(self, places: list[int], failure: dict[str, object], op: bool) -> None:
        ids, tokens = self.leases(places)
        order = Settle(SETTLE_FAIL, ids, tokens, failures=[make_failure(**failure)] * len(ids))
        self.do("settle", self.context("a", op, ("*",)), order)

    @rule(place=st.integers(0, 40), items=wish.batches)
    def complete_with_followups(self, place: int, items: list[Item]) -> None:
        ids, tokens = self.leases([place])
        batch = self.batch("", [item._replace(extras=()) for item in items], False)
        order = Settle(SETTLE_COMPLETE, ids, tokens, followups=[batch])
        self.do("settle", self.context("a", False, ("*",)), order)

    @rule(
        verb=st.sampled_from((SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE)),
        tenant=tenants,
        place=st.integers(0, 40),
        connection=connections,
        how=st.sampled_from(("no token", "forged", "mixed", "own tenant")),
    )
    def settle_wrongly(self, verb: int, tenant: str, place: int, connection: int, how: str) -> None:
        """Without a token, with an invented one, with another job's, for another tenant."""
        [id], [token] = self.leases([place])
        context = self.context(tenant, False, (), connection)
        tokens: list[bytes] | None = [token]
        if how == "no token":
            tokens = None
        elif how == "forged":
            tokens = [token[:-1] + bytes([token[-1] ^ 1]) if token else b"x" * 20]
        elif how == "mixed":
            tokens = self.leases([place + 1])[1]
        self.do("settle", context, Settle(verb, [id], tokens))

    @rule(places=wish.places, lease_ms=st.sampled_from((0, 1_000, 20_000)))
    def extend(self, places: list[int], lease_ms: int) -> None:
        ids, tokens = self.leases(places)
        self.do("extend", self.context("a", False, ("*",)), Extend(ids, tokens, lease_ms))

    @rule(place=st.integers(0, 40), kind=st.sampled_from((0, 1, 2)), percent=st.sampled_from((-1, 0, 40, 100)))
    def append(self, place: int, kind: int, percent: int) -> None:
        [id], [token] = self.leases([place])
        self.do("append", self.context("a", False, ("*",)), Append(kind, id, token, percent, "text", b"data"))

    # Operators.

    @rule(
        tenant=tenants,
        action=st.sampled_from(range(9)),
        places=wish.places,
        op=st.booleans(),
        run_at=st.sampled_from((-1_000, 0, 1_500)),
    )
    def change(self, tenant: str, action: int, places: list[int], op: bool, run_at: int) -> None:
        ids = [self.job_at(place) for place in places]
        self.do("change", self.context(tenant, op), self.order(action, run_at, ids, None))

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

    @rule(tenant=tenants, queue=st.sampled_from(wish.QUEUES), changes=wish.queue_settings)
    def configure_queue(self, tenant: str, queue: str, changes: dict[str, object]) -> None:
        self.configure(request.QUEUE, queue, changes, tenant)

    @rule(tenant=tenants, prefix=st.sampled_from(wish.PREFIXES), changes=wish.key_settings)
    def configure_key(self, tenant: str, prefix: str, changes: dict[str, object]) -> None:
        self.configure(request.KEY, prefix, changes, tenant)

    @rule(tenant=tenants, changes=wish.tenant_settings)
    def configure_tenant(self, tenant: str, changes: dict[str, object]) -> None:
        self.configure(request.TENANT, tenant, changes)

    # Waits, repeats, time.

    @rule(tenant=tenants, place=st.integers(0, 40), wait_ms=st.sampled_from((500, 60_000)))
    def watch(self, tenant: str, place: int, wait_ms: int) -> None:
        answer = self.pair.watch(self.context(tenant), self.job_at(place), wait_ms)
        if isinstance(answer, int) and answer:
            self.tickets.append(answer)

    @rule(place=st.integers(0, 40))
    def withdraw(self, place: int) -> None:
        if self.tickets:
            self.pair.withdraw(self.tickets[place % len(self.tickets)])

    @rule(place=st.integers(0, 40), tenant=tenants, foreign=st.booleans())
    def repeat(self, place: int, tenant: str, foreign: bool) -> None:
        """The same operation id once more; from another tenant it is an operation of its own."""
        if not self.repeatable:
            return
        verb, context, order = self.repeatable[place % len(self.repeatable)]
        if foreign:
            assert context.op is not None
            op = OpId(context.op.session + "f", context.op.counter)
            context = Context(tenant, context.tenants, op=op, connection=context.connection)
        getattr(self.pair, verb)(context, order)

    @rule(ms=st.sampled_from((1, 499, 1_000, 2_000, 5_000, 31_000, 61_000)))
    def pass_time(self, ms: int) -> None:
        self.pair.advance(ms, ms)

    @rule(clock=st.booleans(), early=st.sampled_from((0, 0, 1)))
    def pass_time_to_what_is_next(self, clock: bool, early: int) -> None:
        """To the very millisecond, or to the one before."""
        wall, elapsed = next_due(self.pair.model.world)
        ahead = (elapsed or 0) - self.pair.elapsed if clock else (wall or 0) - self.pair.wall
        if ahead - early > 0:
            self.pair.advance(ahead - early, ahead - early)

    @rule(ms=st.sampled_from((3_600_000, 90_000_000)))
    def pass_long_time(self, ms: int) -> None:
        self.pair.advance(ms, ms)

    @rule(ms=st.sampled_from((-60_000, 1_500)))
    def set_the_clock(self, ms: int) -> None:
        """A step of the wall clock ends no lease; one backwards is no step at all."""
        self.pair.advance(ms, 0)

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
        return Context(tenant, tenants, op=op_id, connection=connection)

    def batch(self, tenant: str, items: list[Item], atomic: bool) -> Batch:
        jobs = self.pair.model.world.jobs.values()
        ids = [job.id for job in jobs if job.tenant == tenant or job.id % 7 == 0]
        options = [wish.options_of(item) for item in items]
        extras: list[Extras | None] = [wish.extras_of(item, self.pair.wall, ids) for item in items]
        return Batch(options[0], [item.payload for item in items], extras, options, atomic)

    def leases(self, places: list[int]) -> tuple[list[int], list[bytes]]:
        """Leases counted back from the newest; every tenth place is one that never was."""
        ids: list[int] = []
        tokens: list[bytes] = []
        for place in places:
            known = self.pair.granted
            at = place % 10
            if at == 9 or not known:
                id, token = 1_000_000 + place, known[-1][1] if known and place % 2 else b"?" * 20
            else:
                id, token, _ = known[-1 - at % len(known)]
            ids.append(id)
            tokens.append(token)
        return ids, tokens

    def job_at(self, place: int) -> int:
        """A job counted back from the newest, a removed one now and then, or one that never was."""
        newest = self.pair.model.world.last_id
        return max(newest - place % 12, 1) if place % 13 else newest + 1_000

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

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
TestModel.settings = settings(
    max_examples=20_000 if LONG else 150,
    stateful_step_count=150 if LONG else 60,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
