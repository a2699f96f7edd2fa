"""The life of a job, compared with a table written out by hand from section 3 of the semantics."""

from itertools import product

import pytest

from tenure.core import state
from tenure.core.state import CAUSE_NAMES, LIVE, STATE_NAMES, TERMINAL, TRANSITIONS, allows, is_terminal

# Code 8 is a job before its enqueue, code 9 one after its removal.
STATES = (
    "scheduled",
    "blocked",
    "ready",
    "running",
    "retrying",
    "completed",
    "failed",
    "cancelled",
    "new",
    "gone",
)

# Per cause: from which state to which. Where the delay is 0, the end of a lease leads to ready, as a failure does.
PATHS: dict[str, set[tuple[str, str]]] = {
    "enqueue": {("new", "blocked"), ("new", "scheduled"), ("new", "ready")},
    "satisfy": {("blocked", "scheduled"), ("blocked", "ready")},
    "fail_dependency": {("blocked", "failed")},
    "due": {("scheduled", "ready"), ("retrying", "ready")},
    "promote": {("scheduled", "ready"), ("retrying", "ready")},
    "claim": {("ready", "running")},
    "complete": {("running", "completed")},
    "fail": {("running", "retrying"), ("running", "ready"), ("running", "failed")},
    "expire_lease": {("running", "retrying"), ("running", "ready"), ("running", "failed")},
    "time_out": {("running", "retrying"), ("running", "ready"), ("running", "failed")},
    "release": {("running", "ready"), ("running", "scheduled"), ("running", "failed")},
    "snooze": {("running", "ready"), ("running", "scheduled")},
    "refuse": {("running", "failed")},
    "abandon": {("ready", "failed")},
    "cancel": {
        ("scheduled", "cancelled"),
        ("blocked", "cancelled"),
        ("ready", "cancelled"),
        ("running", "cancelled"),
        ("retrying", "cancelled"),
    },
    "discard": {
        ("scheduled", "failed"),
        ("blocked", "failed"),
        ("ready", "failed"),
        ("running", "failed"),
        ("retrying", "failed"),
    },
    "expire": {("scheduled", "failed"), ("blocked", "failed"), ("ready", "failed"), ("retrying", "failed")},
    "delay": {("scheduled", "scheduled"), ("ready", "scheduled"), ("retrying", "scheduled")},
    "update": {
        ("scheduled", "scheduled"),
        ("blocked", "blocked"),
        ("ready", "ready"),
        ("running", "running"),
        ("retrying", "retrying"),
    },
    "replay": {("failed", "blocked"), ("failed", "scheduled"), ("failed", "ready")},
    "remove": {
        ("scheduled", "gone"),
        ("blocked", "gone"),
        ("ready", "gone"),
        ("retrying", "gone"),
        ("completed", "gone"),
        ("failed", "gone"),
        ("cancelled", "gone"),
    },
    "import": {
        ("new", "scheduled"),
        ("new", "blocked"),
        ("new", "ready"),
        ("new", "retrying"),
        ("new", "completed"),
        ("new", "failed"),
        ("new", "cancelled"),
    },
}

STATE_CODES = {
    "scheduled": state.SCHEDULED,
    "blocked": state.BLOCKED,
    "ready": state.READY,
    "running": state.RUNNING,
    "retrying": state.RETRYING,
    "completed": state.COMPLETED,
    "failed": state.FAILED,
    "cancelled": state.CANCELLED,
}

CAUSE_CODES = {
    "enqueue": state.ENQUEUE,
    "satisfy": state.SATISFY,
    "fail_dependency": state.FAIL_DEPENDENCY,
    "due": state.DUE,
    "promote": state.PROMOTE,
    "claim": state.CLAIM,
    "complete": state.COMPLETE,
    "fail": state.FAIL,
    "expire_lease": state.EXPIRE_LEASE,
    "time_out": state.TIME_OUT,
    "release": state.RELEASE,
    "snooze": state.SNOOZE,
    "refuse": state.REFUSE,
    "abandon": state.ABANDON,
    "cancel": state.CANCEL,
    "discard": state.DISCARD,
    "expire": state.EXPIRE,
    "delay": state.DELAY,
    "update": state.UPDATE,
    "replay": state.REPLAY,
    "remove": state.REMOVE,
    "import": state.IMPORT,
}

SETTLE_CODES = {
    "none": state.SETTLE_NONE,
    "complete": state.SETTLE_COMPLETE,
    "fail": state.SETTLE_FAIL,
    "release": state.SETTLE_RELEASE,
    "snooze": state.SETTLE_SNOOZE,
    "cancel": state.SETTLE_CANCEL,
    "expired": state.SETTLE_EXPIRED,
    "timed_out": state.SETTLE_TIMED_OUT,
    "cancelled": state.SETTLE_CANCELLED,
    "discarded": state.SETTLE_DISCARDED,
}


def paths_allowed(cause: int) -> set[tuple[str, str]]:
    codes = range(len(STATES))
    return {(STATES[before], STATES[after]) for before, after in product(codes, codes) if allows(cause, before, after)}


@pytest.mark.parametrize("cause", PATHS)
def test_cause_leads_where_the_semantics_say_and_nowhere_else(cause: str) -> None:
    assert paths_allowed(CAUSE_CODES[cause]) == PATHS[cause]


def test_table_has_every_cause_once() -> None:
    assert len(PATHS) == 22
    assert sorted(TRANSITIONS) == list(range(22))


def test_terminal_state_is_left_only_by_replay_and_removal() -> None:
    for cause, before, after in product(range(22), TERMINAL, range(10)):
        if allows(cause, before, after):
            assert (cause, before) == (state.REPLAY, state.FAILED) or (cause, after) == (state.REMOVE, state.GONE)


def test_only_a_claim_leads_into_running() -> None:
    entries = {cause for cause, before in product(range(22), range(10)) if allows(cause, before, state.RUNNING)}
    assert entries == {state.CLAIM, state.UPDATE}
    assert not any(allows(state.UPDATE, before, state.RUNNING) for before in range(10) if before != state.RUNNING)


def test_job_that_is_gone_never_comes_back() -> None:
    assert not any(allows(cause, state.GONE, after) for cause, after in product(range(22), range(10)))


def test_running_job_is_neither_removed_nor_expired() -> None:
    for cause in (state.REMOVE, state.EXPIRE):
        assert not any(allows(cause, state.RUNNING, after) for after in range(10))


def test_every_state_can_be_reached_from_nothing() -> None:
    reached = {state.NEW}
    while more := {
        after
        for cause, before, after in product(range(22), reached, range(10))
        if allows(cause, before, after) and after not in reached
    }:
        reached |= more
    assert reached == set(range(10))


@pytest.mark.parametrize(
    ("names", "codes"),
    [(STATE_NAMES, STATE_CODES), (CAUSE_NAMES, CAUSE_CODES), (state.SETTLE_NAMES, SETTLE_CODES)],
    ids=["states", "causes", "settlements"],
)
def test_names_stand_at_their_codes(names: tuple[str, ...], codes: dict[str, int]) -> None:
    assert list(codes) == list(names)
    assert list(codes.values()) == list(range(len(names)))


def test_absent_states_come_after_the_named_ones() -> None:
    assert (state.NEW, state.GONE) == (8, 9) == (len(STATE_NAMES), len(STATE_NAMES) + 1)


def test_live_and_terminal_states_are_all_and_disjoint() -> None:
    assert {STATE_NAMES[code] for code in LIVE} == {"scheduled", "blocked", "ready", "running", "retrying"}
    assert {STATE_NAMES[code] for code in TERMINAL} == {"completed", "failed", "cancelled"}
    assert sorted((*LIVE, *TERMINAL)) == list(range(8))


@pytest.mark.parametrize("code", range(10))
def test_is_terminal_agrees_with_the_list(code: int) -> None:
    assert is_terminal(code) == (STATES[code] in {"completed", "failed", "cancelled"})


def test_reasons_are_those_of_dead_letters() -> None:
    assert set(state.REASONS) == {
        "attempts_exhausted",
        "permanent",
        "lease_expired",
        "timed_out",
        "dependency_failed",
        "discarded",
        "expired",
        "unknown_task",
        "undecodable",
        "delivery_limit",
    }
    assert len(state.REASONS) == len(set(state.REASONS))
