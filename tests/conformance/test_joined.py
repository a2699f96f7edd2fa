"""A store that another process owns shows every behaviour too: all calls go over the socket."""

import functools
from pathlib import Path

import pytest

from tenure.core.clock import Now
from tenure.core.tenant import Context
from tenure.store.behaviour.rig import spin
from tenure.store.conformance import BEHAVIOURS, Behaviour, check, name_of
from tenure.store.embedded.shared import SharedStore
from tenure.wire.message import Arguments


class JoinedStore(SharedStore):
    """The second to open the file. The first is opened and closed with it, and keeps its timers."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "write")
        self._owner = SharedStore(path, "write")
        self._at = Now(0, 0)

    async def open(self, now: Now) -> None:
        self._at = now
        for store in (self._owner, self):
            store.attach(lambda: self._at, lambda: None)
        await self._owner.open(now)
        await super().open(now)
        assert not self.is_owner()

    async def close(self) -> None:
        await super().close()
        await self._owner.close()

    async def tick(self, now: Now) -> Now | None:
        self._at = now
        return await self._owner.tick(now)

    async def _call(self, verb: str, context: Context, arguments: Arguments, now: Now) -> object:
        self._at = now
        return await super()._call(verb, context, arguments, now)


async def pause() -> None:
    """What is on its way over the socket arrives: every turn of the loop looks there."""
    for _ in range(4):
        await spin()


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour, memory_path: Path) -> None:
    check(behaviour, functools.partial(JoinedStore, memory_path / "jobs.db"), pause=pause, skips=False)
