"""Section 5: jobs whose task no present worker knows are set aside, keep their place, and end as dead letters."""

from tenure.core.request import CANCEL
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import HOUR, MINUTE, Rig
from tenure.store.behaviour.trap import STUCK_UNKNOWN_TASK


@behaviour(5)
async def claim_gives_only_tasks_that_the_worker_knows(rig: Rig) -> None:
    other = await rig.enqueue(b"other", task="other")
    await rig.enqueue(b"known", task="known")
    assert payloads(await rig.claim(5, tasks=["known"])) == [b"known"]
    assert await rig.state(other) == "ready"
    assert (await rig.job(other)).attempt == 0


@behaviour(5)
async def job_set_aside_keeps_its_place(rig: Rig) -> None:
    await rig.enqueue(b"b1", task="b")
    await rig.enqueue(b"a1", task="a")
    assert await rig.line(tasks=["a"]) == [b"a1"]
    await rig.enqueue(b"a2", task="a")
    await rig.enqueue(b"b2", task="b")
    await rig.enqueue(b"high", task="a", priority=1)
    assert await rig.line(tasks=["a", "b"]) == [b"high", b"b1", b"a2", b"b2"]


@behaviour(5)
async def claim_that_names_no_tasks_takes_what_was_set_aside(rig: Rig) -> None:
    await rig.enqueue(b"b", task="b")
    assert await rig.claim(tasks=["a"]) == []
    await rig.enqueue(b"a", task="a")
    assert await rig.line() == [b"b", b"a"]


@behaviour(5)
async def job_set_aside_goes_to_a_worker_that_knows_its_task_and_waits(rig: Rig) -> None:
    await rig.enqueue(b"b1", task="b")
    assert await rig.claim(tasks=["a"]) == []
    task = await rig.start_claim(tasks=["b"])
    assert payloads(await rig.answer(task)) == [b"b1"]


@behaviour(5)
async def many_jobs_of_unknown_tasks_hide_nothing(rig: Rig) -> None:
    for at in range(40):
        await rig.enqueue_ids([b"unknown"] * 5, task=f"unknown{at}")
    await rig.enqueue(b"known", task="known")
    assert payloads(await rig.claim(1, tasks=["known"])) == [b"known"]
    assert await rig.count() == {"ready": 200, "running": 1}


@behaviour(5)
async def job_set_aside_can_be_cancelled(rig: Rig) -> None:
    id = await rig.enqueue(task="b")
    assert await rig.claim(tasks=["a"]) == []
    await rig.change_one(CANCEL, id)
    assert await rig.claim(tasks=["b"]) == []
    await rig.advance(2 * HOUR)
    assert await rig.state(id) == "cancelled"


@behaviour(5, trap=STUCK_UNKNOWN_TASK)
async def job_of_an_unknown_task_fails_after_an_hour_aside(rig: Rig) -> None:
    id = await rig.enqueue(task="b")
    await rig.advance(5 * MINUTE)
    assert await rig.claim(tasks=["a"]) == []
    await rig.advance(HOUR - 1)
    assert await rig.state(id) == "ready"
    await rig.advance(1)
    job = await rig.job(id)
    assert (job.state, job.reason, job.attempt) == ("failed", "unknown_task", 0)
    event = await rig.last_event(id)
    assert (event.type, event.cause, event.reason) == ("failed", "abandon", "unknown_task")


@behaviour(5, trap=STUCK_UNKNOWN_TASK)
async def hour_aside_is_each_jobs_own(rig: Rig) -> None:
    """One with a better place that was set aside later does not keep the others alive."""
    old = await rig.enqueue(task="b")
    assert await rig.claim(tasks=["a"]) == []
    await rig.advance(30 * MINUTE)
    new = await rig.enqueue(task="b", priority=5)
    assert await rig.claim(tasks=["a"]) == []
    await rig.advance(30 * MINUTE)
    assert (await rig.state(old), await rig.state(new)) == ("failed", "ready")
    await rig.advance(30 * MINUTE)
    assert await rig.state(new) == "failed"


@behaviour(5)
async def job_that_nobody_set_aside_is_not_abandoned(rig: Rig) -> None:
    id = await rig.enqueue(task="b")
    await rig.advance(5 * HOUR)
    assert await rig.state(id) == "ready"


@behaviour(5, rulings=(16,))
async def claims_that_know_the_task_keep_a_job_set_aside_alive(rig: Rig) -> None:
    id = await rig.enqueue(b"waits", task="b")
    assert await rig.claim(tasks=["a"]) == []
    await rig.advance(30 * MINUTE)
    await rig.enqueue(b"first", task="b", priority=1)
    assert payloads(await rig.claim(1, tasks=["b"])) == [b"first"]
    await rig.advance(HOUR - 1)
    assert await rig.state(id) == "ready"
    await rig.advance(1)
    assert (await rig.job(id)).reason == "unknown_task"


@behaviour(5, rulings=(16,))
async def claims_of_other_queues_do_not_keep_a_job_set_aside_alive(rig: Rig) -> None:
    id = await rig.enqueue(task="b")
    assert await rig.claim(tasks=["a"]) == []
    await rig.advance(30 * MINUTE)
    assert await rig.claim(tasks=["b"], queues="elsewhere") == []
    await rig.advance(30 * MINUTE)
    assert (await rig.job(id)).reason == "unknown_task"


@behaviour(5)
async def thousands_of_unknown_jobs_are_set_aside_in_bounded_steps(rig: Rig) -> None:
    await rig.enqueue_ids([b"unknown"] * 3_500, task="unknown")
    await rig.enqueue(b"known", task="known")
    task = await rig.start_claim(tasks=["known"])
    assert payloads(await rig.finish(task)) == [b"known"]
    assert await rig.claim(9, tasks=["known"]) == []
    assert len(await rig.claim(3_500)) == 3_500


@behaviour(5)
async def unknown_jobs_of_one_tenant_do_not_hide_those_of_another(rig: Rig) -> None:
    """The first tenant in turn has nothing this worker knows: it looks further."""
    await rig.enqueue_ids([b"unknown"] * 2, task="unknown", tenant="first")
    await rig.enqueue_ids([b"known"] * 2, task="known", tenant="second")
    for queues in (["default"], ["default", "other"]):
        leased = await rig.claim(1, queues=queues, tasks=["known"], tenants=("*",))
        assert payloads(leased) == [b"known"]
        await rig.enqueue_ids([b"unknown"], task="unknown", tenant="first")
