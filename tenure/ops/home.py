"""The blobs of one store in their place, for those who work with threads.

Each call has an event loop of its own, in a thread of its own: next to moving a blob that costs nothing.
"""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from hashlib import sha256
from typing import Any, TypeVar

from tenure.core.error import Unavailable
from tenure.store.blob.place import Missing, Oversize, Place
from tenure.store.embedded.copy import About
from tenure.store.embedded.home import OWNER, OWNER_BYTES, at_home

# A blob is in memory while it is moved, and may have 256 MiB.
BLOB_WORKERS = 4

Result = TypeVar("Result")


class Home:
    def __init__(self, place: Place, about: About) -> None:
        self._place = at_home(place, about.blob_home)
        self._owner = about.blob_owner.encode()

    def __str__(self) -> str:
        return str(self._place)

    def prove(self) -> None:
        """Refuse a place that has not the blobs of this store: an unmounted disk misses everything."""
        try:
            found = _wait(self._place.get(OWNER, OWNER_BYTES))
        except (Missing, Oversize):
            found = b""
        if found != self._owner:
            raise Unavailable(f"{self} does not have the blobs of this store; name the place that has them (blobs=)")

    def read(self, name: str, size_bytes: int) -> bytes | None:
        """As it was stored; None when it is missing or damaged. What differs is read once more: it may be the way."""
        for _ in range(2):
            try:
                content = _wait(self._place.get(name, size_bytes))
            except Missing:
                self.prove()
                return None
            except Oversize:
                continue
            if len(content) == size_bytes and sha256(content).hexdigest() == name[:64]:
                return content
        return None

    def put(self, name: str, content: bytes) -> None:
        _wait(self._place.put(name, content))

    def own(self) -> None:
        """All that belongs here is here."""
        self.put(OWNER, self._owner)

    def clear(self) -> None:
        _wait(_clear(self._place))


async def _clear(place: Place) -> None:
    async with aclosing(place.names()) as pages:
        async for names in pages:
            await place.delete(names)


def _wait(doing: Coroutine[Any, Any, Result]) -> Result:
    with ThreadPoolExecutor(1, thread_name_prefix="tenure-blob") as pool:
        return pool.submit(asyncio.run, doing).result()
