"""Section 10: the limits of queues and tenants. Taken only when a job is really leased, never exceeded."""

from tenure.core.limit import Rate
from tenure.core.request import CANCEL
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, HOUR, Rig
from tenure.store.behaviour.trap import BURNT_TOKEN


@behaviour(10)
async def paused_queue_gives_nothing_and_takes_everything(rig: Rig) -> None:
    settings = await rig.set_queue(paused=True)
    assert settings["paused"] is True
    id = await rig.enqueue(b"x")
    assert await rig.claim() == []
    assert await rig.state(id) == "ready"
    await rig.set_queue(paused=False)
    assert (await rig.claim_one()).id == id


@behaviour(10)
async def pause_leaves_running_jobs_and_other_queues(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"])
    await rig.enqueue(b"other", queue="other")
    leased = await rig.claim_one()
    await rig.set_queue(paused=True)
    await rig.complete(leased)
    assert payloads(await rig.claim(9, queues=("default", "other"))) == [b"other"]


@behaviour(10)
async def queue_concurrency_bounds_what_runs(rig: Rig) -> None:
    await rig.set_queue(concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c", b"d"])
    first = await rig.claim(10)
    assert payloads(first) == [b"a", b"b"]
    assert await rig.claim(10) == []
    await rig.complete(first[0])
    assert payloads(await rig.claim(10)) == [b"c"]


@behaviour(10)
async def every_end_of_an_attempt_frees_its_slot(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    await rig.enqueue_ids([b"x"] * 6, max_attempts=1)
    await rig.complete(await rig.claim_one())
    await rig.fail(await rig.claim_one())
    await rig.release(await rig.claim_one(), delay_ms=HOUR)
    await rig.snooze(await rig.claim_one(), delay_ms=HOUR)
    await rig.cancel_running(await rig.claim_one())
    await rig.claim_one()
    assert await rig.claim() == []


@behaviour(10, rulings=(38,))
async def concurrency_of_zero_holds_everything(rig: Rig) -> None:
    await rig.set_queue(concurrency=0)
    await rig.enqueue(b"x")
    assert await rig.claim() == []
    await rig.set_queue(concurrency=None)
    assert (await rig.claim_one()).payload == b"x"


@behaviour(10, rulings=(37,))
async def lowered_concurrency_counts_what_already_runs(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 6)
    running = await rig.claim(3)
    await rig.set_queue(concurrency=2)
    await rig.complete(running[0])
    assert await rig.claim(5) == []
    await rig.complete(running[1])
    assert len(await rig.claim(5)) == 1


@behaviour(10, trap=BURNT_TOKEN)
async def batch_claim_obeys_the_rate(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(10, 1_000))
    await rig.enqueue_ids([b"x"] * 100)
    assert len(await rig.claim(100)) == 10
    assert await rig.claim(100) == []
    await rig.advance(99)
    assert await rig.claim(100) == []
    await rig.advance(1)
    assert len(await rig.claim(100)) == 1
    await rig.advance(1_000)
    assert len(await rig.claim(100)) == 10


@behaviour(10, trap=BURNT_TOKEN)
async def idle_polling_takes_no_tokens(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(5, HOUR))
    for _ in range(50):
        assert await rig.claim(10) == []
    held = await rig.enqueue(task="unknown")
    for _ in range(50):
        assert await rig.claim(10, tasks=["known"]) == []
    await rig.change_one(CANCEL, held)
    await rig.enqueue_ids([b"x"] * 10)
    assert len(await rig.claim(10)) == 5


@behaviour(10)
async def burst_bounds_what_a_bucket_saves(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(10, 1_000, burst=3))
    await rig.enqueue_ids([b"x"] * 50)
    assert len(await rig.claim(50)) == 3
    await rig.advance(HOUR)
    assert len(await rig.claim(50)) == 3
    await rig.advance(200)
    assert len(await rig.claim(50)) == 2


@behaviour(10)
async def claims_in_any_window_stay_within_rate_and_burst(rig: Rig) -> None:
    tokens, period_ms, burst = 7, 1_000, 4
    await rig.set_queue(rate=Rate(tokens, period_ms, burst=burst))
    await rig.enqueue_ids([b"x"] * 100)
    times: list[int] = []
    for step in range(300):
        times += [rig.elapsed_ms] * len(await rig.claim(100))
        await rig.advance(7 + step % 5)
    for first, begin in enumerate(times):
        for last in range(first, len(times)):
            window_ms = times[last] - begin
            assert (last - first + 1 - burst) * period_ms <= tokens * window_ms
    assert len(times) >= burst + tokens * (times[-1] - times[0]) // period_ms - 1


@behaviour(10)
async def release_returns_no_token(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(2, HOUR))
    await rig.enqueue_ids([b"a", b"b", b"c"])
    await rig.release(await rig.claim_one())
    await rig.claim_one()
    assert await rig.claim() == []


@behaviour(10)
async def new_rate_starts_full(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 20)
    assert len(await rig.claim(5)) == 5
    await rig.set_queue(rate=Rate(4, HOUR))
    assert len(await rig.claim(20)) == 4


@behaviour(10)
async def rate_and_concurrency_hold_together(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(3, HOUR), concurrency=2)
    await rig.enqueue_ids([b"x"] * 10)
    first = await rig.claim(10)
    assert len(first) == 2
    await rig.complete_all(first)
    assert len(await rig.claim(10)) == 1
    assert await rig.claim(10) == []


@behaviour(10)
async def job_held_by_concurrency_takes_no_token(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(2, HOUR), concurrency=1)
    await rig.enqueue_ids([b"x"] * 3)
    first = await rig.claim_one()
    for _ in range(20):
        assert await rig.claim() == []
    await rig.complete(first)
    await rig.claim_one()


@behaviour(10)
async def held_queue_costs_other_queues_nothing(rig: Rig) -> None:
    await rig.set_queue("held", concurrency=0)
    await rig.enqueue_ids([b"held"] * 50, queue="held", priority=100)
    await rig.enqueue(b"free", queue="free")
    assert payloads(await rig.claim(9, queues=("held", "free"))) == [b"free"]


@behaviour(10)
async def tenant_running_max_bounds_all_its_queues(rig: Rig) -> None:
    await rig.set_tenant(running_max=2)
    for queue in ("one", "two"):
        await rig.enqueue_ids([b"x"] * 3, queue=queue)
    running = await rig.claim(9, queues=("one", "two"))
    assert len(running) == 2
    await rig.complete(running[0])
    assert len(await rig.claim(9, queues=("one", "two"))) == 1


@behaviour(10)
async def tenant_limits_do_not_touch_other_tenants(rig: Rig) -> None:
    await rig.set_tenant(ACME, running_max=1, rate=Rate(1, HOUR))
    await rig.enqueue_ids([b"acme"] * 3)
    await rig.enqueue_ids([b"globex"] * 3, tenant=GLOBEX)
    leased = await rig.claim(9, tenants=("*",))
    assert sorted(payloads(leased)) == [b"acme", b"globex", b"globex", b"globex"]


@behaviour(10)
async def tenant_rate_bounds_all_its_queues(rig: Rig) -> None:
    await rig.set_tenant(rate=Rate(3, 1_000))
    for queue in ("one", "two"):
        await rig.enqueue_ids([b"x"] * 5, queue=queue)
    assert len(await rig.claim(9, queues=("one", "two"))) == 3
    await rig.advance(334)
    assert len(await rig.claim(9, queues=("one", "two"))) == 1


@behaviour(10)
async def queue_settings_belong_to_the_tenant(rig: Rig) -> None:
    await rig.set_queue(paused=True)
    await rig.enqueue(b"x", tenant=GLOBEX)
    assert (await rig.claim_one(tenant=GLOBEX)).payload == b"x"


@behaviour(10)
async def setting_of_none_goes_back_to_the_default(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(1, HOUR), concurrency=1)
    await rig.enqueue_ids([b"x"] * 5)
    assert len(await rig.claim(5)) == 1
    await rig.set_queue(rate=None, concurrency=None)
    assert len(await rig.claim(5)) == 4
