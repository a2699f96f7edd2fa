"""Where a waiting job stands, and how it gets there and away.

A ready job stands in its queue's line, unless something it needs is taken: then it waits where it costs nobody
anything, in its group (`MEMBER`), at a limit key (`PARKED`) or aside for a worker that knows its task (`ASIDE`), and is
looked at again only when that changes.

Of the members of a group that have a slot, or could take a free one, the one that joined first is let out to the line,
where it stands by its own priority and number; when it is leased, the next steps up. Slots are counted in `busy` when a
job is leased; when the queue's group order is strict, a job that has started keeps its slot until it ends.
"""

from typing import Final

from mypy_extensions import i64

from tenure.engine.alarm import ABANDON, RUN, Alarm
from tenure.engine.clock import on_elapsed
from tenure.engine.job import ASIDE, LINE, MEMBER, NOWHERE, PARKED, TIMED, Job, Side
from tenure.engine.line import Order
from tenure.engine.ring import activate, activate_aside, deactivate, deactivate_aside
from tenure.engine.world import HOUR_MS, Aside, Group, Queue, World

ABANDON_MS: Final = HOUR_MS


def side_of(job: Job) -> Side:
    if job.side is None:
        job.side = Side(None)
    return job.side


def group_of(q: Queue, job: Job) -> Group | None:
    side = job.side
    if side is None or side.extras is None or not side.extras.group:
        return None
    if q.groups is None:
        q.groups = {}
    group = q.groups.get(side.extras.group)
    if group is None:
        group = Group(side.extras.group)
        q.groups[side.extras.group] = group
    return group


def make_ready(w: World, q: Queue, job: Job, renew: bool) -> None:
    """The job, which is ready, goes where it can be claimed. With `renew` it gets a new ready number, else it keeps the
    one it has."""
    job.ready_at = w.at_ms
    line_up(w, q, job, renew)


def line_up(w: World, q: Queue, job: Job, renew: bool) -> None:
    """The same, for a job whose `ready_at` is known."""
    if renew or job.number == 0:
        give_number(w, q, job)
    group = group_of(q, job)
    if group is None:
        stand_in_line(w, q, job)
    else:
        _join(w, q, group, job)


def give_number(w: World, q: Queue, job: Job) -> None:
    if job.spec.options.lifo:
        w.number_low -= 1
        job.number = w.number_low
    else:
        w.number_high += 1
        job.number = w.number_high
    set_rank(q, job)


def set_rank(q: Queue, job: Job) -> None:
    if q.age_ms > 0:
        job.aged = True
        job.rank = job.ready_at - i64(job.priority) * q.age_ms
    else:
        job.aged = False
        job.rank = -i64(job.priority)


def stand_in_line(w: World, q: Queue, job: Job) -> None:
    job.place = LINE
    q.order.push(job)
    if not q.in_ring:
        activate(w, q)


def leave(w: World, q: Queue, job: Job) -> None:
    """Take a waiting job out of wherever it stands. Its group's slot, if it holds one, is not touched."""
    place = job.place
    job.place = NOWHERE
    if place == LINE:
        q.order.remove(job)
        if q.order.size == 0:
            deactivate(w, q)
        drop_candidate(w, q, job)
    elif place == TIMED:
        cancel_run(w, job)
    elif place == MEMBER:
        group = group_of(q, job)
        assert group is not None
        group.members.remove(job)
    elif place == PARKED:
        w.changed_limits.append(unpark(w, q, job))
    elif place == ASIDE:
        assert q.asides is not None
        aside = q.asides[job.spec.options.task]
        aside.order.remove(job)
        _aside_shrank(w, q, aside)


def step_back(w: World, q: Queue, job: Job) -> None:
    """A ready job stops being ready without having been leased: its group may let out another."""
    leave(w, q, job)
    group = group_of(q, job)
    if group is not None and job.id in group.standing:
        group.standing.remove(job.id)
        let_out(w, q, group)


def wait_for_run(w: World, job: Job) -> None:
    """Set the alarm that makes a scheduled or retrying job ready at its `run_at`."""
    job.place = TIMED
    if job.is_delayed:
        job.alarm = Alarm(on_elapsed(w, job.run_at), RUN, job.id)
        w.elapsed.add(job.alarm)
    else:
        job.alarm = Alarm(job.run_at, RUN, job.id)
        w.wall.add(job.alarm)


def cancel_run(w: World, job: Job) -> None:
    if job.alarm is not None:
        if job.is_delayed:
            w.elapsed.cancel(job.alarm)
        else:
            w.wall.cancel(job.alarm)
        job.alarm = None


# Groups.


def _join(w: World, q: Queue, group: Group, job: Job) -> None:
    side = side_of(job)
    if side.joined == 0:
        side.joined = group.next_joined
        group.next_joined += 1
        group.jobs += 1
    job.place = MEMBER
    group.members.push(job)
    let_out(w, q, group)


def join_started(w: World, q: Queue, job: Job) -> None:
    """A job that has been tried elsewhere joins its group; in strict order the slot it had there is its own here too,
    if there is one.
    """
    group = group_of(q, job)
    assert group is not None
    side = side_of(job)
    side.joined = group.next_joined
    group.next_joined += 1
    group.jobs += 1
    if q.group_relaxed or group.busy >= q.group_concurrency:
        return
    if group.standing:
        _call_back(w, q, group)  # it may stand there for the slot that is taken now
    group.busy += 1
    keep_slot(w, q, group, job)


def let_out(w: World, q: Queue, group: Group) -> None:
    """See that the first of those who may go stands in line; one who came before its turn goes back."""
    job = _head(w, q, group)
    if job is None:
        return
    if group.standing:
        if _joined(w, group.standing[0]) < side_of(job).joined:
            return
        _call_back(w, q, group)
    group.members.remove(job)
    group.standing.append(int(job.id))
    stand_in_line(w, q, job)


def _head(w: World, q: Queue, group: Group) -> Job | None:
    """Of the members that have a slot, or could take a free one, the one that joined first."""
    if group.members.size == 0:
        return None
    first = group.members.first()
    if group.busy < q.group_concurrency:
        return first
    found: Job | None = None
    for id in group.kept:
        job = w.index.get(id)
        assert job is not None
        if job.place == MEMBER and (found is None or side_of(job).joined < side_of(found).joined):
            found = job
    return found


def _call_back(w: World, q: Queue, group: Group) -> None:
    """Whoever was let out goes back among the members; a slot that it keeps stays its own."""
    job = w.index.get(group.standing.pop())
    assert job is not None
    leave(w, q, job)
    job.place = MEMBER
    group.members.push(job)


def take_slot(w: World, q: Queue, job: Job) -> None:
    """The job is leased: it holds a slot of its group, and the next member steps up."""
    group = group_of(q, job)
    if group is not None:
        side = side_of(job)
        group.standing.remove(job.id)
        if side.holds_group:
            group.kept.remove(job.id)
        else:
            group.busy += 1
            side.holds_group = True
        let_out(w, q, group)


def keep_slot(w: World, q: Queue, group: Group, job: Job) -> None:
    """The slot is the job's own until it has ended; it may go as soon as it is ready."""
    side_of(job).holds_group = True
    group.kept.append(int(job.id))
    w.journal.touch(job)
    let_out(w, q, group)


def give_up_slot(w: World, q: Queue, job: Job) -> None:
    side = job.side
    if side is not None and side.holds_group:
        group = group_of(q, job)
        assert group is not None
        side.holds_group = False
        if job.id in group.kept:
            group.kept.remove(job.id)
        free_slot(w, q, group)


def regroup(w: World, q: Queue, group: Group) -> None:
    """The queue's group settings changed: whoever stands in line or keeps a slot beyond them steps back."""
    if group.standing:
        _call_back(w, q, group)
    latest_first = sorted(group.kept, key=lambda id: -_joined(w, id))
    for id in latest_first:
        if q.group_relaxed or group.busy > q.group_concurrency:
            job = w.index.get(id)
            assert job is not None
            side_of(job).holds_group = False
            group.kept.remove(id)
            group.busy -= 1
            w.journal.touch(job)
    let_out(w, q, group)


def _joined(w: World, id: int) -> int:
    job = w.index.get(id)
    assert job is not None and job.side is not None
    return int(job.side.joined)


def free_slot(w: World, q: Queue, group: Group) -> None:
    group.busy -= 1
    let_out(w, q, group)


def leave_group(w: World, q: Queue, job: Job) -> None:
    """The job has ended. A slot that a holdover has taken over is not the job's any more."""
    group = group_of(q, job)
    side = job.side
    if group is None or side is None or side.joined == 0:
        if group is not None:
            drop_if_empty(q, group)
        return
    side.joined = 0
    group.jobs -= 1
    if job.id in group.standing:
        group.standing.remove(job.id)
    if side.holds_group:
        give_up_slot(w, q, job)
    else:
        let_out(w, q, group)
    drop_if_empty(q, group)


def drop_if_empty(q: Queue, group: Group) -> None:
    if group.jobs == 0 and group.busy == 0 and q.groups is not None:
        q.groups.pop(group.name, None)
        if not q.groups:
            q.groups = None


# Limit keys: the side of the jobs; what a limit does about it is in engine.parking.


def park(w: World, q: Queue, job: Job, number: i64) -> None:
    limit = w.limits[number]
    if limit.parked is None:
        limit.parked = {}
    order = limit.parked.get(q.number)
    if order is None:
        order = Order()
        limit.parked[q.number] = order
    order.push(job)
    job.place = PARKED
    side_of(job).parked_on = number
    q.parked += 1


def unpark(w: World, q: Queue, job: Job) -> i64:
    """Off the limit it waits for; answers the limit's number."""
    side = side_of(job)
    limit = w.limits[side.parked_on]
    side.parked_on = -1
    q.parked -= 1
    assert limit.parked is not None
    order = limit.parked[q.number]
    order.remove(job)
    if order.size == 0:
        del limit.parked[q.number]
    return limit.number


def drop_candidate(w: World, q: Queue, job: Job) -> None:
    """The job was put back in line because a limit had room, and leaves it: the room is another's."""
    side = job.side
    if side is None or side.candidate_of < 0:
        return
    limit = w.limits[side.candidate_of]
    side.candidate_of = -1
    assert limit.candidates is not None
    left = limit.candidates[q.number] - 1
    if left:
        limit.candidates[q.number] = left
    else:
        del limit.candidates[q.number]
    if limit.passed is not None:
        passed = min(limit.passed.pop(q.number, 0), left)
        if passed:
            limit.passed[q.number] = passed
    w.changed_limits.append(limit.number)


# Set aside.


def set_aside(w: World, q: Queue, job: Job) -> None:
    """A worker that does not know the job's task met it at the head of the line (it is out of the line already)."""
    drop_candidate(w, q, job)
    task = job.spec.options.task
    if q.asides is None:
        q.asides = {}
    aside = q.asides.get(task)
    if aside is None:
        aside = Aside(task)
        q.asides[task] = aside
    job.place = ASIDE
    side_of(job).aside_at = w.elapsed_ms
    w.journal.touch(job)
    aside.push(job, w.elapsed_ms)
    if aside.alarm is None:
        watch_aside(w, q, aside, w.elapsed_ms + ABANDON_MS)
    activate_aside(w, q, aside)


def watch_aside(w: World, q: Queue, aside: Aside, due_ms: i64) -> None:
    """Set the alarm for jobs nobody asks for; it names the queue and, through the task's number there, the aside."""
    aside.alarm = Alarm(due_ms, ABANDON, q.number)
    w.elapsed.add(aside.alarm)


def took_aside(w: World, q: Queue, aside: Aside) -> None:
    """A job was taken from the aside's order by a claim."""
    _aside_shrank(w, q, aside)


def _aside_shrank(w: World, q: Queue, aside: Aside) -> None:
    if aside.order.size == 0:
        deactivate_aside(w, q, aside)
        if aside.alarm is not None:
            w.elapsed.cancel(aside.alarm)
            aside.alarm = None
        assert q.asides is not None
        del q.asides[aside.task]
        if not q.asides:
            q.asides = None
