"""A disk that fails: changes are refused with Unavailable, reads go on, service returns by itself, nothing is lost."""

import asyncio
import random
from pathlib import Path

import pytest

from tenure.core.error import Unavailable
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.disk import FAULTS, UNSYNCED, Disk, Platter, write_image
from tests.crash.power import look
from tests.crash.workload import Workload, hurried
from tests.prompt import PromptStore

PATIENCE_S = 30.0


class Trial:
    """A store on a disk that will fail, and the calls made on it one after the other."""

    def __init__(self, folder: Path, mode: str = "fsync", kind: type[SqliteStore] = SqliteStore) -> None:
        folder.mkdir()
        self.folder = folder
        self.disk = Disk()
        self.store = kind(folder / "jobs.db", mode, self.disk.name)
        self.workload = Workload(self.store, self.disk, 7)

    async def begin(self) -> None:
        await self.store.open(self.workload.now)
        await self.workload.enqueue("plain", 2)

    async def begin_with_rest(self) -> None:
        """And with a job that nothing happens to, for `read`."""
        await self.begin()
        await self.workload.enqueue("at_rest", 1)
        self.at_rest = self.store._engine.last_id()

    async def go(self) -> None:
        """The commit path: groups, a checkpoint with its portions, and what moves the log into the file."""
        work = self.workload
        for act in (
            work.enqueue_one,
            work.enqueue_batch,
            work.set,
            work.work,
            self.checkpoint,
            work.enqueue_keyed,
            work.work,
            work.cancel,
            self.checkpoint,
            work.enqueue_one,
        ):
            try:
                await act()
            except Unavailable:
                work.refused += 1
                await self.read()

    async def checkpoint(self) -> None:
        """Begin one, and wait until it is done or the disk refuses."""
        await self.workload.tick()
        while self.store._checkpoint is not None and not self.store._checkpoint.is_done():
            if self.store._broken:
                return
            await asyncio.sleep(0)

    async def read(self) -> None:
        """What no refused change has touched is shown, and how many there are."""
        assert (await self.store.get(EVERYBODY, [self.at_rest], [], self.workload.now))[0] is not None
        assert await self.store.count(EVERYBODY, "plain", self.workload.now)

    async def recover(self) -> None:
        """Ask until the store takes changes again, as callers do."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    await self.workload.enqueue("plain", 1)
                    return
                except Unavailable:
                    await asyncio.sleep(0)

    async def end(self) -> list[str]:
        """What is wrong after a loss of power now, and after a clean stop."""
        moment = len(self.disk.log)
        platter = Platter(self.disk)
        platter.advance(moment)
        write_image(platter.after_power_loss(random.Random(moment)), self.folder / "image")
        await self.store.close()
        self.disk.unregister()
        plain = Disk(keeps_log=False)
        found = (await look(self.folder / "image", plain, self.workload, moment, True)).findings()
        found += (await look(self.folder, plain, self.workload, len(self.disk.log), True)).findings()
        plain.unregister()
        return found


async def writes_of_the_path(folder: Path, kind: type[SqliteStore]) -> range:
    trial = Trial(folder, kind=kind)
    await trial.begin_with_rest()
    first = trial.disk.writes
    await trial.go()
    await trial.recover()
    last = trial.disk.writes
    assert trial.workload.refused == 0
    assert await trial.end() == []
    return range(first, last)


async def fault_at(folder: Path, kind: type[SqliteStore], fault: str, index: int, lasting: bool) -> list[str]:
    trial = Trial(folder, kind=kind)
    await trial.begin_with_rest()
    trial.disk.fail(fault, index, lasting)
    await trial.go()
    if lasting and trial.disk.refused:
        with pytest.raises(Unavailable):
            await trial.workload.enqueue("plain", 1)
        await trial.read()
    trial.disk.heal()
    await trial.recover()
    return [f"{fault} at {index}: {finding}" for finding in await trial.end()]


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_fault_at_every_write(fault: str, lasting: bool, memory_path: Path) -> None:
    """One half is met by calls that are coroutines, the other by those without."""
    findings: list[str] = []
    half = slice(FAULTS.index(fault) % 2, None, 2)
    with hurried(log_bytes=16 * 1024, log_bytes_max=32 * 1024):
        indexes = await writes_of_the_path(memory_path / "whole", SqliteStore)
        assert len(indexes) > 40
        for index in indexes[half]:
            findings += await fault_at(memory_path / str(index), SqliteStore, fault, index, lasting)
        indexes = await writes_of_the_path(memory_path / "whole-prompt", PromptStore)
        for index in indexes[half]:
            findings += await fault_at(memory_path / f"{index}-prompt", PromptStore, fault, index, lasting)
    assert findings == []


async def test_what_a_failed_sync_dropped_is_written_again(memory_path: Path) -> None:
    """A sync that succeeds after one that failed says nothing about what the failed one was to save."""
    with hurried(log_bytes=1 << 30, log_bytes_max=1 << 30):
        for number in range(5):
            trial = Trial(memory_path / str(number))
            await trial.begin()
            await trial.go()
            await trial.checkpoint()
            trial.disk.fail(UNSYNCED, trial.disk.writes)
            await trial.workload.enqueue("plain", 1)
            await trial.recover()
            assert await trial.end() == []
