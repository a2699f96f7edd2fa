"""Under a rush the checkpoint lets those go first who wait for the disk, as long as the journal is short."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import Batch
from tenure.store.embedded import checkpoint, sqlite
from tenure.store.embedded.checkpoint import Checkpoint
from tenure.store.embedded.sqlite import CHECKPOINT_MS, ORDINARY_PER_MS, SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.workload import START

JOBS = ORDINARY_PER_MS * CHECKPOINT_MS
CALLERS = 4
ROUNDS = 100
LATER = Now(START.wall_ms + CHECKPOINT_MS, START.elapsed_ms + CHECKPOINT_MS)


@pytest.fixture(autouse=True)
def small_portions_and_long_pauses() -> Iterator[None]:
    with (
        mock.patch.object(checkpoint, "PORTION_BYTES", 1),
        mock.patch.object(checkpoint, "PAGES_PER_TURN", 2),
        mock.patch.object(checkpoint, "GIVE_WAY_S", 3600.0),
    ):
        yield


async def checkpointed(store: SqliteStore, jobs: int) -> Checkpoint:
    """The checkpoint after so many jobs in its interval, when callers have waited for the disk a few hundred times."""
    await store.open(START)
    for count in (jobs // 2, jobs - jobs // 2):
        await store.enqueue(EVERYBODY, Batch(Options("q"), [b""] * count), START)
    await store.tick(LATER)
    found = store._checkpoint
    assert found is not None

    async def call() -> None:
        for _ in range(ROUNDS):
            await store.enqueue(EVERYBODY, Batch(Options("q"), [b""]), LATER)

    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return found


async def ended(found: Checkpoint) -> None:
    async with asyncio.timeout(60):
        while not found.is_done():
            await asyncio.sleep(0)


async def test_checkpoint_of_a_rush_gives_way(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    found = await checkpointed(store, JOBS + 1)
    assert not found.is_done()
    await store.close()


async def test_long_journal_is_cut_whoever_waits(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    with mock.patch.object(sqlite, "JOURNAL_BYTES", 0):
        await ended(await checkpointed(store, JOBS + 1))
    await store.close()


async def test_ordinary_checkpoint_gives_no_way(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await ended(await checkpointed(store, JOBS // 2))
    await store.close()
