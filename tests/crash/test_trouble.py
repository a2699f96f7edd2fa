"""Full, slow, read-only and damaged: what callers are told, and that nothing is shown that could still be lost."""

import asyncio
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import pytest

from tenure.core.error import Unavailable
from tenure.core.job import Options
from tenure.core.request import CANCEL, KEY, Batch, Change, Claim, Configure, Filter, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.store.embedded import checkpoint, sqlite
from tenure.store.embedded.content import Damaged
from tenure.store.embedded.file import bytes_of, one
from tenure.store.embedded.inspection import inspect
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.disk import FULL, Disk, Platter, write_image
from tests.crash.test_faults import PATIENCE_S, Trial
from tests.crash.workload import START, hurried, journal_kept

SURE = Context(EVERYBODY.tenant, EVERYBODY.tenants, durability="fsync")


async def filled(folder: Path, saved: bool) -> Path:
    """A file that was closed, with jobs in the journal or in pages."""
    with hurried(large_bytes=1024 * 1024), journal_kept():
        trial = Trial(folder)
        await trial.store.open(START)
        await trial.workload.enqueue("plain", 20)
        if saved:
            await trial.checkpoint()
        await trial.store.close()
        trial.disk.unregister()
    return folder / "jobs.db"


async def opened(path: Path) -> None:
    store = SqliteStore(path)
    with journal_kept():
        await store.open(START)
        await store.close()


def flip(path: Path, table: str, column: str) -> None:
    """One bit of a blob, as a bad disk would, behind SQLite's back."""
    with apsw.Connection(str(path)) as db:
        data = bytes_of(one(db, f"SELECT {column} FROM {table} WHERE length({column}) > 40 LIMIT 1"))
    content = path.read_bytes()
    at = content.index(data[:60]) + 30
    path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])


@pytest.mark.parametrize(
    ("saved", "table", "column", "named"),
    [
        (False, "journal", "record", "record 1 "),
        (False, "journal", "events", "record 1 "),
        (True, "pages", "facts", "page 0 "),
    ],
)
async def test_a_flipped_bit_is_noticed_and_named(
    saved: bool, table: str, column: str, named: str, tmp_path: Path
) -> None:
    path = await filled(tmp_path / "run", saved)
    await opened(path)
    flip(path, table, column)
    with pytest.raises(Damaged, match=named) as caught:
        await opened(path)
    assert str(path) in str(caught.value)


async def test_a_file_without_its_head_is_damaged(tmp_path: Path) -> None:
    path = await filled(tmp_path / "run", True)
    content = path.read_bytes()
    path.write_bytes(bytes(100) + content[100:])
    with pytest.raises(Damaged, match="is damaged"):
        await opened(path)


async def test_a_missing_record_is_noticed(tmp_path: Path) -> None:
    path = await filled(tmp_path / "run", False)
    with apsw.Connection(str(path)) as db:
        db.execute("UPDATE journal SET n = n + 1")
    with pytest.raises(Damaged, match="misses record 1 "):
        await opened(path)


class ReadOnly(Disk):
    """Opens everything for reading only, as on a file system that was mounted so."""

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        return super().xOpen(name, flags)


async def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    path = await filled(tmp_path / "run", True)
    disk = ReadOnly(keeps_log=False)
    for _ in range(2):  # the second time says that the first let go of it
        with pytest.raises(Unavailable, match="cannot be used"):
            await SqliteStore(path, "fsync", disk.name).open(START)
    disk.unregister()
    await opened(path)


async def test_a_full_disk_at_the_end_does_not_keep_the_file(tmp_path: Path) -> None:
    """Closing ends, lets go of the file, and what was answered is there."""
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin()
        trial.disk.fail(FULL, trial.disk.writes, lasting=True)
        await trial.store.close()
        trial.disk.heal()
        store = SqliteStore(tmp_path / "run" / "jobs.db", "fsync", trial.disk.name)
        await store.open(START)
        assert await store.get(EVERYBODY, [1, 2], [], START) != [None, None]
        await store.close()
        trial.disk.unregister()


async def test_views_of_a_store_that_was_open_for_a_moment_show_everything(tmp_path: Path) -> None:
    """Nobody has called `tick`: no checkpoint was due."""
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open(START)
    await store.enqueue(EVERYBODY, Batch(Options("plain"), [b"x"] * 3), START)
    await store.claim(EVERYBODY, Claim((Pick("plain"),)), START)
    await store.close()
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT id, queue, state FROM jobs ORDER BY id").fetchall() == [
            (1, "plain", "running"),
            (2, "plain", "ready"),
            (3, "plain", "ready"),
        ]
        assert db.execute("SELECT queue, ready, running FROM queues").fetchall() == [("plain", 2, 1)]
    await opened(path)


async def test_place_in_line_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """Jobs that a limit key holds back stand in line again after it: they count before it as well."""
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open(START)
    await store.configure(EVERYBODY, Configure(KEY, "printer", {"concurrency": 1}), START)
    held = Options("plain", limit_keys=("printer",))
    for options in (held, held, Options("plain"), held, Options("plain", priority=5), Options("plain")):
        await store.enqueue(EVERYBODY, Batch(options, [b"x"]), START)
    claimed = await store.claim(EVERYBODY, Claim((Pick("plain"),), 3), START)
    assert claimed.ids == [5, 1, 3]
    waiting = [2, 4, 6]
    assert (await store.explain(EVERYBODY, 2, START)).held_by == "limit"
    before = [(await store.explain(EVERYBODY, id, START)).place for id in waiting]
    assert before == [0, 1, 2]
    await store.close()
    again = SqliteStore(path)
    await again.open(START)
    assert [(await again.explain(EVERYBODY, id, START)).place for id in waiting] == before
    await again.close()


async def test_a_full_disk_with_changes_unwritten_does_not_keep_the_file(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run", "relaxed")
        await trial.begin()
        trial.disk.fail(FULL, trial.disk.writes, lasting=True)
        await trial.workload.enqueue("plain", 1)
        with pytest.raises(Unavailable, match=r"the last changes are lost: .* disk is full"):
            await trial.store.close()
        trial.disk.heal()
        trial.disk.unregister()
    await opened(tmp_path / "run" / "jobs.db")


async def test_a_slow_disk_delays_answers_and_shows_nothing_early(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin()
        store, now = trial.store, trial.workload.now
        before = await store.events(EVERYBODY, "end", 100, 0, now)
        trial.disk.ready.clear()
        calls: list[asyncio.Future[object]] = [
            asyncio.ensure_future(store.enqueue(EVERYBODY, Batch(Options("plain"), [b"1000.0"]), now)),
            asyncio.ensure_future(store.get(EVERYBODY, [3], [], now)),
            asyncio.ensure_future(store.events(EVERYBODY, before.cursor, 100, 0, now)),
        ]
        await asyncio.to_thread(trial.disk.waiting.wait)
        for _ in range(20):
            await asyncio.sleep(0)
        assert [call.done() for call in calls] == [False, False, False]
        trial.disk.ready.set()
        await asyncio.gather(*calls)
        await store.close()
        trial.disk.unregister()


async def test_ids_are_reserved_before_they_are_given_in_every_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handed to the operating system only, a job may be lost with the power; its id is not given again."""
    monkeypatch.setattr(sqlite, "RESERVE", 20)
    monkeypatch.setattr(sqlite, "SYNC_S", 3600.0)
    for mode in ("write", "relaxed"):
        trial = Trial(tmp_path / mode, mode)
        await trial.begin()
        given: list[int] = []
        for _ in range(10):
            answers = await trial.store.enqueue(EVERYBODY, Batch(Options(), [b"x"] * 10), START)
            given += answers.ids
        platter = Platter(trial.disk)
        platter.advance(len(trial.disk.log))
        write_image(platter.synced(), tmp_path / "image")
        again = SqliteStore(tmp_path / "image" / "jobs.db")
        await again.open(START)
        answers = await again.enqueue(EVERYBODY, Batch(Options(), [b"y"]), START)
        assert answers.ids[0] > max(given)
        await again.close()
        await trial.store.close()
        trial.disk.unregister()


async def is_ready(trial: Trial, id: int, delivery: int) -> bool:
    job = (await trial.store.get(EVERYBODY, [id], [], trial.workload.now))[0]
    return job is not None and (job.state, job.attempt, job.delivery) == ("ready", 0, delivery)


async def test_a_claim_that_the_disk_refused_gives_its_jobs_back(tmp_path: Path) -> None:
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.begin()
        trial.disk.fail(FULL, trial.disk.writes, lasting=True)
        with pytest.raises(Unavailable):
            await trial.workload.claim(1)
        assert await is_ready(trial, 1, 1)
        trial.disk.heal()
        await trial.recover()
        assert (await trial.workload.claim(1)).ids == [1]
        assert await trial.end() == []


async def test_waiting_claims_are_told_that_the_disk_refuses_and_keep_nothing(tmp_path: Path) -> None:
    """Also when many wait for one job: it is leased once, and given back once."""
    with hurried():
        trial = Trial(tmp_path / "run")
        await trial.store.open(START)
        wait = Claim((Pick("plain"),), wait_ms=600_000)
        claims = [asyncio.ensure_future(trial.store.claim(EVERYBODY, wait, START)) for _ in range(5)]
        await asyncio.sleep(0)
        trial.disk.fail(FULL, trial.disk.writes, lasting=True)
        with pytest.raises(Unavailable):
            await trial.workload.enqueue("plain", 1)
        async with asyncio.timeout(PATIENCE_S):
            told = await asyncio.gather(*claims, return_exceptions=True)
        assert [type(answer) for answer in told] == [Unavailable] * 5
        trial.disk.heal()
        await trial.recover()
        assert await is_ready(trial, 1, 1)
        assert await trial.end() == []


async def test_a_crash_between_a_checkpoint_and_its_tidying_leaves_no_gap_in_the_events(tmp_path: Path) -> None:
    """The last events are in a record that the checkpoint has made needless, and nowhere else."""

    def leave(tidy: Any, _db: apsw.Connection, _epoch: int) -> None:
        tidy.is_done = True

    with hurried(large_bytes=1024 * 1024), mock.patch.object(checkpoint._Tidy, "write", leave):
        trial = Trial(tmp_path / "run")
        await trial.begin()
        await trial.workload.enqueue("plain", 3)
        await trial.checkpoint()
        await trial.store.close()
        trial.disk.unregister()
    store = SqliteStore(tmp_path / "run" / "jobs.db")
    await store.open(START)
    await store.enqueue(EVERYBODY, Batch(Options("late"), [b"x"]), START)
    with store._file.reading() as content:
        rows = list(content.events(0))
    with closing(store._file.connect()) as db:
        assert inspect(store._file.path, db) == []
    assert len(rows) > 1
    assert rows[-1][1] == store._engine.last_event()
    await store.close()


def position_of(store: SqliteStore) -> int:
    """Of the group that has, or will have, everything until now."""
    return store._taken + (0 if store._engine.is_taken() else 1)


@pytest.mark.parametrize("verb", ["claim", "watch", "change"])
async def test_a_wait_is_answered_when_it_is_as_safe_as_it_asked(verb: str, tmp_path: Path) -> None:
    """More than the store's mode: what the store would show at once waits here for the disk."""
    with hurried():
        trial = Trial(tmp_path / "run", "relaxed")
        await trial.begin()
        store, now = trial.store, trial.workload.now
        await store.enqueue(SURE, Batch(Options("other"), [b"x"]), now)
        leased = await store.claim(SURE, Claim((Pick("other"),), lease_ms=600_000), now)
        calls: dict[str, Coroutine[object, object, object]] = {
            "claim": store.claim(SURE, Claim((Pick("late"),), wait_ms=600_000), now),
            "watch": store.watch(SURE, leased.ids[0], 600_000, now),
            "change": store.change(SURE, Change(CANCEL, None, Filter(queue="plain")), now),
        }
        trial.disk.ready.clear()
        call = asyncio.ensure_future(calls.pop(verb))
        for other in calls.values():
            other.close()
        await asyncio.sleep(0)
        asked = position_of(store)
        await store.enqueue(EVERYBODY, Batch(Options("late"), [b"x"]), now)
        await store.settle(EVERYBODY, Settle(SETTLE_COMPLETE, leased.ids, [leased.token]), now)
        if verb != "change":  # it is these that it is told of
            asked = position_of(store)
        await asyncio.to_thread(trial.disk.waiting.wait)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not call.done()
        trial.disk.ready.set()
        async with asyncio.timeout(PATIENCE_S):
            await call
        assert store._synced >= asked
        await store.close()
        trial.disk.unregister()
