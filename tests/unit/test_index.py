"""Finding jobs by id, and how removed ones ended."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.job import Options
from tenure.core.state import CANCELLED, COMPLETED, FAILED
from tenure.engine.index import PAGE, SPARSE, Index, Outcomes
from tenure.engine.job import Job, Spec

SPEC = Spec(Options(), 0, "default", 0)
ID_MAX = 2**53 - 1
DAY_MS = 86_400_000


def make_index(ids: Iterable[int]) -> tuple[Index, dict[int, Job]]:
    index = Index()
    jobs = {id: Job(id, SPEC, b"", 0, 0, 0) for id in ids}
    for job in jobs.values():
        index.add(job)
    return index, jobs


def pages(index: Index) -> int:
    return len(index._pages)


def sparse_pages(index: Index) -> list[int]:
    return [number for number, page in index._pages.items() if page.slots is None]


near = st.integers(1, 4 * PAGE)
far = st.integers(1, ID_MAX)


@given(st.lists(st.one_of(near, near, far), unique=True, max_size=100), st.data())
def test_index_is_a_dict(ids: list[int], data: st.DataObject) -> None:
    index, jobs = make_index(sorted(ids))
    gone = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    for id in gone:
        index.remove(id)
        del jobs[id]
    assert index.size == len(jobs)
    for id in [*ids, 1, PAGE, ID_MAX]:
        assert index.get(id) is jobs.get(id)


@given(
    st.lists(st.one_of(near, near, far), unique=True, max_size=60),
    st.one_of(st.integers(0, 4 * PAGE), st.integers(0, ID_MAX)),
    st.integers(1, 70),
    st.one_of(st.integers(0, 4 * PAGE), st.integers(0, ID_MAX)),
)
def test_scan_is_a_slice_of_the_sorted_ids(ids: list[int], after: int, limit: int, upto: int) -> None:
    index, _ = make_index(sorted(ids))
    expected = [id for id in sorted(ids) if after < id <= upto][:limit]
    assert [int(job.id) for job in index.scan(after, limit, upto)] == expected


def test_scan_goes_over_full_and_sparse_pages_alike() -> None:
    index, jobs = make_index(range(1, 5 * PAGE))
    for id in list(jobs):
        if id < 2 * PAGE and id % 100:
            index.remove(id)
            del jobs[id]
    assert sparse_pages(index) == [0, 1]
    found: list[int] = []
    while page := index.scan(found[-1] if found else 0, 37, 5 * PAGE):
        found += [int(job.id) for job in page]
    assert found == sorted(jobs)


def test_scan_of_few_jobs_is_short_however_far_the_ids_go() -> None:
    """After a restore ids go on far beyond the last one: looking at every page between would take minutes."""
    index, _ = make_index([1, PAGE + 1, ID_MAX])
    assert [int(job.id) for job in index.scan(0, 1 << 60, ID_MAX)] == [1, PAGE + 1, ID_MAX]


def test_scan_takes_its_bounds_exactly() -> None:
    index, _ = make_index([PAGE - 1, PAGE, PAGE + 1])
    assert [int(job.id) for job in index.scan(PAGE - 1, 10, PAGE)] == [PAGE]
    assert [int(job.id) for job in index.scan(PAGE - 2, 1, PAGE + 1)] == [PAGE - 1]
    assert index.scan(PAGE + 1, 10, ID_MAX) == []
    assert index.scan(PAGE, 10, PAGE) == []


def test_page_without_jobs_is_dropped() -> None:
    index, jobs = make_index(range(1, 3 * PAGE))
    for id in jobs:
        index.remove(id)
    assert (index.size, pages(index)) == (0, 0)
    assert index.get(1) is None


def test_page_of_few_survivors_shrinks_and_finds_them() -> None:
    index, jobs = make_index(range(1, 2 * PAGE))
    survivors = list(range(5, PAGE, PAGE // SPARSE))
    for id in range(1, PAGE):
        if id not in survivors:
            index.remove(id)
    assert sparse_pages(index) == [0]
    assert all(index.get(id) is jobs[id] for id in survivors)
    assert index.get(6) is None
    for id in survivors:
        index.remove(id)
    assert pages(index) == 1


def test_newest_page_does_not_shrink() -> None:
    index, jobs = make_index(range(1, 100))
    for id in range(1, 90):
        index.remove(id)
    assert sparse_pages(index) == []
    assert index.get(95) is jobs[95]


def test_job_can_join_a_page_that_has_shrunk() -> None:
    index, _ = make_index([1, 2, 5 * PAGE])
    index.remove(2)
    assert sparse_pages(index) == [0]
    late = Job(3, SPEC, b"", 0, 0, 0)
    index.add(late)
    assert index.get(3) is late
    assert [int(job.id) for job in index.scan(0, 10, ID_MAX)] == [1, 3, 5 * PAGE]


def test_id_of_a_dropped_page_is_not_found_through_the_last_look() -> None:
    index, _ = make_index([1, 5 * PAGE])
    assert index.get(1) is not None
    index.remove(1)
    assert index.get(1) is None
    late = Job(2, SPEC, b"", 0, 0, 0)
    index.add(late)
    assert index.get(2) is late
    assert index.get(1) is None


def test_job_that_is_not_there_cannot_be_removed() -> None:
    index, _ = make_index([1])
    with pytest.raises(AssertionError):
        index.remove(5 * PAGE)


# Outcomes.

endings = st.lists(
    st.tuples(st.integers(1, 3 * PAGE), st.sampled_from([COMPLETED, FAILED, CANCELLED]), st.integers(0, 3)),
    unique_by=lambda ending: ending[0],
    max_size=60,
)


@given(endings)
def test_outcome_is_known_to_its_tenant_and_no_other(endings: list[tuple[int, int, int]]) -> None:
    outcomes = Outcomes(DAY_MS, 10 * PAGE)
    for id, state, tenant in endings:
        outcomes.add(id, state, tenant, 0)
    for id, state, owner in endings:
        assert [outcomes.get(id, tenant) for tenant in range(4)] == [
            state if tenant == owner else -1 for tenant in range(4)
        ]
    known = {id for id, _, _ in endings}
    assert all(
        outcomes.get(id, tenant) == -1 for id in range(1, 3 * PAGE, 61) if id not in known for tenant in range(4)
    )


def test_outcomes_are_kept_for_their_time_and_then_trimmed() -> None:
    outcomes = Outcomes(DAY_MS, 10 * PAGE)
    outcomes.add(1, COMPLETED, 0, 1_000)
    outcomes.add(PAGE, FAILED, 0, 5_000)
    assert outcomes.trim(1_000 + DAY_MS - 1) == 1_000 + DAY_MS
    assert outcomes.get(1, 0) == COMPLETED
    assert outcomes.trim(1_000 + DAY_MS) == 5_000 + DAY_MS
    assert (outcomes.get(1, 0), outcomes.get(PAGE, 0)) == (-1, FAILED)
    assert outcomes.trim(5_000 + DAY_MS) == 0
    assert len(outcomes) == 0


def test_outcome_is_not_trimmed_before_its_time_because_of_older_ones() -> None:
    outcomes = Outcomes(DAY_MS, 10 * PAGE)
    outcomes.add(1, COMPLETED, 0, 0)
    outcomes.add(2, CANCELLED, 0, DAY_MS - 1)
    assert outcomes.trim(DAY_MS) == 2 * DAY_MS - 1
    assert outcomes.get(2, 0) == CANCELLED


def test_trimming_is_bounded_and_asks_to_come_again() -> None:
    outcomes = Outcomes(DAY_MS, 2_500 * PAGE)
    for page in range(2_500):
        outcomes.add(page * PAGE + 1, COMPLETED, 0, 0)
    visits = 0
    while outcomes.trim(DAY_MS):
        visits += 1
        assert len(outcomes) == 2_500 - 1_000 * visits
    assert (visits, len(outcomes)) == (2, 0)


def test_only_the_latest_pages_are_kept() -> None:
    outcomes = Outcomes(DAY_MS, 3 * PAGE)
    for page in range(5):
        outcomes.add(page * PAGE + 1, COMPLETED, 0, 0)
    assert [int(outcomes.get(page * PAGE + 1, 0)) for page in range(5)] == [-1, -1, COMPLETED, COMPLETED, COMPLETED]
    assert len(outcomes) == 3


def test_smallest_store_of_outcomes_has_a_page() -> None:
    outcomes = Outcomes(DAY_MS, 1)
    outcomes.add(1, FAILED, 0, 0)
    assert outcomes.get(1, 0) == FAILED
