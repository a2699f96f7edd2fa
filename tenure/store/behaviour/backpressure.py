"""Section 4: past its limits a queue, a tenant, a store refuses, stores nothing, and says when to come again."""

from tenure.core.error import Overloaded
from tenure.core.limit import Rate
from tenure.core.request import CANCEL, REMOVE, STORE, UPDATE
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import GLOBEX, HOUR, Rig


@behaviour(4)
async def full_queue_is_overloaded(rig: Rig) -> None:
    await rig.set_queue(jobs_max=2)
    ids = await rig.enqueue_ids([b"x"] * 2)
    error = await refused(Overloaded, rig.enqueue())
    assert error.retry_after_ms >= 0
    assert error.retryable
    assert await rig.count() == {"ready": 2}
    await rig.enqueue(queue="other")
    await rig.change_one(CANCEL, ids[0])
    await rig.enqueue()


@behaviour(4)
async def full_queue_takes_what_still_fits_of_a_batch(rig: Rig) -> None:
    await rig.set_queue(jobs_max=3)
    answers = await rig.enqueue_many([b"x"] * 5)
    assert sorted(answers.errors()) == [3, 4]
    assert all(type(error) is Overloaded for error in answers.errors().values())
    assert await rig.count() == {"ready": 3}


@behaviour(4)
async def completed_jobs_make_room(rig: Rig) -> None:
    await rig.set_queue(jobs_max=1)
    await rig.enqueue()
    leased = await rig.claim_one()
    await refused(Overloaded, rig.enqueue())
    await rig.complete(leased)
    await rig.enqueue()


@behaviour(4)
async def queue_is_bounded_in_bytes(rig: Rig) -> None:
    await rig.set_queue(bytes_max=3_000)
    await rig.enqueue(b"x" * 1_000)
    await refused(Overloaded, rig.enqueue(b"x" * 4_000))
    assert await rig.count() == {"ready": 1}
    await rig.enqueue(b"x")


@behaviour(4)
async def full_tenant_is_overloaded(rig: Rig) -> None:
    await rig.set_tenant(jobs_max=2)
    await rig.enqueue(queue="one")
    await rig.enqueue(queue="two")
    await refused(Overloaded, rig.enqueue(queue="three"))
    await rig.enqueue(tenant=GLOBEX)


@behaviour(4)
async def full_store_is_overloaded(rig: Rig) -> None:
    await rig.configure(STORE, "", jobs_max=2)
    await rig.enqueue()
    await rig.enqueue(tenant=GLOBEX)
    await refused(Overloaded, rig.enqueue())
    await refused(Overloaded, rig.enqueue(tenant=GLOBEX))


@behaviour(10)
async def enqueue_rate_says_when_to_come_again(rig: Rig) -> None:
    await rig.set_queue(enqueue_rate=Rate(2, 1_000))
    await rig.enqueue_ids([b"x"] * 2)
    error = await refused(Overloaded, rig.enqueue())
    assert error.retry_after_ms == 500
    await rig.advance(499)
    await refused(Overloaded, rig.enqueue())
    await rig.advance(1)
    await rig.enqueue()
    await rig.enqueue(queue="other")


@behaviour(10)
async def tenant_enqueue_rate_spans_its_queues(rig: Rig) -> None:
    await rig.set_tenant(enqueue_rate=Rate(2, HOUR))
    await rig.enqueue(queue="one")
    await rig.enqueue(queue="two")
    await refused(Overloaded, rig.enqueue(queue="three"))
    await rig.enqueue(tenant=GLOBEX)


@behaviour(4)
async def refused_jobs_take_no_enqueue_tokens(rig: Rig) -> None:
    await rig.set_queue(enqueue_rate=Rate(2, 1_000), jobs_max=1)
    await rig.enqueue()
    for _ in range(5):
        await refused(Overloaded, rig.enqueue())
    await rig.set_queue(jobs_max=9)
    await rig.enqueue()
    await refused(Overloaded, rig.enqueue())


@behaviour(4)
async def followups_are_accepted_above_the_limits(rig: Rig) -> None:
    await rig.set_queue(jobs_max=1)
    await rig.set_tenant(jobs_max=1)
    await rig.enqueue()
    leased = await rig.claim_one()
    await rig.complete(leased, followups=rig.batch([b"x"] * 20))
    assert await rig.count() == {"ready": 20, "completed": 1}
    await refused(Overloaded, rig.enqueue())


@behaviour(20)
async def queues_of_a_tenant_are_bounded(rig: Rig) -> None:
    await rig.set_tenant(queues_max=2)
    await rig.enqueue(queue="one")
    await rig.enqueue(queue="two")
    await refused(Overloaded, rig.enqueue(queue="three"))
    await rig.enqueue(queue="one")
    await rig.enqueue(queue="three", tenant=GLOBEX)


@behaviour(4)
async def limit_of_zero_takes_no_job(rig: Rig) -> None:
    await rig.set_queue(jobs_max=0)
    await refused(Overloaded, rig.enqueue())
    await rig.set_queue(jobs_max=None, bytes_max=0)
    await refused(Overloaded, rig.enqueue(b"x"))
    await rig.set_queue(bytes_max=None)
    await rig.enqueue()


@behaviour(4)
async def bytes_of_ended_jobs_are_given_back(rig: Rig) -> None:
    await rig.set_queue(bytes_max=6_000)
    await rig.set_tenant(bytes_max=6_000)
    for _ in range(20):
        await rig.enqueue(b"x" * 2_000, keep_completed_ms=0)
        await rig.complete(await rig.claim_one())


@behaviour(4)
async def bytes_follow_a_changed_payload(rig: Rig) -> None:
    await rig.set_tenant(bytes_max=20_000)
    id = await rig.enqueue(b"x" * 10_000, unique_key="k")
    await refused(Overloaded, rig.enqueue(b"x" * 15_000))
    await rig.change_one(UPDATE, id, payload=b"x")
    second = await rig.enqueue(b"x" * 15_000)
    await rig.change_one(REMOVE, second)
    await rig.submit(b"x" * 10_000, unique_key="k", on_conflict="replace")
    await refused(Overloaded, rig.enqueue(b"x" * 15_000))
    await rig.submit(b"x", unique_key="k", on_conflict="replace")
    await rig.enqueue(b"x" * 15_000)
