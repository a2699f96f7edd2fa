"""How jobs are leased: tenant first, then queue, then job.

A claim takes from the first tenant in turn that has something for it, as much as that tenant's turn allows, then from
the next. From a queue it takes in order; what cannot start now is put where it waits without being looked at again, so
a claim looks at each job that it does not take at most once.
"""

from collections import OrderedDict
from heapq import heappop, heappush
from typing import Final

from mypy_extensions import i64, mypyc_attr

from tenure.core.answer import Claimed
from tenure.core.job import LEASE_DEFAULT_MS
from tenure.core.request import Claim
from tenure.core.state import CLAIM, EXPIRE, REASON_EXPIRED, RUNNING, SETTLE_EXPIRED, SETTLE_NONE
from tenure.core.tenant import ANY_TENANT, OpId
from tenure.engine import journal
from tenure.engine.alarm import TIMEOUT, Alarm
from tenure.engine.clock import shown_lease_until
from tenure.engine.ending import fail_waiting
from tenure.engine.job import LINE, NO_SPEC, NOWHERE, Job, Lease, Spec, payload_bytes
from tenure.engine.parking import hindrance, hold_back, take
from tenure.engine.place import drop_candidate, group_of, let_out, set_aside, side_of, take_slot, took_aside
from tenure.engine.ring import activate, deactivate, deactivate_all, first, may_start, room, spend
from tenure.engine.session import note_claim
from tenure.engine.transition import transition
from tenure.engine.world import OWED_ASIDE, Aside, Lane, Owed, Queue, Ring, Rotation, Tenant, Waiter, World, join_lane

PASSED_MAX: Final = 1_000  # jobs a step may put elsewhere without leasing them


@mypyc_attr(acyclic=True)
class Taking:
    """One claim at work: what is left to take, and what was taken."""

    def __init__(self, claim: Claim, connection: i64, principal: str) -> None:
        self.claim = claim
        self.connection: i64 = connection
        self.principal = principal
        self.left: i64 = claim.n
        self.bytes_left: i64 = claim.max_bytes
        self.passed: i64 = 0
        self.answer = Claimed()
        self.number: i64 = 0
        self.lease: Lease | None = None
        self.leases: list[Lease] | None = None  # all of them, when there are several
        # Jobs in a row with the same options, tenant and lease share their columns' entries, written when the row ends.
        self.row_spec: Spec = NO_SPEC
        self.row_lease: Lease | None = None
        self.row: i64 = 0

    def lease_for(self, w: World, job: Job, q: Queue) -> Lease:
        """The lease of this claim with the length this job asks for."""
        length: i64 = self.claim.lease_ms or job.spec.options.lease_ms or q.lease_ms or LEASE_DEFAULT_MS
        lease = self.lease
        if lease is not None:
            if lease.length_ms == length:
                return lease
            if self.leases is None:
                self.leases = [lease]
            for lease in self.leases:
                if lease.length_ms == length:
                    self.lease = lease
                    return lease
        if self.number == 0:
            w.last_claim += 1
            self.number = w.last_claim
            self.answer.token = w.mint.token(int(w.last_claim))
        lease = Lease(
            w.served_ms + length,
            w.next_alarm_id(),
            self.answer.token,
            self.claim.worker,
            length,
            self.connection,
            self.principal,
        )
        w.served.add(lease)
        if self.leases is not None:
            self.leases.append(lease)
        self.lease = lease
        return lease

    def end_row(self, w: World) -> None:
        lease = self.row_lease
        if self.row == 0 or lease is None:
            return
        answer = self.answer
        spec = self.row_spec
        row = int(self.row)
        until = int(shown_lease_until(w, lease))
        if row == 1:
            answer.options.append(spec.options)
            answer.tenants.append(spec.tenant_name)
            answer.lease_until.append(until)
            answer.lease_ms.append(int(lease.length_ms))
        else:
            answer.options.extend([spec.options] * row)
            answer.tenants.extend([spec.tenant_name] * row)
            answer.lease_until.extend([until] * row)
            answer.lease_ms.extend([int(lease.length_ms)] * row)
        self.row = 0

    def is_done(self) -> bool:
        return self.left <= 0 or self.bytes_left <= 0 or self.passed >= PASSED_MAX


def claim_now(
    w: World, claim: Claim, tenant: str, tenants: tuple[str, ...], connection: i64, principal: str, most: i64
) -> Claimed:
    """Lease what is there, up to the claim's number and `most`; an empty answer when there is nothing."""
    taking = Taking(claim, connection, principal)
    taking.left = min(taking.left, most)
    if not tenants:
        _take_from_tenant(w, taking, tenant)
    elif ANY_TENANT in tenants:
        _take_from_all(w, taking)
    else:
        _take_from_some(w, taking, tenants)
    taking.end_row(w)
    return taking.answer


# Tenant first.


def _take_from_tenant(w: World, taking: Taking, tenant: str) -> None:
    claim = taking.claim
    if len(claim.queues) == 1 and not claim.queues[0].name.endswith("*"):
        q = w.find_queue(tenant, claim.queues[0].name)
        if q is not None:
            _take_from_queue(w, taking, q, taking.left)
        return
    number = w.tenant_numbers.get(tenant)
    if number is not None:
        queues = _queues_of(w, claim, w.tenants[number])
        while not taking.is_done() and _take_by_weight(w, taking, number, queues, taking.left) > 0:
            pass


def _take_from_some(w: World, taking: Taking, tenants: tuple[str, ...]) -> None:
    """Named tenants: the first in turn among those that have something."""
    shares: dict[int, Shares] = {}
    for name in tenants:
        number = w.tenant_numbers.get(name)
        if number is not None:
            shares[number] = _queues_of(w, taking.claim, w.tenants[number])
    while shares and not taking.is_done():
        best = -1
        first_turn: i64 = 0
        for number, found in shares.items():
            for q in found.queues:
                if _has_something(q, taking.claim) and (best < 0 or q.turn < first_turn):
                    best = number
                    first_turn = q.turn
        if best < 0:
            return
        if _take_turn(w, taking, best, shares[best]) == 0:
            del shares[best]


def _take_from_all(w: World, taking: Taking) -> None:
    claim = taking.claim
    if len(claim.queues) == 1 and not claim.queues[0].name.endswith("*"):
        lane = w.lanes.get(claim.queues[0].name)
        if lane is not None:
            _take_from_lane(w, taking, lane)
        return
    stuck: Queue | None = None  # gave nothing when it was first, and is first again: no use to go on
    while not taking.is_done():
        best: Queue | None = None
        for pick in claim.queues:
            for lane in w.lanes_of(pick.name):
                q = _first_in_lane(w, lane, claim)
                if q is not None and (best is None or q.turn < best.turn):
                    best = q
        if best is None or best is stuck:
            return
        tenant = int(best.tenant)
        got = _take_turn(w, taking, tenant, _queues_of(w, claim, w.tenants[tenant]))
        stuck = best if got == 0 else None


def _take_from_lane(w: World, taking: Taking, lane: Lane) -> None:
    ring = lane.ring
    claim = taking.claim
    stuck: Queue | None = None
    while not taking.is_done():
        q = _first_in_lane(w, lane, claim)
        if q is None or q is stuck:
            return
        alone = ring.valid == 1 and lane.aside_rings is None
        got = _take_from_queue(w, taking, q, taking.left if alone else q.credit)
        if not alone:
            spend(w, q, got)
        stuck = q if got == 0 else None


def _first_in_lane(w: World, lane: Lane, claim: Claim) -> Queue | None:
    """Of the lane's queues with something this claim can take, the one whose tenant is first in turn."""
    best = first(w, lane.ring)
    rings = lane.aside_rings
    if rings is not None:
        found: list[Ring] = []
        for task, ring in rings.items():
            if claim.tasks is None or task in claim.tasks:
                found.append(ring)
        for ring in found:
            q = first(w, ring)
            if q is not None and (best is None or q.turn < best.turn):
                best = q
    return best


def _take_turn(w: World, taking: Taking, tenant: int, shares: "Shares") -> i64:
    """Give the tenant its turn over the queues that the claim names; it counts in the lane of each that has something
    for the claim."""
    most: i64 = 0
    for q in shares.queues:
        if _has_something(q, taking.claim) and (most == 0 or q.credit < most):
            most = q.credit
    got = _take_by_weight(w, taking, tenant, shares, max(most, 1))
    for q in shares.queues:
        if _has_something(q, taking.claim):
            spend(w, q, got)
    return got


def _has_something(q: Queue, claim: Claim) -> bool:
    """Whether the queue stands in a ring that the claim looks at: what was set aside for others is nothing."""
    if q.in_ring:
        return True
    if q.rings == 0 or q.asides is None:
        return False
    return any(aside.in_ring and (claim.tasks is None or aside.task in claim.tasks) for aside in q.asides.values())


# Then queue.


class Shares:
    """A tenant's queues that a claim names, with their weights."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.weights: list[int] = []
        self.queues: list[Queue] = []


def _queues_of(w: World, claim: Claim, t: Tenant) -> Shares:
    shares = Shares()
    names = shares.names
    for pick in claim.queues:
        if pick.name.endswith("*"):
            prefix = pick.name[:-1]
            found = sorted(name for name in t.queues if name.startswith(prefix) and name not in names)
            names.extend(found)
            shares.weights.extend([pick.weight] * len(found))
        elif pick.name in t.queues and pick.name not in names:
            names.append(pick.name)
            shares.weights.append(pick.weight)
    shares.queues = [w.queues[t.queues[name]] for name in names]
    return shares


def _take_by_weight(w: World, taking: Taking, tenant: int, shares: Shares, most: i64) -> i64:
    """Take at most `most` from the tenant's queues that the claim names; by weight, or in the order listed."""
    t = w.tenants[tenant]
    queues = shares.queues
    weights = shares.weights
    total: i64 = 0
    if not queues:
        return 0
    if taking.claim.strict or len(queues) == 1:
        for q in queues:
            if total < most and not taking.is_done():
                total += _take_from_queue(w, taking, q, most - total)
        return total
    if t.rotations is None:
        t.rotations = {}
    key: tuple[object, ...] = tuple(shares.names)
    rotation = t.rotations.get(key)
    if rotation is None:
        if len(t.rotations) >= 64:
            t.rotations.clear()
        rotation = Rotation()
        t.rotations[key] = rotation
    empty: i64 = 0
    while total < most and not taking.is_done() and empty < len(queues):
        at = rotation.at % len(queues)
        if rotation.credit <= 0:
            rotation.credit = weights[at]
        got = _take_from_queue(w, taking, queues[at], min(most - total, rotation.credit))
        total += got
        rotation.credit -= got
        if got == 0:
            empty += 1
            rotation.credit = 0
        else:
            empty = 0
        if rotation.credit <= 0:
            rotation.at = (at + 1) % len(queues)
    return total


# Then job.


def _take_from_queue(w: World, taking: Taking, q: Queue, most: i64) -> i64:
    """Lease up to `most` jobs of the queue, in order.

    Leaves the queue in its ring only if something is left to claim.
    """
    if q.order.size == 0 and q.asides is None:
        return 0
    if not may_start(w, q):
        deactivate_all(w, q)
        return 0
    most = min(min(most, taking.left), room(w, q))
    got: i64 = 0
    while got < most and taking.bytes_left > 0 and taking.passed < PASSED_MAX:
        job = _next_job(w, taking, q)
        if job is None:
            break
        if payload_bytes(job) > taking.bytes_left and len(taking.answer.ids) > 0:
            _put_back(q, job)
            taking.bytes_left = 0
            break
        _lease(w, taking, q, job)
        got += 1
    if got:
        taking.left -= got
        t = w.tenants[q.tenant]
        if q.bucket is not None:
            q.bucket.take(got)
            w.journal.mark((journal.QUEUE, q.tenant_name, q.name))
        if t.bucket is not None:
            t.bucket.take(got)
            w.journal.mark((journal.TENANT, t.name))
    if q.order.size == 0:
        deactivate(w, q)
    if not may_start(w, q):
        deactivate_all(w, q)
    elif not q.in_ring:
        activate(w, q)
    if taking.passed >= PASSED_MAX and q.order.size > 0:
        w.owed.append(Owed(OWED_ASIDE, q.number))
    return got


def _next_job(w: World, taking: Taking, q: Queue) -> Job | None:
    """The next job in order that can start; out of its line. Those that cannot are put where they wait."""
    tasks = taking.claim.tasks
    while taking.passed < PASSED_MAX:
        if q.asides is not None:
            job = _pop_with_asides(w, q, tasks)
            if job is None:
                return None
        elif q.order.size > 0:
            job = q.order.pop()
        else:
            return None
        side = job.side
        if side is not None:
            drop_candidate(w, q, job)
            if side.expires_at and side.expires_at <= w.wall_ms:
                taking.passed += 1
                _expire(w, q, job)
                continue
        if tasks is not None and job.spec.options.task not in tasks:
            taking.passed += 1
            set_aside(w, q, job)
            continue
        if job.spec.options.limit_keys:
            number = hindrance(w, w.tenants[q.tenant], job)
            if number >= 0:
                taking.passed += 1
                hold_back(w, q, job, number)
                continue
        return job
    return None


def _pop_with_asides(w: World, q: Queue, tasks: frozenset[str] | None) -> Job | None:
    """The first in order among the line and the jobs set aside whose task the claim knows."""
    best: Aside | None = None
    top: Job | None = q.order.first() if q.order.size > 0 else None
    assert q.asides is not None
    for aside in q.asides.values():
        if tasks is None or aside.task in tasks:
            aside.asked_at = w.elapsed_ms
            job = aside.order.first()
            if top is None or _stands_before(job, top):
                top = job
                best = aside
    if best is not None:
        best.order.pop()
        took_aside(w, q, best)
    elif top is not None:
        q.order.pop()
    return top


def _stands_before(a: Job, b: Job) -> bool:
    if a.aged != b.aged:
        return b.aged
    return a.number < b.number if a.rank == b.rank else a.rank < b.rank


def _put_back(q: Queue, job: Job) -> None:
    """It did not fit into the answer: back to its place in line."""
    job.place = LINE
    q.order.push(job)


def _expire(w: World, q: Queue, job: Job) -> None:
    job.place = NOWHERE
    group = group_of(q, job)
    if group is not None and job.id in group.standing:
        group.standing.remove(job.id)
        let_out(w, q, group)
    fail_waiting(w, q, job, EXPIRE, REASON_EXPIRED)


def _lease(w: World, taking: Taking, q: Queue, job: Job) -> None:
    side = job.side
    if side is not None and side.extras is not None and side.extras.group:
        take_slot(w, q, job)
    options = job.spec.options
    if options.limit_keys:
        take(w, w.tenants[q.tenant], job)
    if job.settled >= SETTLE_EXPIRED:  # the last lease ended without its holder's word
        side_of(job).lease_lost = True
    lease = taking.lease_for(w, job, q)
    job.lease = lease
    id = int(job.id)
    lease.add(id)
    job.place = NOWHERE
    job.settled = SETTLE_NONE
    job.started_at = w.at_ms
    job.attempt += 1
    job.delivery += 1
    if options.timeout_ms:
        job.alarm = Alarm(w.served_ms + options.timeout_ms, TIMEOUT, job.id)
        w.served.add(job.alarm)
    transition(w, q, job, CLAIM, RUNNING)
    taking.bytes_left -= payload_bytes(job)
    answer = taking.answer
    if side is not None and side.payload_blob is not None:
        answer.add_blob(len(answer.ids), side.payload_blob)
    answer.ids.append(id)
    answer.payloads.append(job.payload)
    if job.spec is not taking.row_spec or lease is not taking.row_lease:
        taking.end_row(w)
        taking.row_spec = job.spec
        taking.row_lease = lease
    taking.row += 1
    answer.attempts.append(int(job.attempt))
    answer.extras.append(None if side is None else side.extras)


# Waiting.


def wait(
    w: World,
    claim: Claim,
    tenant: str,
    tenants: tuple[str, ...],
    connection: i64,
    principal: str,
    op: OpId | None,
) -> i64:
    """Let the claim wait; answers its ticket."""
    w.last_ticket += 1
    ticket = w.last_ticket
    waiter = Waiter(w.elapsed_ms + claim.wait_ms, ticket, claim, tenant, tenants, connection, principal, op)
    w.waiters[ticket] = waiter
    if op is not None:
        w.waiting_ops[(tenant, op.session, op.counter)] = int(ticket)
    w.elapsed.add(waiter)
    for pick in claim.queues:
        if pick.name.endswith("*"):
            prefix = pick.name[:-1]
            waiting = w.prefix_waiters.get(prefix)
            if waiting is None:
                waiting = OrderedDict()
                w.prefix_waiters[prefix] = waiting
            waiting[int(ticket)] = 1
        else:
            w.lane(pick.name)
        for lane in w.lanes_of(pick.name):
            join_lane(lane, waiter)
    return ticket


def forget_waiter(w: World, waiter: Waiter) -> None:
    """It was served, gave up, or its time is over."""
    w.elapsed.cancel(waiter)
    del w.waiters[waiter.id]
    op = waiter.op
    if op is not None:
        key = (waiter.tenant, op.session, op.counter)
        if w.waiting_ops.get(key) == int(waiter.id):
            del w.waiting_ops[key]
    for pick in waiter.claim.queues:
        if pick.name.endswith("*"):
            waiting = w.prefix_waiters[pick.name[:-1]]
            waiting.pop(int(waiter.id), 0)
            if not waiting:
                del w.prefix_waiters[pick.name[:-1]]
    for name in waiter.lanes:
        lane = w.lanes[name]
        lane.waiting -= 1
        for tenant in waiter.scope():
            table = lane.waiters if tenant == ANY_TENANT else lane.waiters_of[tenant]
            waiting = table[waiter.claim.tasks]
            del waiting[int(waiter.id)]
            if not waiting:
                del table[waiter.claim.tasks]
                if tenant != ANY_TENANT and not table:
                    del lane.waiters_of[tenant]
        if lane.waiting == 0 and lane.queues == 0:
            del w.lanes[name]
            for lanes in w.prefixes.values():
                if lane in lanes:
                    lanes.remove(lane)


def serve(w: World, budget: i64) -> i64:
    """Queues became claimable: answer those who wait for them, first come first served, as long as there are jobs.

    Within the budget: what is left over waits for the next step. Answers the budget left.
    """
    vain: list[int] = []  # who found nothing in the one queue
    while budget > 0 and len(w.dirty) == 1:
        waiter = _first_waiter(w, w.queues[w.dirty[0]], vain)
        if waiter is None:
            w.dirty.clear()
            return budget
        got = _serve_one(w, waiter, budget)
        budget -= got
        if got == 0:
            vain.append(int(waiter.id))
    return _serve_several(w, budget)


def _serve_several(w: World, budget: i64) -> i64:
    """All those queues together: who waits for several may take from any of them, and would else pass one who came
    before."""
    line: list[tuple[int, int]] = []  # the first who waits for each queue: ticket, place in w.dirty
    useless: list[list[int]] = []
    at = 0
    while budget > 0:
        while at < len(w.dirty):
            useless.append([])
            _stand_in(w, line, at, useless)
            at += 1
        if not line:
            w.dirty.clear()
            return budget
        ticket, place = heappop(line)
        waiter = _first_waiter(w, w.queues[w.dirty[place]], useless[place])
        if waiter is not None and waiter.id == ticket:
            got = _serve_one(w, waiter, budget)
            budget -= got
            if got == 0:
                useless[place].append(int(waiter.id))
        _stand_in(w, line, place, useless)
    left = [w.dirty[place] for place in sorted({place for _, place in line})]
    w.dirty = left + w.dirty[at:]
    return budget


def _serve_one(w: World, waiter: Waiter, most: i64) -> i64:
    """Answers how many jobs it was given; it goes on waiting if there were none for it."""
    answer = claim_now(w, waiter.claim, waiter.tenant, waiter.tenants, waiter.connection, waiter.principal, most)
    got: i64 = len(answer.ids)
    if got > 0:
        forget_waiter(w, waiter)
        if waiter.op is not None:
            note_claim(w, waiter.tenant, waiter.op, answer)
        w.outbox.append((int(waiter.id), answer))
    return got


def _stand_in(w: World, line: list[tuple[int, int]], place: int, useless: list[list[int]]) -> None:
    waiter = _first_waiter(w, w.queues[w.dirty[place]], useless[place])
    if waiter is not None:
        heappush(line, (int(waiter.id), place))


def _first_waiter(w: World, q: Queue, useless: list[int]) -> Waiter | None:
    """Who came first among those who may take from the queue; of those who know the same tasks one try is enough."""
    lane = q.lane
    if not lane.waiting or (q.order.size == 0 and q.asides is None):
        return None
    best = 0
    if lane.waiters:
        best = _first_ticket(lane.waiters, useless, best)
    own = lane.waiters_of.get(q.tenant_name)
    if own is not None:
        best = _first_ticket(own, useless, best)
    return w.waiters[best] if best else None


def _first_ticket(table: dict[frozenset[str] | None, OrderedDict[int, int]], useless: list[int], best: int) -> int:
    for waiting in table.values():
        ticket = next(iter(waiting))
        if ticket not in useless and (best == 0 or ticket < best):
            best = ticket
    return best
