"""What a crash leaves: every job has its blob, and what nobody has is swept away."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.client.client import connect
from tenure.core.error import JobNotFound
from tenure.store.blob.folder import Folder
from tenure.store.blob.place import Place
from tenure.store.embedded.home import OWNER
from tests.blob.child import content_of
from tests.blob.shop import LARGE, OTHER, Shop, files

LINES = 60
LIVES = 4


def live(folder: Path, mode: str, seed: int) -> list[list[str]]:
    """Let a child work for some lines, kill it, and answer all it said."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.blob.child", str(folder / "jobs.db"), str(folder / "blobs"), mode, str(seed)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    said = []
    try:
        for line in child.stdout:
            said.append(line.split())
            if len(said) >= LINES + seed:
                break
    finally:
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()
        child.wait(30)
        child.stdout.close()
    assert len(said) >= LINES, "the child ended by itself"
    return said + [line.split() for line in rest.splitlines() if line]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fsync", "write"])
async def test_killed_store_has_every_blob_it_needs(tmp_path: Path, mode: str) -> None:
    stored: dict[int, int] = {}
    removed: set[int] = set()
    for seed in range(LIVES):
        for said in await asyncio.to_thread(live, tmp_path, mode, seed):
            if said[0] == "stored":
                stored[int(said[1])] = int(said[2])
            elif said[0] == "removing":
                removed.add(int(said[1]))
        shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
        await shop.open()
        assert sorted(shop.store._engine.blobs()) == await shop.names()
        await shop.close()
    assert len(stored) > LIVES * 10
    async with connect(f"sqlite:///{tmp_path / 'jobs.db'}?blobs={tmp_path / 'blobs'}") as client:
        for id, number in stored.items():
            try:
                job = await client.get(id)
            except JobNotFound:
                assert id in removed
                continue
            assert job.payload == content_of(number)
            assert job.payload_blob is not None
            assert not job.payload_blob.absent
            if job.state == "completed":
                assert job.result_blob is not None
                assert not job.result_blob.absent


async def test_orphans_of_earlier_lives_are_swept(tmp_path: Path, place: Place) -> None:
    shop = Shop(tmp_path / "jobs.db", place)
    id = await (await shop.open()).enqueue(LARGE)
    [kept] = await shop.names()
    epoch = shop.store._file.epoch
    await shop.close()
    digest = "0" * 64
    left = [f"{digest}-{epoch}-7", f"{digest}-{epoch}-8.part", f"{kept[:64]}-{epoch}-9"]
    foreign = [f"{digest}-{epoch + 99}-1", "notes.txt", f"{digest}-x-1"]
    for name in left + foreign:
        await place.put(name, b"left behind")
    again = Shop(tmp_path / "jobs.db", place)
    rig = await again.open()
    assert await again.names() == sorted([kept, *foreign])
    assert (await rig.job(id)).payload == LARGE
    await again.close()


async def test_many_orphans_are_swept_a_page_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    shop = Shop(tmp_path / "jobs.db", Folder(folder))
    await (await shop.open()).enqueue(LARGE)
    await shop.close()
    for number in range(1_200):
        (folder / f"{number:064x}-0-1").touch()
    again = Shop(tmp_path / "jobs.db", Folder(folder))
    await again.open()
    assert len(await again.names()) == 1
    assert (folder / OWNER).exists()
    await again.close()


async def test_sweep_spares_what_is_held_and_what_comes_meanwhile(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    await (await shop.open()).enqueue(LARGE)
    await shop.close()
    again = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await again.open()
    await rig.enqueue(OTHER)
    await rig.enqueue(LARGE)
    assert len(await again.names()) == 2
    assert len(files(tmp_path / "blobs")) == 2
    await again.close()


async def test_upload_without_its_job_is_swept_and_a_half_written_file_too(tmp_path: Path) -> None:
    """As a kill between the upload and the step leaves it."""
    folder = Folder(tmp_path / "blobs")
    shop = Shop(tmp_path / "jobs.db", folder)
    await shop.open()
    blob = await shop.shelf.put(LARGE)
    (tmp_path / "blobs" / f"{blob.name[:-1]}2.part").write_bytes(LARGE[:10])
    assert len(await shop.names()) == 2
    await shop.close()
    again = Shop(tmp_path / "jobs.db", folder)
    await again.open()
    assert await again.names() == []
    await again.close()


async def test_listing_that_is_given_up_is_closed_after_its_thread(tmp_path: Path) -> None:
    """A sweep that is stopped while a thread reads the folder must not take the folder from under it."""
    for number in range(1_500):
        (tmp_path / str(number)).touch()
    for turn in range(30):
        names = Folder(tmp_path).names()
        reading = asyncio.ensure_future(anext(names))
        for _ in range(turn % 4):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await names.aclose()
