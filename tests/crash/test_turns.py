"""In mode `relaxed` no call waits for anything. What was answered goes to disk in time all the same, and the loop has
its turns, though a program does nothing but call."""

import asyncio
from pathlib import Path
from unittest import mock

from tenure.core.job import Options
from tenure.core.request import Batch
from tenure.store.embedded import sqlite
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.workload import START

CALLS = 10


async def turns_while_calling(path: Path, late_s: float) -> tuple[int, int]:
    """How often the loop turned, and how many groups were written down, meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    store = SqliteStore(path, "relaxed")
    with mock.patch.object(sqlite, "LATE_S", late_s):
        await store.open(START)
        await store.enqueue(EVERYBODY, Batch(Options(), [b"first"]), START)
        before = store._taken
        counter = asyncio.create_task(count())
        for _ in range(CALLS):
            await store.enqueue(EVERYBODY, Batch(Options(), [b"x"]), START)
        found = turns, store._taken - before
        counter.cancel()
        await store.close()
    return found


async def test_calls_that_are_in_time_take_no_turn(tmp_path: Path) -> None:
    assert await turns_while_calling(tmp_path / "jobs.db", 3600.0) == (0, 0)


async def test_group_that_is_late_is_written_by_the_next_call(tmp_path: Path) -> None:
    turns, groups = await turns_while_calling(tmp_path / "jobs.db", -3600.0)
    assert turns >= CALLS // 2
    assert groups >= 2


async def test_calls_keep_their_order_when_one_of_them_writes_what_is_late(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", "relaxed")
    with mock.patch.object(sqlite, "LATE_S", -3600.0):
        await store.open(START)
        for _ in range(CALLS):
            batches = [Batch(Options(), [b"x"]) for _ in range(5)]
            calls = [asyncio.create_task(store.enqueue(EVERYBODY, batch, START)) for batch in batches]
            ids = [found.item(0).id for found in await asyncio.gather(*calls)]
            assert ids == sorted(ids)
        await store.close()
