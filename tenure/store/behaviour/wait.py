"""Section 5: claims that wait are served first come, first served, and are woken by whatever makes a job claimable."""

from tenure.core.error import AlreadySettled
from tenure.core.limit import Rate
from tenure.core.request import CANCEL, PROMOTE, REPLAY
from tenure.core.retry import FIXED, Backoff
from tenure.core.tenant import OpId
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, LEASE_MS, MINUTE, Rig


@behaviour(5)
async def claim_without_a_wait_answers_at_once(rig: Rig) -> None:
    task = await rig.start_claim(wait_ms=0)
    assert await rig.answer(task) == []


@behaviour(5)
async def waiting_claim_ends_with_nothing_after_its_wait(rig: Rig) -> None:
    task = await rig.start_claim(wait_ms=5_000)
    await rig.advance(4_999)
    assert await rig.waits(task)
    await rig.advance(1)
    assert await rig.answer(task) == []
    id = await rig.enqueue()
    assert await rig.state(id) == "ready"


@behaviour(5)
async def lease_of_a_waiting_claim_counts_from_when_it_was_granted(rig: Rig) -> None:
    task = await rig.start_claim(worker="w1")
    await rig.advance(1_234)
    id = await rig.enqueue(b"x")
    leased = (await rig.answer(task))[0]
    assert (leased.id, leased.lease_until) == (id, rig.wall_ms + LEASE_MS)
    job = await rig.job(id)
    assert (job.started_at, job.worker) == (rig.wall_ms, "w1")


@behaviour(5)
async def withdrawn_claim_waits_no_more(rig: Rig) -> None:
    """A worker that cannot take the answer has it said by somebody else, with the operation id of the claim."""
    other = await rig.start(rig.claim(op=OpId("s", 2), wait_ms=MINUTE))
    task = await rig.start(rig.claim(op=OpId("s", 1), wait_ms=MINUTE))
    assert await rig.claim(op=OpId("s", 1), withdraw=True) == []
    assert await rig.answer(task) == []
    assert await rig.waits(other)
    id = await rig.enqueue()
    assert [leased.id for leased in await rig.answer(other)] == [id]


@behaviour(5)
async def withdrawing_a_claim_releases_what_it_was_given(rig: Rig) -> None:
    task = await rig.start(rig.claim(2, op=OpId("s", 1), wait_ms=MINUTE))
    await rig.enqueue_ids([b"0", b"1", b"2"])
    kept, given = await rig.answer(task)
    await rig.complete(kept)
    for _ in range(2):
        assert await rig.claim(op=OpId("s", 1), withdraw=True) == []
    job = await rig.job(given.id)
    assert (job.state, job.attempt, job.delivery) == ("ready", 0, 1)
    assert await rig.state(kept.id) == "completed"
    await refused(AlreadySettled, rig.complete(given))
    assert await rig.line() == [b"1", b"2"]


@behaviour(5)
async def withdrawing_what_was_never_claimed_changes_nothing(rig: Rig) -> None:
    await rig.enqueue()
    assert await rig.claim(op=OpId("s", 1), withdraw=True) == []
    assert await rig.count() == {"ready": 1}


@behaviour(5)
async def waiting_claims_are_served_first_come_first_served(rig: Rig) -> None:
    tasks = []
    for _ in range(5):
        tasks.append(await rig.start_claim())
    for at in range(5):
        await rig.enqueue(b"%d" % at)
        assert payloads(await rig.answer(tasks[at])) == [b"%d" % at]
        for later in tasks[at + 1 :]:
            assert await rig.waits(later)


@behaviour(5)
async def only_as_many_claims_are_answered_as_there_are_jobs(rig: Rig) -> None:
    tasks = []
    for _ in range(5):
        tasks.append(await rig.start_claim())
    await rig.enqueue_ids([b"0", b"1"])
    await rig.pause()
    assert [task.done() for task in tasks] == [True, True, False, False, False]
    assert [payloads(task.result()) for task in tasks[:2]] == [[b"0"], [b"1"]]


@behaviour(5)
async def waiting_claim_for_many_answers_with_what_there_is(rig: Rig) -> None:
    task = await rig.start_claim(10)
    await rig.enqueue_ids([b"a", b"b", b"c"])
    assert payloads(await rig.answer(task)) == [b"a", b"b", b"c"]


@behaviour(5)
async def waiting_claim_is_answered_once(rig: Rig) -> None:
    task = await rig.start_claim(10)
    await rig.enqueue(b"first")
    second = await rig.enqueue(b"second")
    assert payloads(await rig.answer(task)) == [b"first"]
    assert await rig.state(second) == "ready"


@behaviour(5)
async def claim_waiting_on_another_queue_is_passed_over(rig: Rig) -> None:
    other = await rig.start_claim(queues="other")
    fitting = await rig.start_claim(queues="wanted")
    await rig.enqueue(b"x", queue="wanted")
    assert payloads(await rig.answer(fitting)) == [b"x"]
    assert await rig.waits(other)


@behaviour(5)
async def claim_waiting_for_another_task_is_passed_over(rig: Rig) -> None:
    other = await rig.start_claim(tasks=["other"])
    fitting = await rig.start_claim(tasks=["wanted"])
    await rig.enqueue(b"x", task="wanted")
    assert payloads(await rig.answer(fitting)) == [b"x"]
    assert await rig.waits(other)


@behaviour(2)
async def claim_waiting_for_another_tenant_is_passed_over(rig: Rig) -> None:
    foreign = await rig.start_claim(tenant=GLOBEX)
    own = await rig.start_claim(tenant=ACME)
    await rig.enqueue(b"x", tenant=ACME)
    assert payloads(await rig.answer(own)) == [b"x"]
    assert await rig.waits(foreign)


@behaviour(5)
async def claim_waiting_for_all_tenants_is_woken_by_any(rig: Rig) -> None:
    task = await rig.start_claim(tenant=ACME, tenants=("*",))
    await rig.enqueue(b"x", tenant="newcomer")
    assert [one.tenant for one in await rig.answer(task)] == ["newcomer"]


@behaviour(5)
async def claim_given_up_leases_nothing(rig: Rig) -> None:
    task = await rig.start_claim()
    task.cancel()
    await rig.pause()
    id = await rig.enqueue()
    assert await rig.state(id) == "ready"
    assert (await rig.claim_one()).attempt == 1


@behaviour(5)
async def claim_given_up_passes_the_job_to_the_next_in_line(rig: Rig) -> None:
    first = await rig.start_claim()
    second = await rig.start_claim()
    first.cancel()
    await rig.pause()
    await rig.enqueue(b"x")
    assert payloads(await rig.answer(second)) == [b"x"]


@behaviour(5)
async def what_was_leased_to_a_lost_answer_is_released_at_once(rig: Rig) -> None:
    task = await rig.start_claim()
    id = await rig.enqueue()
    task.cancel()
    await rig.tick()
    assert task.cancelled()
    assert (await rig.job(id)).attempt == 0
    assert (await rig.claim_one()).id == id


@behaviour(5)
async def due_job_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.enqueue(b"x", delay_ms=3_000)
    task = await rig.start_claim()
    await rig.advance(2_999)
    assert await rig.waits(task)
    await rig.advance(1)
    assert payloads(await rig.answer(task)) == [b"x"]


@behaviour(5)
async def retry_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.enqueue(b"x", backoff=Backoff(FIXED, 3_000))
    leased = await rig.claim_one()
    task = await rig.start_claim()
    await rig.fail(leased)
    await rig.advance(2_999)
    assert await rig.waits(task)
    await rig.advance(1)
    assert (await rig.answer(task))[0].attempt == 2


@behaviour(5)
async def release_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.enqueue(b"x")
    leased = await rig.claim_one()
    task = await rig.start_claim()
    await rig.release(leased)
    assert payloads(await rig.answer(task)) == [b"x"]


@behaviour(5)
async def expired_lease_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.enqueue(b"x", backoff=Backoff(FIXED, 0))
    await rig.claim_one()
    task = await rig.start_claim()
    await rig.advance(LEASE_MS - 1)
    assert await rig.waits(task)
    await rig.advance(1)
    assert (await rig.answer(task))[0].attempt == 2


@behaviour(5)
async def promote_wakes_a_waiting_claim(rig: Rig) -> None:
    id = await rig.enqueue(b"x", delay_ms=MINUTE)
    task = await rig.start_claim()
    await rig.change_one(PROMOTE, id)
    assert payloads(await rig.answer(task)) == [b"x"]


@behaviour(5)
async def replay_wakes_a_waiting_claim(rig: Rig) -> None:
    id = await rig.enqueue(b"x")
    await rig.fail(await rig.claim_one(), retryable=False)
    task = await rig.start_claim()
    await rig.change_one(REPLAY, id)
    assert payloads(await rig.answer(task)) == [b"x"]


@behaviour(5, needs=("dependencies",))
async def satisfied_dependency_wakes_a_waiting_claim(rig: Rig) -> None:
    first = await rig.enqueue(b"first")
    await rig.enqueue(b"second", depends_on=[first])
    leased = await rig.claim_one()
    task = await rig.start_claim()
    await rig.complete(leased)
    assert payloads(await rig.answer(task)) == [b"second"]


@behaviour(10)
async def resumed_queue_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.set_queue(paused=True)
    await rig.enqueue(b"x")
    task = await rig.start_claim()
    assert await rig.waits(task)
    await rig.set_queue(paused=False)
    assert payloads(await rig.answer(task)) == [b"x"]


@behaviour(10)
async def freed_slot_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    await rig.enqueue_ids([b"a", b"b"])
    leased = await rig.claim_one()
    task = await rig.start_claim()
    assert await rig.waits(task)
    await rig.complete(leased)
    assert payloads(await rig.answer(task)) == [b"b"]


@behaviour(10, needs=("limits",))
async def freed_slot_of_a_key_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue_ids([b"a", b"b"], limit_keys=["api:1"])
    leased = await rig.claim_one()
    task = await rig.start_claim()
    assert await rig.waits(task)
    await rig.complete(leased)
    assert payloads(await rig.answer(task)) == [b"b"]


@behaviour(10)
async def refilled_bucket_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(1, 1_000))
    await rig.enqueue_ids([b"a", b"b"])
    await rig.claim_one()
    task = await rig.start_claim()
    await rig.advance(999)
    assert await rig.waits(task)
    await rig.advance(1)
    assert payloads(await rig.answer(task)) == [b"b"]


@behaviour(9, needs=("groups",))
async def freed_group_wakes_a_waiting_claim(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], group="g")
    leased = await rig.claim_one()
    task = await rig.start_claim()
    assert await rig.waits(task)
    await rig.complete(leased)
    assert payloads(await rig.answer(task)) == [b"b"]


@behaviour(10)
async def raised_concurrency_wakes_as_many_claims_as_it_lets_in(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    await rig.enqueue_ids([b"a", b"b", b"c", b"d"])
    await rig.claim_one()
    tasks = [await rig.start_claim() for _ in range(3)]
    await rig.pause()
    await rig.set_queue(concurrency=3)
    await rig.pause()
    assert [task.done() for task in tasks] == [True, True, False]


@behaviour(10)
async def cancelled_ready_job_wakes_nobody(rig: Rig) -> None:
    await rig.set_queue(paused=True)
    id = await rig.enqueue()
    task = await rig.start_claim(wait_ms=5_000)
    await rig.change_one(CANCEL, id)
    await rig.set_queue(paused=False)
    assert await rig.waits(task)
    await rig.advance(5_000)
    assert await rig.answer(task) == []


@behaviour(5)
async def claims_waiting_for_a_prefix_come_and_go(rig: Rig) -> None:
    given_up = await rig.start_claim(queues="mail.*")
    patient = await rig.start_claim(queues=("mail.*", "sms"))
    given_up.cancel()
    await rig.pause()
    await rig.enqueue(b"1", queue="mail.a")
    assert payloads(await rig.answer(patient)) == [b"1"]
    await rig.enqueue(b"2", queue="mail.b")
    assert payloads(await rig.answer(await rig.start_claim(queues="mail.*"))) == [b"2"]
    late = await rig.start_claim(queues="mail.*")
    assert await rig.waits(late)
    await rig.enqueue(b"3", queue="mail.c")
    assert payloads(await rig.answer(late)) == [b"3"]


@behaviour(5)
async def claim_waits_for_several_queues_and_is_answered_by_the_first(rig: Rig) -> None:
    for queue in ("a", "b", "c"):
        task = await rig.start_claim(queues=("a", "b", "c"))
        assert await rig.waits(task)
        await rig.enqueue(queue.encode(), queue=queue)
        assert payloads(await rig.answer(task)) == [queue.encode()]
    await rig.enqueue(b"left", queue="a")
    assert await rig.count("a") == {"ready": 1, "running": 1}


@behaviour(5)
async def claim_that_waits_does_not_pass_one_that_came_before(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    running = await rig.enqueue(b"running")
    leased = await rig.claim_one()
    assert leased.id == running
    first = await rig.start_claim()
    second = await rig.start_claim()
    await rig.enqueue_ids([b"a", b"b"])
    assert await rig.waits(first)
    await rig.complete(leased)
    assert payloads(await rig.answer(first)) == [b"a"]
    assert await rig.waits(second)


@behaviour(5)
async def claim_of_several_queues_does_not_pass_one_that_came_before(rig: Rig) -> None:
    """Whichever of the queues became claimable first: the one who came first takes first."""
    for own, other in (("a", "z"), ("z", "a")):
        first = await rig.start_claim(queues=own)
        second = await rig.start_claim(queues="*")
        each: list[dict[str, object]] = [{"queue": other}, {"queue": own}]
        await rig.enqueue_many([b"other", b"own"], each=each)
        assert payloads(await rig.answer(first)) == [b"own"]
        assert payloads(await rig.answer(second)) == [b"other"]


@behaviour(5)
async def waiting_claims_of_any_kind_are_served_in_the_order_they_came(rig: Rig) -> None:
    """Whatever tasks they know and whichever tenants they serve."""
    claims = [
        await rig.start_claim(tasks=("send", "other")),
        await rig.start_claim(tenants=("*",)),
        await rig.start_claim(),
        await rig.start_claim(tasks=("send",)),
        await rig.start_claim(tenants=("*",), tasks=("send",)),
    ]
    for at, claim in enumerate(claims):
        name = b"%d" % at
        await rig.enqueue(name, task="send")
        assert payloads(await rig.answer(claim)) == [name]
