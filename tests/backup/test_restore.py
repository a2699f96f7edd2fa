"""Stores made of backups: of which time, where, and what they owe to the store they were copied from."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tenure import Backoff, LeaseLost
from tenure.client.clock import read_clock
from tenure.core import bound
from tenure.core.error import Unavailable
from tenure.core.tenant import Context, OpId
from tenure.ops.backup import Run, back_up
from tenure.ops.error import BackupDamaged, BackupNotFound, Refused
from tenure.ops.manifest import Manifest
from tenure.ops.place import Place, open_place
from tenure.ops.restore import restore
from tenure.ops.verify import verify_file
from tenure.store.embedded.file import StoreFile
from tests.backup.rig import Clock, connect, fill

MINUTE_MS = 60_000


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    return open_place(str(tmp_path / "backups"), create=True)


async def count_jobs(path: Path) -> int:
    async with connect(path) as client:
        return sum(sum(states.values()) for states in (await client.count()).values())


async def test_point_in_time(place: Place, tmp_path: Path) -> None:
    clock = Clock()
    for number in range(3):
        await fill(tmp_path / "jobs.db", 10, seed=number)
        back_up(Run(tmp_path / "jobs.db", place, clock))
        clock.pass_time(MINUTE_MS)
    began = Clock().now.wall_ms
    asked = [(began, 10), (began + MINUTE_MS - 1, 10), (began + MINUTE_MS, 20), (began + 90_000, 20), (None, 30)]
    for at_ms, jobs in asked:
        restore(place, tmp_path / "again.db", read_clock, at_ms, force=True)
        assert await count_jobs(tmp_path / "again.db") == jobs
    with pytest.raises(BackupNotFound, match=r"the oldest is of 2023-11-14T22:13:20\.000Z"):
        restore(place, tmp_path / "none.db", read_clock, began - 1)
    assert not (tmp_path / "none.db").exists()


def test_empty_place_has_nothing_to_restore(place: Place, tmp_path: Path) -> None:
    with pytest.raises(BackupNotFound, match="make one with tenure backup"):
        restore(place, tmp_path / "jobs.db", read_clock)


async def test_worker_of_the_old_store_is_refused_and_its_job_tried_again(folder: Place, tmp_path: Path) -> None:
    async with connect(tmp_path / "jobs.db") as client:
        job = await client.enqueue(b"work", queue="work", lease="1h", backoff=Backoff.fixed(0))
        last = await client.enqueue(b"last", queue="last", lease="1h", max_attempts=1)
        [held] = await client.claim("work")
        [held_last] = await client.claim("last")
        back_up(Run(tmp_path / "jobs.db", folder, read_clock))
        [later] = [await client.enqueue(b"later", queue="work")]
        [held_later] = await client.claim("work")
    restore(folder, tmp_path / "again.db", read_clock)
    async with connect(tmp_path / "again.db") as client:
        for token in (held, held_last):
            with pytest.raises(LeaseLost):
                await client.complete(token)
        assert held_later.id == later.id
        [again] = await client.claim("work", wait="5s")
        assert (again.id, again.attempt) == (job.id, 2)
        with pytest.raises(LeaseLost):
            await client.extend(held)
        await client.complete(again)
        ended = await client.get(last.id)
        assert (ended.state, ended.reason) == ("failed", "lease_expired")
        tokens = {held.token, held_last.token, held_later.token}
        assert again.token not in tokens


async def test_token_given_after_the_backup_is_unknown(folder: Place, tmp_path: Path) -> None:
    """Both stores go on from the same epoch and claim number; only the secret tells their tokens apart."""
    async with connect(tmp_path / "jobs.db") as client:
        job = await client.enqueue(b"work", queue="work")
        back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    restore(folder, tmp_path / "again.db", read_clock)
    async with connect(tmp_path / "jobs.db") as old, connect(tmp_path / "again.db") as new:
        [held_old] = await old.claim("work")
        [held_new] = await new.claim("work")
        assert held_old.id == held_new.id == job.id
        assert held_old.token != held_new.token
        with pytest.raises(LeaseLost):
            await new.complete(held_old)
        await new.complete(held_new)


async def test_repeated_claim_of_the_old_store_is_a_new_claim(folder: Place, tmp_path: Path) -> None:
    context = Context(op=OpId("session", 1))
    claim = bound.make_claim(("work",), 1, 5_000, "worker")
    async with connect(tmp_path / "jobs.db") as client:
        await client.enqueue(b"work", queue="work", lease="1h", backoff=Backoff.fixed(0))
        first = await client._store.claim(context, claim, read_clock())
        back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    restore(folder, tmp_path / "again.db", read_clock)
    async with connect(tmp_path / "again.db") as client:
        again = await client._store.claim(context, claim, read_clock())
        assert again.ids == first.ids
        assert again.token != first.token


async def test_no_number_is_given_again(folder: Place, tmp_path: Path) -> None:
    ids = await fill(tmp_path / "jobs.db", 100)
    back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    ids += await fill(tmp_path / "jobs.db", 5_000, seed=2)
    async with connect(tmp_path / "jobs.db") as client:
        seqs = [event.seq async for event in client.events()]
        cursor = f"e{seqs[-1]}"
    restore(folder, tmp_path / "again.db", read_clock)
    async with connect(tmp_path / "again.db"):
        pass  # opened and closed without a change: what was skipped stays skipped
    async with connect(tmp_path / "again.db") as client:
        new = await client.enqueue(b"new", queue="work")
        assert new.id > max(ids)
        assert [event.job async for event in client.events(cursor)] == [new.id]
        assert min([event.seq async for event in client.events(cursor)]) > max(seqs)
        assert (await client.get(ids[0])).state == "ready"
        found = await client.find(limit=1_000)
        assert len(found.jobs) == 101


async def test_listener_of_the_old_store_hears_what_is_new(folder: Place, tmp_path: Path) -> None:
    await fill(tmp_path / "jobs.db", 10)
    back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    await fill(tmp_path / "jobs.db", 10, seed=2)
    async with connect(tmp_path / "jobs.db") as client:
        cursor = f"e{[event.seq async for event in client.events()][-1]}"
    restore(folder, tmp_path / "again.db", read_clock)
    async with connect(tmp_path / "again.db") as client:
        heard = asyncio.ensure_future(anext(aiter(client.events(cursor, follow="10s"))))
        await asyncio.sleep(0)
        new = await client.enqueue(b"new", queue="work")
        assert (await heard).job == new.id


async def test_existing_file_is_replaced_only_by_force(folder: Place, tmp_path: Path) -> None:
    await fill(tmp_path / "jobs.db", 10)
    back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    await fill(tmp_path / "jobs.db", 10, seed=2)
    with pytest.raises(Refused, match="--force"):
        restore(folder, tmp_path / "jobs.db", read_clock)
    assert await count_jobs(tmp_path / "jobs.db") == 20
    restore(folder, tmp_path / "jobs.db", read_clock, force=True)
    assert await count_jobs(tmp_path / "jobs.db") == 10
    assert (tmp_path / "jobs.db").stat().st_mode & 0o777 == 0o600


async def test_file_that_is_open_is_never_replaced(folder: Place, tmp_path: Path) -> None:
    async with connect(tmp_path / "jobs.db") as client:
        job = await client.enqueue(b"work")
        back_up(Run(tmp_path / "jobs.db", folder, read_clock))
        with pytest.raises(Refused, match="stop it first"):
            restore(folder, tmp_path / "jobs.db", read_clock, force=True)
        assert (await client.get(job.id)).state == "ready"


async def test_nobody_opens_the_file_while_it_is_being_restored(folder: Place, tmp_path: Path) -> None:
    await fill(tmp_path / "jobs.db", 10)
    back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    refused = 0

    def look(what: str, done_bytes: int, total_bytes: int) -> None:
        nonlocal refused
        with pytest.raises(Unavailable, match="open in another process"):
            StoreFile(tmp_path / "again.db").open()
        refused += 1

    restore(folder, tmp_path / "again.db", read_clock, force=True, progress=look)
    assert refused >= 2
    assert await count_jobs(tmp_path / "again.db") == 10


async def test_log_of_the_replaced_file_is_not_applied(folder: Place, tmp_path: Path) -> None:
    """As a kill leaves it: a file with a log beside it that holds the last changes."""
    killed = tmp_path / "killed.db"
    await fill(tmp_path / "jobs.db", 10)
    back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    async with connect(tmp_path / "jobs.db") as client:
        await client.enqueue_many([b"more"] * 100, queue="work")
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{tmp_path / 'jobs.db'}{suffix}", f"{killed}{suffix}")
    assert Path(f"{killed}-wal").stat().st_size > 0
    restore(folder, killed, read_clock, force=True)
    assert not Path(f"{killed}-wal").exists()
    assert verify_file(killed).findings == []
    assert await count_jobs(killed) == 10


async def test_log_of_a_file_that_is_gone_is_not_applied(folder: Place, tmp_path: Path) -> None:
    killed = tmp_path / "killed.db"
    await fill(tmp_path / "jobs.db", 10)
    back_up(Run(tmp_path / "jobs.db", folder, read_clock))
    async with connect(tmp_path / "jobs.db") as client:
        await client.enqueue_many([b"more"] * 100, queue="work")
        shutil.copyfile(f"{tmp_path / 'jobs.db'}-wal", f"{killed}-wal")
    restore(folder, killed, read_clock)
    assert await count_jobs(killed) == 10


async def test_damaged_backup_is_not_restored(place: Place, tmp_path: Path) -> None:
    await fill(tmp_path / "jobs.db", 600)
    made: Manifest = back_up(Run(tmp_path / "jobs.db", place, read_clock)).manifest
    chunk = made.chunks[2].object
    place.put(chunk, b"?" * made.chunks[2].stored_bytes)
    with pytest.raises(BackupDamaged, match=f"{chunk} is damaged"):
        restore(place, tmp_path / "again.db", read_clock)
    place.delete([chunk])
    with pytest.raises(BackupDamaged, match=f"{chunk} is missing"):
        restore(place, tmp_path / "again.db", read_clock)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("again")] == ["again.db-owner"]


async def test_restore_of_a_restored_store(folder: Place, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    ids: list[int] = []
    for number in range(3):
        ids += await fill(path, 10, seed=number)
        back_up(Run(path, folder, read_clock))
        restore(folder, path, read_clock, force=True)
    assert ids == sorted(set(ids))
    assert await count_jobs(path) == 30
    assert verify_file(path).findings == []


async def test_store_without_numbers_left_is_not_restored(folder: Place, tmp_path: Path) -> None:
    await fill(tmp_path / "jobs.db", 10)
    back_up(Run(tmp_path / "jobs.db", folder, Clock(1_000)))
    far = Clock(250_000_000_000_000)
    with pytest.raises(Unavailable, match="no numbers left"):
        restore(folder, tmp_path / "again.db", far)
    assert not (tmp_path / "again.db").exists()
