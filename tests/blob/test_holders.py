"""Whoever names a blob is counted; the last one's going deletes it, and nothing else does."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tenure.core.request import ABORT, CLONE, PUBLISH, REMOVE, REPLAY, STAGE, STORE, UPDATE, Filter, Load
from tenure.core.tenant import OpId
from tenure.store.behaviour.rig import Rig
from tenure.store.blob.folder import Folder
from tests.blob.shop import LARGE, OTHER, Shop
from tests.packing import in_one_piece

HOUR = 3_600_000
DAY = 24 * HOUR


async def test_one_blob_for_two_jobs_until_the_last_is_removed(shop: Shop) -> None:
    first, second = await shop.rig.enqueue_ids([LARGE, LARGE])
    assert len(await shop.names()) == 1
    await shop.rig.change(REMOVE, first)
    assert len(await shop.names()) == 1
    assert (await shop.rig.job(second)).payload == LARGE
    await shop.rig.change(REMOVE, second)
    assert await shop.names() == []


async def test_tenants_share_content_and_not_jobs(shop: Shop) -> None:
    await shop.rig.enqueue(LARGE, tenant="acme")
    other = await shop.rig.enqueue(LARGE, tenant="zeta")
    assert len(await shop.names()) == 1
    assert await shop.rig.get(other) is None
    await shop.rig.change(REMOVE, other, tenant="zeta")
    assert (await shop.rig.claim_one()).payload == LARGE


async def test_result_and_payload_of_the_same_content_are_one_blob(shop: Shop) -> None:
    id = await shop.rig.enqueue(LARGE)
    await shop.rig.complete(await shop.rig.claim_one(), LARGE)
    assert len(await shop.names()) == 1
    await shop.rig.change(REMOVE, id)
    assert await shop.names() == []


async def test_retention_takes_blobs_along(shop: Shop) -> None:
    await shop.rig.enqueue(LARGE)
    await shop.rig.complete(await shop.rig.claim_one(), OTHER)
    assert len(await shop.names()) == 2
    await shop.rig.advance(DAY + 1)
    assert await shop.names() == []


async def test_job_that_is_not_kept_answers_its_waiter_first(shop: Shop) -> None:
    id = await shop.rig.enqueue(LARGE, keep_completed_ms=0)
    watching = await shop.rig.start_watch(id)
    await shop.rig.complete(await shop.rig.claim_one(), OTHER)
    assert (await shop.rig.answer(watching)).result == OTHER
    assert await shop.rig.get(id) is None
    assert await shop.names() == []


async def test_waiter_that_gave_up_holds_nothing(shop: Shop) -> None:
    id = await shop.rig.enqueue(LARGE, keep_completed_ms=0)
    watching = await shop.rig.start_watch(id)
    leased = await shop.rig.claim_one()
    watching.cancel()
    await shop.rig.pause()
    await shop.rig.complete(leased, OTHER)
    assert await shop.names() == []


async def test_replay_keeps_the_payload_and_drops_the_result(shop: Shop) -> None:
    id = await shop.rig.enqueue(LARGE, max_attempts=1)
    await shop.rig.fail(await shop.rig.claim_one())
    await shop.rig.change_one(REPLAY, id)
    assert (await shop.rig.claim_one()).payload == LARGE
    assert len(await shop.names()) == 1


async def test_purge_of_dead_letters(shop: Shop) -> None:
    await shop.rig.enqueue_ids([LARGE, OTHER], max_attempts=1)
    for leased in await shop.rig.claim_all():
        await shop.rig.fail(leased)
    await shop.rig.change(REMOVE, filter=Filter(states=1 << 6))
    assert await shop.names() == []


async def update(rig: Rig, id: int) -> None:
    await rig.change_one(UPDATE, id, payload=OTHER)


async def shrink(rig: Rig, id: int) -> None:
    await rig.change_one(UPDATE, id, payload=b"small")


async def replay_edited(rig: Rig, id: int) -> None:
    await rig.fail(await rig.claim_one(), retryable=False)
    await rig.change_one(REPLAY, id, payload=OTHER)


async def replace(rig: Rig, id: int) -> None:
    await rig.submit(OTHER, unique_key="key", on_conflict="replace")


async def same_again(rig: Rig, id: int) -> None:
    await rig.change_one(UPDATE, id, payload=LARGE)


async def refused(rig: Rig, id: int) -> None:
    await rig.submit(OTHER, unique_key="key")


async def conflict(rig: Rig, id: int) -> None:
    answers = await rig.enqueue_many([OTHER, b"x"], each=[{"unique_key": "key"}, {}], atomic=True, on_conflict="error")
    assert len(answers.errors()) == 2


CHANGES: list[tuple[Callable[[Rig, int], Awaitable[None]], bytes]] = [
    (update, OTHER),
    (shrink, b"small"),
    (replay_edited, OTHER),
    (replace, OTHER),
    (same_again, LARGE),
    (refused, LARGE),
    (conflict, LARGE),
]


@pytest.mark.parametrize(("change", "payload"), CHANGES, ids=lambda each: getattr(each, "__name__", ""))
async def test_changed_payload_leaves_no_other_blob(
    shop: Shop, change: Callable[[Rig, int], Awaitable[None]], payload: bytes
) -> None:
    id = await shop.rig.enqueue(LARGE, unique_key="key")
    await change(shop.rig, id)
    assert len(await shop.names()) == (len(payload) > 100)
    assert (await shop.rig.job(id)).payload == payload
    assert (await shop.rig.claim_one()).payload == payload
    assert shop.store._engine.verify() == []


async def test_small_payload_can_become_large(shop: Shop) -> None:
    id = await shop.rig.enqueue(b"small")
    await shop.rig.change_one(UPDATE, id, payload=LARGE)
    assert (await shop.rig.claim_one()).payload == LARGE
    assert (await shop.rig.count())["running"] == 1


async def test_payload_changed_while_the_job_runs_is_what_a_repeated_claim_gets(shop: Shop) -> None:
    op = OpId("session", 1)
    id = await shop.rig.enqueue(LARGE)
    [leased] = await shop.rig.claim(op=op)
    await shop.rig.change_one(UPDATE, id, payload=OTHER)
    assert len(await shop.names()) == 1
    [again] = await shop.rig.claim(op=op)
    assert (again.token, again.payload) == (leased.token, OTHER)


async def test_repeated_enqueue_stores_once(shop: Shop) -> None:
    op = OpId("session", 1)
    [first] = (await shop.rig.enqueue_many([LARGE], op=op)).ids
    [second] = (await shop.rig.enqueue_many([LARGE], op=op)).ids
    assert first == second
    await shop.rig.change(REMOVE, first)
    await shop.rig.enqueue_many([LARGE], op=op)
    assert await shop.names() == []


async def test_debounce_keeps_the_last_payload(shop: Shop) -> None:
    for payload in (LARGE, OTHER):
        await shop.rig.submit(payload, debounce_key="key", debounce_ms=1_000, debounce_mode="trailing")
    assert len(await shop.names()) == 1
    await shop.rig.advance(1_000)
    assert (await shop.rig.claim_one()).payload == OTHER


async def test_clone_holds_the_same_blob(shop: Shop) -> None:
    id = await shop.rig.enqueue(LARGE)
    clone = (await shop.rig.change_one(CLONE, id)).id
    await shop.rig.change(REMOVE, id)
    assert (await shop.rig.job(clone)).payload == LARGE
    await shop.rig.change(REMOVE, clone)
    assert await shop.names() == []


async def test_followups_may_be_large(shop: Shop) -> None:
    await shop.rig.enqueue(b"parent")
    followups = shop.rig.batch([LARGE, b"small"], queue="next")
    await shop.rig.complete(await shop.rig.claim_one(), followups=followups)
    assert [leased.payload for leased in await shop.rig.claim(2, queues=("next",))] == [LARGE, b"small"]


async def test_refused_completion_leaves_no_blob(shop: Shop) -> None:
    await shop.rig.enqueue(b"job")
    leased = await shop.rig.claim_one()
    await shop.rig.release(leased)
    answers = await shop.rig.settle(1, [leased.id], [leased.token], results=[LARGE])
    assert answers.errors()
    assert await shop.names() == []


async def test_atomic_batch_is_stored_whole_or_leaves_nothing(shop: Shop) -> None:
    await shop.rig.configure(STORE, "", jobs_max=1)
    assert (await shop.rig.enqueue_many([LARGE, OTHER], atomic=True)).errors()
    assert await shop.names() == []
    await shop.rig.configure(STORE, "", jobs_max=2)
    assert not (await shop.rig.enqueue_many([LARGE, OTHER], atomic=True)).errors()
    assert len(await shop.names()) == 2


async def test_change_by_filter_holds_its_payload_until_it_is_done(shop: Shop) -> None:
    ids = await shop.rig.enqueue_ids([b"a", b"b", LARGE])
    await shop.rig.change(UPDATE, filter=Filter(queue="default"), payload=OTHER)
    assert [(await shop.rig.job(id)).payload for id in ids] == [OTHER] * 3
    assert len(await shop.names()) == 1
    await shop.rig.change(UPDATE, filter=Filter(queue="nobody"), payload=LARGE)
    assert len(await shop.names()) == 1


async def stage(rig: Rig, writing: str, *payloads: bytes) -> None:
    await rig.load(Load(STAGE, "load", 1, writing, 0, rig.batch(list(payloads))))


async def test_large_ones_of_a_load_in_one_piece_become_blobs(shop: Shop) -> None:
    for chunk, payloads in enumerate(([b"small", LARGE], [b"a", b"b"])):
        batch = in_one_piece(shop.rig.batch(payloads), True)
        await shop.rig.load(Load(STAGE, "load", 0, "w", chunk, batch))
    assert len(await shop.names()) == 1
    await shop.rig.load(Load(PUBLISH, "load", parts={0: "w"}))
    await shop.rig.tick()
    assert await shop.rig.line() == [b"small", LARGE, b"a", b"b"]


async def test_loads_hold_what_is_staged(shop: Shop) -> None:
    await stage(shop.rig, "a", LARGE, OTHER)
    await stage(shop.rig, "a", LARGE)
    assert len(await shop.names()) == 1
    await stage(shop.rig, "b", OTHER)
    await shop.rig.load(Load(PUBLISH, "load", parts={1: "a"}))
    await shop.rig.tick()
    assert len(await shop.names()) == 1
    leased = await shop.rig.claim_one()
    assert leased.payload == LARGE
    await shop.rig.complete(leased)
    await shop.rig.change(REMOVE, leased.id)
    assert await shop.names() == []


@pytest.mark.parametrize("by_time", [False, True])
async def test_load_that_is_dropped_lets_its_blobs_go(shop: Shop, by_time: bool) -> None:
    await stage(shop.rig, "a", LARGE)
    if by_time:
        await shop.rig.advance(DAY + 1)
    else:
        await shop.rig.load(Load(ABORT, "load"))
    assert await shop.names() == []


async def test_everything_is_counted_again_after_a_restart(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await shop.open()
    waiting, done = await rig.enqueue_ids([LARGE, LARGE])
    await rig.change_one(UPDATE, waiting, payload=OTHER, priority=0)
    await rig.complete(await rig.claim_one(), b"result " * 50)
    await stage(rig, "a", b"staged " * 50, LARGE)
    before = await shop.names()
    await shop.close()
    again = Shop(tmp_path / "jobs.db", Folder(tmp_path / "blobs"))
    rig = await again.open()
    assert again.store._engine.verify() == []
    assert await again.names() == before
    assert (await rig.job(waiting)).result == b"result " * 50
    assert (await rig.job(done)).payload == LARGE
    await rig.enqueue(b"staged " * 50)
    assert await again.names() == before
    await rig.change(REMOVE, waiting, done)
    assert len(await again.names()) == 2
    await rig.load(Load(ABORT, "load"))
    assert len(await again.names()) == 1
    await again.close()
