"""The checkpoint lets others go first, as long as the journal is short: those who wait for the disk under a rush, and
loads."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import PUBLISH, STAGE, Batch, Load
from tenure.engine.journal import CHUNK, LOAD
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
    assert found._task is not None
    found._task.result()


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


# While a load goes on.


async def loading(store: SqliteStore, chunks: int = 2) -> None:
    await store.open(START)
    for chunk in range(chunks):
        batch = Batch(Options("q"), [b"x" * 1_000] * 10)
        await store.load(EVERYBODY, Load(STAGE, "some", 0, "once", chunk, batch), START)


async def test_checkpoint_waits_while_a_load_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await loading(store)
    with mock.patch.object(sqlite, "LOADING_MS", CHECKPOINT_MS):
        await store.tick(LATER)
        had_begun = store._checkpoint is not None
        await store.load(EVERYBODY, Load(PUBLISH, "some", parts={0: "once"}), LATER)
        await store.tick(LATER)
    assert not had_begun
    assert store._checkpoint is not None
    await ended(store._checkpoint)
    with store._file.reading() as content:
        kinds = [msgspec.msgpack.decode(name)[0] for name, _ in content.entities()]
    assert LOAD in kinds
    assert CHUNK not in kinds
    await store.close()


async def test_checkpoint_does_not_wait_for_a_load_that_stands_still(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await loading(store)
    with mock.patch.object(sqlite, "LOADING_MS", CHECKPOINT_MS - 1):
        await store.tick(LATER)
    assert store._checkpoint is not None
    await ended(store._checkpoint)
    await store.close()


async def test_checkpoint_does_not_wait_for_a_load_when_the_journal_is_long(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await loading(store)
    with mock.patch.object(sqlite, "LOADING_MS", CHECKPOINT_MS), mock.patch.object(sqlite, "JOURNAL_BYTES", 0):
        await store.tick(LATER)
    assert store._checkpoint is not None
    await ended(store._checkpoint)
    await store.close()


async def test_checkpoint_saves_large_entities_a_few_at_a_time(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await loading(store, chunks=8)
    with (
        mock.patch.object(checkpoint, "PORTION_BYTES", 20_000),
        mock.patch.object(checkpoint, "_Entities", wraps=checkpoint._Entities) as portion,
    ):
        await store.tick(LATER)
        assert store._checkpoint is not None
        await ended(store._checkpoint)
    sizes = [sum(len(fact) for _, fact in call.args[0]) for call in portion.call_args_list]
    assert 8 * 10_000 < sum(sizes) < 9 * 10_000
    assert max(sizes) < 2 * 20_000
    await store.close()
