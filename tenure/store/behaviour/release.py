"""Sections 3 and 6: giving an attempt back, by release and snooze, and the bound on deliveries."""

from tenure.core.state import FAILED, READY, SCHEDULED
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import Rig


@behaviour(3, rulings=(19,))
async def release_gives_the_attempt_back_and_keeps_the_delivery(rig: Rig) -> None:
    id = await rig.enqueue()
    assert (await rig.release(await rig.claim_one())).state == READY
    job = await rig.job(id)
    assert (job.state, job.attempt, job.delivery, job.lease_until) == ("ready", 0, 1, 0)
    again = await rig.claim_one()
    assert (again.attempt, (await rig.job(id)).delivery) == (1, 2)


@behaviour(9, rulings=(19,))
async def released_job_keeps_its_place(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b", b"c"])
    first, second = await rig.claim(2)
    await rig.release(second)
    await rig.release(first)
    assert await rig.line() == [b"a", b"b", b"c"]


@behaviour(3, rulings=(19,))
async def release_with_a_delay_is_scheduled(rig: Rig) -> None:
    id = await rig.enqueue()
    assert (await rig.release(await rig.claim_one(), delay_ms=5_000)).state == SCHEDULED
    job = await rig.job(id)
    assert (job.state, job.attempt, job.run_at) == ("scheduled", 0, rig.wall_ms + 5_000)
    await rig.advance(4_999)
    assert await rig.claim() == []
    await rig.advance(1)
    assert (await rig.claim_one()).attempt == 1


@behaviour(9, rulings=(19,))
async def release_with_a_delay_gets_a_new_place_when_due(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"])
    await rig.release(await rig.claim_one(), delay_ms=1_000)
    await rig.enqueue(b"c")
    await rig.advance(1_000)
    await rig.enqueue(b"d")
    assert await rig.line() == [b"b", b"c", b"a", b"d"]


@behaviour(3, rulings=(19,))
async def snooze_gives_the_attempt_back(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=1)
    await rig.snooze(await rig.claim_one(), delay_ms=60_000)
    job = await rig.job(id)
    assert (job.state, job.attempt, job.delivery, job.run_at) == ("scheduled", 0, 1, rig.wall_ms + 60_000)
    await rig.advance(60_000)
    assert (await rig.claim_one()).attempt == 1


@behaviour(3, rulings=(19,))
async def snooze_without_a_delay_keeps_its_place(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"])
    assert (await rig.snooze(await rig.claim_one())).state == READY
    assert await rig.line() == [b"a", b"b"]


@behaviour(15)
async def snooze_is_a_released_event(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.snooze(await rig.claim_one(), delay_ms=1_000)
    event = await rig.last_event(id)
    assert (event.type, event.state, event.cause) == ("released", "scheduled", "snooze")


@behaviour(3, rulings=(20,))
async def release_at_the_delivery_bound_fails_the_job(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=1)
    for _ in range(50):
        assert (await rig.release(await rig.claim_one())).state == READY
    assert (await rig.release(await rig.claim_one())).state == FAILED
    job = await rig.job(id)
    assert (job.state, job.reason, job.delivery) == ("failed", "delivery_limit", 51)
    event = await rig.last_event(id)
    assert (event.type, event.reason) == ("failed", "delivery_limit")


@behaviour(3, rulings=(19, 20))
async def snoozed_deliveries_do_not_count_against_the_bound(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=1)
    for _ in range(60):
        await rig.snooze(await rig.claim_one())
    assert (await rig.job(id)).delivery == 60
    for _ in range(50):
        assert (await rig.release(await rig.claim_one())).state == READY
    assert (await rig.release(await rig.claim_one())).state == FAILED


@behaviour(4)
async def unlimited_attempts_have_no_delivery_bound(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=None)
    for _ in range(120):
        await rig.release(await rig.claim_one())
    job = await rig.job(id)
    assert (job.state, job.max_attempts, job.delivery) == ("ready", None, 120)


@behaviour(3, rulings=(20,))
async def delivery_bound_does_not_end_a_completion_or_a_failure(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2)
    for _ in range(51):
        await rig.release(await rig.claim_one())
    await rig.fail(await rig.claim_one(), delay_ms=0)
    assert await rig.state(id) == "ready"
    await rig.complete(await rig.claim_one())
    assert await rig.state(id) == "completed"
