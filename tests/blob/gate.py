"""A place for blobs whose doors a test opens: the real place behind it, each call as slow, or as broken, as told."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from tenure.core.error import Unavailable
from tenure.store.blob.place import Place


class Gate:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._doors: dict[str, asyncio.Event] = {}
        self._knocks: dict[str, asyncio.Event] = {}
        self.broken: set[str] = set()  # verbs that find nobody
        self.calls: list[tuple[str, int]] = []
        self.inside: Counter[str] = Counter()  # calls that are past their door

    @property
    def is_remote(self) -> bool:
        return self._place.is_remote

    def shut(self, verb: str) -> None:
        """From now on calls of the verb stand before the door."""
        if verb in self._doors:
            return
        self._doors[verb] = asyncio.Event()
        self._knocks[verb] = asyncio.Event()

    async def knock(self, verb: str) -> None:
        """Wait until somebody stands before the door."""
        await asyncio.wait_for(self._knocks[verb].wait(), 10)

    def unlock(self, verb: str) -> None:
        door = self._doors.pop(verb, None)
        if door is not None:
            door.set()

    @asynccontextmanager
    async def _pass(self, verb: str, count: int = 1) -> AsyncIterator[None]:
        self.calls.append((verb, count))
        if verb in self._doors:
            self._knocks[verb].set()
            await self._doors[verb].wait()
        if verb in self.broken:
            raise Unavailable(f"nobody answers to {verb}")
        self.inside[verb] += 1
        try:
            yield
        finally:
            self.inside[verb] -= 1

    async def put(self, name: str, data: bytes) -> None:
        async with self._pass("put"):
            await self._place.put(name, data)

    async def get(self, name: str, bytes_max: int) -> bytes:
        async with self._pass("get"):
            return await self._place.get(name, bytes_max)

    async def delete(self, names: list[str]) -> None:
        async with self._pass("delete", len(names)):
            await self._place.delete(names)

    def within(self, folder: str) -> "Gate":
        return Gate(self._place.within(folder))

    async def names(self) -> AsyncGenerator[list[str], None]:
        async with self._pass("names"):
            async for names in self._place.names():
                yield names
