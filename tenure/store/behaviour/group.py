"""Section 9: groups. One at a time, in the order of joining, and a busy group costs others nothing."""

from tenure.core.error import InvalidRequest
from tenure.core.request import CANCEL, DELAY, DISCARD, REPLAY
from tenure.core.retry import FIXED, Backoff
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.leased import Leased, payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, HOUR, LEASE_MS, Rig
from tenure.store.behaviour.trap import GROUP_POPPED

NEEDS = ("groups",)


async def drain(rig: Rig) -> list[bytes]:
    """Runs everything, one job at a time."""
    done: list[bytes] = []
    while leased := await rig.claim():
        done.append(leased[0].payload)
        await rig.complete(leased[0])
    return done


@behaviour(9, needs=NEEDS)
async def group_runs_one_job_at_a_time(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g")
    first = await rig.claim(10)
    assert payloads(first) == [b"a"]
    assert await rig.claim(10) == []
    await rig.complete(first[0])
    assert payloads(await rig.claim(10)) == [b"b"]


@behaviour(9, needs=NEEDS)
async def one_claim_takes_one_job_of_each_group(rig: Rig) -> None:
    for group in ("g", "h"):
        await rig.enqueue_ids([group.encode() + b"1", group.encode() + b"2"], group=group)
    await rig.enqueue(b"alone")
    assert sorted(payloads(await rig.claim(10))) == [b"alone", b"g1", b"h1"]


@behaviour(9, needs=NEEDS)
async def group_concurrency_lets_more_run(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g")
    first = await rig.claim(10)
    assert payloads(first) == [b"a", b"b"]
    await rig.complete(first[1])
    assert payloads(await rig.claim(10)) == [b"c"]


@behaviour(9, needs=NEEDS)
async def raised_group_concurrency_takes_effect_at_once(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g")
    await rig.claim_one()
    task = await rig.start_claim(5)
    assert await rig.waits(task)
    await rig.set_queue(group_concurrency=2)
    assert payloads(await rig.answer(task)) == [b"b"]


@behaviour(9, needs=NEEDS)
async def order_inside_a_group_is_the_order_of_joining(rig: Rig) -> None:
    for name, priority in ((b"a", 0), (b"b", 10), (b"c", 5), (b"d", 20)):
        await rig.enqueue(name, group="g", priority=priority)
    assert await drain(rig) == [b"a", b"b", b"c", b"d"]


@behaviour(9, needs=NEEDS)
async def group_stands_in_line_with_the_priority_of_its_head(rig: Rig) -> None:
    await rig.enqueue(b"head", group="g", priority=0)
    await rig.enqueue(b"urgent", group="g", priority=10)
    await rig.enqueue(b"between", priority=5)
    assert await drain(rig) == [b"between", b"head", b"urgent"]


@behaviour(9, needs=NEEDS)
async def next_head_stands_in_line_with_its_own_number(rig: Rig) -> None:
    await rig.enqueue(b"g1", group="g")
    await rig.enqueue(b"a")
    await rig.enqueue(b"g2", group="g")
    await rig.enqueue(b"b")
    assert await drain(rig) == [b"g1", b"a", b"g2", b"b"]


@behaviour(9, needs=NEEDS)
async def job_joins_its_group_when_it_first_becomes_ready(rig: Rig) -> None:
    await rig.enqueue(b"delayed", group="g", delay_ms=1_000)
    await rig.enqueue(b"early", group="g")
    await rig.advance(1_000)
    await rig.enqueue(b"late", group="g")
    assert await drain(rig) == [b"early", b"delayed", b"late"]


@behaviour(9, needs=NEEDS)
async def scheduled_member_does_not_hold_its_group(rig: Rig) -> None:
    await rig.enqueue(b"delayed", group="g", delay_ms=HOUR)
    await rig.enqueue_ids([b"a", b"b"], group="g")
    assert await drain(rig) == [b"a", b"b"]


@behaviour(9, needs=NEEDS, rulings=(5,))
async def lifo_is_refused_in_a_group(rig: Rig) -> None:
    await refused(InvalidRequest, rig.enqueue(group="g", lifo=True), field="lifo")


@behaviour(9, needs=NEEDS)
async def retrying_head_keeps_a_strict_group(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g", backoff=Backoff(FIXED, 1_000))
    await rig.fail(await rig.claim_one())
    await rig.advance(999)
    assert await rig.claim() == []
    await rig.advance(1)
    assert await drain(rig) == [b"a", b"b"]


@behaviour(9, needs=NEEDS)
async def snoozed_head_keeps_a_strict_group(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.snooze(await rig.claim_one(), delay_ms=5_000)
    await rig.advance(4_999)
    assert await rig.claim() == []
    await rig.advance(1)
    assert await drain(rig) == [b"a", b"b"]


@behaviour(9, needs=NEEDS)
async def stalled_head_keeps_a_strict_group(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g", backoff=Backoff(FIXED, 1_000))
    await rig.claim_one()
    await rig.advance(LEASE_MS)
    assert await rig.claim() == []
    await rig.advance(1_000)
    assert await drain(rig) == [b"a", b"b"]


@behaviour(9, needs=NEEDS)
async def retrying_head_gives_up_a_relaxed_group(rig: Rig) -> None:
    await rig.set_queue(group_order="relaxed")
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g", backoff=Backoff(FIXED, 1_000))
    await rig.fail(await rig.claim_one())
    second = await rig.claim_one()
    assert second.payload == b"b"
    await rig.advance(1_000)
    assert await rig.claim() == []
    await rig.complete(second)
    assert await drain(rig) == [b"a", b"c"]


@behaviour(9, needs=NEEDS)
async def snoozed_head_gives_up_a_relaxed_group(rig: Rig) -> None:
    await rig.set_queue(group_order="relaxed")
    await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.snooze(await rig.claim_one(), delay_ms=5_000)
    assert await drain(rig) == [b"b"]
    await rig.advance(5_000)
    assert await drain(rig) == [b"a"]


@behaviour(9, needs=NEEDS)
async def group_made_relaxed_lets_the_next_job_pass_a_retrying_head(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g", backoff=Backoff(FIXED, HOUR))
    await rig.fail(await rig.claim_one())
    assert await rig.claim() == []
    await rig.set_queue(group_order="relaxed")
    assert (await rig.claim_one()).payload == b"b"


@behaviour(9, needs=NEEDS)
async def released_head_stays_head(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.release(await rig.claim_one())
    assert await drain(rig) == [b"a", b"b"]


@behaviour(9, needs=NEEDS)
async def failed_head_lets_the_next_job_go(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.fail(await rig.claim_one(), retryable=False)
    assert await drain(rig) == [b"b"]


@behaviour(9, needs=NEEDS)
async def cancelled_waiting_member_is_left_out(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b", b"c", b"d"], group="g")
    await rig.change_one(CANCEL, ids[1])
    await rig.change_one(CANCEL, ids[0])
    assert await drain(rig) == [b"c", b"d"]


@behaviour(9, needs=NEEDS)
async def discarded_retrying_head_frees_a_strict_group(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"], group="g", backoff=Backoff(FIXED, HOUR))
    await rig.fail(await rig.claim_one())
    assert await rig.claim() == []
    await rig.change_one(DISCARD, ids[0])
    assert await drain(rig) == [b"b"]


@behaviour(9, needs=NEEDS)
async def groups_of_queues_and_tenants_are_apart(rig: Rig) -> None:
    await rig.enqueue(b"a", group="g", queue="one")
    await rig.enqueue(b"b", group="g", queue="two")
    await rig.enqueue(b"c", group="g", queue="one", tenant=GLOBEX)
    leased = await rig.claim(10, queues=("one", "two"), tenants=("*",))
    assert sorted(payloads(leased)) == [b"a", b"b", b"c"]


@behaviour(9, needs=NEEDS, trap=GROUP_POPPED)
async def busy_groups_keep_their_order_however_often_one_claims(rig: Rig) -> None:
    for at in range(20):
        await rig.enqueue_ids([b"%02d.%d" % (at, step) for step in range(3)], group=f"g{at}")
    running = await rig.claim(100)
    assert len(running) == 20
    for _ in range(50):
        assert await rig.claim(100) == []
    for step in (1, 2):
        for one in reversed(running):
            await rig.complete(one)
        running = await rig.claim(100)
        assert payloads(running) == [b"%02d.%d" % (at, step) for at in range(20)]


@behaviour(9, needs=NEEDS)
async def replayed_member_joins_its_group_again(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.fail(await rig.claim_one(), retryable=False)
    await rig.claim_one()
    await rig.change_one(REPLAY, ids[0])
    assert await rig.claim() == []
    assert await rig.state(ids[0]) == "ready"


@behaviour(9, needs=NEEDS)
async def retry_at_once_keeps_the_head_of_a_strict_group(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.fail(await rig.claim_one(), delay_ms=0)
    assert await drain(rig) == [b"a", b"b"]


# What is tried again in strict order, among others of its group.


@behaviour(9, needs=NEEDS, rulings=(43,))
async def retried_job_goes_before_those_that_joined_later(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g", backoff=Backoff(FIXED, 1_000))
    await rig.fail(await rig.claim_one())
    await rig.advance(1_000)
    assert payloads(await rig.claim(1)) == [b"a"]
    assert payloads(await rig.claim(5)) == [b"b"]


@behaviour(9, needs=NEEDS, rulings=(43,))
async def retrying_job_leaves_the_other_slots_of_its_group_to_others(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g", backoff=Backoff(FIXED, HOUR))
    await rig.fail(await rig.claim_one())
    assert payloads(await rig.claim(5)) == [b"b"]
    assert await rig.claim(5) == []


async def run_second_while_first_is_away(rig: Rig, **fields: object) -> Leased:
    """Of a and b, which joined in this order, b runs; a comes back within its first second."""
    ids = await rig.enqueue_ids([b"a", b"b"], tenant=ACME, group="g", **fields)
    await rig.change_one(DELAY, ids[0], run_at=rig.wall_ms + 1_000)
    second = await rig.claim_one()
    assert second.payload == b"b"
    return second


@behaviour(9, needs=NEEDS, rulings=(43,))
async def retrying_job_keeps_its_slot_from_one_that_joined_earlier(rig: Rig) -> None:
    await rig.fail(await run_second_while_first_is_away(rig, backoff=Backoff(FIXED, 2_000)))
    await rig.advance(1_000)
    assert await rig.claim() == []
    await rig.advance(1_000)
    assert await drain(rig) == [b"b", b"a"]


@behaviour(9, needs=NEEDS, rulings=(43,))
async def released_job_keeps_its_slot_from_one_that_joined_earlier(rig: Rig) -> None:
    second = await run_second_while_first_is_away(rig)
    await rig.advance(1_000)
    await rig.release(second)
    assert await drain(rig) == [b"b", b"a"]


@behaviour(9, needs=NEEDS, rulings=(43,))
async def released_job_gives_up_a_relaxed_group_to_one_that_joined_earlier(rig: Rig) -> None:
    await rig.set_queue(group_order="relaxed")
    second = await run_second_while_first_is_away(rig)
    await rig.advance(1_000)
    await rig.release(second)
    assert await drain(rig) == [b"a", b"b"]


@behaviour(9, needs=NEEDS, rulings=(43,))
async def timed_out_job_keeps_its_slot_from_one_that_joined_earlier(rig: Rig) -> None:
    await run_second_while_first_is_away(rig, timeout_ms=2_000, backoff=Backoff(FIXED, 1_000))
    await rig.advance(2_000)
    await rig.advance(LEASE_MS - 2_001)
    assert await rig.claim() == []
    await rig.advance(1)
    assert await drain(rig) == [b"b", b"a"]


@behaviour(9, needs=NEEDS, rulings=(43,))
async def replayed_job_has_no_claim_to_the_slot_of_its_old_attempt(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"], group="g")
    first = await rig.claim_one()
    await rig.change_one(DISCARD, ids[0])
    await rig.change_one(REPLAY, ids[0])
    assert await rig.claim() == []
    await rig.advance(LEASE_MS)
    assert first.payload == b"a"
    assert await drain(rig) == [b"b", b"a"]


# Fewer slots than are taken.


@behaviour(9, needs=NEEDS, rulings=(41,))
async def lowered_group_concurrency_stops_nobody_and_starts_nobody(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=3)
    await rig.enqueue_ids([b"a", b"b", b"c", b"d"], group="g")
    running = await rig.claim(5)
    await rig.set_queue(group_concurrency=1)
    for one in running:
        assert await rig.claim(5) == []
        await rig.complete(one)
    assert payloads(await rig.claim(5)) == [b"d"]


@behaviour(9, needs=NEEDS, rulings=(41,))
async def lowered_group_concurrency_takes_the_slots_of_those_that_joined_last(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g", backoff=Backoff(FIXED, 1_000))
    for one in await rig.claim(2):
        await rig.fail(one)
    await rig.set_queue(group_concurrency=1)
    assert await rig.claim(5) == []
    await rig.advance(1_000)
    first = await rig.claim(5)
    assert payloads(first) == [b"a"]
    await rig.complete(first[0])
    assert await drain(rig) == [b"b", b"c"]


@behaviour(9, needs=NEEDS, rulings=(41,))
async def lowered_group_concurrency_takes_the_slot_of_who_waits_before_that_of_who_runs(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c", b"d"], group="g", backoff=Backoff(FIXED, 1_000))
    first, second = await rig.claim(2)
    await rig.fail(first)
    await rig.set_queue(group_concurrency=1)
    await rig.complete(second)
    third = await rig.claim(5)
    assert payloads(third) == [b"c"]
    await rig.advance(1_000)
    assert await rig.claim(5) == []
    await rig.complete(third[0])
    assert await drain(rig) == [b"a", b"d"]


@behaviour(9, needs=NEEDS, rulings=(41,))
async def job_that_fails_after_group_concurrency_was_lowered_gives_up_its_slot(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g", backoff=Backoff(FIXED, 1_000))
    first, second = await rig.claim(2)
    await rig.set_queue(group_concurrency=1)
    await rig.fail(first)
    await rig.advance(1_000)
    assert await rig.claim(5) == []
    await rig.complete(second)
    assert await drain(rig) == [b"a", b"c"]


@behaviour(9, needs=NEEDS, rulings=(41,))
async def last_one_left_after_group_concurrency_was_lowered_keeps_its_slot(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b", b"c"], group="g", backoff=Backoff(FIXED, 1_000))
    first, second = await rig.claim(2)
    await rig.set_queue(group_concurrency=1)
    await rig.complete(first)
    await rig.fail(second)
    assert await rig.claim(5) == []
    await rig.advance(1_000)
    assert await drain(rig) == [b"b", b"c"]


@behaviour(9, needs=NEEDS, rulings=(41,))
async def job_in_line_steps_back_when_group_concurrency_is_lowered(rig: Rig) -> None:
    await rig.set_queue(group_concurrency=2)
    await rig.enqueue_ids([b"a", b"b"], group="g")
    first = await rig.claim_one()
    await rig.set_queue(group_concurrency=1)
    assert await rig.claim(5) == []
    await rig.complete(first)
    assert await drain(rig) == [b"b"]
