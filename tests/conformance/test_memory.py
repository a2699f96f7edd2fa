"""The memory store shows every behaviour; it may skip none, and its engine must be in order after each."""

import pytest

from tenure.store.conformance import BEHAVIOURS, Behaviour, check, name_of
from tenure.store.embedded.memory import MemoryStore


class VerifiedStore(MemoryStore):
    async def close(self) -> None:
        problems = self._engine.verify()
        await super().close()
        assert problems == []


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour) -> None:
    check(behaviour, VerifiedStore, skips=False)
