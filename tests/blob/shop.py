"""A store on disk with blobs beside it, on a bench whose clock moves only when told; with a low cap, so that little
content is large."""

import os
from pathlib import Path

from tenure.core.request import STORE
from tenure.store.behaviour.rig import Rig
from tenure.store.blob.place import Place
from tenure.store.embedded.home import OWNER
from tenure.store.embedded.shelf import Shelf
from tenure.store.embedded.sqlite import SqliteStore

CAP = 100
LARGE = b"large " * 50
OTHER = b"other " * 50


class Shop:
    def __init__(self, path: Path, place: Place | None, mode: str = "write") -> None:
        self.path = path
        self.store = SqliteStore(path, mode, blobs=place)
        self.rig = Rig(self.store)

    @property
    def shelf(self) -> Shelf:
        assert self.store._shelf is not None
        return self.store._shelf

    async def open(self) -> Rig:
        await self.store.open(self.rig.now())
        await self.rig.configure(STORE, "", payload_bytes_max=CAP)
        return self.rig

    async def close(self) -> None:
        await self.rig.stop()
        assert self.store._engine.verify() == []
        await self.store.close()

    async def names(self) -> list[str]:
        """What the place has once nothing is being deleted any more."""
        await self.shelf.idle()
        place = self.store._place
        assert place is not None
        return sorted([name async for names in place.names() for name in names if name != OWNER])


def files(folder: Path) -> list[Path]:
    return sorted(folder / name for name in os.listdir(folder) if name != OWNER)
