"""A blob store that is down, damaged, emptied, or somebody else's."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.client.client import connect
from tenure.core.bound import MIB
from tenure.core.error import Internal, InvalidRequest, PayloadTooLarge, Unavailable
from tenure.core.request import REMOVE, REPLAY, Filter
from tenure.store.blob.folder import Folder
from tenure.store.blob.place import open_place
from tenure.store.embedded.blobs import AGAIN_MS
from tenure.store.embedded.home import OWNER
from tenure.store.url import open_store
from tests.blob.conftest import BUCKET, Server, free_port
from tests.blob.gate import Gate
from tests.blob.shop import CAP, LARGE, OTHER, Shop, files


async def on_gate(tmp_path: Path) -> tuple[Shop, Gate]:
    gate = Gate(Folder(tmp_path / "blobs"))
    shop = Shop(tmp_path / "jobs.db", gate)
    await shop.open()
    return shop, gate


async def test_store_that_is_down_gives_jobs_back_and_spends_nothing(tmp_path: Path) -> None:
    shop, gate = await on_gate(tmp_path)
    rig = shop.rig
    id = await rig.enqueue(LARGE, max_attempts=1)
    gate.broken = {"get"}
    for _ in range(60):  # more than the deliveries a job may have
        with pytest.raises(Unavailable, match="nobody answers"):
            await rig.claim_one()
        assert (await rig.store.find(rig.context(), Filter(), 1, "", rig.now())).jobs[0].attempt == 0
        await rig.advance(AGAIN_MS)
    with pytest.raises(Unavailable):
        await rig.job(id)
    gate.broken = set()
    leased = await rig.claim_one()
    assert (leased.payload, leased.attempt) == (LARGE, 1)
    await shop.close()


async def test_store_that_is_down_does_not_keep_others_waiting(tmp_path: Path) -> None:
    shop, gate = await on_gate(tmp_path)
    await shop.rig.enqueue_ids([LARGE, b"small"])
    gate.broken = {"get"}
    assert [leased.payload for leased in await shop.rig.claim(2)] == [b"small"]
    await shop.close()


async def test_store_that_is_down_takes_nothing_large_and_everything_small(tmp_path: Path) -> None:
    shop, gate = await on_gate(tmp_path)
    gate.broken = {"put"}
    with pytest.raises(Unavailable):
        await shop.rig.enqueue_many([b"small", LARGE])
    assert shop.store._engine.last_id() == 0
    await shop.rig.enqueue(b"small")
    leased = await shop.rig.claim_one()
    with pytest.raises(Unavailable):
        await shop.rig.complete(leased, LARGE)
    gate.broken = set()
    await shop.rig.complete(leased, LARGE)
    assert len(await shop.names()) == 1
    await shop.close()


async def test_waiting_claim_is_told_that_the_store_is_down(tmp_path: Path) -> None:
    shop, gate = await on_gate(tmp_path)
    claiming = await shop.rig.start_claim()
    gate.broken = {"get"}
    id = await shop.rig.enqueue(LARGE)
    with pytest.raises(Unavailable):
        await shop.rig.answer(claiming)
    gate.broken = set()
    await shop.rig.advance(AGAIN_MS)
    assert (await shop.rig.claim_one()).id == id
    await shop.close()


def lose(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, 10)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"more")


@pytest.mark.parametrize(
    ("harm", "how"), [(lose, "Missing"), (truncate, "Damaged"), (flip, "Damaged"), (grow, "Damaged")]
)
async def test_lost_payload_is_a_dead_letter_and_no_loop(
    tmp_path: Path, harm: Callable[[Path], None], how: str
) -> None:
    shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await shop.open()
    id = await rig.enqueue(LARGE)
    good = await rig.enqueue(OTHER)
    [blob] = [path for path in files(tmp_path / "blobs") if path.read_bytes() == LARGE]
    before = blob.read_bytes()
    harm(blob)
    assert (await rig.claim_one()).id == good
    job = await rig.job(id)
    assert (job.state, job.reason) == ("failed", "undecodable")
    assert job.error is not None
    assert (job.error.type, job.payload) == (f"Blob{how}", b"")
    assert job.payload_blob is not None
    assert job.payload_blob.absent == how.lower()
    blob.write_bytes(before)
    await rig.change_one(REPLAY, id)
    assert (await rig.claim_one()).payload == LARGE
    await shop.close()


async def test_lost_result_is_said(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await shop.open()
    id = await rig.enqueue(b"job")
    await rig.complete(await rig.claim_one(), LARGE)
    [blob] = files(tmp_path / "blobs")
    blob.unlink()
    with pytest.raises(Internal, match="missing"):
        await rig.store.watch(rig.context(), id, 0, rig.now())
    await shop.close()


async def test_unmounted_folder_ends_no_job(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await shop.open()
    id = await rig.enqueue(LARGE)
    os.rename(tmp_path / "blobs", tmp_path / "elsewhere")
    (tmp_path / "blobs").mkdir()
    with pytest.raises(Unavailable, match="does not have the blobs of this store"):
        await rig.claim_one()
    (tmp_path / "blobs").rmdir()
    os.rename(tmp_path / "elsewhere", tmp_path / "blobs")
    await rig.advance(AGAIN_MS)
    assert (await rig.claim_one()).id == id
    await shop.close()


async def test_empty_folder_in_the_place_of_the_full_one_is_refused(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await shop.open()
    await rig.enqueue(LARGE)
    await shop.close()
    with pytest.raises(Unavailable, match="does not have the blobs of this store"):
        await Shop(tmp_path / "jobs.db", Folder(tmp_path / "empty")).open()
    with pytest.raises(Unavailable, match=r"\?blobs="):
        await Shop(tmp_path / "jobs.db", None).open()
    again = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await again.open()
    assert (await rig.claim_one()).payload == LARGE
    await again.close()


async def test_folder_of_another_store_is_refused(tmp_path: Path) -> None:
    place = Folder(tmp_path / "blobs")
    first = Shop(tmp_path / "1.db", place)
    await (await first.open()).enqueue(LARGE)
    with pytest.raises(Unavailable, match="another store"):
        await Shop(tmp_path / "2.db", place).open()
    assert len(await first.names()) == 1
    await first.close()


async def test_without_a_blob_store_large_is_too_large(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "jobs.db", None)
    rig = await shop.open()
    assert not shop.store.capabilities.blobs
    answers = await rig.enqueue_many([LARGE])
    assert answers.errors()[0] == PayloadTooLarge(len(LARGE), CAP)
    await shop.close()


async def test_server_that_is_away_at_the_opening_is_used_when_it_is_back(
    tmp_path: Path, s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"s3://{BUCKET}/{tmp_path.name}"
    shop = Shop(tmp_path / "jobs.db", open_place(prefix))
    id = await (await shop.open()).enqueue(LARGE)
    await shop.close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    away = Shop(tmp_path / "jobs.db", open_place(prefix))
    rig = await away.open()
    await rig.enqueue(b"small")
    assert [leased.payload for leased in await rig.claim(2)] == [b"small"]
    await away.close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    back = Shop(tmp_path / "jobs.db", open_place(prefix))
    rig = await back.open()
    await rig.advance(2 * AGAIN_MS)
    assert (await rig.claim_one()).id == id
    await back.close()


async def test_bucket_that_is_not_there_is_said(tmp_path: Path, s3: Server) -> None:
    shop = Shop(tmp_path / "jobs.db", open_place("s3://nowhere/blobs"))
    rig = await shop.open()
    with pytest.raises(Unavailable, match="s3://nowhere/blobs"):
        await rig.enqueue(LARGE)
    await shop.close()


async def test_deletion_that_failed_is_done_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.store.embedded.shelf.RETRY_S", 0.01)
    shop, gate = await on_gate(tmp_path)
    id = await shop.rig.enqueue(LARGE)
    gate.broken = {"delete"}
    await shop.rig.change(REMOVE, id)
    assert len(await shop.names()) == 1
    gate.broken = set()
    gate.shut("delete")
    await gate.knock("delete")
    gate.unlock("delete")
    assert await shop.names() == []
    await shop.close()


async def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
        await (await shop.open()).enqueue(LARGE)
        assert (tmp_path / "blobs").stat().st_mode & 0o777 == 0o700
        for path in (*files(tmp_path / "blobs"), tmp_path / "blobs" / OWNER):
            assert path.stat().st_mode & 0o777 == 0o600
        await shop.close()
    finally:
        os.umask(before)


async def test_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="blob folder"):
        await Shop(tmp_path / "jobs.db", Folder(tmp_path / "file" / "blobs")).open()


@pytest.mark.parametrize(
    "query",
    ["blobs=", "blobs=ftp://host/path", "blobs=s3://", "blobs=s3://key@bucket/x", "blob=folder", "blobs=s3://b/p?x"],
)
def test_url_errors(query: str) -> None:
    with pytest.raises(InvalidRequest):
        open_store(f"sqlite:///jobs.db?{query}")


@pytest.mark.parametrize("blobs", ["jobs.blobs", "./jobs.blobs", "{folder}/jobs.blobs", "s3://blobs/{name}"])
async def test_url_names_the_place(blobs: str, tmp_path: Path, s3: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blobs = blobs.format(folder=tmp_path, name=tmp_path.name)
    async with connect(f"sqlite:///jobs.db?blobs={blobs}&durability=write") as client:
        assert client.capabilities.blobs
        large = bytes(2 * MIB)
        job = await client.enqueue(large)
        [held] = await client.claim()
        assert held.payload == large
        await client.complete(held, large + b"!")
        assert await client.wait(job.id) == large + b"!"
    assert (tmp_path / "jobs.blobs").exists() == (not blobs.startswith("s3"))
