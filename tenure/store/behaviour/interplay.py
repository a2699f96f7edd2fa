"""Where two promises meet: groups with limits and tasks, keys with expiry, replay with slots that are still held."""

from tenure.core.error import TOKEN_AMBIGUOUS, AlreadySettled, Conflict, InvalidRequest, JobCancelled, LeaseLost
from tenure.core.limit import Rate
from tenure.core.request import CANCEL, DELAY, DISCARD, PRIORITY, REMOVE, REPLAY
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import SETTLE_COMPLETE
from tenure.store.behaviour.expect import error_of, refused
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, HOUR, LEASE_MS, MINUTE, Rig


@behaviour(9, needs=("groups", "limits"))
async def head_held_by_a_limit_keeps_its_group_in_order(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue(b"holder", limit_keys=["api:1"])
    holder = await rig.claim_one()
    await rig.enqueue(b"head", group="g", limit_keys=["api:1"])
    await rig.enqueue(b"second", group="g")
    await rig.enqueue(b"alone")
    assert payloads(await rig.claim(9)) == [b"alone"]
    await rig.complete(holder)
    head = await rig.claim(9)
    assert payloads(head) == [b"head"]
    await rig.complete(head[0])
    assert payloads(await rig.claim(9)) == [b"second"]


@behaviour(9, needs=("groups",))
async def head_of_an_unknown_task_keeps_its_group_in_order(rig: Rig) -> None:
    await rig.enqueue(b"head", group="g", task="b")
    await rig.enqueue(b"second", group="g", task="a")
    await rig.enqueue(b"alone", task="a")
    assert payloads(await rig.claim(9, tasks=["a"])) == [b"alone"]
    assert payloads(await rig.claim(9, tasks=["a", "b"])) == [b"head"]


@behaviour(9, needs=("groups",))
async def group_goes_on_when_its_head_of_an_unknown_task_is_gone(rig: Rig) -> None:
    head = await rig.enqueue(b"head", group="g", task="b")
    await rig.enqueue(b"second", group="g", task="a")
    task = await rig.start_claim(tasks=["a"])
    assert await rig.waits(task)
    await rig.change_one(CANCEL, head)
    assert payloads(await rig.answer(task)) == [b"second"]


@behaviour(9, needs=("groups",))
async def removed_and_expired_members_leave_their_group(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.enqueue(b"c", group="g", ttl_ms=1_000)
    await rig.enqueue(b"d", group="g")
    running = await rig.claim_one()
    await rig.change_one(REMOVE, ids[1])
    await rig.advance(1_000)
    await rig.complete(running)
    assert payloads(await rig.claim(9)) == [b"d"]


@behaviour(9, needs=("groups",))
async def delayed_again_head_lets_a_group_go_on(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"], group="g")
    await rig.change_one(DELAY, ids[0], run_at=rig.wall_ms + HOUR)
    assert payloads(await rig.claim(9)) == [b"b"]


@behaviour(9, needs=("groups",))
async def changed_priority_of_a_head_moves_its_group(rig: Rig) -> None:
    head = await rig.enqueue(b"head", group="g")
    await rig.enqueue(b"second", group="g", priority=9)
    await rig.enqueue(b"alone", priority=5)
    await rig.change_one(PRIORITY, head, priority=7)
    assert payloads(await rig.claim(9)) == [b"head", b"alone"]


@behaviour(9, needs=("groups", "dependencies"))
async def blocked_job_joins_its_group_when_satisfied(rig: Rig) -> None:
    first = await rig.enqueue(b"first", queue="other")
    await rig.enqueue(b"blocked", group="g", depends_on=[first])
    await rig.enqueue(b"early", group="g")
    await rig.complete(await rig.claim_one(queues="other"))
    await rig.enqueue(b"late", group="g")
    for expected in (b"early", b"blocked", b"late"):
        leased = await rig.claim_one()
        assert leased.payload == expected
        await rig.complete(leased)


@behaviour(10, needs=("limits",))
async def held_job_expires_in_its_place(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue(b"holder", limit_keys=["api:1"])
    holder = await rig.claim_one()
    expiring = await rig.enqueue(b"expiring", limit_keys=["api:1"], ttl_ms=1_000)
    await rig.enqueue(b"next", limit_keys=["api:1"])
    assert await rig.claim() == []
    await rig.advance(1_000)
    assert (await rig.job(expiring)).reason == "expired"
    await rig.complete(holder)
    assert payloads(await rig.claim(9)) == [b"next"]


@behaviour(10, needs=("limits",))
async def held_job_moves_with_its_priority(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    ids = await rig.enqueue_ids([b"holder", b"a", b"b"], limit_keys=["api:1"])
    holder = await rig.claim_one()
    assert await rig.claim() == []
    await rig.change_one(PRIORITY, ids[2], priority=5)
    assert await rig.claim() == []
    await rig.complete(holder)
    assert payloads(await rig.claim(9)) == [b"b"]


@behaviour(10, needs=("limits",))
async def held_job_keeps_its_place_among_free_ones(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=1)
    await rig.enqueue(b"holder", limit_keys=["api:1"])
    holder = await rig.claim_one()
    await rig.enqueue(b"held", limit_keys=["api:1"])
    assert await rig.claim() == []
    await rig.enqueue(b"free")
    await rig.complete(holder)
    assert await rig.line() == [b"held", b"free"]


@behaviour(10, needs=("limits",))
async def held_jobs_of_several_keys_find_every_order_of_release(rig: Rig) -> None:
    for key in ("a:", "b:", "c:"):
        await rig.set_key(key, concurrency=1)
    holders = {}
    for key in ("a:1", "b:1", "c:1"):
        await rig.enqueue(key.encode(), limit_keys=[key])
        holders[key] = await rig.claim_one()
    await rig.enqueue(b"all", limit_keys=["a:1", "b:1", "c:1"])
    for key in ("b:1", "c:1"):
        await rig.complete(holders[key])
        assert await rig.claim() == []
    await rig.complete(holders["a:1"])
    assert payloads(await rig.claim(9)) == [b"all"]


@behaviour(10, needs=("limits",))
async def tokens_of_all_keys_are_taken_together(rig: Rig) -> None:
    await rig.set_key("a:", rate=Rate(2, HOUR))
    await rig.set_key("b:", rate=Rate(3, HOUR))
    await rig.enqueue_ids([b"x"] * 9, limit_keys=["a:1", "b:1"])
    assert len(await rig.claim(9)) == 2
    await rig.enqueue_ids([b"y"] * 9, limit_keys=["b:1"])
    assert payloads(await rig.claim(9)) == [b"y"]


@behaviour(10, needs=("limits",))
async def release_returns_no_token_of_a_key(rig: Rig) -> None:
    await rig.set_key("api:", rate=Rate(2, HOUR))
    await rig.enqueue_ids([b"x"] * 3, limit_keys=["api:1"])
    await rig.release(await rig.claim_one())
    await rig.claim_one()
    assert await rig.claim() == []


@behaviour(10)
async def cancelled_ready_job_frees_no_slot(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    ids = await rig.enqueue_ids([b"running", b"cancelled", b"discarded", b"removed", b"waits"])
    await rig.claim_one()
    assert await rig.claim() == []
    await rig.change_one(CANCEL, ids[1])
    await rig.change_one(DISCARD, ids[2])
    await rig.change_one(REMOVE, ids[3])
    assert await rig.claim() == []


@behaviour(3)
async def slot_is_freed_at_the_old_deadline_though_the_job_is_gone(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    await rig.enqueue(b"first", keep_completed_ms=0)
    first = await rig.claim_one()
    await rig.enqueue(b"second")
    await rig.change_one(CANCEL, first.id)
    assert await rig.claim() == []
    await rig.advance(LEASE_MS - 1)
    assert await rig.claim() == []
    await rig.advance(1)
    assert (await rig.claim_one()).payload == b"second"


@behaviour(3)
async def removal_of_a_cancelled_job_does_not_free_the_slot_of_its_handler(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    await rig.enqueue(b"first")
    first = await rig.claim_one()
    await rig.enqueue(b"second")
    await rig.change_one(CANCEL, first.id)
    await rig.change_one(REMOVE, first.id)
    assert await rig.claim() == []
    await rig.advance(LEASE_MS)
    assert (await rig.claim_one()).payload == b"second"


@behaviour(3)
async def replayed_job_and_its_old_handler_hold_a_slot_each(rig: Rig) -> None:
    await rig.set_queue(concurrency=2)
    id = await rig.enqueue(b"job")
    old = await rig.claim_one()
    await rig.change_one(DISCARD, id)
    await rig.change_one(REPLAY, id)
    new = await rig.claim_one(lease_ms=HOUR)
    assert (new.id, new.token != old.token) == (id, True)
    await rig.enqueue_ids([b"a", b"b"])
    assert await rig.claim() == []
    await rig.advance(LEASE_MS)
    assert payloads(await rig.claim(9, lease_ms=HOUR)) == [b"a"]
    await rig.complete(new)
    assert payloads(await rig.claim(9)) == [b"b"]


@behaviour(3)
async def confirmation_of_an_old_attempt_does_not_free_the_slot_of_the_new_one(rig: Rig) -> None:
    await rig.set_queue(concurrency=2)
    await rig.enqueue(b"job", timeout_ms=5_000, backoff=Backoff(FIXED, 0))
    old = await rig.claim_one()
    await rig.advance(5_000)
    new = await rig.claim_one()
    assert (new.id, new.attempt) == (old.id, 2)
    await rig.enqueue_ids([b"a", b"b"])
    assert await rig.claim() == []
    answers = await rig.settle(SETTLE_COMPLETE, [old.id], [old.token])
    error_of(answers, 0, LeaseLost)
    assert payloads(await rig.claim(9)) == [b"a"]
    assert await rig.state(new.id) == "running"


@behaviour(6, rulings=(22,))
async def connection_that_lost_its_lease_must_name_the_token(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 0))
    await rig.claim_one(connection=7)
    await rig.advance(LEASE_MS)
    second = await rig.claim_one(connection=8)
    error_of(await rig.settle(SETTLE_COMPLETE, [id], None, connection=7), 0, InvalidRequest, field="token")
    assert await rig.state(id) == "running"
    error_of(await rig.settle(SETTLE_COMPLETE, [id], None, connection=8), 0, LeaseLost, reason=TOKEN_AMBIGUOUS)
    await rig.complete(second)


@behaviour(2)
async def worker_of_several_tenants_settles_a_batch_of_all(rig: Rig) -> None:
    for tenant in (ACME, GLOBEX):
        await rig.enqueue(tenant=tenant)
    leased = await rig.claim(9, tenants=("*",))
    assert len(leased) == 2
    for one in leased:
        await rig.complete(one)
    assert await rig.count(tenant=ACME) == {"completed": 1}
    assert await rig.count(tenant=GLOBEX) == {"completed": 1}


@behaviour(11, rulings=(28,))
async def replay_conflicts_with_a_job_that_took_its_idempotency_key(rig: Rig) -> None:
    id = await rig.enqueue(idempotency_key="k", idempotency_ttl_ms=MINUTE)
    await rig.fail(await rig.claim_one(), retryable=False)
    await rig.advance(MINUTE)
    other = await rig.enqueue(idempotency_key="k")
    await refused(Conflict, rig.change_one(REPLAY, id), existing=other)
    await rig.change_one(CANCEL, other)
    assert await rig.state(id) == "failed"


@behaviour(5)
async def queue_named_twice_gives_each_job_once(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 5, queue="mail.in")
    leased = await rig.claim(9, queues=("mail.in", "mail.*", "*", "mail.in"))
    assert sorted(one.id for one in leased) == ids


@behaviour(15)
async def job_leased_to_a_waiting_claim_was_enqueued_first(rig: Rig) -> None:
    task = await rig.start_claim(worker="w")
    id = await rig.enqueue()
    await rig.answer(task)
    assert await rig.types_of(id) == ["enqueued", "started"]


@behaviour(15, needs=("dependencies",))
async def end_of_a_job_is_told_before_what_becomes_of_its_dependents(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(depends_on=[first])
    leased = await rig.claim_one()
    cursor = (await rig.store.events(rig.context(), "end", 1, 0, rig.now())).cursor
    await rig.complete(leased)
    told = [(event.type, event.job) for event in await rig.events(cursor=cursor)]
    assert told == [("completed", first), ("ready", child)]


@behaviour(3)
async def snoozed_job_expires(rig: Rig) -> None:
    id = await rig.enqueue(ttl_ms=10_000)
    leased = await rig.claim_one()
    await rig.snooze(leased, delay_ms=HOUR)
    await rig.advance(10_000)
    assert (await rig.job(id)).reason == "expired"
    await refused(AlreadySettled, rig.complete(leased), job=id)


@behaviour(10, needs=("groups", "limits"))
async def all_that_holds_a_job_must_let_it_go(rig: Rig) -> None:
    await rig.set_queue(concurrency=2, rate=Rate(2, 1_000))
    await rig.set_key("api:", concurrency=1)
    await rig.set_tenant(running_max=2)
    await rig.enqueue_ids([b"a", b"b"], group="g", limit_keys=["api:1"])
    first = await rig.claim_one()
    await rig.enqueue(b"c")
    second = await rig.claim_one()
    assert second.payload == b"c"
    await rig.complete(first)
    assert await rig.claim() == []
    task = await rig.start_claim()
    await rig.set_tenant(running_max=3)
    assert await rig.waits(task)
    await rig.advance(500)
    assert payloads(await rig.answer(task)) == [b"b"]


@behaviour(3)
async def cancel_of_a_job_whose_lease_ran_out_unnoticed(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, HOUR))
    leased = await rig.claim_one()
    rig.move_clock(LEASE_MS)
    await rig.change_one(CANCEL, id)
    assert await rig.state(id) == "cancelled"
    answers = await rig.settle(SETTLE_COMPLETE, [id], [leased.token])
    assert type(answers.item(0).error) in {LeaseLost, JobCancelled}
