"""A disk that hangs or refuses: what is on disk is shown, the rest is hidden, leases live, changes are refused."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest

from tenure.core.clock import Now
from tenure.core.error import JobNotFound, Unavailable
from tenure.core.job import Extras, Options
from tenure.core.request import (
    CANCEL,
    EMIT,
    QUEUE,
    Append,
    Batch,
    Change,
    Claim,
    Configure,
    Extend,
    Filter,
    Pick,
    Settle,
)
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.store.embedded import sqlite
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.disk import FULL, Disk
from tests.crash.test_faults import PATIENCE_S, Trial
from tests.crash.workload import START, hurried

STALL_S = 0.4
SLOW_S = 0.05
LEASE_MS = 10_000


@asynccontextmanager
async def hanging(folder: Path, what: str = "ready", stall_s: float = STALL_S) -> AsyncIterator[Trial]:
    """A store with three jobs on a disk that can hang, and goes on in the end."""
    with hurried(), mock.patch.multiple(sqlite, SLOW_S=SLOW_S, STALL_S=stall_s):
        trial = Trial(folder)
        await trial.begin_with_rest()
        gate = getattr(trial.disk, what)
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield trial
        finally:
            gate.set()
            trial.disk.heal()
            await trial.store.close()
            trial.disk.unregister()


async def hang(trial: Trial, what: str = "ready") -> "asyncio.Future[object]":
    """From now on, with one change that waits for the disk."""
    await written(trial.store)
    trial.disk.waiting.clear()
    getattr(trial.disk, what).clear()
    caught: asyncio.Future[object] = asyncio.ensure_future(
        trial.store.enqueue(EVERYBODY, Batch(Options("caught"), [b"x"], [Extras("mine")]), START)
    )
    await asyncio.to_thread(trial.disk.waiting.wait, PATIENCE_S)
    return caught


async def written(store: SqliteStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while store._in_flight or store._reserving or not store._engine.is_taken():
            await asyncio.sleep(0)


@pytest.mark.parametrize("what", ["ready", "writable"], ids=["syncs", "writes"])
async def test_reads_are_answered_while_the_disk_hangs(what: str, tmp_path: Path) -> None:
    async with hanging(tmp_path / "run", what, PATIENCE_S) as trial:
        store = trial.store
        page = await store.events(EVERYBODY, "", 100, 0, START)
        caught = await hang(trial, what)
        [record] = await store.get(EVERYBODY, [trial.at_rest], [], START)
        assert record is not None
        assert [job.id for job in (await store.find(EVERYBODY, Filter(), 10, "", START)).jobs] == [1, 2, trial.at_rest]
        counts = await store.count(EVERYBODY, "", START)
        assert {queue: states["ready"] for queue, states in counts.items()} == {"plain": 2, "at_rest": 1, "caught": 0}
        assert (await store.explain(EVERYBODY, 1, START)).held_by == "nothing"
        assert (await store.events(EVERYBODY, "", 100, 0, START)).events == page.events
        assert await store.groups(EVERYBODY, "plain", START) == []
        assert await store.configure(EVERYBODY, Configure(QUEUE, "plain", {}), START) == {}
        assert not caught.done()
        getattr(trial.disk, what).set()
        await caught
        assert (await store.get(EVERYBODY, [], ["mine"], START))[0] is not None


async def test_what_waits_for_the_disk_is_not_shown(tmp_path: Path) -> None:
    async with hanging(tmp_path / "run") as trial:
        store = trial.store
        caught = await hang(trial)
        cancelled = asyncio.ensure_future(store.change(EVERYBODY, Change(CANCEL, [1]), START))
        with pytest.raises(Unavailable):
            await caught
        with pytest.raises(Unavailable, match="not known"):
            await cancelled
        assert await store.get(EVERYBODY, [], ["mine"], START) == [None]
        assert (await store.find(EVERYBODY, Filter(queue="caught"), 10, "", START)).jobs == ()
        new = store._engine.last_id()
        with pytest.raises(JobNotFound):
            await store.explain(EVERYBODY, new, START)
        for read in (
            store.get(EVERYBODY, [1], [], START),
            store.find(EVERYBODY, Filter(queue="plain"), 10, "", START),
            store.groups(EVERYBODY, "plain", START),
            store.explain(EVERYBODY, 1, START),
        ):
            with pytest.raises(Unavailable, match="not on disk"):
                await read
        trial.disk.ready.set()
        await trial.recover()
        [first, mine] = await store.get(EVERYBODY, [1], ["mine"], START)
        assert first is not None
        assert (first.state, mine is not None) == ("cancelled", True)


async def test_output_that_waits_for_the_disk_is_not_shown(tmp_path: Path) -> None:
    async with hanging(tmp_path / "run") as trial:
        store = trial.store
        claimed = await store.claim(EVERYBODY, Claim((Pick("plain"),), 1), START)
        await store.append(EVERYBODY, Append(EMIT, 1, claimed.token, data=b"first"), START)
        caught = await hang(trial)
        late = asyncio.ensure_future(store.append(EVERYBODY, Append(EMIT, 1, claimed.token, data=b"second"), START))
        for call in (caught, late):
            with pytest.raises(Unavailable):
                await call
        assert [item.data for item in await store.stream(EVERYBODY, 1, EMIT, 0, 10, 0, START)] == [b"first"]
        with pytest.raises(Unavailable):
            await store.stream(EVERYBODY, 1, EMIT, 1, 10, 0, START)


async def test_leases_are_renewed_while_the_disk_hangs_and_are_there_afterwards(tmp_path: Path) -> None:
    async with hanging(tmp_path / "run") as trial:
        store = trial.store
        claimed = await store.claim(EVERYBODY, Claim((Pick("plain"),), 2, lease_ms=LEASE_MS), START)
        caught = await hang(trial)
        with pytest.raises(Unavailable):
            await caught
        tokens = [claimed.token] * 2
        for passed in range(3_000, 30_001, 3_000):
            now = Now(START.wall_ms + passed, START.elapsed_ms + passed)
            renewed = await store.extend(EVERYBODY, Extend(claimed.ids, tokens), now)
            assert renewed.errors is None
            assert renewed.lease_until == [now.wall_ms + LEASE_MS] * 2
            assert None not in await store.get(EVERYBODY, claimed.ids, [], now)
            with pytest.raises(Unavailable):
                await store.settle(EVERYBODY, Settle(SETTLE_COMPLETE, claimed.ids, tokens), now)
        trial.disk.ready.set()
        await written(store)
        await store.settle(EVERYBODY, Settle(SETTLE_COMPLETE, claimed.ids, tokens), now)
        assert [job.state for job in await store.get(EVERYBODY, claimed.ids, [], now) if job] == ["completed"] * 2


async def test_changes_are_refused_before_they_begin_and_taken_again_afterwards(tmp_path: Path) -> None:
    async with hanging(tmp_path / "run") as trial:
        store = trial.store
        waits = asyncio.ensure_future(store.claim(EVERYBODY, Claim((Pick("empty"),), 1, 600_000), START))
        caught = await hang(trial)
        for call in (caught, waits):
            with pytest.raises(Unavailable, match="has not answered for"):
                await call
        last = store._engine.last_event()
        with pytest.raises(Unavailable, match="has not answered for"):
            await trial.workload.enqueue("plain", 1)
        with pytest.raises(Unavailable):
            await trial.workload.claim(1)
        await store.tick(START)
        assert store._engine.last_event() == last
        trial.disk.ready.set()
        await trial.recover()


async def test_refused_enqueue_is_not_seen_and_a_kill_takes_nothing_back(tmp_path: Path) -> None:
    """What readers of a store on a full disk were shown is what the next process finds."""
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin()
        store = trial.store
        trial.disk.fail(FULL, trial.disk.writes, lasting=True)
        with pytest.raises(Unavailable, match="not known"):
            await store.enqueue(EVERYBODY, Batch(Options("plain"), [b"refused"], [Extras("mine")]), START)
        with pytest.raises(Unavailable, match="free some space"):
            await store.enqueue(EVERYBODY, Batch(Options("plain"), [b"refused"]), START)
        shown = (await store.find(EVERYBODY, Filter(), 10, "", START)).jobs
        counts = await store.count(EVERYBODY, "plain", START)
        assert await store.get(EVERYBODY, [], ["mine"], START) == [None]
        (tmp_path / "killed").mkdir()
        for found in trial.folder.iterdir():
            if not found.name.endswith(("-shm", "-owner")):
                (tmp_path / "killed" / found.name).write_bytes(found.read_bytes())
        plain = Disk(keeps_log=False)
        again = SqliteStore(tmp_path / "killed" / "jobs.db", "fsync", plain.name)
        await again.open(START)
        assert (await again.find(EVERYBODY, Filter(), 10, "", START)).jobs == shown
        assert await again.count(EVERYBODY, "plain", START) == counts
        await again.close()
        plain.unregister()
        trial.disk.heal()
        await trial.recover()
        assert (await store.get(EVERYBODY, [], ["mine"], START))[0] is not None
        await store.close()
        trial.disk.unregister()


async def test_refusal_and_recovery_are_logged_once_each(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tenure")
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin()
        trial.disk.fail(FULL, trial.disk.writes, lasting=True)
        for _ in range(5):
            with pytest.raises(Unavailable):
                await trial.workload.enqueue("plain", 1)
        trial.disk.heal()
        await trial.recover()
        assert await trial.end() == []
    lines = [record.getMessage() for record in caplog.records if record.name == "tenure"]
    assert len(lines) == 3, lines
    assert "cannot be written" in lines[0]
    assert "was refused" in lines[1]
    assert all("free some space" in line for line in lines[:2])
    assert "is written to again" in lines[2]


async def test_reader_who_asks_for_less_sees_what_is_in_memory(tmp_path: Path) -> None:
    async with hanging(tmp_path / "run") as trial:
        caught = await hang(trial)
        relaxed = Context(tenants=("*",), durability="relaxed")
        assert (await trial.store.get(relaxed, [], ["mine"], START))[0] is not None
        trial.disk.ready.set()
        await caught
