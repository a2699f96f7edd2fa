"""Which backups and objects go is a pure question; here it is asked of many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.error import InvalidRequest
from tenure.ops.place import Stored
from tenure.ops.retention import GRACE_MS, Held, Rules, backups_to_remove, objects_to_remove

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS


def hourly(count: int, broken: tuple[int, ...] = ()) -> list[Held]:
    """The backups of so many hours, oldest first; `backup-0` is of now, `backup-1` of an hour ago."""
    return [Held(f"backup-{age}", NOW_MS - age * HOUR_MS, age not in broken) for age in reversed(range(count))]


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        (Rules(), 10),
        (Rules(keep=3), 3),
        (Rules(keep=100), 10),
        (Rules(keep_for_ms=4 * HOUR_MS), 5),
        (Rules(keep=7, keep_for_ms=4 * HOUR_MS), 7),
        (Rules(keep=2, keep_for_ms=4 * HOUR_MS), 5),
        (Rules(keep_for_ms=1), 1),
    ],
)
def test_backup_stays_while_a_rule_keeps_it(rules: Rules, kept: int) -> None:
    removed = backups_to_remove(hourly(10), rules, NOW_MS)
    assert removed == [f"backup-{age}" for age in range(9, kept - 1, -1)]


def test_newest_stays_however_old() -> None:
    assert backups_to_remove(hourly(3), Rules(keep_for_ms=1), NOW_MS + 1_000 * HOUR_MS) == ["backup-2", "backup-1"]


def test_newest_whole_one_stays_when_newer_ones_have_lost_chunks() -> None:
    assert backups_to_remove(hourly(6, broken=(0, 1)), Rules(keep=1), NOW_MS) == [
        "backup-5",
        "backup-4",
        "backup-3",
        "backup-1",
    ]


@given(
    st.lists(st.builds(Held, st.text(min_size=1), st.integers(0, NOW_MS), st.booleans()), unique_by=lambda b: b.name),
    st.none() | st.integers(1, 20),
    st.none() | st.integers(1, NOW_MS),
    st.integers(0, 2 * NOW_MS),
)
def test_rules_hold_for_any_backups(held: list[Held], keep: int | None, keep_for: int | None, now_ms: int) -> None:
    removed = backups_to_remove(held, Rules(keep, keep_for), now_ms)
    stays = [backup for backup in held if backup.name not in removed]
    assert set(removed) <= {backup.name for backup in held}
    assert bool(stays) == bool(held)
    if any(backup.is_whole for backup in held):
        newest_whole = max(backup.at_ms for backup in held if backup.is_whole)
        assert any(backup.at_ms == newest_whole and backup.is_whole for backup in stays)
    if keep is None and keep_for is None:
        assert removed == []
    if keep is not None:
        assert len(stays) >= min(keep, len(held))
    for backup in held:
        if keep_for is not None and now_ms - backup.at_ms <= keep_for:
            assert backup in stays
    gone = [backup for backup in held if backup.name in removed]
    if keep is not None:
        assert all(sum(other.at_ms >= backup.at_ms for other in held) > keep for backup in gone)


def test_object_goes_when_nobody_needs_it_and_the_grace_time_is_over() -> None:
    old, young = NOW_MS - GRACE_MS - 1, NOW_MS - GRACE_MS
    chunks = [Stored("needed", 1, old), Stored("old", 1, old), Stored("young", 1, young)]
    leftovers = [Stored("half", 1, old), Stored("being written", 1, young)]
    assert objects_to_remove(chunks, {"needed": None}, leftovers, GRACE_MS, NOW_MS) == ["old", "half"]


@pytest.mark.parametrize(
    ("field", "values"),
    [("keep", {"keep": 0}), ("keep_for", {"keep_for_ms": 0}), ("grace", {"grace_ms": 1_000})],
)
def test_rule_out_of_bounds_is_refused(field: str, values: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match=f"^{field}: "):
        Rules(**values)
