"""Section 10: limits by key. Slots and tokens of a job are taken together or not at all."""

from tenure.core.limit import Rate
from tenure.core.request import CANCEL, PRIORITY
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, HOUR, Rig

NEEDS = ("limits",)


@behaviour(10, needs=NEEDS)
async def key_concurrency_bounds_what_runs_under_it(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c"], limit_keys=["api:1"])
    first = await rig.claim(9)
    assert payloads(first) == [b"a", b"b"]
    await rig.complete(first[1])
    assert payloads(await rig.claim(9)) == [b"c"]


@behaviour(10, needs=NEEDS)
async def key_limit_spans_queues(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue(b"a", queue="one", limit_keys=["api:1"])
    await rig.enqueue(b"b", queue="two", limit_keys=["api:1"])
    leased = await rig.claim(9, queues=("one", "two"))
    assert len(leased) == 1
    await rig.complete(leased[0])
    assert len(await rig.claim(9, queues=("one", "two"))) == 1


@behaviour(10, needs=NEEDS, rulings=(37,))
async def each_key_has_slots_of_its_own(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    for at in range(3):
        await rig.enqueue_ids([b"%d" % at] * 2, limit_keys=[f"api:{at}"])
    assert sorted(payloads(await rig.claim(9))) == [b"0", b"1", b"2"]


@behaviour(10, needs=NEEDS, rulings=(37,))
async def each_key_has_a_bucket_of_its_own(rig: Rig) -> None:
    await rig.set_key("api:", rate=Rate(2, 1_000))
    for at in range(3):
        await rig.enqueue_ids([b"%d" % at] * 3, limit_keys=[f"api:{at}"])
    assert sorted(payloads(await rig.claim(99))) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    await rig.advance(500)
    assert sorted(payloads(await rig.claim(99))) == [b"0", b"1", b"2"]


@behaviour(10, needs=NEEDS, rulings=(37,))
async def longest_prefix_decides(rig: Rig) -> None:
    await rig.set_key("a", concurrency=1)
    await rig.set_key("api:", concurrency=2)
    await rig.set_key("api:slow", concurrency=3)
    for key, limit in (("a1", 1), ("api:1", 2), ("api:slow", 3), ("api:slower", 3)):
        await rig.enqueue_ids([b"x"] * 5, queue="q" + key.replace(":", "."), limit_keys=[key])
        assert len(await rig.claim(9, queues="q" + key.replace(":", "."))) == limit


@behaviour(10, needs=NEEDS, rulings=(37,))
async def key_without_settings_is_unlimited(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue_ids([b"x"] * 20, limit_keys=["other:1"])
    assert len(await rig.claim(20)) == 20


@behaviour(10, needs=NEEDS)
async def job_takes_all_its_slots_or_none(rig: Rig) -> None:
    await rig.set_key("a:", concurrency=1)
    await rig.set_key("b:", concurrency=1)
    await rig.enqueue(b"holds b", limit_keys=["b:1"])
    holder = await rig.claim_one()
    await rig.enqueue(b"needs both", limit_keys=["a:1", "b:1"])
    await rig.enqueue(b"needs a", limit_keys=["a:1"])
    second = await rig.claim(9)
    assert payloads(second) == [b"needs a"]
    await rig.complete(holder)
    assert await rig.claim(9) == []
    await rig.complete(second[0])
    assert payloads(await rig.claim(9)) == [b"needs both"]


@behaviour(10, needs=NEEDS)
async def held_job_takes_no_token_of_its_other_keys(rig: Rig) -> None:
    await rig.set_key("rate:", rate=Rate(1, HOUR))
    await rig.set_key("slot:", concurrency=0)
    await rig.enqueue(b"held", limit_keys=["rate:1", "slot:1"])
    await rig.enqueue(b"held", limit_keys=["slot:1", "rate:1"])
    for _ in range(10):
        assert await rig.claim(9) == []
    await rig.enqueue(b"free", limit_keys=["rate:1"])
    assert payloads(await rig.claim(9)) == [b"free"]


@behaviour(10, needs=NEEDS)
async def held_jobs_do_not_stand_in_the_way(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue_ids([b"held"] * 100, limit_keys=["api:1"], priority=100)
    await rig.enqueue(b"free", priority=-100)
    assert payloads(await rig.claim(9)) == [b"held", b"free"]


@behaviour(10, needs=NEEDS, rulings=(39,))
async def freed_slot_goes_to_the_first_in_queue_order(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue(b"holder", limit_keys=["api:1"])
    holder = await rig.claim_one()
    for name, priority in ((b"low", 0), (b"high", 5), (b"mid", 3), (b"high 2", 5)):
        await rig.enqueue(name, limit_keys=["api:1"], priority=priority)
        assert await rig.claim() == []
    order = []
    for _ in range(4):
        await rig.complete(holder)
        holder = await rig.claim_one()
        order.append(holder.payload)
    assert order == [b"high", b"high 2", b"mid", b"low"]


@behaviour(10, needs=NEEDS, rulings=(39,))
async def freed_slot_serves_every_queue_that_waits_for_it(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue(b"holder", queue="zero", limit_keys=["api:1"])
    holder = await rig.claim_one(queues="zero")
    for queue in ("one", "two"):
        await rig.enqueue(queue.encode(), queue=queue, limit_keys=["api:1"])
    assert await rig.claim(9, queues=("one", "two")) == []
    await rig.complete(holder)
    second = await rig.claim_one(queues="two")
    assert second.payload == b"two"
    assert await rig.claim(queues="one") == []
    await rig.complete(second)
    assert (await rig.claim_one(queues="one")).payload == b"one"


@behaviour(10, needs=NEEDS)
async def cancelled_held_job_frees_no_slot(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    ids = await rig.enqueue_ids([b"a", b"b", b"c"], limit_keys=["api:1"])
    holder = await rig.claim_one()
    assert await rig.claim() == []
    await rig.change_one(CANCEL, ids[1])
    assert await rig.claim() == []
    await rig.complete(holder)
    assert (await rig.claim_one()).payload == b"c"


@behaviour(10, needs=NEEDS)
async def keys_belong_to_the_tenant(rig: Rig) -> None:
    for tenant in (ACME, GLOBEX):
        await rig.set_key("api:", tenant=tenant, concurrency=1)
        await rig.enqueue_ids([tenant.encode()] * 2, limit_keys=["api:1"], tenant=tenant)
    assert sorted(payloads(await rig.claim(9, tenants=("*",)))) == [b"acme", b"globex"]


@behaviour(10, needs=NEEDS)
async def key_settings_of_one_tenant_do_not_limit_another(rig: Rig) -> None:
    await rig.set_key("api:", tenant=ACME, concurrency=1)
    await rig.enqueue_ids([b"x"] * 5, limit_keys=["api:1"], tenant=GLOBEX)
    assert len(await rig.claim(9, tenant=GLOBEX)) == 5


@behaviour(10, needs=NEEDS)
async def shared_key_spans_tenants(rig: Rig) -> None:
    await rig.set_key("api:", tenant=ACME, concurrency=1, shared=True)
    for tenant in (ACME, GLOBEX):
        await rig.enqueue(tenant.encode(), limit_keys=["api:1"], tenant=tenant)
    first = await rig.claim(9, tenants=("*",))
    assert len(first) == 1
    await rig.complete(first[0])
    assert len(await rig.claim(9, tenants=("*",))) == 1


@behaviour(10, needs=NEEDS, rulings=(38,))
async def paused_prefix_holds_all_its_keys_for_a_time(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=9, paused_ms=5_000)
    await rig.enqueue(b"1", limit_keys=["api:1"])
    await rig.enqueue(b"2", limit_keys=["api:2"])
    await rig.enqueue(b"free", limit_keys=["other:1"])
    assert payloads(await rig.claim(9)) == [b"free"]
    await rig.advance(4_999)
    assert await rig.claim(9) == []
    await rig.advance(1)
    assert sorted(payloads(await rig.claim(9))) == [b"1", b"2"]


@behaviour(10, needs=NEEDS, rulings=(37, 38))
async def pause_of_a_longer_prefix_leaves_the_limit_of_a_shorter_one(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.set_key("api:1", paused_ms=5_000)
    await rig.enqueue_ids([b"1", b"1 again"], limit_keys=["api:1"])
    assert await rig.claim(9) == []
    await rig.advance(5_000)
    assert payloads(await rig.claim(9)) == [b"1"]


@behaviour(10, needs=NEEDS, rulings=(38,))
async def pause_of_a_shorter_prefix_holds_keys_with_limits_of_their_own(rig: Rig) -> None:
    await rig.set_key("api:1", concurrency=1)
    await rig.set_key("api:", paused_ms=5_000)
    await rig.enqueue(b"1", limit_keys=["api:1"])
    assert await rig.claim(9) == []
    await rig.advance(5_000)
    assert payloads(await rig.claim(9)) == [b"1"]


@behaviour(10, needs=NEEDS, rulings=(37,))
async def prefix_whose_settings_were_taken_back_gives_way_to_a_shorter_one(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.set_key("api:1", concurrency=5)
    await rig.set_key("api:1", concurrency=None)
    await rig.enqueue_ids([b"1", b"1 again"], limit_keys=["api:1"])
    assert payloads(await rig.claim(9)) == [b"1"]


@behaviour(10, needs=NEEDS, rulings=(38,))
async def handler_pauses_its_own_key_only(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=9)
    await rig.enqueue_ids([b"1", b"1 again"], limit_keys=["api:1"])
    leased = await rig.claim_one()
    await rig.release(leased, delay_ms=5_000, pause_key="api:1")
    await rig.enqueue(b"2", limit_keys=["api:2"])
    assert payloads(await rig.claim(9)) == [b"2"]
    await rig.advance(4_999)
    assert await rig.claim(9) == []
    await rig.advance(1)
    assert sorted(payloads(await rig.claim(9))) == [b"1", b"1 again"]


@behaviour(10, needs=NEEDS)
async def pause_is_lifted_by_its_own_tenant_only(rig: Rig) -> None:
    """Though both call their keys alike."""
    for tenant in (ACME, GLOBEX):
        await rig.set_key("api:", tenant=tenant, concurrency=9)
        await rig.enqueue_ids([tenant.encode()] * 2, limit_keys=["api:1"], tenant=tenant)
        leased = (await rig.claim(1, tenant=tenant))[0]
        await rig.release(leased, delay_ms=5_000, pause_key="api:1", tenant=tenant)
    await rig.set_key("api:", tenant=ACME, paused_ms=0)
    assert payloads(await rig.claim(9, tenants=("*",))) == [b"acme"]
    await rig.set_key("api:", tenant=GLOBEX, paused_ms=0)
    assert payloads(await rig.claim(9, tenants=("*",))) == [b"globex"]


@behaviour(10, needs=NEEDS)
async def pause_of_a_shared_prefix_is_lifted_without_those_that_tenants_asked_for(rig: Rig) -> None:
    for tenant in (ACME, GLOBEX):
        await rig.set_key("api:1", tenant=tenant, concurrency=9)
        await rig.enqueue_ids([tenant.encode()] * 2, limit_keys=["api:1"], tenant=tenant)
    leased = (await rig.claim(1, tenant=GLOBEX))[0]
    await rig.release(leased, delay_ms=5_000, pause_key="api:1", tenant=GLOBEX)
    await rig.set_key("api:", tenant=ACME, shared=True, paused_ms=5_000)
    assert await rig.claim(9, tenants=("*",)) == []
    await rig.set_key("api:", tenant=ACME, paused_ms=0)
    assert payloads(await rig.claim(9, tenants=("*",))) == [b"acme"] * 2


@behaviour(10, needs=NEEDS)
async def handler_pauses_a_key_that_has_no_settings(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], limit_keys=["plain"])
    await rig.snooze(await rig.claim_one(), delay_ms=5_000, pause_key="plain")
    await rig.advance(4_999)
    assert await rig.claim(9) == []
    await rig.advance(1)
    assert sorted(payloads(await rig.claim(9))) == [b"a", b"b"]


@behaviour(10, needs=NEEDS)
async def raised_key_concurrency_lets_held_jobs_go(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue_ids([b"x"] * 5, limit_keys=["api:1"])
    assert len(await rig.claim(9)) == 1
    await rig.set_key("api:", concurrency=3)
    assert len(await rig.claim(9)) == 2


@behaviour(10, needs=NEEDS, rulings=(37,))
async def lowered_key_concurrency_counts_the_slots_already_taken(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=5)
    await rig.enqueue_ids([b"x"] * 9, limit_keys=["api:1"])
    running = await rig.claim(3)
    await rig.set_key("api:", concurrency=2)
    await rig.complete(running[0])
    assert await rig.claim(9) == []
    await rig.complete(running[1])
    assert len(await rig.claim(9)) == 1


@behaviour(10, needs=NEEDS)
async def removed_key_limit_lets_held_jobs_go(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue_ids([b"x"] * 5, limit_keys=["api:1"])
    assert len(await rig.claim(9)) == 1
    await rig.set_key("api:", concurrency=None)
    assert len(await rig.claim(9)) == 4


@behaviour(10, needs=NEEDS)
async def thousands_of_held_jobs_are_passed_over_in_bounded_steps(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue_ids([b"held"] * 3_500, limit_keys=["api:1"])
    await rig.claim_one()
    await rig.enqueue(b"free")
    task = await rig.start_claim()
    assert payloads(await rig.finish(task)) == [b"free"]


@behaviour(10, needs=NEEDS)
async def thousands_of_held_jobs_are_let_go_in_bounded_steps(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=0)
    names = [b"%d" % at for at in range(3_500)]
    await rig.enqueue_ids(names, limit_keys=["api:1"])
    for _ in range(5):
        assert await rig.claim(9) == []
        await rig.tick()
    await rig.set_key("api:", concurrency=None)
    leased: list[bytes] = []
    for _ in range(20):
        leased += payloads(await rig.claim(3_500))
        await rig.tick()
    assert leased == names


@behaviour(10, needs=NEEDS, rulings=(39,))
async def freed_slot_goes_to_the_first_though_a_later_one_was_let_in_before_it(rig: Rig) -> None:
    await rig.set_key("k", concurrency=1)
    ids = await rig.enqueue_ids([b"a", b"b", b"c"], limit_keys=["k"])
    await rig.release((await rig.claim(3))[0])
    await rig.change(PRIORITY, *ids[:2], priority=3)
    await rig.enqueue(b"free", priority=1)
    first, other = await rig.claim(2)
    assert payloads([first, other]) == [b"a", b"free"]
    await rig.complete(first)
    assert payloads(await rig.claim(3)) == [b"b"]


@behaviour(10, needs=NEEDS, rulings=(39,))
async def tokens_that_gather_let_as_many_jobs_go_in_their_order(rig: Rig) -> None:
    await rig.set_key("k", rate=Rate(2, 2_000, 2))
    await rig.enqueue_ids([b"a", b"b", b"c", b"d"], limit_keys=["k"])
    assert payloads(await rig.claim(4)) == [b"a", b"b"]
    await rig.enqueue(b"free")
    await rig.advance(1_000)
    await rig.advance(1_000)
    assert payloads(await rig.claim(2)) == [b"c", b"d"]
