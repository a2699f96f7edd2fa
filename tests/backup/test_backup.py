"""Backups of stores at work, to a folder and to an S3 server, and what is left when one is cut off."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tenure.client.clock import read_clock
from tenure.core.error import Unavailable
from tenure.ops.backup import Run, back_up
from tenure.ops.catalog import list_backups, list_chunks
from tenure.ops.error import Refused, Stopped
from tenure.ops.manifest import CHUNKS, Manifest
from tenure.ops.place import Place, open_place
from tenure.ops.restore import restore
from tenure.ops.verify import verify_file, verify_place
from tenure.store.embedded.content import Unreadable
from tests.backup.rig import Clock, FailingFolder, Wire, connect, fill

JOBS = 2_000


async def payloads_of(path: Path, ids: list[int]) -> list[bytes]:
    async with connect(path) as client:
        return [(await client.get(id)).payload for id in ids]


@pytest.mark.slow
async def test_what_was_answered_before_is_there_though_the_store_was_at_work(place: Place, tmp_path: Path) -> None:
    path, again = tmp_path / "jobs.db", tmp_path / "again.db"
    random = Random(1)
    answered: list[tuple[int, bytes]] = []
    enough = asyncio.Event()
    is_done = False

    async def produce() -> None:
        while not is_done:
            payloads = [random.randbytes(1_000) for _ in range(50)]
            made = await client.enqueue_many(payloads, queue="work")
            answered.extend((job.id, payload) for job, payload in zip(made, payloads, strict=True))
            if len(answered) >= JOBS:
                enough.set()

    async def work() -> None:
        while not is_done:
            for held in await client.claim("work", n=10, wait="100ms"):
                await client.complete(held, b"done")

    async with connect(path) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        tasks.create_task(work())
        await enough.wait()
        before = list(answered)
        made = await asyncio.to_thread(back_up, Run(path, place, read_clock))
        sound = await asyncio.to_thread(verify_file, path)
        is_done = True
    assert len(answered) > len(before), "the store stood still while it was copied"
    assert sound.findings == []
    assert verify_place(place).findings == []
    assert restore(place, again, read_clock).manifest == made.manifest
    assert verify_file(again).findings == []
    assert await payloads_of(again, [id for id, _ in before]) == [payload for _, payload in before]


@pytest.mark.slow
async def test_second_backup_sends_what_changed(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await fill(path, 2 * JOBS)
    first = back_up(Run(path, place, read_clock))
    assert first.new_chunks == len(first.manifest.chunks) > 10
    await fill(path, 10, seed=2)
    second = back_up(Run(path, place, read_clock))
    assert 0 < second.new_chunks <= 5
    assert second.sent_bytes < first.sent_bytes / 4
    assert len(place.list(CHUNKS)) == first.new_chunks + second.new_chunks


async def test_nothing_is_sent_when_nothing_changed(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    await fill(tmp_path / "jobs.db", 10)
    back_up(Run(tmp_path / "jobs.db", place, read_clock))
    assert back_up(Run(tmp_path / "jobs.db", place, read_clock)).new_chunks == 0
    assert len(list_backups(place)) == 2


@pytest.mark.slow
async def test_backup_cut_off_at_any_object_is_none_and_the_next_one_goes_on_from_it(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await fill(path, 1_500)
    whole = back_up(Run(path, open_place(str(tmp_path / "whole"), create=True), read_clock))
    objects = len(whole.manifest.chunks) + 1
    assert objects > 4
    for sent in range(objects):
        root = tmp_path / f"cut-{sent}"
        with pytest.raises(Unavailable, match="takes nothing more"):
            back_up(Run(path, FailingFolder(root, sent), read_clock))
        place = open_place(str(root))
        assert list_backups(place) == []
        assert len(list_chunks(place)) == sent
        made = back_up(Run(path, place, read_clock))
        assert made.new_chunks == len(made.manifest.chunks) - sent
        assert verify_place(place).findings == []


@pytest.mark.slow
@pytest.mark.parametrize("bytes_max", [1, 200_000, 700_000])
async def test_connection_cut_off_half_way_leaves_no_backup(
    bytes_max: int, bucket: str, s3_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.db"
    await fill(path, JOBS)
    wire = Wire(s3_port, bytes_max)
    try:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{wire.port}")
        cut = open_place(bucket, patience_s=0.3)
        with pytest.raises(Unavailable, match="cannot be used"):
            back_up(Run(path, cut, read_clock))
        assert wire.cuts > 0
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{s3_port}")
        assert list_backups(open_place(bucket)) == []
        wire.mend()
        made = back_up(Run(path, cut, read_clock))
        assert len(list_backups(cut)) == 1
        assert len(list_chunks(cut)) == len(made.manifest.chunks)
        assert restore(cut, tmp_path / "again.db", read_clock).manifest == made.manifest
    finally:
        wire.close()


async def test_cut_that_mends_within_the_patience_is_not_noticed(
    bucket: str, s3_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(tmp_path / "jobs.db", JOBS)
    wire = Wire(s3_port, 500_000)
    try:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{wire.port}")

        place = open_place(bucket)
        wire.mend_when_cut()
        back_up(Run(tmp_path / "jobs.db", place, read_clock))
        assert wire.cuts > 0
        assert verify_place(place).findings == []
    finally:
        wire.close()


@pytest.mark.parametrize("after", [0, 1, 2, 3])
async def test_stopped_backup_is_none(after: int, tmp_path: Path) -> None:
    """While it is copied, and while it is sent."""
    await fill(tmp_path / "jobs.db", 600)
    place = open_place(str(tmp_path / "backups"), create=True)
    asked = iter([False] * after)
    with pytest.raises(Stopped):
        back_up(Run(tmp_path / "jobs.db", place, read_clock, is_stopped=lambda: next(asked, True)))
    assert list_backups(place) == []
    assert not (tmp_path / "jobs.db-backup").exists()


async def test_damaged_store_is_not_backed_up(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    await fill(path, 600)
    with path.open("r+b") as file:
        file.seek(40_960)
        file.write(bytes(4_096))
    place = open_place(str(tmp_path / "backups"), create=True)
    with pytest.raises(Unreadable, match=r"no backup was made of it.*; run tenure verify"):
        back_up(Run(path, place, read_clock))
    assert list_backups(place) == []


async def test_backups_of_two_stores_are_not_mixed(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    for name in ("jobs.db", "other.db"):
        await fill(tmp_path / name, 10)
    back_up(Run(tmp_path / "jobs.db", place, read_clock))
    with pytest.raises(Refused, match="another store"):
        back_up(Run(tmp_path / "other.db", place, read_clock))
    restore(place, tmp_path / "again.db", read_clock)
    await fill(tmp_path / "again.db", 10)
    back_up(Run(tmp_path / "again.db", place, read_clock))
    assert len(list_backups(place)) == 2


async def test_backups_are_in_order_though_clocks_differ(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    await fill(tmp_path / "jobs.db", 10)
    clock = Clock()
    first = back_up(Run(tmp_path / "jobs.db", place, clock)).manifest
    clock.pass_time(-600_000)
    second = back_up(Run(tmp_path / "jobs.db", place, clock)).manifest
    assert second.at == first.at + 1
    clock.pass_time(-3_600_000)
    with pytest.raises(Refused, match="set the clock"):
        back_up(Run(tmp_path / "jobs.db", place, clock))


async def test_backup_that_takes_longer_than_pruning_waits_is_refused(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    await fill(tmp_path / "jobs.db", 10)
    clock = Clock()
    run = Run(tmp_path / "jobs.db", place, clock, grace_ms=600_000, progress=lambda *told: clock.pass_time(300_001))
    with pytest.raises(Refused, match="raise --grace"):
        back_up(run)
    assert list_backups(place) == []


async def test_chunk_that_was_lost_is_sent_again(place: Place, tmp_path: Path) -> None:
    await fill(tmp_path / "jobs.db", 600)
    first: Manifest = back_up(Run(tmp_path / "jobs.db", place, read_clock)).manifest
    place.delete([first.chunks[1].object])
    assert back_up(Run(tmp_path / "jobs.db", place, read_clock)).new_chunks == 1


async def test_working_copy_is_made_where_it_is_told_and_only_once_at_a_time(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    await fill(tmp_path / "jobs.db", 10)
    seen: list[str] = []

    def look(what: str, done_bytes: int, total_bytes: int) -> None:
        seen.extend(f"{path.name} {path.stat().st_mode & 0o777:o}" for path in scratch.iterdir())
        with pytest.raises(Refused, match="wait until it is done"):
            back_up(Run(tmp_path / "jobs.db", place, read_clock, scratch))

    (scratch / "jobs.db-backup").write_bytes(b"what a killed process left")
    (scratch / "jobs.db-backup").chmod(0o600)
    back_up(Run(tmp_path / "jobs.db", place, read_clock, scratch, progress=look))
    assert set(seen) == {"jobs.db-backup 600"}
    assert list(scratch.iterdir()) == []
