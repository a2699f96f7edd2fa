"""The suite itself: it covers what it says it covers, skips aloud, and notices a store that is wrong."""

from pathlib import Path

import msgspec
import pytest

from tenure.core.answer import Answers
from tenure.core.clock import Now
from tenure.core.request import Settle
from tenure.core.tenant import Context
from tenure.store import conformance
from tenure.store.behaviour.registry import RULINGS, SECTIONS
from tenure.store.behaviour.trap import TRAPS
from tenure.store.conformance import BEHAVIOURS, Skipped, behaviours_for, check, name_of
from tenure.store.contract import Capabilities
from tenure.store.embedded.memory import CAPABILITIES, MemoryStore

# Schedules and durability have suites of their own.
OUTSIDE = {13, 17}


def test_every_section_has_behaviours() -> None:
    assert {behaviour.section for behaviour in BEHAVIOURS} == set(SECTIONS) - OUTSIDE


def test_every_ruling_has_behaviours() -> None:
    covered = {ruling for behaviour in BEHAVIOURS for ruling in behaviour.rulings}
    assert covered == set(RULINGS)


def test_every_trap_has_behaviours() -> None:
    assert {behaviour.trap for behaviour in BEHAVIOURS} == {"", *TRAPS}


def test_names_are_promises() -> None:
    for behaviour in BEHAVIOURS:
        assert "_" in behaviour.name, f"{name_of(behaviour)} does not say what is promised"


def test_store_without_a_capability_has_fewer_behaviours() -> None:
    less = msgspec.structs.replace(CAPABILITIES, groups=False, shared=True)
    left = behaviours_for(less)
    assert len(left) < len(behaviours_for(CAPABILITIES)) == len(BEHAVIOURS)
    assert not any({"groups", "owned"} & set(behaviour.needs) for behaviour in left)


class WithoutGroups(MemoryStore):
    @property
    def capabilities(self) -> Capabilities:
        return msgspec.structs.replace(CAPABILITIES, groups=False)


def test_missing_capability_is_a_skip_with_its_reason() -> None:
    behaviour = next(one for one in BEHAVIOURS if one.needs == ("groups",))
    with pytest.raises(pytest.skip.Exception, match="memory cannot do groups"):
        check(behaviour, WithoutGroups)


def test_forbidden_skip_fails() -> None:
    behaviour = next(one for one in BEHAVIOURS if one.needs == ("groups",))
    with pytest.raises(Skipped):
        check(behaviour, WithoutGroups, skips=False)


class Forgetful(MemoryStore):
    """Takes no word from workers, and says that it did."""

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        return Answers(settle.ids, 5)


def test_wrong_store_is_noticed() -> None:
    behaviour = next(one for one in BEHAVIOURS if one.name == "live_token_completes")
    with pytest.raises(AssertionError):
        check(behaviour, Forgetful)


def test_every_module_with_behaviours_is_a_topic() -> None:
    """One that is forgotten would never run."""
    folder = Path(conformance.__file__).parent / "behaviour"
    written = {path.stem for path in folder.glob("*.py") if "\n@behaviour(" in path.read_text("utf-8")}
    assert written == set(conformance.TOPICS)
