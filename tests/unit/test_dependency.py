"""What the dependencies of a job mean for it, over all small sets of them."""

from itertools import combinations_with_replacement, product

import pytest

from tenure.core.dependency import (
    ALL_DONE,
    ALL_SUCCESS,
    ANY_SUCCESS,
    FAIL,
    GO,
    POLICY_NAMES,
    WAIT,
    decide,
)

PENDING, SUCCEEDED, FAILED = "pending", "succeeded", "failed"
SETS = [found for size in range(1, 6) for found in combinations_with_replacement((PENDING, SUCCEEDED, FAILED), size)]


def verdict(policy: int, found: tuple[str, ...]) -> int:
    return decide(policy, found.count(PENDING), found.count(SUCCEEDED), found.count(FAILED))


@pytest.mark.parametrize("found", SETS, ids="-".join)
def test_all_success_needs_every_success_and_no_failure(found: tuple[str, ...]) -> None:
    if FAILED in found:
        expected = FAIL
    elif set(found) == {SUCCEEDED}:
        expected = GO
    else:
        expected = WAIT
    assert verdict(ALL_SUCCESS, found) == expected


@pytest.mark.parametrize("found", SETS, ids="-".join)
def test_all_done_waits_for_the_last_and_never_fails(found: tuple[str, ...]) -> None:
    assert verdict(ALL_DONE, found) == (WAIT if PENDING in found else GO)


@pytest.mark.parametrize("found", SETS, ids="-".join)
def test_any_success_needs_one_and_fails_when_none_is_left(found: tuple[str, ...]) -> None:
    if SUCCEEDED in found:
        expected = GO
    elif set(found) == {FAILED}:
        expected = FAIL
    else:
        expected = WAIT
    assert verdict(ANY_SUCCESS, found) == expected


@pytest.mark.parametrize("policy", [ALL_SUCCESS, ALL_DONE, ANY_SUCCESS])
@pytest.mark.parametrize("found", SETS, ids="-".join)
def test_verdict_is_final(policy: int, found: tuple[str, ...]) -> None:
    """Whatever becomes of those still open, a job that was let go, or failed, was so rightly."""
    now = verdict(policy, found)
    settled = tuple(one for one in found if one != PENDING)
    for rest in product((SUCCEEDED, FAILED), repeat=found.count(PENDING)):
        then = verdict(policy, settled + rest)
        assert then != WAIT
        assert now in (WAIT, then)


@pytest.mark.parametrize("policy", [ALL_SUCCESS, ALL_DONE])
def test_job_without_dependencies_goes(policy: int) -> None:
    assert decide(policy, 0, 0, 0) == GO


def test_policy_names_stand_at_their_codes() -> None:
    assert POLICY_NAMES[ALL_SUCCESS] == "all_success"
    assert POLICY_NAMES[ALL_DONE] == "all_done"
    assert POLICY_NAMES[ANY_SUCCESS] == "any_success"
    assert len(POLICY_NAMES) == 3
