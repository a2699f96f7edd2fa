"""Calls that are answered by a function when the disk has them: what they are told, and what happens when it fails."""

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import pytest

from tenure.core.answer import Answers, Claimed
from tenure.core.error import Error, Unavailable
from tenure.core.job import Options
from tenure.core.request import Batch, Claim, Pick
from tenure.core.tenant import Context
from tenure.store.contract import Moved
from tenure.store.embedded import mark, sqlite
from tenure.store.embedded.file import BUSY_MS
from tenure.store.embedded.shared import SharedStore
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.disk import FULL, UNSYNCED, Disk, Platter, write_image
from tests.crash.test_faults import PATIENCE_S, Trial
from tests.crash.test_slow_and_closed import set_epoch
from tests.crash.workload import START, Workload, hurried
from tests.prompt import PromptStore

ONE = Batch(Options(queue="plain"), [b"payload"])
TAKE = Claim((Pick("plain"),))
PULL = Claim((Pick("plain"),), 1, 60_000)


class Answer:
    """What a caller is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.came = asyncio.Event()

    def __call__(self, answer: Any, error: Error | None) -> None:
        self.told.append(answer if error is None else error)
        self.came.set()

    async def get(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            await self.came.wait()
        [told] = self.told
        return told


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0)


async def rested(store: SqliteStore) -> None:
    await until(lambda: not store._in_flight and not store._reserving)


async def alone(store: SqliteStore) -> None:
    """It is opened, and has had one caller for a while."""
    await store.open(START)
    for _ in range(2):
        await store.enqueue(Context(), ONE, START)
        await rested(store)


async def test_what_was_answered_survives_a_loss_of_power(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run", kind=PromptStore)
        await alone(trial.store)
        given: list[int] = []
        for number in range(20):
            given += (await trial.store.enqueue(Context(), ONE, START)).ids
            platter = Platter(trial.disk)
            platter.advance(len(trial.disk.log))
            write_image(platter.after_power_loss(random.Random(number)), tmp_path / "image")
            plain = Disk(keeps_log=False)
            again = SqliteStore(tmp_path / "image" / "jobs.db", "fsync", plain.name)
            await again.open(START)
            assert None not in await again.get(Context(), given, [], START)
            await again.close()
            plain.unregister()
            await rested(trial.store)
        await trial.store.close()
        trial.disk.unregister()


class Watched(Disk):
    """Notes what it is asked by the thread that made it."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()
        self.here: list[str] = []

    def note(self, what: str) -> None:
        if threading.get_ident() == self.thread:
            self.here.append(what)

    def write(self, *args: Any) -> None:
        self.note("write")
        super().write(*args)

    def sync(self, *args: Any) -> None:
        self.note("sync")
        super().sync(*args)


async def test_loop_never_touches_the_disk(tmp_path: Path) -> None:
    """Also for a caller who is alone, and when the log begins anew, where SQLite would."""
    with hurried():
        disk = Watched()
        store = PromptStore(tmp_path / "jobs.db", "fsync", disk.name)
        await store.open(START)
        disk.here.clear()
        workload = Workload(store, disk, 3)
        await workload.run(actors=1, steps=120)
        assert disk.writes > 20
        assert disk.here == []
        await store.close()
        disk.unregister()


async def test_loop_goes_on_while_a_sync_hangs_and_the_rest_comes_behind(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run", kind=PromptStore)
        store, disk = trial.store, trial.disk
        await alone(store)
        disk.waiting.clear()
        disk.ready.clear()
        told = [Answer() for _ in range(3)]
        for answer in told:
            assert store.soon(Context(), ONE, START, answer) is not None
            await asyncio.to_thread(disk.waiting.wait, PATIENCE_S)
        assert await store.count(Context(durability="relaxed"), "plain", START)
        assert [answer.told for answer in told] == [[], [], []]
        disk.ready.set()
        answers = [await answer.get() for answer in told]
        assert [answer.ids for answer in answers] == [[3], [4], [5]]
        await store.close()
        disk.unregister()


@pytest.mark.parametrize("fault", [FULL, UNSYNCED])
async def test_disk_that_refuses_is_told_and_leaves_nothing_leased(fault: str, tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run", kind=PromptStore)
        await trial.begin()
        store = trial.store
        await rested(store)
        trial.disk.fail(fault, trial.disk.writes, lasting=True)
        told = Answer()
        assert store.claim_or_wait(EVERYBODY, TAKE, START, told) is not None
        error = await told.get()
        assert isinstance(error, Unavailable)
        assert "free some space" in error.message
        [job] = await store.get(EVERYBODY, [1], [], START)
        assert job is not None
        assert (job.state, job.attempt) == ("ready", 0)
        assert store.soon(EVERYBODY, TAKE, START, told) is None
        trial.disk.heal()
        await trial.recover()
        assert (await trial.workload.claim(1)).ids == [1]
        assert await trial.end() == []


@pytest.mark.parametrize("fault", [FULL, UNSYNCED])
async def test_disk_that_refused_once_is_not_spoken_of(fault: str, tmp_path: Path) -> None:
    """The writer tries once more before it tells anybody."""
    with hurried():
        trial = Trial(tmp_path / "run", kind=PromptStore)
        await trial.begin()
        await rested(trial.store)
        trial.disk.fail(fault, trial.disk.writes)
        await trial.workload.enqueue("plain", 1)
        assert await trial.end() == []


async def test_claim_that_waits_is_told_before_the_push(tmp_path: Path) -> None:
    store = PromptStore(tmp_path / "jobs.db")
    await store.open(START)
    told: list[object] = []
    pushed = Answer()
    pushed.told = told
    store.claim_or_wait(Context(), PULL, START, lambda claimed, _: told.append(claimed))
    store.soon(Context(), ONE, START, pushed)
    async with asyncio.timeout(PATIENCE_S):
        await pushed.came.wait()
    assert [type(answer) for answer in told] == [Claimed, Answers]
    await store.close()


async def test_who_gave_up_is_not_told_and_keeps_nothing(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run", kind=PromptStore)
        await trial.begin()
        trial.disk.ready.clear()
        told = Answer()
        wait = trial.store.claim_or_wait(EVERYBODY, TAKE, START, told)
        assert wait is not None
        assert not isinstance(wait, Claimed)
        wait.give_up()
        trial.disk.ready.set()
        await rested(trial.store)
        assert told.told == []
        [job] = await trial.store.get(EVERYBODY, [1], [], START)
        assert job is not None
        assert (job.state, job.attempt) == ("ready", 0)
        assert await trial.end() == []


def deaf(*_: object) -> None:
    raise ValueError


async def test_who_cannot_be_told_of_an_error_keeps_nobody_else_from_it(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run", kind=PromptStore)
        await alone(trial.store)
        trial.disk.ready.clear()
        told = Answer()
        trial.store.soon(Context(), ONE, START, deaf)
        trial.store.soon(Context(), ONE, START, told)
        trial.store.claim_or_wait(Context(), Claim((Pick("empty"),), 1, 60_000), START, deaf)
        trial.store._break(OSError("disk full"))
        assert isinstance(await told.get(), Unavailable)
        trial.store._broken = ""
        trial.disk.ready.set()
        await trial.store.close()
        trial.disk.unregister()


async def test_answer_that_could_not_be_told_is_given_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await alone(store)
    store.claim_or_wait(Context(), TAKE, START, deaf)
    await rested(store)
    assert (await store.count(Context(), "plain", START))["plain"]["ready"] == 2
    await store.close()


async def test_loop_does_not_wait_for_another_who_writes_to_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await alone(store)
    with closing(apsw.Connection(str(tmp_path / "jobs.db"))) as other:
        other.set_busy_timeout(BUSY_MS)  # the writer may be making room
        other.execute("BEGIN IMMEDIATE")
        told = Answer()
        began = time.monotonic()
        store.soon(Context(), ONE, START, told)
        assert time.monotonic() - began < BUSY_MS / 2_000
        assert await store.count(Context(durability="relaxed"), "plain", START)
        assert told.told == []
        other.execute("ROLLBACK")
        assert isinstance(await told.get(), Answers)
    await store.close()


async def test_owner_that_was_passed_over_writes_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db")
    await alone(store)
    set_epoch(tmp_path / "jobs.db", 1)
    told = Answer()
    store.soon(Context(), ONE, START, told)
    assert isinstance(await told.get(), Moved)
    with pytest.raises(Unavailable, match="the last changes are lost"):
        await store.close()
    again = SqliteStore(tmp_path / "jobs.db")
    await again.open(START)
    assert (await again.count(Context(), "plain", START))["plain"]["ready"] == 2
    await again.close()


async def test_call_to_an_owner_that_was_passed_over_is_made_again(tmp_path: Path) -> None:
    store = SharedStore(tmp_path / "jobs.db", "fsync")
    await store.open(START)
    await store.enqueue(Context(), ONE, START)
    await rested(store._store)
    set_epoch(tmp_path / "jobs.db", 1)
    told = Answer()
    assert store.soon(Context(), ONE, START, told) is not None
    assert isinstance(await told.get(), Moved)
    answers = await store.enqueue(Context(), ONE, START)  # the file has no other owner: it is this process again
    assert None not in await store.get(Context(), answers.ids, [], START)
    assert (await store.count(Context(), "plain", START))["plain"]["ready"] == 2
    await store.close()


async def test_who_is_passed_over_during_a_sync_waits_for_it(tmp_path: Path) -> None:
    """What is in the log is committed: it is answered, and not done once more by the next owner."""
    with hurried():
        trial = Trial(tmp_path / "run", kind=PromptStore)
        await alone(trial.store)
        trial.disk.waiting.clear()
        trial.disk.ready.clear()
        told = Answer()
        trial.store.soon(Context(), ONE, START, told)
        await asyncio.to_thread(trial.disk.waiting.wait, PATIENCE_S)
        leaving = asyncio.ensure_future(trial.store.abandon())
        await asyncio.sleep(0)
        assert not leaving.done()
        trial.disk.ready.set()
        assert isinstance(await told.get(), Answers)
        await leaving
        trial.disk.unregister()


async def test_sync_that_never_ends_says_nothing_of_what_was_done(tmp_path: Path) -> None:
    with hurried(), mock.patch.object(sqlite, "CLOSE_S", 0.05):
        trial = Trial(tmp_path / "run", kind=PromptStore)
        await alone(trial.store)
        trial.disk.waiting.clear()
        trial.disk.ready.clear()
        told = Answer()
        trial.store.soon(Context(), ONE, START, told)
        await asyncio.to_thread(trial.disk.waiting.wait, PATIENCE_S)
        await trial.store.abandon()
        error = await told.get()
        assert isinstance(error, Unavailable)
        assert not isinstance(error, Moved)
        assert "nobody knows" in error.message
        trial.disk.ready.set()
        trial.store._writer.stop()
        assert await asyncio.to_thread(trial.store._writer.join, PATIENCE_S)
        trial.disk.unregister()


async def test_thread_keeps_the_log_short_and_notes_what_is_safe(tmp_path: Path) -> None:
    with hurried():
        store = PromptStore(tmp_path / "jobs.db")
        await store.open(START)
        for _ in range(150):
            await store.enqueue(Context(), ONE, START)
        await until(lambda: store._writer._marked >= store._taken)
        lock = os.open(tmp_path / "jobs.db-mark", os.O_RDONLY)
        assert mark.reached(lock, store._file._identity) == (store.epoch, store._taken)
        os.close(lock)
        assert store._writer._log_pages * 4096 < 160 * 1024
        await store.close()
