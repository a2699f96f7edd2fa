"""The memory store shows every behaviour; it may skip none."""

import pytest
from tenure.store.embedded.memory import MemoryStore

from tenure.store.conformance import BEHAVIOURS, Behaviour, check, name_of


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour) -> None:
    check(behaviour, MemoryStore, skips=False)
