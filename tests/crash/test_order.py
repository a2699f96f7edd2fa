"""What is saved in the background is never ahead of the journal."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tenure.core.request import QUEUE, Configure
from tenure.core.state import SETTLE_COMPLETE
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY, SHORT
from tests.crash.disk import Disk, Platter, write_image
from tests.crash.power import look
from tests.crash.workload import Workload, hurried


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def scripted(folder: Path, late: Callable[[Workload], Awaitable[None]]) -> tuple[Disk, Workload]:
    """`late` happens while two groups are on their way to a slow disk, and a checkpoint begins right after it."""
    folder.mkdir()
    disk = Disk()
    store = SqliteStore(folder / "jobs.db", "fsync", disk.name)
    workload = Workload(store, disk, 1)
    await store.open(workload.now)
    await store.configure(EVERYBODY, Configure(QUEUE, SHORT, {"keep_completed_count": 0}), workload.now)
    await workload.enqueue(SHORT, 10)
    await workload.tick()
    while store._checkpoint is None or not store._checkpoint.is_done():
        await turns()
    await workload.claim(10)
    disk.ready.clear()
    calls = []
    for _ in range(2):
        calls.append(asyncio.ensure_future(workload.enqueue(SHORT, 1)))
        await turns()
    calls.append(asyncio.ensure_future(late(workload)))
    await turns()
    calls.append(asyncio.ensure_future(workload.tick()))
    await turns()
    disk.ready.set()
    await asyncio.gather(*calls)
    await store.close()
    disk.unregister()
    return disk, workload


async def findings_at_every_moment(disk: Disk, workload: Workload, folder: Path) -> list[str]:
    plain = Disk(keeps_log=False)
    platter = Platter(disk)
    found: list[str] = []
    chance = random.Random(1)
    for moment in range(len(disk.log) + 1):
        platter.advance(moment)
        for image in (platter.after_kill(), platter.after_power_loss(chance)):
            write_image(image, folder)
            found += (await look(folder, plain, workload, moment, True)).findings()
    plain.unregister()
    return found


async def many_more(workload: Workload) -> None:
    await workload.enqueue("plain", 150)


async def done_and_gone(workload: Workload) -> None:
    """They are completed and removed in the same step."""
    await workload.settle(SETTLE_COMPLETE, workload.claimed)


@pytest.mark.parametrize("late", [many_more, done_and_gone])
async def test_a_checkpoint_is_not_ahead_of_the_journal(
    late: Callable[[Workload], Awaitable[None]], memory_path: Path
) -> None:
    with hurried():
        disk, workload = await scripted(memory_path / "run", late)
        assert await findings_at_every_moment(disk, workload, memory_path / "image") == []
