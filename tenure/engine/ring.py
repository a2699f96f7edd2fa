"""Whose turn it is: queues join their lane's ring when they have something to claim and leave when they have not.

A lane is all queues of one name. Its tenants stand in the order of their turns: one that comes to have something to
claim joins at the end; one that has been given as many jobs as its weight goes to the end. One that has nothing for a
moment within a step, such as a queue whose only job changes its priority, keeps its turn. A claim serves the first it
may serve. A claim over several queues takes the first over all their lanes, and what it gives a tenant counts in each
of them; a claim for one tenant alone counts in none, because it takes nothing from the others.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from mypy_extensions import i64

from tenure.engine.alarm import QUEUE, TENANT, Alarm
from tenure.engine.world import NO_QUEUE, UNLIMITED, Aside, Queue, Ring, Tenant, World

LEFTOVERS_MAX: Final = 8  # entries that an empty ring holds on to


def may_start(w: World, q: Queue) -> bool:
    """Whether pauses and limits of the queue and its tenant let a job start; sets the alarm if only time is missing."""
    if q.paused:
        return False
    if q.concurrency != UNLIMITED and q.running + q.held_over >= q.concurrency:
        return False
    bucket = q.bucket
    if bucket is not None and bucket.available(w.elapsed_ms) <= 0:
        if q.alarm is None or not q.alarm.live:
            q.alarm = Alarm(bucket.next_at_ms(), QUEUE, q.number)
            w.elapsed.add(q.alarm)
        return False
    t = w.tenants[q.tenant]
    if t.running_max != UNLIMITED and t.running + t.held_over >= t.running_max:
        _hold(t, q)
        return False
    bucket = t.bucket
    if bucket is not None and bucket.available(w.elapsed_ms) <= 0:
        _hold(t, q)
        if t.alarm is None or not t.alarm.live:
            t.alarm = Alarm(bucket.next_at_ms(), TENANT, t.number)
            w.elapsed.add(t.alarm)
        return False
    return True


def _hold(t: Tenant, q: Queue) -> None:
    if not q.held:
        q.held = True
        if t.held_queues is None:
            t.held_queues = []
        t.held_queues.append(int(q.number))


def room(w: World, q: Queue) -> i64:
    """How many jobs the limits of the queue and its tenant let start now, at most a million."""
    found: i64 = 1_000_000
    if q.concurrency != UNLIMITED:
        found = min(found, q.concurrency - q.running - q.held_over)
    bucket = q.bucket
    if bucket is not None:
        found = min(found, bucket.available(w.elapsed_ms))
    t = w.tenants[q.tenant]
    if t.running_max != UNLIMITED:
        found = min(found, t.running_max - t.running - t.held_over)
    bucket = t.bucket
    if bucket is not None:
        found = min(found, bucket.available(w.elapsed_ms))
    return found


def activate(w: World, q: Queue) -> None:
    """The queue may have become claimable: let it join its rings, and tell those who wait."""
    if q.order.size > 0 and not q.in_ring and may_start(w, q):
        q.in_ring = True
        _join(w, q, q.lane.ring)
        q.ring_turn = q.turn
        if q.lane.waiting:
            w.dirty.append(q.number)
    if q.asides is not None:
        for aside in q.asides.values():
            activate_aside(w, q, aside)


def activate_aside(w: World, q: Queue, aside: Aside) -> None:
    if aside.order.size > 0 and not aside.in_ring and may_start(w, q):
        rings = q.lane.aside_rings
        if rings is None:
            rings = {}
            q.lane.aside_rings = rings
        ring = rings.get(aside.task)
        if ring is None:
            ring = Ring(aside.task)
            rings[aside.task] = ring
        aside.in_ring = True
        _join(w, q, ring)
        aside.ring_turn = q.turn
        if q.lane.waiting:
            w.dirty.append(q.number)


def deactivate(w: World, q: Queue) -> None:
    """Out of the main ring: nothing in line, or nothing may start."""
    if q.in_ring:
        q.in_ring = False
        _leave(w, q, q.lane.ring)


def deactivate_aside(w: World, q: Queue, aside: Aside) -> None:
    if aside.in_ring:
        aside.in_ring = False
        rings = q.lane.aside_rings
        assert rings is not None
        ring = rings[aside.task]
        _leave(w, q, ring)
        if ring.valid == 0:
            del rings[aside.task]


def deactivate_all(w: World, q: Queue) -> None:
    deactivate(w, q)
    if q.asides is not None:
        for aside in q.asides.values():
            deactivate_aside(w, q, aside)


def refresh(w: World, q: Queue) -> None:
    """Settings changed: out of the rings if nothing may start any more, else in; whoever stays in keeps its turn."""
    if q.rings > 0 and not may_start(w, q):
        deactivate_all(w, q)
    activate(w, q)


def reactivate_tenant(w: World, t: Tenant) -> None:
    """A limit of the tenant gave way: its queues that had to step back may join again."""
    held = t.held_queues
    if held:
        t.held_queues = None
        for number in held:
            q = w.queues[number]
            if q is not NO_QUEUE:
                q.held = False
                activate(w, q)


def spend(w: World, q: Queue, leased: i64) -> None:
    """The queue's tenant was given jobs by a claim that others compete for: past its weight its turn is over."""
    q.credit -= leased
    if q.credit <= 0:
        _new_turn(w, q)


def _new_turn(w: World, q: Queue) -> None:
    w.last_turn += 1
    q.turn = w.last_turn
    q.credit = w.tenants[q.tenant].weight


def first(w: World, ring: Ring) -> Queue | None:
    """The queue whose tenant is the first in turn; puts right every entry it meets that is out of date."""
    while True:
        turn, number, is_late = _peek(ring)
        if number < 0:
            return None
        q = w.queues[number]
        joined = _joined_turn(q, ring)
        if joined != turn:
            _drop(ring, is_late)
            continue
        if q.turn == turn:
            return q
        _drop(ring, is_late)
        _set_turn(q, ring, q.turn)
        _insert(ring, q.turn, number)


def _peek(ring: Ring) -> tuple[i64, i64, bool]:
    turn: i64 = -1
    number: i64 = -1
    is_late = False
    if ring.head < len(ring.queues):
        number = ring.queues[ring.head]
        turn = ring.turns[ring.head]
    if ring.late:
        late_turn, late_number = ring.late[0]
        if number < 0 or late_turn < turn:
            turn = late_turn
            number = late_number
            is_late = True
    return turn, number, is_late


def _drop(ring: Ring, is_late: bool) -> None:
    if is_late:
        heappop(ring.late)
        return
    ring.head += 1
    if ring.head > 1024 and ring.head * 2 > len(ring.queues):
        del ring.queues[: ring.head]
        del ring.turns[: ring.head]
        ring.head = 0


def _joined_turn(q: Queue, ring: Ring) -> i64:
    """The turn under which the queue stands in this ring, -1 when it does not."""
    if not ring.task:
        return q.ring_turn if q.in_ring else -1
    if q.asides is None:
        return -1
    aside = q.asides.get(ring.task)
    return aside.ring_turn if aside is not None and aside.in_ring else -1


def _set_turn(q: Queue, ring: Ring, turn: i64) -> None:
    if not ring.task:
        q.ring_turn = turn
    else:
        assert q.asides is not None
        q.asides[ring.task].ring_turn = turn


def _join(w: World, q: Queue, ring: Ring) -> None:
    if q.rings == 0 and q.left_at != w.step:
        _new_turn(w, q)
    q.rings += 1
    ring.valid += 1
    _insert(ring, q.turn, q.number)


def _leave(w: World, q: Queue, ring: Ring) -> None:
    q.rings -= 1
    q.left_at = w.step
    ring.valid -= 1
    if ring.valid == 0:
        _empty(ring)
    elif len(ring.queues) - ring.head + len(ring.late) > 2 * ring.valid + 64:
        _rebuild(w, ring)


def _empty(ring: Ring) -> None:
    """Nothing in it counts: pass over all, and drop it once it is more than a few."""
    ring.head = len(ring.queues)
    if ring.head > LEFTOVERS_MAX:
        ring.queues.clear()
        ring.turns.clear()
        ring.head = 0
    if ring.late:
        ring.late.clear()


def _insert(ring: Ring, turn: i64, number: i64) -> None:
    if ring.head == len(ring.queues) or ring.turns[-1] <= turn:
        ring.queues.append(number)
        ring.turns.append(turn)
    else:
        heappush(ring.late, (int(turn), int(number)))


def purge(w: World, q: Queue) -> None:
    """Drop leftovers of a queue that is about to be forgotten: its number will be given again."""
    if q.turn > 0:
        _rebuild(w, q.lane.ring)


def _rebuild(w: World, ring: Ring) -> None:
    queues: list[int] = []
    turns: list[int] = []
    kept: set[int] = set()  # a queue that kept its turn may have left an entry with that turn behind
    for at in range(int(ring.head), len(ring.queues)):
        number = ring.queues[at]
        turn = ring.turns[at]
        if number not in kept and _joined_turn(w.queues[number], ring) == turn:
            kept.add(number)
            queues.append(number)
            turns.append(turn)
    ring.queues = queues
    ring.turns = turns
    ring.head = 0
    late: list[tuple[int, int]] = []
    for turn, number in ring.late:
        if number not in kept and _joined_turn(w.queues[number], ring) == turn:
            kept.add(number)
            late.append((turn, number))
    heapify(late)
    ring.late = late
