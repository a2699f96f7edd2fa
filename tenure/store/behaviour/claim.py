"""Section 5: what a claim leases, and to whom it answers first."""

import asyncio

from tenure.core.request import CANCEL
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, LEASE_MS, Rig
from tenure.store.behaviour.trap import SIXTEEN_HEADS, TWO_STEP_CLAIM


@behaviour(5)
async def claim_leases_a_ready_job(rig: Rig) -> None:
    id = await rig.enqueue(b"x", task="send", tags=["t"], trace="00-trace-01")
    leased = await rig.claim_one(worker="w1")
    assert (leased.id, leased.payload, leased.attempt, leased.tenant) == (id, b"x", 1, ACME)
    assert (leased.options.task, leased.lease_until) == ("send", rig.wall_ms + LEASE_MS)
    assert leased.extras is not None
    assert (leased.extras.tags, leased.extras.trace) == (("t",), "00-trace-01")


@behaviour(3)
async def claim_counts_attempt_and_delivery(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.advance(40)
    await rig.claim_one(worker="w1")
    job = await rig.job(id)
    assert (job.state, job.attempt, job.delivery, job.worker) == ("running", 1, 1, "w1")
    assert (job.started_at, job.ready_at, job.lease_until) == (rig.wall_ms, rig.wall_ms - 40, rig.wall_ms + LEASE_MS)


@behaviour(5)
async def claim_takes_at_most_n(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b", b"c"])
    assert payloads(await rig.claim(2)) == [b"a", b"b"]
    assert payloads(await rig.claim(2)) == [b"c"]
    assert await rig.claim(2) == []


@behaviour(5)
async def claim_of_ten_thousand_takes_ten_thousand(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 10_000)
    leased = await rig.claim(10_000)
    assert [one.id for one in leased] == ids
    assert await rig.count() == {"running": 10_000}


@behaviour(5, trap=TWO_STEP_CLAIM)
async def no_attempt_is_given_twice(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 100)
    claims = await asyncio.gather(*(rig.claim(7) for _ in range(20)))
    leased = [one.id for claim in claims for one in claim]
    assert sorted(leased) == ids


@behaviour(5, trap=TWO_STEP_CLAIM)
async def due_jobs_are_leased_once(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 30, delay_ms=1_000)
    rig.move_clock(1_000)
    claims = await asyncio.gather(*(rig.claim(7) for _ in range(10)))
    leased = [one.id for claim in claims for one in claim]
    await rig.tick()
    leased += [one.id for one in await rig.claim(100)]
    assert sorted(leased) == ids
    assert await rig.count() == {"running": 30}


@behaviour(5)
async def claim_takes_only_from_its_queues(rig: Rig) -> None:
    await rig.enqueue(b"a", queue="a")
    await rig.enqueue(b"b", queue="b")
    assert payloads(await rig.claim(5, queues="b")) == [b"b"]
    assert await rig.claim(5, queues=("b", "c")) == []
    assert payloads(await rig.claim(5, queues=("c", "a"))) == [b"a"]


@behaviour(5)
async def prefix_names_every_queue_that_begins_with_it(rig: Rig) -> None:
    for queue in ("mail.in", "mail.out", "mai", "sms"):
        await rig.enqueue(queue.encode(), queue=queue)
    assert sorted(payloads(await rig.claim(9, queues="mail.*"))) == [b"mail.in", b"mail.out"]
    assert sorted(payloads(await rig.claim(9, queues="*"))) == [b"mai", b"sms"]


@behaviour(5)
async def prefix_matches_queues_made_after_the_claim_began_to_wait(rig: Rig) -> None:
    task = await rig.start_claim(queues="mail.*")
    assert await rig.waits(task)
    await rig.enqueue(b"sms", queue="sms")
    assert await rig.waits(task)
    await rig.enqueue(b"new", queue="mail.new")
    assert payloads(await rig.answer(task)) == [b"new"]


@behaviour(5, rulings=(13,))
async def max_bytes_counts_payloads(rig: Rig) -> None:
    await rig.enqueue_ids([b"12345"] * 4)
    assert len(await rig.claim(4, max_bytes=11)) == 2
    assert len(await rig.claim(4, max_bytes=10)) == 2


@behaviour(5, rulings=(13,))
async def first_job_is_given_whatever_its_size(rig: Rig) -> None:
    await rig.enqueue_ids([b"0" * 100, b"1"])
    assert payloads(await rig.claim(2, max_bytes=10)) == [b"0" * 100]
    assert payloads(await rig.claim(2, max_bytes=10)) == [b"1"]


@behaviour(20)
async def answer_of_a_claim_holds_at_most_eight_mebibytes(rig: Rig) -> None:
    for _ in range(10):
        await rig.enqueue(b"x" * (1 << 20))
    first = await rig.claim(10)
    assert len(first) in {7, 8}
    assert len(await rig.claim(10)) == 10 - len(first)


@behaviour(7, rulings=(12,))
async def lease_is_the_claims_then_the_jobs_then_the_queues(rig: Rig) -> None:
    await rig.enqueue(queue="plain")
    await rig.set_queue("set", lease_ms=40_000)
    await rig.enqueue_ids([b"x"], queue="set")
    await rig.enqueue_ids([b"x"] * 2, queue="set", lease_ms=50_000)
    assert (await rig.claim_one(queues="plain")).lease_until == rig.wall_ms + 30_000
    assert (await rig.claim_one(queues="set")).lease_until == rig.wall_ms + 40_000
    assert (await rig.claim_one(queues="set")).lease_until == rig.wall_ms + 50_000
    assert (await rig.claim_one(queues="set", lease_ms=60_000)).lease_until == rig.wall_ms + 60_000


@behaviour(7, rulings=(12,))
async def jobs_of_one_claim_may_have_leases_of_different_length(rig: Rig) -> None:
    await rig.enqueue(b"short", lease_ms=5_000)
    await rig.enqueue(b"long", lease_ms=50_000)
    short, long = await rig.claim(2)
    assert (short.lease_until, long.lease_until) == (rig.wall_ms + 5_000, rig.wall_ms + 50_000)
    await rig.advance(5_000)
    assert await rig.state(short.id) != "running"
    assert await rig.state(long.id) == "running"


@behaviour(5, rulings=(14,))
async def claim_makes_no_queue_and_no_tenant(rig: Rig) -> None:
    await rig.enqueue(queue="there")
    assert await rig.claim(queues="nowhere") == []
    assert await rig.claim(tenant="nobody", queues="there") == []
    assert list(await rig.store.count(rig.context(), "", rig.now())) == ["there"]
    assert await rig.store.count(rig.context("nobody"), "", rig.now()) == {}


@behaviour(5, rulings=(14,))
async def claim_for_an_unknown_tenant_waits_and_is_woken(rig: Rig) -> None:
    task = await rig.start_claim(tenant="newcomer")
    assert await rig.waits(task)
    await rig.enqueue(b"other")
    assert await rig.waits(task)
    await rig.enqueue(b"first", tenant="newcomer")
    assert payloads(await rig.answer(task)) == [b"first"]


@behaviour(5)
async def claim_takes_from_the_tenants_it_names(rig: Rig) -> None:
    for tenant in (ACME, GLOBEX, "initech"):
        await rig.enqueue(tenant.encode(), tenant=tenant)
    assert payloads(await rig.claim(5, tenant=ACME)) == [b"acme"]
    assert await rig.claim(5, tenant=ACME, tenants=(ACME,)) == []
    both = await rig.claim(5, tenant=ACME, tenants=("*",))
    assert sorted((one.tenant, one.payload) for one in both) == [(GLOBEX, b"globex"), ("initech", b"initech")]


@behaviour(5)
async def strict_claim_takes_its_queues_as_listed(rig: Rig) -> None:
    for queue in ("a", "b"):
        await rig.enqueue_ids([queue.encode()] * 3, queue=queue)
    assert await rig.line(queues=("b", "a"), strict=True) == [b"b", b"b", b"b", b"a", b"a", b"a"]


@behaviour(5)
async def strict_claim_returns_to_the_first_queue_as_soon_as_it_has_a_job(rig: Rig) -> None:
    await rig.enqueue_ids([b"low"] * 2, queue="low")
    assert (await rig.claim_one(queues=("high", "low"), strict=True)).payload == b"low"
    await rig.enqueue(b"high", queue="high")
    assert await rig.line(queues=("high", "low"), strict=True) == [b"high", b"low"]


@behaviour(9)
async def queues_are_served_by_weight(rig: Rig) -> None:
    await rig.enqueue_ids([b"a"] * 80, queue="a")
    await rig.enqueue_ids([b"b"] * 80, queue="b")
    taken = [(await rig.claim_one(queues=(("a", 3), ("b", 1)))).payload for _ in range(40)]
    assert abs(taken.count(b"a") - 30) <= 3
    for at in range(len(taken) - 7):
        assert b"b" in taken[at : at + 8], "a queue of weight 1 waited for more than two rounds of 4"


@behaviour(9)
async def batch_claim_serves_queues_by_weight(rig: Rig) -> None:
    await rig.enqueue_ids([b"a"] * 80, queue="a")
    await rig.enqueue_ids([b"b"] * 80, queue="b")
    taken = payloads(await rig.claim(40, queues=(("a", 3), ("b", 1))))
    assert len(taken) == 40
    assert abs(taken.count(b"a") - 30) <= 3


@behaviour(9)
async def empty_queue_leaves_its_share_to_the_others(rig: Rig) -> None:
    await rig.enqueue_ids([b"b"] * 10, queue="b")
    assert len(await rig.claim(10, queues=(("a", 100), ("b", 1)))) == 10


@behaviour(9, rulings=(15,))
async def each_queue_of_a_prefix_has_the_weight_of_the_prefix(rig: Rig) -> None:
    for queue in ("m.1", "m.2", "other"):
        await rig.enqueue_ids([queue.encode()] * 60, queue=queue)
    taken = [(await rig.claim_one(queues=(("m.*", 2), ("other", 1)))).payload for _ in range(50)]
    for payload, share in ((b"m.1", 20), (b"m.2", 20), (b"other", 10)):
        assert abs(taken.count(payload) - share) <= 2


@behaviour(5, needs=("groups",), trap=SIXTEEN_HEADS)
async def busy_heads_do_not_hide_the_rest(rig: Rig) -> None:
    for at in range(60):
        await rig.enqueue_ids([b"busy"] * 2, group=f"g{at}")
    assert len(await rig.claim(60)) == 60
    await rig.enqueue(b"free")
    assert (await rig.claim_one()).payload == b"free"


@behaviour(5, trap=SIXTEEN_HEADS)
async def queues_without_work_do_not_hide_the_one_with_it(rig: Rig) -> None:
    for at in range(60):
        await rig.set_queue(f"q{at}", paused=True)
        await rig.enqueue(b"held", queue=f"q{at}")
    await rig.enqueue(b"free", queue="q99")
    assert payloads(await rig.claim(5, queues="*")) == [b"free"]


@behaviour(3)
async def claims_do_not_lease_cancelled_jobs(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"0", b"1", b"2", b"3"])
    await rig.change(CANCEL, ids[0], ids[2])
    assert await rig.line() == [b"1", b"3"]
