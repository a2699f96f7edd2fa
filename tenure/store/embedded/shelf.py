"""The blobs of one store: which content is there under which name, who needs it at the moment, what may be deleted.

A blob is named `<SHA-256 of its content>-<epoch>-<serial>`: each upload has a name of its own, so a deletion names one
upload for ever. One that is late (a request that timed out, an owner that was taken for dead) can take nothing away
that was stored since. Content that is there already is not uploaded again.

A blob is deleted when the engine knows no holder, nobody has it pinned, the removal of its last holder is on disk, and
then no backup is reading blobs.
What a crash leaves behind has an older epoch and no holder, and is found when the store is opened.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from itertools import islice

from tenure.core.blob import Blob
from tenure.core.error import Unavailable
from tenure.engine.engine import Engine
from tenure.store.blob.place import Missing, Oversize, Place
from tenure.store.embedded.home import OWNER, OWNER_BYTES

TRANSFERS = 4
DELETE_NAMES = 1_000
RETRY_S = 30.0
OPEN_S = 5.0
STOP_S = 5.0
HASH_INLINE_BYTES = 64 * 1024

NAME = re.compile(r"([0-9a-f]{64})-([0-9]{1,18})-[0-9]{1,18}(\.part)?")


class Lost(Exception):
    """The blob is `missing` or `damaged`, and no repeat will help."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class Shelf:
    def __init__(
        self,
        place: Place,
        owner: str,
        epoch: int,
        engine: Engine,
        on_disk: Callable[[], Awaitable[None]],
        is_held: Callable[[], bool],
    ) -> None:
        """`on_disk` returns when everything that the engine has done is on disk; `is_held` says that a backup reads."""
        self._place = place
        self._owner = owner.encode()
        self._epoch = epoch
        self._engine = engine
        self._on_disk = on_disk
        self._is_held = is_held
        self._is_ours = False
        self._claiming = asyncio.Lock()
        self._serial = 0
        self._names = {name[:64]: name for name in engine.blobs()}  # of content that is there, or on its way
        self._pins: dict[str, int] = {}
        self._uploads: dict[str, asyncio.Task[None]] = {}
        self._transfers = asyncio.Semaphore(TRANSFERS)
        # To be deleted, with the number of the last time that was said.
        self._doomed: dict[str, int] = {}
        self._said = 0
        self._collecting: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._is_stopped = False

    # Opening and closing.

    async def open(self) -> None:
        """Refuse a place that is not ours. A remote one that does not answer now is looked at when it is needed."""
        if not self._place.is_remote:
            await self._claim_place()
            return
        try:
            problem = await asyncio.wait_for(self._problem(), OPEN_S)
        except (Unavailable, TimeoutError):
            return
        if problem:
            raise Unavailable(problem)

    def sweep(self) -> None:
        """Look for what a crash left behind, in the background."""
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep())

    async def stop(self) -> None:
        """Deletions have a moment to be done; what is left of them is found at the next opening."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.idle(), STOP_S)
        self._is_stopped = True
        if self._later is not None:
            self._later.cancel()
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until the sweep is over and nothing is being stored or deleted."""
        while tasks := self._tasks():
            await asyncio.gather(*tasks, return_exceptions=True)

    def _tasks(self) -> list[asyncio.Task[None]]:
        tasks = (self._sweeping, self._collecting, *self._uploads.values())
        return [task for task in tasks if task is not None and not task.done()]

    async def _problem(self) -> str:
        """Why the place is not to be used; empty when it is ours, or was nobody's."""
        try:
            found = await self._place.get(OWNER, OWNER_BYTES)
        except Missing:
            if self._engine.blobs():
                return f"{self._place} does not have the blobs of this store; name the place that has them (blobs=)"
            await self._place.put(OWNER, self._owner)
            found = await self._place.get(OWNER, OWNER_BYTES)
        except Oversize:
            found = b""
        if found != self._owner:
            return f"{self._place} has the blobs of another store; choose another folder or prefix (blobs=)"
        self._is_ours = True
        return ""

    async def _claim_place(self) -> None:
        async with self._claiming:
            problem = "" if self._is_ours else await self._problem()
        if problem:
            raise Unavailable(problem)

    # Storing.

    async def put(self, content: bytes) -> Blob:
        """The content, stored for good and pinned: `unpin` it when the step that names it is done."""
        digest = await _digest(content)
        name = self._names.get(digest)
        if name is None:
            self._serial += 1
            name = f"{digest}-{self._epoch}-{self._serial}"
            self._names[digest] = name
            upload = asyncio.get_running_loop().create_task(self._upload(name, content))
            upload.add_done_callback(_hear)
            self._uploads[name] = upload
            self.pin(name)
        self.pin(name)
        try:
            if name in self._uploads:
                await asyncio.shield(self._uploads[name])
        except BaseException:
            self.unpin(name)
            raise
        return Blob(name, len(content))

    async def _upload(self, name: str, content: bytes) -> None:
        """A task of its own, with a pin of its own: whoever waits for it may give up, others may wait for the same."""
        try:
            async with self._transfers:
                await self._claim_place()
                await self._place.put(name, content)
        except BaseException:
            self._forget(name)
            raise
        finally:
            del self._uploads[name]
            self.unpin(name)

    def _forget(self, name: str) -> None:
        """The next one with this content uploads it anew."""
        if self._names.get(name[:64]) == name:
            del self._names[name[:64]]

    def pin(self, name: str) -> None:
        self._pins[name] = self._pins.get(name, 0) + 1

    def unpin(self, name: str) -> None:
        left = self._pins[name] - 1
        if left:
            self._pins[name] = left
            return
        del self._pins[name]
        if not self._engine.is_held(name):
            self.doom([name])

    # Reading.

    async def get(self, blob: Blob) -> bytes:
        """All of it, as it was stored; or `Lost`. What differs is read once more: it may be the way, not the place."""
        for _ in range(2):
            async with self._transfers:
                try:
                    content = await self._place.get(blob.name, blob.size)
                except Oversize:
                    continue
                except Missing:
                    self._is_ours = False
                    await self._claim_place()  # an unmounted disk or another bucket misses everything
                    raise Lost("missing") from None
            if len(content) == blob.size and await _digest(content) == blob.name[:64]:
                return content
        raise Lost("damaged")

    # Deleting.

    def doom(self, names: list[str]) -> None:
        """Nothing holds them. They go when that is on disk, unless they are needed again by then."""
        for name in names:
            self._said += 1
            self._doomed[name] = self._said
        self._collect_soon()

    def _collect_soon(self) -> None:
        if self._doomed and not self._is_stopped and (self._collecting is None or self._collecting.done()):
            self._collecting = asyncio.get_running_loop().create_task(self._collect())

    async def _collect(self) -> None:
        try:
            while self._doomed:
                batch = list(islice(self._doomed.items(), DELETE_NAMES))
                await self._on_disk()
                if self._is_held():
                    return self._collect_later()
                gone = self._choose(batch)
                if gone:
                    await self._delete(gone)
        except Unavailable:
            self._collect_later()

    def _collect_later(self) -> None:
        if self._later is not None:
            self._later.cancel()
        self._later = asyncio.get_running_loop().call_later(RETRY_S, self._collect_soon)

    def _choose(self, batch: list[tuple[str, int]]) -> list[str]:
        """Those that nothing has needed since. No await between this and the request to delete them."""
        for name in self._engine.take_dropped_blobs():
            self._said += 1
            self._doomed[name] = self._said
        gone: list[str] = []
        for name, said in batch:
            if self._doomed.get(name) != said:
                continue  # held and dropped again: that may not be on disk
            del self._doomed[name]
            if not self._engine.is_held(name) and name not in self._pins:
                self._forget(name)
                gone.append(name)
        return gone

    async def _delete(self, names: list[str]) -> None:
        try:
            async with self._transfers:
                await self._claim_place()
                await self._place.delete(names)
        except Unavailable:
            for name in names:
                self._said += 1
                self._doomed[name] = self._said
            raise

    async def _sweep(self) -> None:
        try:
            await self._claim_place()
            async with aclosing(self._place.names()) as pages:
                async for names in pages:
                    self.doom([name for name in names if self._is_orphan(name)])
                    while self._collecting is not None and not self._collecting.done():
                        await asyncio.shield(self._collecting)
        except Unavailable:
            return  # the next opening looks again

    def _is_orphan(self, name: str) -> bool:
        """Of an earlier life, and held by nothing. What this life stores is looked after."""
        found = NAME.fullmatch(name)
        return (
            found is not None
            and int(found[2]) < self._epoch
            and name not in self._pins
            and not self._engine.is_held(name)
        )


async def _digest(content: bytes) -> str:
    if len(content) <= HASH_INLINE_BYTES:
        return hashlib.sha256(content).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, content)).hexdigest()


def _hear(upload: asyncio.Task[None]) -> None:
    """Its error is for those who wait; when nobody does any more there is nobody to tell."""
    if not upload.cancelled():
        upload.exception()
