"""Lines of jobs against sorted lists, small ones and ones of several chunks."""

from bisect import insort

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tenure.core.job import Options
from tenure.engine.job import Job, Side, Spec
from tenure.engine.line import CHUNK, CHUNK_MAX, Line, Members, Order

SPEC = Spec(Options(), 0, "default", 0)


def make_job(id: int, rank: int, number: int, aged: bool = False) -> Job:
    job = Job(id, SPEC, b"", 0, 0, rank)
    job.number = number
    job.aged = aged
    return job


def make_member(joined: int) -> Job:
    job = make_job(joined, -joined, -joined)
    job.side = Side(None)
    job.side.joined = joined
    return job


def key_of(job: Job) -> tuple[int, int]:
    return (int(job.rank), int(job.number))


def holes(line: Line) -> int:
    """Slots that hold no job: only the taken ones at the head."""
    return sum(len(chunk) for chunk in line.chunks) - int(line.size)


def check_shape(line: Line) -> None:
    assert all(line.chunks)
    assert all(len(chunk) <= CHUNK_MAX for chunk in line.chunks)
    assert holes(line) == line.head
    assert line.size == len(line.jobs())


class Sorted:
    """The same line as a list."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def push(self, job: Job) -> None:
        insort(self.jobs, job, key=key_of)


# Steps: push a job of this rank and number, pop, or remove the one at this share of the line.
push_steps = st.tuples(st.just("push"), st.integers(-3, 3), st.integers(-10_000, 10_000))
pop_steps = st.tuples(st.just("pop"), st.just(0), st.just(0))
remove_steps = st.tuples(st.just("remove"), st.integers(0, 999), st.just(0))
small = st.lists(st.one_of(push_steps, push_steps, pop_steps, remove_steps), max_size=80)


@given(small)
def test_line_is_a_sorted_list(steps: list[tuple[str, int, int]]) -> None:
    line = Line()
    expected = Sorted()
    seen: set[tuple[int, int]] = set()
    for id, (step, first, second) in enumerate(steps, 1):
        if step == "push" and (first, second) not in seen:
            seen.add((first, second))
            job = make_job(id, first, second)
            line.push(job)
            expected.push(job)
        elif step == "pop" and expected.jobs:
            assert line.first() is expected.jobs[0]
            assert line.pop() is expected.jobs.pop(0)
        elif step == "remove" and expected.jobs:
            line.remove(expected.jobs.pop(first * len(expected.jobs) // 1_000))
        assert line.jobs() == expected.jobs
        check_shape(line)
    for at, job in enumerate(expected.jobs):
        assert line.place(job, 1_000) == at


# Blocks of jobs: at the back, at the front, in the middle, or out again from there.
blocks = st.lists(
    st.tuples(
        st.sampled_from(["back", "front", "middle", "pop", "remove", "shuffle"]),
        st.integers(1, CHUNK_MAX + 10),
        st.integers(0, 999),
    ),
    min_size=3,
    max_size=8,
)


@settings(max_examples=60)
@given(blocks)
@example([("back", 2_058, 0), ("middle", 2_000, 500), ("front", 1_500, 0), ("pop", 700, 0), ("front", 900, 0)])
@example([("back", 2_058, 0), ("back", 2_058, 0), ("pop", 500, 0), ("shuffle", 2_058, 1), ("remove", 2_058, 333)])
def test_line_of_many_chunks_is_a_sorted_list(blocks: list[tuple[str, int, int]]) -> None:
    line = Line()
    expected: list[Job] = []
    low, high = 0, 0
    for step, count, share in blocks:
        at = share * len(expected) // 1_000
        if step == "back":
            added = [make_job(1, 0, high + 2_000 * one) for one in range(1, count + 1)]
            high += 2_000 * count
            expected.extend(added)
        elif step == "front":
            added = [make_job(1, 0, low - 2_000 * one) for one in range(1, count + 1)]
            low -= 2_000 * count
            expected[:0] = reversed(added)
        elif step == "middle" and at > 0:
            before = int(expected[at - 1].number)
            after = int(expected[at].number)
            added = [make_job(1, 0, number) for number in range(before + 1, min(after, before + count))]
            expected[at:at] = added
        else:
            added = []
        for job in added:
            line.push(job)
        if step == "pop":
            for job in expected[:count]:
                assert line.pop() is job
            del expected[:count]
        elif step in {"remove", "shuffle"}:
            gone = expected[at : at + count]
            del expected[at : at + count]
            for job in reversed(gone) if share % 2 else gone:
                line.remove(job)
            if step == "shuffle":
                for job in gone[1::2] + gone[::2]:
                    line.push(job)
                expected[at:at] = gone
        check_shape(line)
        assert line.jobs() == expected
    for at in range(0, len(expected), 97):
        assert line.place(expected[at], 100_000) == at
        assert line.place(expected[at], at) == at
        if at:
            assert line.place(expected[at], at - 1) == -1


def test_line_that_is_emptied_holds_nothing() -> None:
    for take in ("pop", "remove"):
        line = Line()
        jobs = [make_job(number, 0, number) for number in range(1, 3 * CHUNK_MAX)]
        for job in jobs:
            line.push(job)
        for job in jobs:
            if take == "pop":
                line.pop()
            else:
                line.remove(job)
        assert (line.chunks, line.head, line.size) == ([], 0, 0)


def test_popped_job_is_let_go_of() -> None:
    line = Line()
    jobs = [make_job(number, 0, number) for number in range(1, 11)]
    for job in jobs:
        line.push(job)
    taken = line.pop()
    assert all(job is not taken for chunk in line.chunks for job in chunk)


def test_line_in_the_middle_of_which_jobs_come_and_go_keeps_its_chunks_few() -> None:
    line = Line()
    jobs = [make_job(number, 0, number) for number in range(1, 20 * CHUNK)]
    for job in jobs:
        line.push(job)
    for job in jobs[CHUNK // 2 : -CHUNK // 2]:
        line.remove(job)
    check_shape(line)
    assert len(line.chunks) <= 3


def test_job_at_another_place_is_not_removed() -> None:
    line = Line()
    line.push(make_job(1, 0, 1))
    line.push(make_job(2, 0, 3))
    with pytest.raises(AssertionError, match="does not hold this job"):
        line.remove(make_job(3, 0, 2))


# Members of a group.


@given(st.lists(st.integers(1, 100), unique=True), st.data())
def test_members_stand_in_the_order_of_joining(joined: list[int], data: st.DataObject) -> None:
    members = Members()
    jobs = {number: make_member(number) for number in joined}
    for number in joined:
        members.push(jobs[number])
    left = sorted(joined)
    assert members.jobs() == [jobs[number] for number in left]
    while left:
        if data.draw(st.booleans()):
            assert members.pop() is jobs[left.pop(0)]
        else:
            members.remove(jobs[left.pop(data.draw(st.integers(0, len(left) - 1)))])
        assert members.jobs() == [jobs[number] for number in left]
    assert members.size == 0


# Order.

order_steps = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(-5, 5), st.booleans()),
        st.tuples(st.just("push"), st.integers(-5, 5), st.just(False)),
        st.tuples(st.just("pop"), st.just(0), st.just(False)),
        st.tuples(st.just("remove"), st.integers(0, 999), st.just(False)),
        st.tuples(st.just("back"), st.integers(0, 999), st.just(False)),
    ),
    max_size=100,
)


@given(order_steps)
def test_order_is_sorted_by_rank_and_number_with_the_aged_last(steps: list[tuple[str, int, bool]]) -> None:
    order = Order()
    expected: list[Job] = []
    gone: list[Job] = []

    def key(job: Job) -> tuple[bool, int, int]:
        return (job.aged, *key_of(job))

    for number, (step, value, aged) in enumerate(steps, 1):
        if step == "push":
            # An aged job has a rank of its own.
            job = make_job(number, value * 1_000 + number if aged else value, number, aged)
            order.push(job)
            insort(expected, job, key=key)
        elif step == "pop" and expected:
            assert order.first() is expected[0]
            gone.append(expected.pop(0))
            assert order.pop() is gone[-1]
        elif step == "remove" and expected:
            gone.append(expected.pop(value * len(expected) // 1_000))
            order.remove(gone[-1])
        elif step == "back" and gone:
            # Released: it comes back to its old place.
            job = gone.pop(value * len(gone) // 1_000)
            order.push(job)
            insort(expected, job, key=key)
        assert order.size == len(expected)
        assert order.jobs() == expected
    for at, job in enumerate(expected):
        assert order.place(job, 1_000) == at
        assert order.place(job, at) == at
        if at:
            assert order.place(job, at - 1) == -1
    assert [order.pop() for _ in list(expected)] == expected


def lines_in(order: Order) -> int:
    return len(order._table())


def ranks_in(order: Order) -> int:
    return len(order._ranks)


def test_ranks_that_are_popped_empty_do_not_pile_up() -> None:
    order = Order()
    for rank in range(1_000):
        order.push(make_job(rank + 1, rank, rank + 1))
    while order.size:
        order.pop()
    order.push(make_job(2_000, 5_000, 2_000))
    assert order.first().id == 2_000
    assert lines_in(order) == ranks_in(order) == 1


@pytest.mark.parametrize("take", ["pop", "remove"])
@pytest.mark.parametrize("step", [1, -1], ids=["falling", "rising"])
def test_priority_used_once_leaves_no_line_behind(take: str, step: int) -> None:
    """Each job has a priority of its own, higher or lower than the last, and is taken at once."""
    order = Order()
    for number in range(1, 2_001):
        job = make_job(number, step * number, number)
        order.push(job)
        assert order.first() is job
        if take == "pop":
            order.pop()
        else:
            order.remove(job)
    assert order.size == 0
    assert lines_in(order) <= 2
    assert ranks_in(order) <= 200


def test_ranks_that_are_removed_empty_do_not_pile_up() -> None:
    order = Order()
    stays = make_job(1, -1, 1)
    order.push(stays)
    assert order.first() is stays
    for number in range(2, 5_000):
        job = make_job(number, number % 500, number)
        order.push(job)
        order.remove(job)
    assert order.jobs() == [stays]
    assert lines_in(order) == 1
    assert ranks_in(order) <= 200


def test_long_order_is_popped_in_order() -> None:
    order = Order()
    jobs = [make_job(number, number % 7, number) for number in range(1, 30_001)]
    for job in jobs:
        order.push(job)
    assert [order.pop() for _ in jobs] == sorted(jobs, key=key_of)
