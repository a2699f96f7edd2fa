"""What waits to be written has a bound, also when nobody calls: a load is let in no faster than the disk takes it."""

import asyncio
from pathlib import Path
from unittest import mock

from tenure.core import bound
from tenure.core.job import Options
from tenure.core.request import PUBLISH, STAGE, Batch, Load
from tenure.engine.journal import EVENT_BYTES
from tenure.store.embedded import sqlite, step
from tenure.store.embedded.sqlite import SqliteStore
from tenure.store.embedded.writer import LARGE_BYTES, Group, Job
from tests.crash.account import EVERYBODY
from tests.crash.disk import Disk
from tests.crash.test_faults import PATIENCE_S
from tests.crash.workload import START

ROWS = 20_000
ROW_BYTES = 1_000
STEP_ROWS = bound.OTHERS_PER_STEP
LARGE = bytes(1024 * 1024)


async def load(store: SqliteStore) -> None:
    for part in range(0, ROWS, STEP_ROWS):
        batch = Batch(Options("loaded"), [bytes(ROW_BYTES)] * STEP_ROWS, keys=[f"{part}-{n}" for n in range(STEP_ROWS)])
        await store.load(EVERYBODY, Load(STAGE, "many", 0, "once", part, batch), START)
    await store.load(EVERYBODY, Load(PUBLISH, "many", parts={0: "once"}), START)


async def rows_in(store: SqliteStore) -> int:
    return (await store.count(EVERYBODY, "loaded", START))["loaded"]["ready"]


async def written(store: SqliteStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while store._in_flight or not store._engine.is_taken():
            store._flush()
            await asyncio.sleep(0)


async def let_in(store: SqliteStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await rows_in(store) < ROWS:
            await store.tick(START)
            await asyncio.sleep(0)


async def test_load_is_let_in_by_groups_of_a_bounded_size(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open(START)
    await load(store)
    groups: list[Group] = []
    put = store._writer.put

    def note(job: Job) -> None:
        if isinstance(job, Group):
            groups.append(job)
        put(job)

    store._writer.put = note  # type: ignore[method-assign]
    await let_in(store)
    await store.close()
    assert len(groups) >= ROWS // (sqlite.GROUP_JOBS + STEP_ROWS)
    assert max(group.size() for group in groups) < 2 * (sqlite.GROUP_JOBS + STEP_ROWS) * ROW_BYTES


async def test_payloads_of_a_load_are_written_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open(START)
    await load(store)
    await let_in(store)
    await written(store)
    size = store._journal_bytes
    await store.close()
    assert ROWS * ROW_BYTES < size < 1.1 * ROWS * ROW_BYTES


async def test_load_waits_for_a_disk_that_hangs_and_reads_do_not(tmp_path: Path) -> None:
    disk = Disk(keeps_log=False)
    store = SqliteStore(tmp_path / "jobs.db", "relaxed", disk.name)
    await store.open(START)
    await load(store)
    await written(store)
    before = await rows_in(store)
    disk.writable.clear()
    with (
        mock.patch.object(sqlite, "ROOM_S", 0.001),
        mock.patch.object(sqlite, "PENDING_BYTES_MAX", 8 * STEP_ROWS * EVENT_BYTES),
    ):
        for _ in range(3 * ROWS // STEP_ROWS):
            await store.tick(START)
        waiting = store._in_flight_bytes + store._engine.untaken_bytes()
        assert before < await rows_in(store) < ROWS
        assert waiting < sqlite.PENDING_BYTES_MAX + 2 * (sqlite.GROUP_JOBS + STEP_ROWS) * EVENT_BYTES
    disk.writable.set()
    await let_in(store)
    await store.close()
    disk.unregister()


async def open_on_a_disk_that_hangs(tmp_path: Path) -> tuple[Disk, SqliteStore]:
    disk = Disk(keeps_log=False)
    store = SqliteStore(tmp_path / "jobs.db", "relaxed", disk.name)
    await store.open(START)
    await store.enqueue(EVERYBODY, Batch(Options(), [b"with a number that is on disk"]), START)
    await written(store)
    disk.writable.clear()
    return disk, store


async def test_calls_wait_when_as_much_is_unwritten_as_a_crash_may_take(tmp_path: Path) -> None:
    disk, store = await open_on_a_disk_that_hangs(tmp_path)
    accepted = 0

    async def call() -> None:
        nonlocal accepted
        for _ in range(40):
            await store.enqueue(EVERYBODY, Batch(Options(), [LARGE]), START)
            accepted += 1
            await asyncio.sleep(0)

    calling = asyncio.create_task(call())
    await asyncio.to_thread(disk.waiting.wait)
    seen = -1
    while seen != accepted:
        seen = accepted
        for _ in range(100):
            await asyncio.sleep(0)
    assert sqlite.PENDING_BYTES_MAX // len(LARGE) <= accepted <= sqlite.PENDING_BYTES_MAX // len(LARGE) + 1
    disk.writable.set()
    async with asyncio.timeout(PATIENCE_S):
        await calling
    assert accepted == 40
    await store.close()
    disk.unregister()


async def test_nothing_is_answered_at_once_while_that_much_is_with_the_disk(tmp_path: Path) -> None:
    disk, store = await open_on_a_disk_that_hangs(tmp_path)
    accepted = 0
    while store.at_once(EVERYBODY, Batch(Options(), [LARGE]), START) is not None:
        accepted += 1
    assert accepted == sqlite.PENDING_BYTES_MAX // len(LARGE) + 1
    store._flush_now()
    assert store._engine.is_taken()
    assert store.at_once(EVERYBODY, Batch(Options(), [b"small"]), START) is None
    disk.writable.set()
    await written(store)
    assert store.at_once(EVERYBODY, Batch(Options(), [b"small"]), START) is not None
    await store.close()
    disk.unregister()


def group(position: int, events: bytes) -> Group:
    """One of a journal in which every record has an event."""
    return Group(position, bytes(100), events, position, position, position - 1, 0, False)


async def test_large_group_reads_no_more_of_a_journal_that_is_longer(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await store.open(START)
    db = store._file.connect()
    step.prepare(db)
    position = 1_000
    took: list[int] = []

    def write(events: bytes) -> int:
        """How long, in instructions of SQLite."""
        nonlocal position
        position += 1
        turns = 0

        def count() -> bool:
            nonlocal turns
            turns += 1
            return False

        db.set_progress_handler(count, 1)
        group(position, events).write(db, store.epoch)
        return turns

    for length in (10, 1_000):
        for _ in range(length):
            write(bytes(10))
        write(bytes(LARGE_BYTES))  # takes those with it
        write(bytes(10))
        took.append(write(bytes(LARGE_BYTES)))
    assert took[1] == took[0]
    moved = db.execute("SELECT count(*) FROM events WHERE first_seq > 1000").fetchone()
    assert moved == (position - 1_000,)
    db.close()
    await store.abandon()
