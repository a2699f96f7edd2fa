"""Sections 3, 4 and 14: finding jobs, counting them, and changing all that a filter finds."""

from tenure.core.request import CANCEL, CLONE, DISCARD, PRIORITY, REMOVE, REPLAY, Filter
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import CANCELLED, COMPLETED, FAILED, READY, RETRYING, RUNNING, SCHEDULED
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import GLOBEX, HOUR, Rig

NEEDS = ("search",)


def bits(*codes: int) -> int:
    return sum(1 << code for code in codes)


async def dead(rig: Rig, count: int, queue: str = "default") -> list[int]:
    ids = await rig.enqueue_ids([b"x"] * count, queue=queue)
    for leased in await rig.claim(count, queues=queue):
        await rig.fail(leased, type="E", message="m", retryable=False)
    return ids


@behaviour(4, needs=NEEDS)
async def jobs_are_found_by_what_they_are(rig: Rig) -> None:
    ids = [
        await rig.enqueue(queue="mail", task="send"),
        await rig.enqueue(queue="mail", task="read", tags=["vip", "eu"]),
        await rig.enqueue(queue="sms", task="send", metadata={"user": "7", "plan": "pro"}),
        await rig.enqueue(queue="sms", task="send", group="g", custom_id="order-1"),
    ]
    assert sorted(await rig.find(Filter())) == ids
    assert sorted(await rig.find(Filter(queue="mail"))) == ids[:2]
    assert sorted(await rig.find(Filter(task="send"))) == [ids[0], ids[2], ids[3]]
    assert await rig.find(Filter(tag="vip")) == [ids[1]]
    assert await rig.find(Filter(metadata=(("user", "7"),))) == [ids[2]]
    assert await rig.find(Filter(metadata=(("user", "7"), ("plan", "free")))) == []
    assert await rig.find(Filter(group="g")) == [ids[3]]
    assert await rig.find(Filter(custom_id_prefix="order-")) == [ids[3]]
    assert await rig.find(Filter(queue="mail", task="send", tag="vip")) == []


@behaviour(4, needs=NEEDS)
async def jobs_are_found_by_state(rig: Rig) -> None:
    ready = await rig.enqueue(queue="other")
    scheduled = await rig.enqueue(delay_ms=HOUR)
    running = await rig.enqueue()
    await rig.claim_one(worker="w9")
    assert await rig.find(Filter(states=bits(READY))) == [ready]
    assert sorted(await rig.find(Filter(states=bits(SCHEDULED, RUNNING)))) == [scheduled, running]
    assert await rig.find(Filter(worker="w9")) == [running]
    assert await rig.find(Filter(states=bits(COMPLETED, CANCELLED, RETRYING))) == []


@behaviour(4, needs=NEEDS)
async def jobs_are_found_by_time(rig: Rig) -> None:
    first = await rig.enqueue()
    await rig.advance(1_000)
    second = await rig.enqueue()
    assert await rig.find(Filter(created_from=rig.wall_ms)) == [second]
    assert await rig.find(Filter(created_to=rig.wall_ms - 1)) == [first]
    await rig.complete(await rig.claim_one())
    await rig.advance(1_000)
    await rig.complete(await rig.claim_one())
    assert await rig.find(Filter(ended_before=rig.wall_ms)) == [first]
    assert sorted(await rig.find(Filter(ended_before=rig.wall_ms + 1))) == [first, second]


@behaviour(14, needs=NEEDS)
async def dead_letters_are_found_by_reason_and_fingerprint(rig: Rig) -> None:
    permanent, discarded = await rig.enqueue(), await rig.enqueue(queue="other")
    await rig.fail(await rig.claim_one(), type="ValueError", message="user 17 is gone", retryable=False)
    await rig.change_one(DISCARD, discarded)
    assert await rig.find(Filter(reason="permanent")) == [permanent]
    assert await rig.find(Filter(reason="discarded")) == [discarded]
    error = (await rig.job(permanent)).error
    assert error is not None
    assert await rig.find(Filter(fingerprint=error.fingerprint)) == [permanent]
    assert await rig.find(Filter(error="ValueError")) == [permanent]
    assert await rig.find(Filter(error="KeyError")) == []


@behaviour(4, needs=NEEDS)
async def pages_hold_every_job_once(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 57)
    assert sorted(await rig.find(Filter(), limit=10)) == ids
    assert sorted(await rig.find(Filter(), limit=1)) == ids


@behaviour(2, needs=NEEDS)
async def find_shows_nothing_of_another_tenant(rig: Rig) -> None:
    await rig.enqueue(tags=["t"], custom_id="c")
    for filter in (Filter(), Filter(tag="t"), Filter(custom_id_prefix="c"), Filter(queue="default")):
        assert await rig.find(filter, tenant=GLOBEX) == []


@behaviour(19)
async def counts_equal_what_they_count(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 9, backoff=Backoff(FIXED, HOUR))
    await rig.enqueue_ids([b"x"] * 2, delay_ms=HOUR)
    leased = await rig.claim(6)
    await rig.complete(leased[0])
    await rig.fail(leased[1])
    await rig.fail(leased[2], retryable=False)
    await rig.change_one(CANCEL, leased[3].id)
    expected = {"ready": 3, "scheduled": 2, "running": 2, "completed": 1, "retrying": 1, "failed": 1, "cancelled": 1}
    assert await rig.count() == expected
    await rig.enqueue(queue="other")
    counts = await rig.store.count(rig.context(), "", rig.now())
    assert sorted(counts) == ["default", "other"]
    assert sum(counts["default"].values()) == 11
    assert await rig.store.count(rig.context(GLOBEX), "", rig.now()) == {}


@behaviour(3, needs=NEEDS)
async def change_by_filter_reaches_all_that_match(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 5, tags=["old"])
    others = await rig.enqueue_ids([b"x"] * 3)
    answers = await rig.change(CANCEL, filter=Filter(tag="old"))
    assert answers.count == 5
    assert await rig.states(*ids, *others) == ["cancelled"] * 5 + ["ready"] * 3


@behaviour(3, needs=NEEDS)
async def change_by_filter_passes_over_what_cannot_be_changed(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 5)
    running = await rig.claim(2)
    answers = await rig.change(REMOVE, filter=Filter(queue="default"))
    assert answers.count == 3
    assert await rig.count() == {"running": 2}
    await rig.complete_all(running)


@behaviour(3, needs=NEEDS)
async def change_by_filter_obeys_its_limit(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 10)
    assert (await rig.change(CANCEL, filter=Filter(queue="default"), limit=4)).count == 4
    assert await rig.count() == {"ready": 6, "cancelled": 4}


@behaviour(3, needs=NEEDS)
async def change_by_filter_is_done_in_bounded_steps(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 6_500)
    task = await rig.start_change(CANCEL, filter=Filter(queue="default"))
    assert await rig.count_by_steps("cancelled", 6_500) >= 2
    assert (await rig.finish(task)).count == 6_500


@behaviour(3, needs=NEEDS, rulings=(30,))
async def change_by_filter_does_not_see_jobs_that_came_later(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 4_500)
    task = await rig.start_change(CANCEL, filter=Filter(queue="default"))
    late = await rig.enqueue()
    answers = await rig.finish(task)
    assert (answers.count, await rig.state(late)) == (4_500, "ready")


@behaviour(3, needs=NEEDS, rulings=(30,))
async def clones_by_filter_are_not_cloned_again(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 5)
    assert (await rig.change(CLONE, filter=Filter(queue="default"))).count == 5
    assert await rig.count() == {"ready": 10}


@behaviour(3, needs=NEEDS)
async def change_by_filter_emits_an_event_for_each_job(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 5)
    await rig.change(PRIORITY, filter=Filter(queue="default"), priority=7)
    for id in ids:
        assert await rig.types_of(id) == ["enqueued", "updated"]
        assert (await rig.job(id)).priority == 7


@behaviour(2, needs=NEEDS)
async def change_by_filter_does_not_reach_another_tenant(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 5)
    assert (await rig.change(CANCEL, filter=Filter(), tenant=GLOBEX)).count == 0
    assert await rig.count() == {"ready": 5}


@behaviour(14, needs=NEEDS)
async def dead_letters_are_replayed_by_filter(rig: Rig) -> None:
    ids = await dead(rig, 5)
    await dead(rig, 2, queue="other")
    answers = await rig.change(REPLAY, filter=Filter(queue="default", states=bits(FAILED)), payload=b"fixed")
    assert answers.count == 5
    assert await rig.states(*ids) == ["ready"] * 5
    assert await rig.line() == [b"fixed"] * 5
    assert await rig.count("other") == {"failed": 2}


@behaviour(14, needs=NEEDS)
async def replay_by_filter_obeys_its_rate(rig: Rig) -> None:
    await dead(rig, 10)
    task = await rig.start_change(REPLAY, filter=Filter(states=bits(FAILED)), rate_per_s=2)
    for second in range(10):
        await rig.tick()
        assert (await rig.count()).get("ready", 0) <= 2 * (second + 1)
        await rig.advance(1_000)
    assert (await rig.finish(task)).count == 10
    assert await rig.count() == {"ready": 10}


@behaviour(14, needs=NEEDS)
async def dead_letters_are_purged_before_a_time(rig: Rig) -> None:
    old = await dead(rig, 3)
    await rig.advance(HOUR)
    young = await dead(rig, 2)
    answers = await rig.change(REMOVE, filter=Filter(states=bits(FAILED), ended_before=rig.wall_ms))
    assert answers.count == 3
    assert await rig.states(*old, *young) == ["gone"] * 3 + ["failed"] * 2


@behaviour(3, needs=NEEDS)
async def draining_a_queue_leaves_nothing_behind(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 1_200)
    await rig.enqueue_ids([b"x"] * 1_200, delay_ms=HOUR)
    answers = await rig.change(REMOVE, filter=Filter(queue="default"))
    assert answers.count == 2_400
    assert await rig.count() == {}
    await rig.advance(2 * HOUR)
    assert await rig.claim() == []
