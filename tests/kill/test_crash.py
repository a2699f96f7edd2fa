"""What a crash leaves, moment by moment: the files are copied as they are, and the copy is opened."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tenure.client.clock import read_clock
from tenure.core import bound
from tenure.core.clock import Now
from tenure.core.record import JobRecord
from tenure.core.request import EMIT, LOG, Append, Batch, Configure, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context, OpId
from tenure.store.embedded.sqlite import SqliteStore
from tenure.store.embedded.writer import Job, Writer

CONTEXT = Context()
OPTIONS = bound.make_options(queue="work")


def crash(path: Path, to: Path) -> Path:
    """The files as a kill at this moment would leave them."""
    for suffix in ("", "-wal"):
        if (found := Path(f"{path}{suffix}")).exists():
            shutil.copyfile(found, f"{to}{suffix}")
    return to


class Disk(Writer):
    """Holds back what the store gives to it, when it is told to."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store._file, store._report)
        self.is_slow = False
        self.held: list[Job] = []

    def put(self, job: Job) -> None:
        if self.is_slow:
            self.held.append(job)
        else:
            super().put(job)

    async def write_to_first_portion(self) -> None:
        """Let go as much, and wait until it is written."""
        while True:
            job = self.held.pop(0)
            super().put(job)
            if job.done is not None:
                await job.done
                return

    def let_go(self) -> None:
        self.is_slow = False
        for job in self.held:
            super().put(job)


async def opened(path: Path, mode: str = "write") -> SqliteStore:
    return (await opened_on_disk(path, mode))[0]


async def opened_on_disk(path: Path, mode: str, is_slow: bool = False) -> tuple[SqliteStore, Disk]:
    store = SqliteStore(path, mode)
    disk = Disk(store)
    disk.is_slow = is_slow
    store._writer = disk
    await store.open(read_clock())
    return store, disk


async def enqueue(store: SqliteStore, *payloads: bytes) -> list[int]:
    return (await store.enqueue(CONTEXT, Batch(OPTIONS, list(payloads)), read_clock())).ids


async def save(store: SqliteStore) -> None:
    """A whole checkpoint."""
    store._begin_checkpoint(store._now)
    assert store._checkpoint is not None
    assert store._checkpoint._task is not None
    await store._checkpoint._task


async def get(store: SqliteStore, id: int) -> JobRecord | None:
    return (await store.get(CONTEXT, [id], [], read_clock()))[0]


async def test_checkpoint_after_a_crash_keeps_what_the_journal_had(tmp_path: Path) -> None:
    first = await opened(tmp_path / "1.db")
    [id] = await enqueue(first, b"kept")
    claim = bound.make_claim(("work",), 1, 0, "worker", None)
    token = (await first.claim(CONTEXT, claim, read_clock())).token
    await first.append(CONTEXT, Append(LOG, id, token, text="a line"), read_clock())
    await first.configure(CONTEXT, Configure(0, "work", {"concurrency": 7}), read_clock())
    second = await opened(crash(tmp_path / "1.db", tmp_path / "2.db"))
    await first.close()
    await enqueue(second, b"later")
    await save(second)
    third = await opened(crash(tmp_path / "2.db", tmp_path / "3.db"))
    await second.close()
    job = await get(third, id)
    assert job is not None
    assert (job.state, job.payload) == ("running", b"kept")
    assert [item.data for item in await third.stream(CONTEXT, id, LOG, 0, 10, 0, read_clock())] == [b"a line"]
    assert (await third.configure(CONTEXT, Configure(0, "work", {}), read_clock()))["concurrency"] == 7
    assert third._engine.verify() == []
    await third.close()


async def settle_down() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("mode", ["write", "fsync"])
async def test_events_are_shown_when_they_are_safe(tmp_path: Path, mode: str) -> None:
    store, disk = await opened_on_disk(tmp_path / "jobs.db", mode)
    await enqueue(store, b"before")
    disk.is_slow = True
    adding = asyncio.ensure_future(enqueue(store, b"job"))
    await settle_down()
    reading = asyncio.ensure_future(store.events(CONTEXT, "e1", 10, 0, read_clock()))
    await settle_down()
    assert disk.held
    assert not reading.done()
    disk.let_go()
    assert [event.job for event in (await reading).events] == await adding
    await store.close()


async def test_output_is_shown_when_it_is_safe(tmp_path: Path) -> None:
    store, disk = await opened_on_disk(tmp_path / "jobs.db", "write")
    [id] = await enqueue(store, b"job")
    claim = bound.make_claim(("work",), 1, 0, "worker", None)
    token = (await store.claim(CONTEXT, claim, read_clock())).token
    disk.is_slow = True
    adding = asyncio.ensure_future(store.append(CONTEXT, Append(EMIT, id, token, data=b"item"), read_clock()))
    await settle_down()
    reading = asyncio.ensure_future(store.stream(CONTEXT, id, EMIT, 0, 10, 0, read_clock()))
    await settle_down()
    assert not reading.done()
    disk.let_go()
    assert [item.data for item in await reading] == [b"item"]
    await adding
    await store.close()


async def test_checkpoint_saves_nothing_that_is_not_in_the_journal(tmp_path: Path) -> None:
    """A crash after the first portion, while part of an unanswered request shares a page with an older job."""
    store, disk = await opened_on_disk(tmp_path / "jobs.db", "write")
    await enqueue(store, b"before")
    disk.is_slow = True
    store._engine.enqueue(CONTEXT, Batch(OPTIONS, [b"%d" % n for n in range(200)]), store._now)
    saving = asyncio.ensure_future(save(store))
    await settle_down()
    await disk.write_to_first_portion()
    again = await opened(crash(tmp_path / "jobs.db", tmp_path / "again.db"))
    assert (await again.count(CONTEXT, "work", read_clock()))["work"]["ready"] in (1, 201)
    await again.close()
    disk.let_go()
    await saving
    await store.close()


async def test_operation_of_a_claim_that_waited_survives_with_its_leases(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    context = Context(op=OpId("session", 1))
    claim = bound.make_claim(("work",), 1, 1_000, "worker", None)
    waiting = asyncio.ensure_future(store.claim(context, claim, read_clock()))
    await settle_down()
    await enqueue(store, b"one", b"two")
    claimed = await waiting
    again = await opened(crash(tmp_path / "jobs.db", tmp_path / "again.db"))
    repeated = await again.claim(context, claim, read_clock())
    assert (repeated.ids, repeated.token) == (claimed.ids, claimed.token)
    await again.close()
    await store.close()


async def test_relaxed_hands_out_no_id_that_could_be_given_again(tmp_path: Path) -> None:
    """Until the first block of ids is reserved on disk, a claim that waits is not told of a job either."""
    store, disk = await opened_on_disk(tmp_path / "jobs.db", "relaxed", is_slow=True)
    claim = bound.make_claim(("work",), 1, 1_000, "worker", None)
    waiting = asyncio.ensure_future(store.claim(CONTEXT, claim, read_clock()))
    await settle_down()
    adding = asyncio.ensure_future(enqueue(store, b"job"))
    await settle_down()
    assert not waiting.done()
    disk.let_go()
    assert (await waiting).ids == await adding
    await store.close()


async def test_ids_skipped_after_a_crash_stay_skipped_when_nothing_happens(tmp_path: Path) -> None:
    """What was answered in relaxed mode and lost had ids; a store that is opened and closed does not forget that."""
    store = await opened(tmp_path / "1.db", "relaxed")
    [kept] = await enqueue(store, b"kept")
    await save(store)
    crashed = crash(tmp_path / "1.db", tmp_path / "2.db")
    lost = await enqueue(store, *[b"lost"] * 100)
    await store.close()
    await (await opened(crashed)).close()
    again = await opened(crashed)
    [new] = await enqueue(again, b"new")
    await again.close()
    assert kept < max(lost) < new


def at(seconds: int) -> Now:
    return Now(1_700_000_000_000 + 1_000 * seconds, 1_000 * seconds)


async def open_at(path: Path, seconds: int) -> SqliteStore:
    store = SqliteStore(path, "write")
    await store.open(at(seconds))
    return store


async def test_lease_outlives_the_time_the_store_was_away(tmp_path: Path) -> None:
    """Twice: the time it was given by the first opening survives the second crash."""
    first = await open_at(tmp_path / "1.db", 0)
    [id] = (await first.enqueue(CONTEXT, Batch(OPTIONS, [b"job"]), at(0))).ids
    token = (await first.claim(CONTEXT, bound.make_claim(("work",), 1, 0, "worker", None), at(0))).token
    second = await open_at(crash(tmp_path / "1.db", tmp_path / "2.db"), 60)
    await first.close()
    await second.enqueue(CONTEXT, Batch(OPTIONS, [b"other"]), at(80))
    third = await open_at(crash(tmp_path / "2.db", tmp_path / "3.db"), 200)
    await second.close()
    [job] = await third.get(CONTEXT, [id], [], at(229))
    assert job is not None
    assert (job.state, job.lease_until) == ("running", at(230).wall_ms)
    answers = await third.settle(CONTEXT, Settle(SETTLE_COMPLETE, [id], [token]), at(229))
    assert not answers.errors()
    assert third._engine.verify() == []
    await third.close()
