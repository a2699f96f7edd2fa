"""Section 14: terminal jobs go when their age or their count is passed, and only then."""

from tenure.core.error import QueueNotFound
from tenure.core.request import CANCEL, REPLAY, STORE
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, DAY, GLOBEX, HOUR, MINUTE, Rig
from tenure.store.behaviour.trap import UNCOLLECTED, VANISHED_SCHEDULED


async def done(rig: Rig, count: int = 1, **fields: object) -> list[int]:
    """Jobs that are completed, one after the other."""
    queue = str(fields.get("queue", "default"))
    ids = await rig.enqueue_ids([b"x"] * count, tenant=ACME, **fields)
    for _ in range(count):
        await rig.complete(await rig.claim_one(queues=queue))
    return ids


async def dead(rig: Rig, **fields: object) -> int:
    id = await rig.enqueue(b"x", tenant=ACME, **fields)
    await rig.fail(await rig.claim_one(), retryable=False)
    return id


@behaviour(14, trap=UNCOLLECTED)
async def completed_and_cancelled_jobs_are_kept_for_a_day(rig: Rig) -> None:
    completed = (await done(rig))[0]
    cancelled = await rig.enqueue()
    await rig.change_one(CANCEL, cancelled)
    await rig.advance(DAY - 1)
    assert await rig.states(completed, cancelled) == ["completed", "cancelled"]
    await rig.advance(1)
    assert await rig.states(completed, cancelled) == ["gone", "gone"]
    assert await rig.count() == {}


@behaviour(14, trap=UNCOLLECTED)
async def failed_jobs_are_kept_for_thirty_days(rig: Rig) -> None:
    id = await dead(rig)
    await rig.advance(30 * DAY - 1)
    assert await rig.state(id) == "failed"
    await rig.advance(1)
    assert await rig.state(id) == "gone"


@behaviour(14, rulings=(34,))
async def removal_by_age_is_an_event(rig: Rig) -> None:
    id = (await done(rig, keep_completed_ms=HOUR))[0]
    await rig.advance(HOUR)
    event = await rig.last_event(id)
    assert (event.type, event.reason, event.at, event.cause) == ("removed", "age", rig.wall_ms, "remove")


@behaviour(14)
async def age_counts_from_the_end(rig: Rig) -> None:
    id = await rig.enqueue(keep_completed_ms=HOUR)
    await rig.advance(3 * HOUR)
    await rig.complete(await rig.claim_one())
    await rig.advance(HOUR - 1)
    assert await rig.state(id) == "completed"
    await rig.advance(1)
    assert await rig.state(id) == "gone"


@behaviour(14)
async def jobs_are_kept_for_a_minute_at_least(rig: Rig) -> None:
    by_age = (await done(rig, keep_completed_ms=1))[0]
    by_count = await done(rig, 3, keep_completed_count=1, queue="counted")
    await rig.advance(MINUTE - 1)
    assert await rig.states(by_age, *by_count) == ["completed"] * 4
    await rig.advance(1)
    assert await rig.states(by_age, *by_count) == ["gone", "gone", "gone", "completed"]


@behaviour(14)
async def count_that_is_lowered_leaves_jobs_their_minute(rig: Rig) -> None:
    ids = await done(rig, 3)
    await rig.advance(MINUTE - 1)
    await rig.set_queue(keep_completed_count=1)
    await rig.tick()
    assert await rig.states(*ids) == ["completed"] * 3
    await rig.advance(1)
    assert await rig.states(*ids) == ["gone", "gone", "completed"]


@behaviour(14, rulings=(32,))
async def zero_removes_at_the_end_itself(rig: Rig) -> None:
    for field in ("keep_completed_ms", "keep_completed_count"):
        answers = await rig.enqueue_many([b"x"], each=[{field: 0}])
        id = answers.item(0).id
        await rig.complete(await rig.claim_one())
        assert await rig.state(id) == "gone"
        assert await rig.types_of(id) == ["enqueued", "started", "completed", "removed"]
        assert (await rig.last_event(id)).reason == "zero"


@behaviour(14, rulings=(32,))
async def zero_for_failed_jobs_removes_dead_letters_only(rig: Rig) -> None:
    completed = (await done(rig, keep_failed_ms=0))[0]
    failed = await dead(rig, keep_failed_ms=0)
    assert await rig.states(completed, failed) == ["completed", "gone"]
    assert (await rig.last_event(failed)).reason == "zero"


@behaviour(14, rulings=(33, 34))
async def count_keeps_the_last(rig: Rig) -> None:
    ids = await done(rig, 5, keep_completed_count=2)
    await rig.advance(MINUTE)
    assert await rig.states(*ids) == ["gone", "gone", "gone", "completed", "completed"]
    assert (await rig.last_event(ids[0])).reason == "count"


@behaviour(14, rulings=(33,))
async def count_is_of_a_queue_and_an_outcome(rig: Rig) -> None:
    completed = await done(rig, 2, keep_completed_count=2)
    elsewhere = await done(rig, 2, keep_completed_count=2, queue="other")
    failed = [await dead(rig, keep_completed_count=2) for _ in range(3)]
    await rig.advance(HOUR)
    assert "gone" not in await rig.states(*completed, *elsewhere, *failed)
    cancelled = await rig.enqueue(keep_completed_count=2)
    await rig.change_one(CANCEL, cancelled)
    await rig.advance(MINUTE)
    assert await rig.states(*completed, cancelled) == ["gone", "completed", "cancelled"]


@behaviour(14)
async def age_is_the_jobs_then_the_queues_then_the_tenants_then_the_stores(rig: Rig) -> None:
    await rig.configure(STORE, "", keep_completed_ms=5 * HOUR)
    await rig.set_tenant(keep_completed_ms=4 * HOUR)
    await rig.set_queue("set", keep_completed_ms=3 * HOUR)
    by_job = (await done(rig, queue="set", keep_completed_ms=2 * HOUR))[0]
    by_queue = (await done(rig, queue="set"))[0]
    by_tenant = (await done(rig))[0]
    by_store = await rig.enqueue(tenant=GLOBEX)
    await rig.complete(await rig.claim_one(tenant=GLOBEX))
    kept = [(by_job, ACME), (by_queue, ACME), (by_tenant, ACME), (by_store, GLOBEX)]
    await rig.advance(HOUR)
    for id, tenant in kept:
        await rig.advance(HOUR - 1)
        assert await rig.state(id, tenant) == "completed"
        await rig.advance(1)
        assert await rig.state(id, tenant) == "gone"


@behaviour(14)
async def job_may_be_kept_longer_than_its_queue_says(rig: Rig) -> None:
    await rig.set_queue(keep_completed_ms=HOUR)
    long, short = (await done(rig, keep_completed_ms=9 * DAY))[0], (await done(rig))[0]
    await rig.advance(5 * DAY)
    assert await rig.states(long, short) == ["completed", "gone"]
    await rig.advance(4 * DAY)
    assert await rig.state(long) == "gone"


@behaviour(14, rulings=(34,))
async def store_cap_removes_the_oldest_at_once(rig: Rig) -> None:
    await rig.configure(STORE, "", terminal_jobs_max=3)
    ids = await done(rig, 5)
    await rig.tick()
    assert await rig.states(*ids) == ["gone", "gone", "completed", "completed", "completed"]
    assert (await rig.last_event(ids[0])).reason == "store_cap"


@behaviour(14, trap=VANISHED_SCHEDULED)
async def live_jobs_are_kept_however_old(rig: Rig) -> None:
    scheduled = await rig.enqueue(delay_ms=400 * DAY)
    ready = await rig.enqueue(queue="idle")
    for _ in range(39):
        await rig.advance(10 * DAY)
    assert await rig.states(scheduled, ready) == ["scheduled", "ready"]
    await rig.advance(10 * DAY)
    assert await rig.state(scheduled) == "ready"
    await rig.complete(await rig.claim_one())


@behaviour(14)
async def replayed_job_is_kept(rig: Rig) -> None:
    id = await dead(rig, keep_failed_ms=HOUR)
    await rig.advance(HOUR - 1)
    await rig.change_one(REPLAY, id)
    await rig.advance(40 * DAY)
    assert await rig.state(id) == "ready"


@behaviour(3)
async def retention_is_applied_in_bounded_steps(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 3_500, keep_completed_ms=HOUR)
    await rig.complete_all(await rig.claim(3_500))
    rig.move_clock(HOUR)
    left = 3_500
    while left:
        now_left = (await rig.count()).get("completed", 0)
        assert 0 < left - now_left <= 1_000
        left = now_left


@behaviour(1)
async def queue_is_forgotten_an_hour_after_it_is_empty(rig: Rig) -> None:
    await done(rig, queue="used", keep_completed_ms=0)
    await rig.set_queue("set", concurrency=5)
    assert sorted(await rig.store.count(rig.context(), "", rig.now())) in (["set", "used"], ["used"])
    await rig.advance(HOUR)
    assert "used" not in await rig.store.count(rig.context(), "", rig.now())
    assert (await rig.set_queue("set"))["concurrency"] == 5


@behaviour(14)
async def terminal_bytes_are_capped(rig: Rig) -> None:
    await rig.configure(STORE, "", terminal_bytes_max=20_000)
    ids = [await rig.enqueue(b"x" * 5_000) for _ in range(8)]
    for _ in ids:
        await rig.complete(await rig.claim_one())
    await rig.tick()
    states = await rig.states(*ids)
    assert states[0] == "gone"
    assert states[-1] == "completed"
    assert 1 <= states.count("completed") <= 4


@behaviour(14)
async def store_cap_removes_the_oldest_of_all_queues(rig: Rig) -> None:
    await rig.configure(STORE, "", terminal_jobs_max=3)
    ids: list[int] = []
    for queue in ("a", "b", "a", "c", "b", "a"):
        ids += await done(rig, queue=queue)
    ids.append(await dead(rig))
    await rig.tick()
    assert await rig.states(*ids) == ["gone"] * 4 + ["completed", "completed", "failed"]


@behaviour(14)
async def lowered_store_cap_takes_effect(rig: Rig) -> None:
    ids = await done(rig, 6)
    await rig.configure(STORE, "", terminal_jobs_max=2)
    await rig.tick()
    assert await rig.states(*ids) == ["gone"] * 4 + ["completed"] * 2


@behaviour(1)
async def queue_set_back_to_its_defaults_is_forgotten(rig: Rig) -> None:
    await rig.set_queue("q", concurrency=5)
    await rig.advance(2 * HOUR)
    assert (await rig.set_queue("q"))["concurrency"] == 5
    await rig.set_queue("q", concurrency=None)
    await rig.advance(HOUR)
    await refused(QueueNotFound, rig.set_queue("q"), queue="q")


@behaviour(1)
async def queue_used_again_within_the_hour_is_kept(rig: Rig) -> None:
    await done(rig, queue="q", keep_completed_ms=0)
    await rig.advance(HOUR - 1)
    id = await rig.enqueue(queue="q", delay_ms=10 * HOUR)
    await rig.advance(5 * HOUR)
    assert await rig.count("q") == {"scheduled": 1}
    assert await rig.state(id) == "scheduled"
