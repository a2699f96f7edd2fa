"""What is over the cap goes to the blob store and comes back as bytes, on a folder and on S3 alike."""

import asyncio
from pathlib import Path

import pytest

from tenure.core.blob import Blob
from tenure.core.bound import BATCH_BYTES_MAX, BLOB_BYTES_MAX
from tenure.core.error import InvalidRequest, PayloadTooLarge
from tenure.core.request import UPDATE, Batch, Filter
from tenure.store.blob.folder import Folder
from tests.blob.gate import Gate
from tests.blob.shop import CAP, LARGE, OTHER, Shop


async def test_payload_and_result_come_back(shop: Shop) -> None:
    rig = shop.rig
    id = await rig.enqueue(LARGE)
    watching = await rig.start_watch(id)
    leased = await rig.claim_one()
    assert leased.payload == LARGE
    await rig.complete(leased, OTHER)
    assert (await rig.answer(watching)).result == OTHER
    job = await rig.job(id)
    assert (job.payload, job.result) == (LARGE, OTHER)
    assert job.payload_blob is not None
    assert (job.payload_blob.size, job.payload_blob.absent) == (len(LARGE), "")
    assert (await rig.events_of(id))[0].payload_bytes == len(LARGE)
    assert (await rig.last_event(id)).result_bytes == len(OTHER)
    assert len(await shop.names()) == 2
    assert (await rig.store.watch(rig.context(), id, 0, rig.now())).result == OTHER


@pytest.mark.parametrize(("size", "blobs"), [(CAP, 0), (CAP + 1, 1)])
async def test_cap_is_the_border(shop: Shop, size: int, blobs: int) -> None:
    id = await shop.rig.enqueue(b"x" * size)
    assert len(await shop.names()) == blobs
    assert (await shop.rig.job(id)).payload == b"x" * size
    assert (await shop.rig.claim_one()).payload == b"x" * size


async def test_large_content_in_many_parts(shop: Shop) -> None:
    content = bytes(range(256)) * 4 * 1024 * 12  # 12 MiB: several parts of an upload
    id = await shop.rig.enqueue(content)
    assert (await shop.rig.claim_one()).payload == content
    assert (await shop.rig.job(id)).payload == content


async def test_search_says_where_a_payload_is_and_does_not_read_it(shop: Shop) -> None:
    await shop.rig.enqueue(LARGE)
    [found] = (await shop.store.find(shop.rig.context(), Filter(), 10, "", shop.rig.now())).jobs
    assert found.payload == b""
    assert found.payload_blob is not None
    assert (found.payload_blob.size, found.payload_blob.absent) == (len(LARGE), "not_read")


async def test_claim_counts_the_true_size(shop: Shop) -> None:
    await shop.rig.enqueue_ids([LARGE, OTHER])
    assert [one.payload for one in await shop.rig.claim(n=2, max_bytes=len(LARGE) + 10)] == [LARGE]
    assert [one.payload for one in await shop.rig.claim(n=2, max_bytes=1)] == [OTHER]


async def test_quota_of_a_tenant_counts_the_true_size_and_the_store_only_its_memory(shop: Shop) -> None:
    await shop.rig.configure(3, "", bytes_max=10)
    await shop.rig.set_tenant(bytes_max=len(LARGE) + 10)
    await shop.rig.enqueue(LARGE)
    answers = await shop.rig.enqueue_many([OTHER])
    assert "tenant acme" in str(answers.errors()[0])
    assert len(await shop.names()) == 1


async def test_over_the_bound_of_a_blob_is_refused(shop: Shop) -> None:
    answers = await shop.rig.enqueue_many([bytes(BLOB_BYTES_MAX + 1)])
    assert answers.errors()[0] == PayloadTooLarge(BLOB_BYTES_MAX + 1, BLOB_BYTES_MAX)
    assert await shop.names() == []


async def test_batch_over_its_bound_uploads_nothing(shop: Shop) -> None:
    half = BATCH_BYTES_MAX // 2 + 1
    with pytest.raises(InvalidRequest, match="at most"):
        await shop.rig.enqueue_many([b"a" * half, b"b" * half])
    assert await shop.names() == []


async def test_callers_cannot_name_blobs(shop: Shop) -> None:
    id = await shop.rig.enqueue(LARGE)
    job = await shop.rig.job(id)
    assert job.payload_blob is not None
    stolen = Blob(job.payload_blob.name, job.payload_blob.size)
    batch = Batch(shop.rig.batch([b""]).options, [stolen])
    answers = await shop.store.enqueue(shop.rig.context("thief"), batch, shop.rig.now())
    assert isinstance(answers.errors()[0], InvalidRequest)
    with pytest.raises(InvalidRequest):
        await shop.rig.change(UPDATE, id, payload=stolen)  # type: ignore[arg-type]


async def test_cancelled_enqueue_and_claim_leave_nothing_behind(tmp_path: Path) -> None:
    gate = Gate(Folder(tmp_path / "blobs"))
    shop = Shop(tmp_path / "jobs.db", gate)
    rig = await shop.open()
    gate.shut("put")
    adding = asyncio.ensure_future(rig.enqueue(LARGE))
    await gate.knock("put")
    adding.cancel()
    await asyncio.gather(adding, return_exceptions=True)
    gate.unlock("put")
    await rig.enqueue(OTHER)
    gate.shut("get")
    claiming = asyncio.ensure_future(rig.claim())
    await gate.knock("get")
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)
    gate.unlock("get")
    leased = await rig.claim_one()
    assert (leased.payload, leased.attempt) == (OTHER, 1)
    assert len(await shop.names()) == 1
    await shop.close()
