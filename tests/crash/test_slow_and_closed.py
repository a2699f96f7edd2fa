"""A disk that hangs or turns read-only, a file that cannot be opened or was taken over: who waits, who is told."""

import asyncio
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tenure.core.clock import Now
from tenure.core.error import Unavailable
from tenure.core.job import Options
from tenure.core.request import REMOVE, Batch, Change
from tenure.core.tenant import Context
from tenure.store.embedded.content import write_meta
from tenure.store.embedded.file import int_of, one
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.disk import READ_ONLY, Disk, Platter, write_image
from tests.crash.test_faults import PATIENCE_S, Trial
from tests.crash.workload import START, hurried

RELAXED = Context(tenants=("*",), durability="relaxed")


async def test_a_file_that_turns_read_only_refuses_changes_and_comes_back(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin_with_rest()
        trial.disk.fail(READ_ONLY, trial.disk.writes, lasting=True)
        for _ in range(3):
            with pytest.raises(Unavailable, match="cannot be written"):
                await trial.workload.enqueue("plain", 1)
            await trial.read()
        trial.disk.heal()
        await trial.recover()
        assert await trial.end() == []


@pytest.mark.slow
async def test_a_file_that_turns_read_only_at_any_write_loses_nothing(tmp_path: Path) -> None:
    with hurried(log_bytes=16 * 1024, log_bytes_max=32 * 1024):
        findings: list[str] = []
        for index in range(0, 80, 4):
            trial = Trial(tmp_path / str(index))
            await trial.begin_with_rest()
            trial.disk.fail(READ_ONLY, trial.disk.writes + index, lasting=True)
            await trial.go()
            await trial.read()
            trial.disk.heal()
            await trial.recover()
            findings += await trial.end()
        assert findings == []


@pytest.mark.parametrize("what", ["ready", "writable"], ids=["syncs", "writes"])
async def test_the_loop_does_not_wait_for_a_disk_that_hangs(what: str, tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin()
        store, disk, now = trial.store, trial.disk, trial.workload.now
        gate = getattr(disk, what)
        disk.waiting.clear()
        gate.clear()
        safe = asyncio.ensure_future(trial.workload.enqueue("plain", 3))
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(disk.waiting.wait)
            answers = await store.enqueue(RELAXED, Batch(Options("other"), [b"at once"] * 10), now)
            found = await store.get(RELAXED, answers.ids, [], now)
            counts = await store.count(RELAXED, "other", now)
            await store.tick(now)
        assert [job.payload for job in found if job is not None] == [b"at once"] * 10
        assert counts["other"]["ready"] == 10
        assert not safe.done()
        gate.set()
        await safe
        while store._synced < store._taken:
            await store._safe_at(store._taken, True)
        later = [job.id for job in await store.get(EVERYBODY, answers.ids, [], now) if job is not None]
        assert later == answers.ids
        await store.close()
        disk.unregister()
        again = SqliteStore(trial.folder / "jobs.db")
        await again.open(now)
        assert None not in await again.get(EVERYBODY, [*range(1, 6), *answers.ids], [], now)
        await again.close()


class Locked(Disk):
    """Does not open the file for the third to the eighth time: a store takes two connections, then its writer one."""

    opened = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            self.opened += 1
            if 2 < self.opened <= 8:
                raise apsw.CantOpenError("unable to open database file")
        return super().xOpen(name, flags)


async def test_a_writer_that_cannot_open_the_file_says_so_and_tries_again(tmp_path: Path) -> None:
    with hurried():
        disk = Locked(keeps_log=False)
        store = SqliteStore(tmp_path / "jobs.db", "fsync", disk.name)
        await store.open(START)
        with pytest.raises(Unavailable, match="unable to open"):
            await store.enqueue(EVERYBODY, Batch(Options(), [b"x"]), START)
        async with asyncio.timeout(PATIENCE_S):
            while store._broken:
                await asyncio.sleep(0)
            answers = await store.enqueue(EVERYBODY, Batch(Options(), [b"y"]), START)
        await store.close()
        disk.unregister()
        assert answers.ids == [2]  # the first was kept, and written when that could be done


def set_epoch(path: Path, by: int) -> None:
    """A transaction that reads before it writes would be refused when the store commits in between."""
    with closing(apsw.Connection(str(path))) as db:
        db.set_busy_timeout(10_000)
        db.execute("BEGIN IMMEDIATE")
        write_meta(db, {"epoch": int_of(one(db, "SELECT value FROM meta WHERE key = 'epoch'")) + by})
        db.execute("COMMIT")


async def test_a_file_that_was_taken_over_is_lost_for_good(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open(START)
    await store.enqueue(EVERYBODY, Batch(Options(), [b"mine"]), START)
    set_epoch(path, 1)
    with pytest.raises(Unavailable, match="another process has taken"):
        await store.enqueue(EVERYBODY, Batch(Options(), [b"too late"]), START)
    set_epoch(path, -1)
    with pytest.raises(Unavailable, match="another process has taken"):
        await store.enqueue(EVERYBODY, Batch(Options(), [b"still"]), START)
    with pytest.raises(Unavailable, match="the last changes are lost"):
        await store.close()
    again = SqliteStore(path)
    await again.open(START)
    assert [job.payload for job in (await again.get(EVERYBODY, [1, 2, 3], [], START)) if job is not None] == [b"mine"]
    await again.close()


async def test_a_failed_sync_does_not_let_a_former_owner_write_to_the_log(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin_with_rest()
        trial.disk.fail(READ_ONLY, trial.disk.writes, lasting=True)
        with pytest.raises(Unavailable):
            await trial.workload.enqueue("plain", 1)
        set_epoch(tmp_path / "run" / "jobs.db", 1)
        trial.disk.heal()
        async with asyncio.timeout(PATIENCE_S):
            while not trial.store._is_lost:
                await asyncio.sleep(0)
        writes = len(trial.disk.log)
        with pytest.raises(Unavailable, match="another process has taken"):
            await trial.workload.enqueue("plain", 1)
        assert len(trial.disk.log) == writes
        with pytest.raises(Unavailable, match="the last changes are lost"):
            await trial.store.close()
        trial.disk.unregister()


async def test_queues_that_were_forgotten_are_gone_from_their_table_after_a_crash(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin()
        await trial.workload.enqueue("grouped", 1)
        await trial.checkpoint()
        await trial.store.change(EVERYBODY, Change(REMOVE, [1, 2]), trial.workload.now)
        await trial.checkpoint()
        later = Now(START.wall_ms + 90_000_000, START.elapsed_ms + 90_000_000)
        await trial.store.tick(later)
        await trial.workload.enqueue("grouped", 1)  # what was written before it is synced with it
        platter = Platter(trial.disk)
        platter.advance(len(trial.disk.log))
        write_image(platter.synced(), tmp_path / "image")
        await trial.store.close()
        trial.disk.unregister()
        path = tmp_path / "image" / "jobs.db"
        assert queues_in(path) == ["grouped", "plain"]
        store = SqliteStore(path)
        await store.open(later)
        later = Now(later.wall_ms + 600, later.elapsed_ms + 600)
        await store.tick(later)
        assert store._checkpoint is not None
        assert store._checkpoint._task is not None
        await store._checkpoint._task
        assert queues_in(path) == ["grouped"]
        await store.close()


def queues_in(path: Path) -> list[str]:
    db = apsw.Connection(str(path))
    try:
        return [str(name) for (name,) in db.execute("SELECT queue FROM queues ORDER BY queue")]
    finally:
        db.close()
