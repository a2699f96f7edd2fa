"""Recomputes, from the jobs alone, every count, index and structure, and names what does not agree."""

from mypy_extensions import i64

from tenure.core.state import BLOCKED, READY, RETRYING, RUNNING, SCHEDULED, STATE_NAMES, is_terminal
from tenure.core.token import claim_of
from tenure.engine.blob import count_blobs
from tenure.engine.clock import on_elapsed
from tenure.engine.job import ASIDE, LINE, MEMBER, NOWHERE, PARKED, PLACE_NAMES, TIMED, Job, Side, Spec, payload_bytes
from tenure.engine.parking import capacity, is_paused_for, leading, more_room_at
from tenure.engine.removal import size_of
from tenure.engine.ring import room
from tenure.engine.world import (
    NO_QUEUE,
    OWED_DEPENDENTS,
    OWED_TOP_UP,
    OWED_UNPIN,
    UNLIMITED,
    Group,
    Limit,
    Queue,
    World,
    is_aside_since,
)


class Findings:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def expect(self, holds: bool, text: str) -> None:
        if not holds and len(self.texts) < 100:
            self.texts.append(text)


def verify(w: World) -> list[str]:
    found = Findings()
    jobs = w.index.peek_all(1, w.last_id)
    by_queue: dict[int, list[Job]] = {}
    for job in jobs:
        by_queue.setdefault(int(job.spec.queue), []).append(job)
        _verify_job(w, job, found)
    found.expect(len(jobs) == w.index.size, f"index has {len(jobs)} jobs, counts {int(w.index.size)}")
    for trouble in w.index.check_bundles():
        found.expect(False, trouble)
    for q in w.queues:
        if q is not NO_QUEUE:
            _verify_queue(w, q, by_queue.get(int(q.number), []), found)
    _verify_store(w, jobs, found)
    _verify_limits(w, jobs, found)
    _verify_dependencies(w, jobs, found)
    _verify_shared(w, jobs, found)
    _verify_leases(jobs, found)
    _verify_waiting(w, found)
    return found.texts


def _name(job: Job) -> str:
    return f"job {int(job.id)} ({STATE_NAMES[job.state]})"


def _run_due(w: World, job: Job) -> i64:
    return on_elapsed(w, job.run_at) if job.is_delayed else job.run_at


def _verify_job(w: World, job: Job, found: Findings) -> None:
    name = _name(job)
    place = int(job.place)
    state = int(job.state)
    if state == READY:
        good = place in (LINE, ASIDE, PARKED, MEMBER)
    elif state in (SCHEDULED, RETRYING):
        good = place == TIMED and job.alarm is not None and job.alarm.live and job.alarm.due_ms == _run_due(w, job)
    else:
        good = place == NOWHERE
    found.expect(good, f"{name} stands in {PLACE_NAMES[place]}")
    found.expect(w.queue_of(job) is not NO_QUEUE, f"{name} has no queue")
    if state == RUNNING:
        found.expect(job.lease is not None and job.lease.live, f"{name} has no live lease")
    limit = job.spec.attempts_max
    found.expect(limit == 0 or i64(job.attempt) <= limit, f"{name} is at attempt {int(job.attempt)} of {int(limit)}")
    side = job.side
    if side is None:
        return
    found.expect(side.payload_blob is None or not job.payload, f"{name} has a payload here and in the blob store")
    found.expect(side.result_blob is None or side.result == b"", f"{name} has a result here and in the blob store")
    holds = side.holds is not None and len(side.holds) > 0
    found.expect(not holds or state == RUNNING, f"{name} holds limit slots")
    if is_terminal(state):
        kept = side.holds_group or side.holds_unique or side.joined > 0 or side.debounced
        found.expect(not kept, f"{name} still holds a group or key")
        found.expect(side.watchers is None, f"{name} still has watchers")
    if side.expires_at and state != RUNNING and not is_terminal(state):
        found.expect(side.expiry is not None and side.expiry.live, f"{name} has no alarm for its expiry")
    if state == BLOCKED:
        found.expect(side.pending + side.succeeded + side.failed > 0, f"{name} waits for nothing")
    found.expect(side.pins >= 0, f"{name} has {int(side.pins)} pins")


def _verify_queue(w: World, q: Queue, jobs: list[Job], found: Findings) -> None:
    name = f"queue {q.tenant_name}/{q.name}"
    counts = [0] * 8
    size = 0
    places: dict[int, list[Job]] = {}
    for job in jobs:
        counts[int(job.state)] += 1
        if not is_terminal(int(job.state)):
            size += int(payload_bytes(job))
        places.setdefault(int(job.place), []).append(job)
    said = [q.scheduled, q.blocked, q.ready, q.running, q.retrying, q.completed, q.failed, q.cancelled]
    for state in range(8):
        found.expect(
            counts[state] == said[state], f"{name} counts {int(said[state])} {STATE_NAMES[state]}, has {counts[state]}"
        )
    over = sum(1 for holdover in w.holdovers.values() if holdover.queue == q.number)
    found.expect(over == q.held_over, f"{name} counts {int(q.held_over)} held over, has {over}")
    found.expect(size == q.bytes, f"{name} counts {int(q.bytes)} bytes, has {size}")
    _same(q.order.jobs(), places.get(LINE, []), f"{name}: its line", found)
    _sorted(q.order.jobs(), f"{name}: its line", found)
    aside: list[Job] = []
    if q.asides is not None:
        for entry in q.asides.values():
            found.expect(entry.order.size > 0, f"{name} keeps an empty aside for {entry.task}")
            found.expect(entry.alarm is not None and entry.alarm.live, f"{name}: aside {entry.task} has no alarm")
            _sorted(entry.order.jobs(), f"{name}: aside {entry.task}", found)
            aside.extend(entry.order.jobs())
            known = {int(one[1].id): one[1] for one in entry.since[entry.head :] if is_aside_since(one)}
            _same(list(known.values()), entry.order.jobs(), f"{name}: aside {entry.task}, by time", found)
    _same(aside, places.get(ASIDE, []), f"{name}: set aside", found)
    found.expect(q.parked == len(places.get(PARKED, [])), f"{name} counts {int(q.parked)} parked")
    kept: list[Job] = []
    for number in q.kepts:
        line = w.kepts[number].line
        kept.extend(line.jobs())
        found.expect(line.size == len(line.jobs()), f"{name}: a line of ended jobs miscounts")
    doomed = [job for job in jobs if job.side is not None and job.side.doomed]
    ended = [job for job in jobs if is_terminal(int(job.state)) and job not in doomed]
    _same(kept, ended, f"{name}: ended jobs", found)
    _verify_groups(w, q, jobs, places.get(MEMBER, []), found)
    _verify_ring(w, q, name, found)


def _verify_ring(w: World, q: Queue, name: str, found: Findings) -> None:
    """What can be claimed stands in its ring; one that a limit of its tenant holds may, until a claim meets it."""
    waiting = q.order.size > 0 and not q.paused
    claimable = waiting and room(w, q) > 0
    good = q.in_ring if claimable else (waiting or not q.in_ring)
    found.expect(good, f"{name}: in ring {q.in_ring}, claimable {claimable}")
    if waiting and not q.in_ring:
        _verify_return(w, q, name, found)


def _verify_return(w: World, q: Queue, name: str, found: Findings) -> None:
    """A queue that limits keep out of its ring is looked at again: when a slot is freed, or by an alarm."""
    if q.concurrency != UNLIMITED and q.running + q.held_over >= q.concurrency:
        return
    if q.bucket is not None and q.bucket.available(w.elapsed_ms) <= 0:
        found.expect(q.alarm is not None and q.alarm.live, f"{name} waits for its rate and has no alarm")
        return
    t = w.tenants[q.tenant]
    listed = q.held and t.held_queues is not None and int(q.number) in t.held_queues
    found.expect(listed, f"{name} waits for its tenant, which does not know")
    is_full = t.running_max != UNLIMITED and t.running + t.held_over >= t.running_max
    if not is_full and t.bucket is not None and t.bucket.available(w.elapsed_ms) <= 0:
        found.expect(t.alarm is not None and t.alarm.live, f"{name} waits for its tenant's rate and has no alarm")


def _verify_groups(w: World, q: Queue, jobs: list[Job], members: list[Job], found: Findings) -> None:
    name = f"queue {q.tenant_name}/{q.name}"
    busy: dict[str, int] = {}
    joined: dict[str, int] = {}
    for job in jobs:
        side = job.side
        if side is not None and side.extras is not None and side.extras.group:
            group_name = side.extras.group
            if side.holds_group:
                busy[group_name] = busy.get(group_name, 0) + 1
            if side.joined:
                joined[group_name] = joined.get(group_name, 0) + 1
    for holdover in w.holdovers.values():
        if holdover.queue == q.number and holdover.group:
            busy[holdover.group] = busy.get(holdover.group, 0) + 1
    waiting: list[Job] = []
    groups: list[Group] = [] if q.groups is None else list(q.groups.values())
    for group in groups:
        found.expect(group.busy == busy.get(group.name, 0), f"{name}: group {group.name} counts {int(group.busy)} busy")
        found.expect(
            group.jobs == joined.get(group.name, 0), f"{name}: group {group.name} counts {int(group.jobs)} jobs"
        )
        _verify_standing(w, q, group, f"{name}: group {group.name}", found)
        for id in group.kept:
            keeper = w.index.get(id)
            keeps = keeper is not None and keeper.side is not None and keeper.side.holds_group
            waits = keeper is not None and keeper.state != RUNNING
            found.expect(keeps and waits, f"{name}: group {group.name} keeps a slot for {id}")
        waiting.extend(group.members.jobs())
    _same(waiting, members, f"{name}: group members", found)
    names = {group.name for group in groups}
    found.expect(set(busy) | set(joined) <= names, f"{name} has lost a group")


def _verify_standing(w: World, q: Queue, group: Group, name: str, found: Findings) -> None:
    """The first of those who have a slot, or could take a free one, is let out, and nobody else."""
    found.expect(len(group.standing) <= 1, f"{name} let out {len(group.standing)} jobs")
    first: Side | None = None
    for id in group.standing:
        standing = w.index.get(id)
        good = standing is not None and standing.state == READY and standing.place != MEMBER
        found.expect(good, f"{name} let out job {id}")
        first = None if standing is None else standing.side
    has_free = group.busy < q.group_concurrency
    for job in group.members.jobs():
        side = job.side
        if side is not None and (has_free or side.holds_group):
            found.expect(first is not None, f"{name} lets nobody out")
            found.expect(first is None or first.joined < side.joined, f"{name} holds back job {int(job.id)}")


def _verify_store(w: World, jobs: list[Job], found: Findings) -> None:
    live = [job for job in jobs if not is_terminal(int(job.state))]
    ended = [job for job in jobs if is_terminal(int(job.state))]
    found.expect(w.jobs == len(live), f"store counts {int(w.jobs)} live jobs, has {len(live)}")
    found.expect(w.terminal_jobs == len(ended), f"store counts {int(w.terminal_jobs)} ended jobs, has {len(ended)}")
    size = sum(len(job.payload) for job in live)
    found.expect(w.bytes == size, f"store counts {int(w.bytes)} bytes, has {size}")
    kept = sum(int(size_of(job)) for job in ended)
    found.expect(w.terminal_bytes == kept, f"store counts {int(w.terminal_bytes)} ended bytes, has {kept}")
    for t in w.tenants:
        own = [job for job in live if job.spec.tenant == t.number]
        running = sum(1 for job in own if job.state == RUNNING)
        over = sum(1 for holdover in w.holdovers.values() if w.queues[holdover.queue].tenant == t.number)
        found.expect(t.jobs == len(own), f"tenant {t.name} counts {int(t.jobs)} jobs, has {len(own)}")
        found.expect(t.running == running, f"tenant {t.name} counts {int(t.running)} running, has {running}")
        own_bytes = sum(int(payload_bytes(job)) for job in own)
        found.expect(t.bytes == own_bytes, f"tenant {t.name} counts {int(t.bytes)} bytes, has {own_bytes}")
        found.expect(t.held_over == over, f"tenant {t.name} counts {int(t.held_over)} held over, has {over}")
        _verify_keys(w, t.number, [job for job in jobs if job.spec.tenant == t.number], found)


def _verify_keys(w: World, tenant: i64, jobs: list[Job], found: Findings) -> None:
    t = w.tenants[tenant]
    custom: dict[str, int] = {}
    for job in jobs:
        side = job.side
        if side is not None and side.extras is not None and side.holds_custom:
            custom[side.extras.custom_id] = int(job.id)
    said = {} if t.custom_ids is None else dict(t.custom_ids.items())
    found.expect(custom == said, f"tenant {t.name}: custom ids {said} are not {custom}")
    for number in t.queues.values():
        q = w.queues[number]
        unique = {
            job.side.extras.unique_key: int(job.id)
            for job in jobs
            if job.spec.queue == q.number
            and job.side is not None
            and job.side.extras is not None
            and job.side.holds_unique
        }
        for table in ({} if q.left_keys is None else q.left_keys).values():
            for entry in table.values():
                own = f"queue {t.name}/{q.name}: idempotency key of job {int(entry.job)}"
                found.expect(entry.live or entry.due_ms <= w.elapsed_ms, f"{own} will not end")
                found.expect(w.index.get(entry.job) is None, f"{own} is kept by itself, and the job is there")
        held = {int(job.id): job for job in jobs if job.spec.queue == q.number and job.key_until > 0}
        for task, holders in ({} if q.holders is None else q.holders).items():
            ids = holders.ids()
            found.expect(
                len(ids) == holders.size, f"queue {t.name}/{q.name}: {len(ids)} keys, counts {int(holders.size)}"
            )
            for id in ids:
                job_of = held.pop(id, None)
                good = job_of is not None and job_of.spec.options.task == task and holders.has(job_of.key, id)
                found.expect(good, f"queue {t.name}/{q.name}: job {id} does not have the idempotency key it is said to")
        found.expect(not held, f"queue {t.name}/{q.name}: jobs {sorted(held)} hold idempotency keys of nobody")
        keys = {} if q.unique is None else dict(q.unique.items())
        found.expect(unique == keys, f"queue {t.name}/{q.name}: unique keys {keys} are not {unique}")


def _verify_limits(w: World, jobs: list[Job], found: Findings) -> None:
    running: dict[int, int] = {}
    parked: dict[int, int] = {}
    candidates: dict[int, int] = {}
    for job in jobs:
        side = job.side
        if side is None:
            continue
        for number in side.holds or []:
            running[number] = running.get(number, 0) + 1
        if side.parked_on >= 0:
            parked[int(side.parked_on)] = parked.get(int(side.parked_on), 0) + 1
        if side.candidate_of >= 0:
            candidates[int(side.candidate_of)] = candidates.get(int(side.candidate_of), 0) + 1
    for holdover in w.holdovers.values():
        for number in holdover.limits or []:
            running[number] = running.get(number, 0) + 1
    for number, limit in w.limits.items():
        waits = sum(int(order.size) for order in (limit.parked or {}).values())
        goes = sum((limit.candidates or {}).values())
        found.expect(limit.running == running.get(number, 0), f"limit {limit.key} counts {int(limit.running)} running")
        found.expect(
            waits == parked.get(number, 0), f"limit {limit.key} parks {waits}, jobs say {parked.get(number, 0)}"
        )
        found.expect(goes == candidates.get(number, 0), f"limit {limit.key} has {goes} candidates")
        _verify_wake_up(w, limit, found)
    lost = (set(running) | set(parked) | set(candidates)) - set(w.limits)
    found.expect(not lost, f"limits {sorted(lost)} are held but gone")


def _verify_wake_up(w: World, limit: Limit, found: Findings) -> None:
    """Whenever a key has room and jobs, so many of them stand in line; if only time is missing, an alarm is set."""
    number = int(limit.number)
    is_due = number in w.changed_limits or any(owed.kind == OWED_TOP_UP and owed.id == number for owed in w.owed)
    if is_due or not limit.is_parking():
        return
    due = more_room_at(w, limit)
    if due:
        rings = 0 < limit.alarm_due() <= due
        found.expect(rings, f"limit {limit.key} waits until {int(due)}, its alarm is of {int(limit.alarm_due())}")
    free = capacity(w, limit)
    for queue in limit.parked or {}:
        if is_paused_for(w, limit, w.queues[queue].tenant):
            continue
        found.expect(leading(limit, queue) >= free, f"limit {limit.key} has room and holds back jobs of {queue}")


def _verify_dependencies(w: World, jobs: list[Job], found: Findings) -> None:
    """Reverse index, counters and pins, with what is still owed to them."""
    unheard: dict[int, int] = {}
    pins: dict[int, int] = {}
    for owed in w.owed:
        table = unheard if owed.kind == OWED_DEPENDENTS else pins if owed.kind == OWED_UNPIN else None
        if table is not None:
            for id in owed.ids[owed.at :]:
                table[id] = table.get(id, 0) + 1
    for job in jobs:
        side = job.side
        if side is None or side.extras is None or is_terminal(int(job.state)):
            continue
        pending = unheard.get(int(job.id), 0)
        for id in side.extras.depends_on:
            pins[id] = pins.get(id, 0) + 1
            dependency = w.index.get(id)
            if dependency is not None and not is_terminal(int(dependency.state)):
                # One that was replayed has been counted as it ended the first time, and does not know this job.
                known = [] if dependency.side is None else dependency.side.dependents or []
                pending += known.count(int(job.id))
        found.expect(
            side.pending == pending, f"{_name(job)} counts {int(side.pending)} open dependencies, has {pending}"
        )
    for job in jobs:
        side = job.side
        said = 0 if side is None else int(side.pins)
        watchers = 0 if side is None or side.watchers is None else len(side.watchers)
        wanted = pins.get(int(job.id), 0) + watchers
        found.expect(said == wanted, f"{_name(job)} has {said} pins, should have {wanted}")


def _verify_shared(w: World, jobs: list[Job], found: Findings) -> None:
    counts: dict[Spec, int] = {}
    for job in jobs:
        counts[job.spec] = counts.get(job.spec, 0) + 1
    for spec, amount in counts.items():
        found.expect(
            spec.jobs == amount,
            f"queue {spec.tenant_name}/{spec.options.queue}: options count {int(spec.jobs)} jobs, have {amount}",
        )
    staged = sum(int(load.jobs) for load in w.loads.values())
    found.expect(w.staged_jobs == staged, f"store counts {int(w.staged_jobs)} staged jobs, has {staged}")
    _verify_room(w, found)
    holders = count_blobs(w, jobs)
    for name in sorted({*holders, *w.blobs}):
        said, has = w.blobs.get(name, 0), holders.get(name, 0)
        found.expect(said == has, f"blob {name} counts {said} holders, has {has}")


def _verify_room(w: World, found: Findings) -> None:
    """That is kept for what is staged."""
    kept: dict[tuple[str, str], list[int]] = {}
    held = 0
    for load in w.loads.values():
        for shares in load.kept.values():
            for share in shares:
                held += int(share.held)
                for queue in ("", share.queue):
                    total = kept.setdefault((load.tenant, queue), [0, 0])
                    total[0] += int(share.jobs)
                    total[1] += int(share.bytes)
    said = {name: [int(share.jobs), int(share.bytes)] for name, share in w.kept.items()}
    found.expect(said == kept, f"store keeps room for {said}, loads need {kept}")
    found.expect(w.kept_held == held, f"store keeps room for {int(w.kept_held)} bytes in memory, loads need {held}")


def _verify_leases(jobs: list[Job], found: Findings) -> None:
    counts: dict[int, int] = {}
    tokens: dict[int, bytes] = {}
    for job in jobs:
        lease = job.lease
        if job.state == RUNNING and lease is not None:
            counts[int(lease.id)] = counts.get(int(lease.id), 0) + 1
            found.expect(lease.has(job.id), f"job {int(job.id)} is not in its lease's list")
            token = tokens.setdefault(claim_of(lease.token), lease.token)
            found.expect(token == lease.token, f"claim {claim_of(lease.token)} has two tokens")
    for job in jobs:
        lease = job.lease
        if job.state == RUNNING and lease is not None:
            found.expect(lease.count == counts[int(lease.id)], f"lease {int(lease.id)} counts {int(lease.count)} jobs")


def _verify_waiting(w: World, found: Findings) -> None:
    waiting = sum(int(lane.waiting) for lane in w.lanes.values())
    said = sum(len(waiter.lanes) for waiter in w.waiters.values())
    found.expect(waiting == said, f"lanes count {waiting} waiting claims, waiters say {said}")
    gone = [ticket for ticket in w.waiting_ops.values() if ticket not in w.waiters]
    found.expect(not gone, f"{len(gone)} operation ids name claims that do not wait")
    rings = sum(int(lane.ring.valid) for lane in w.lanes.values())
    inside = sum(1 for q in w.queues if q is not NO_QUEUE and q.in_ring)
    found.expect(rings == inside, f"rings count {rings} queues, {inside} say they are in")


def _same(a: list[Job], b: list[Job], what: str, found: Findings) -> None:
    left = sorted(int(job.id) for job in a)
    right = sorted(int(job.id) for job in b)
    found.expect(left == right, f"{what} holds {left[:20]}, should hold {right[:20]}")


def _sorted(jobs: list[Job], what: str, found: Findings) -> None:
    keys = [(bool(job.aged), int(job.rank), int(job.number)) for job in jobs]
    found.expect(keys == sorted(keys) and len(set(keys)) == len(keys), f"{what} is out of order")
