"""Section 10: why a job is where it is."""

from tenure.core.error import JobNotFound
from tenure.core.limit import Rate
from tenure.core.record import Explanation
from tenure.core.request import CANCEL
from tenure.core.retry import FIXED, Backoff
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import HOUR, LEASE_MS, Rig


async def held(rig: Rig, id: int, by: str, state: str = "ready") -> Explanation:
    found = await rig.explain(id)
    assert (found.id, found.state, found.held_by) == (id, state, by)
    return found


@behaviour(10)
async def explains_a_job_that_nothing_holds(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 3)
    since = rig.wall_ms
    await rig.advance(1_000)
    found = [await held(rig, id, "nothing") for id in ids]
    assert [one.place for one in found] == [found[0].place + at for at in range(3)]
    assert found[0].place in {0, 1}
    assert found[0].since == since


@behaviour(10)
async def explains_a_run_time(rig: Rig) -> None:
    id = await rig.enqueue(delay_ms=HOUR)
    found = await held(rig, id, "run_at", "scheduled")
    assert (found.earliest, found.place) == (rig.wall_ms + HOUR, -1)


@behaviour(10)
async def explains_a_retry(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, HOUR))
    await rig.fail(await rig.claim_one())
    found = await held(rig, id, "run_at", "retrying")
    assert (found.earliest, found.since) == (rig.wall_ms + HOUR, rig.wall_ms)


@behaviour(10, needs=("dependencies",))
async def explains_dependencies(rig: Rig) -> None:
    first = await rig.enqueue()
    id = await rig.enqueue(depends_on=[first])
    found = await held(rig, id, "dependencies", "blocked")
    assert str(first) in found.detail


@behaviour(10)
async def explains_a_lease(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(worker="w1")
    found = await held(rig, id, "lease", "running")
    assert "w1" in found.detail
    assert found.since == rig.wall_ms
    assert found.earliest in {0, rig.wall_ms + LEASE_MS}


@behaviour(10, needs=("groups",))
async def explains_a_group(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 2, group="g7")
    await rig.claim_one()
    assert "g7" in (await held(rig, ids[1], "group")).detail


@behaviour(10, needs=("limits",))
async def explains_a_limit_key(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    ids = await rig.enqueue_ids([b"x"] * 2, limit_keys=["api:7"])
    await rig.claim_one()
    assert await rig.claim() == []
    assert "api:7" in (await held(rig, ids[1], "limit")).detail


@behaviour(10, needs=("limits",))
async def explains_a_limit_key_without_waiting_for_a_claim(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    ids = await rig.enqueue_ids([b"x"] * 2, limit_keys=["api:7"])
    await rig.claim_one()
    assert "api:7" in (await held(rig, ids[1], "limit")).detail


@behaviour(10)
async def explains_a_paused_queue(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.set_queue(paused=True)
    await held(rig, id, "queue_paused")


@behaviour(10)
async def explains_the_concurrency_of_a_queue(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    ids = await rig.enqueue_ids([b"x"] * 2)
    await rig.claim_one()
    await held(rig, ids[1], "queue_concurrency")


@behaviour(10)
async def explains_the_rate_of_a_queue(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(1, 10_000))
    ids = await rig.enqueue_ids([b"x"] * 2)
    await rig.claim_one()
    found = await held(rig, ids[1], "queue_rate")
    assert found.earliest == rig.wall_ms + 10_000


@behaviour(10)
async def explains_the_running_quota_of_a_tenant(rig: Rig) -> None:
    await rig.set_tenant(running_max=1)
    ids = await rig.enqueue_ids([b"x"] * 2)
    await rig.claim_one()
    await held(rig, ids[1], "tenant_running")


@behaviour(10)
async def explains_the_rate_of_a_tenant(rig: Rig) -> None:
    await rig.set_tenant(rate=Rate(1, 10_000))
    ids = await rig.enqueue_ids([b"x"] * 2)
    await rig.claim_one()
    found = await held(rig, ids[1], "tenant_rate")
    assert found.earliest == rig.wall_ms + 10_000


@behaviour(10)
async def explains_a_task_that_nobody_knows(rig: Rig) -> None:
    id = await rig.enqueue(task="unknown")
    assert await rig.claim(tasks=["known"]) == []
    assert "unknown" in (await held(rig, id, "task")).detail


@behaviour(10)
async def explains_the_end(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.complete(await rig.claim_one())
    found = await held(rig, id, "ended", "completed")
    assert (found.since, found.place) == (rig.wall_ms, -1)
    failed = await rig.enqueue()
    await rig.fail(await rig.claim_one(), retryable=False)
    assert "permanent" in (await held(rig, failed, "ended", "failed")).detail


@behaviour(10)
async def place_is_exact_to_a_thousand(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 1_500)
    first = (await rig.explain(ids[0])).place
    assert (await rig.explain(ids[900])).place == first + 900
    assert (await rig.explain(ids[1_400])).place == -1
    await rig.change(CANCEL, *ids[100:600])
    assert (await rig.explain(ids[900])).place == first + 400


@behaviour(10)
async def place_counts_priority(rig: Rig) -> None:
    low = await rig.enqueue(priority=0)
    high = await rig.enqueue(priority=5)
    assert (await rig.explain(low)).place == (await rig.explain(high)).place + 1


@behaviour(2)
async def unknown_job_is_not_explained(rig: Rig) -> None:
    await refused(JobNotFound, rig.explain(2**53 - 1), job=2**53 - 1)


@behaviour(10, needs=("groups", "limits"))
async def explains_what_an_old_handler_still_holds(rig: Rig) -> None:
    await rig.set_queue("slots", concurrency=1)
    await rig.set_key("lock:", concurrency=1)
    cases: list[tuple[str, str, dict[str, object]]] = [
        ("slots", "queue_concurrency", {}),
        ("groups", "group", {"group": "g"}),
        ("keys", "limit", {"limit_keys": ["lock:1"]}),
    ]
    for queue, holder, fields in cases:
        answers = await rig.enqueue_many([b"x"] * 2, each=[fields, fields], queue=queue)
        leased = await rig.claim_one(queues=queue)
        await rig.change_one(CANCEL, leased.id)
        await held(rig, answers.ids[1], holder)
    await rig.set_tenant(running_max=3)
    await held(rig, await rig.enqueue(queue="other"), "tenant_running")
