"""Opening a store does not keep the loop from anything else."""

import asyncio
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

from tenure.core.job import Options
from tenure.core.request import Batch
from tenure.core.tenant import Context
from tenure.store.embedded.file import Owned
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.disk import Disk
from tests.crash.workload import START

JOBS = 200_000
BATCH = 10_000
AT_ONCE = Context(durability="relaxed")


@pytest.mark.slow
async def test_loop_goes_on_while_a_large_store_is_opened(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open(START)
    for _ in range(0, JOBS, BATCH):
        await store.enqueue(AT_ONCE, Batch(Options("plain"), [b"x"] * BATCH), START)
    await store.close()
    again = SqliteStore(tmp_path / "jobs.db")
    loop = asyncio.get_running_loop()
    began = loop.time()
    opening = asyncio.ensure_future(again.open(START))
    turns: list[float] = [began]
    while not opening.done():
        await asyncio.sleep(0.001)
        turns.append(loop.time())
    await opening
    took_s = loop.time() - began
    longest_s = max(later - turn for turn, later in itertools.pairwise(turns))
    assert len(turns) > 20
    assert longest_s < took_s / 2, (longest_s, took_s)
    assert (await again.count(Context(), "plain", START))["plain"]["ready"] == JOBS
    await again.close()


class Gate(Disk):
    """Lets nobody read a file until it is opened."""

    def __init__(self) -> None:
        super().__init__(keeps_log=False)
        self.open = threading.Event()
        self.asked = threading.Event()

    def xOpen(self, *args: Any) -> Any:  # noqa: N802
        self.asked.set()
        self.open.wait(30)
        return super().xOpen(*args)


async def test_opening_that_is_given_up_lets_go_of_the_file_when_it_has_ended(tmp_path: Path) -> None:
    disk = Gate()
    opening = asyncio.ensure_future(SqliteStore(tmp_path / "jobs.db", "fsync", disk.name).open(START))
    assert await asyncio.to_thread(disk.asked.wait, 30)
    opening.cancel()
    with pytest.raises(Owned):
        await SqliteStore(tmp_path / "jobs.db").open(START)
    assert not opening.done()
    disk.open.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open(START)
    await store.close()
    disk.unregister()
