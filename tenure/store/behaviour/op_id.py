"""Section 2: a repeated request is answered as the first time, and executed once."""

from tenure.core.error import Error, InvalidRequest
from tenure.core.request import CANCEL, CLONE, REPLAY, Filter
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL
from tenure.core.tenant import OpId
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import DAY, GLOBEX, HOUR, LEASE_MS, SECOND, Rig


@behaviour(2)
async def repeated_enqueue_stores_once(rig: Rig) -> None:
    first = await rig.submit(b"x", op=OpId("s", 1))
    again = await rig.submit(b"x", op=OpId("s", 1))
    assert (again.id, again.state, again.duplicate) == (first.id, first.state, False)
    assert await rig.count() == {"ready": 1}
    assert await rig.enqueue() == first.id + 1


@behaviour(2)
async def repeated_batch_answers_each_item_as_the_first_time(rig: Rig) -> None:
    await rig.enqueue(unique_key="taken")
    each: list[dict[str, object]] = [{}, {"unique_key": "taken"}, {"expires_at": 1}]
    first = await rig.enqueue_many([b"a", b"b", b"c"], each=each, op=OpId("s", 1))
    again = await rig.enqueue_many([b"a", b"b", b"c"], each=each, op=OpId("s", 1))
    for at in range(3):
        one, two = first.item(at), again.item(at)
        assert (one.id, one.state, one.duplicate, one.error) == (two.id, two.state, two.duplicate, two.error)
    assert await rig.count() == {"ready": 2}


@behaviour(2)
async def repeated_enqueue_is_answered_though_the_job_has_gone_on(rig: Rig) -> None:
    first = await rig.submit(b"x", op=OpId("s", 1), keep_completed_ms=0)
    await rig.complete(await rig.claim_one())
    again = await rig.submit(b"x", op=OpId("s", 1), keep_completed_ms=0)
    assert (again.id, again.duplicate) == (first.id, False)
    assert await rig.claim() == []


@behaviour(2)
async def other_counters_and_sessions_are_other_requests(rig: Rig) -> None:
    for op in (OpId("s", 1), OpId("s", 2), OpId("t", 1)):
        await rig.submit(op=op)
    assert await rig.count() == {"ready": 3}


@behaviour(2)
async def sessions_of_tenants_are_apart(rig: Rig) -> None:
    own = await rig.submit(op=OpId("s", 1))
    foreign = await rig.submit(op=OpId("s", 1), tenant=GLOBEX)
    assert own.id != foreign.id
    assert await rig.count(tenant=GLOBEX) == {"ready": 1}


@behaviour(2)
async def repeated_claim_returns_the_same_leases_while_they_live(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 5)
    first = await rig.claim(2, op=OpId("s", 1))
    await rig.advance(1_000)
    again = await rig.claim(2, op=OpId("s", 1))
    assert [(one.id, one.token, one.attempt) for one in again] == [(one.id, one.token, one.attempt) for one in first]
    assert [one.lease_until for one in again] == [one.lease_until for one in first]
    assert await rig.count() == {"ready": 3, "running": 2}


@behaviour(2)
async def repeated_claim_claims_anew_when_its_leases_are_over(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], backoff=Backoff(FIXED, HOUR))
    first = await rig.claim(1, op=OpId("s", 1))
    await rig.complete(first[0])
    again = await rig.claim(1, op=OpId("s", 1))
    assert [one.payload for one in again] == [b"b"]
    await rig.advance(LEASE_MS)
    assert await rig.claim(1, op=OpId("s", 1)) == []


@behaviour(2)
async def repeated_settle_is_answered_as_the_first_time(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 0))
    leased = await rig.claim_one()
    first = await rig.settle_one(SETTLE_FAIL, leased, op=OpId("s", 1))
    again = await rig.settle_one(SETTLE_FAIL, leased, op=OpId("s", 1))
    assert (first.id, first.state) == (again.id, again.state)
    second = await rig.claim_one()
    late = await rig.settle_one(SETTLE_FAIL, leased, op=OpId("s", 1))
    assert (late.id, late.state) == (first.id, first.state)
    assert await rig.state(id) == "running"
    await rig.complete(second)


@behaviour(2)
async def repeated_completion_stores_its_followups_once(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for _ in range(3):
        answers = await rig.settle(
            SETTLE_COMPLETE,
            [leased.id],
            [leased.token],
            followups=[rig.batch([b"next"], queue="next")],
            op=OpId("s", 1),
        )
        assert not answers.errors()
    assert await rig.count("next") == {"ready": 1}


@behaviour(2)
async def repeated_change_is_done_once(rig: Rig) -> None:
    id = await rig.enqueue()
    first = await rig.change_one(CLONE, id, op=OpId("s", 1))
    again = await rig.change_one(CLONE, id, op=OpId("s", 1))
    assert first.id == again.id
    assert await rig.count() == {"ready": 2}


@behaviour(2)
async def repeated_change_is_answered_though_the_job_has_gone_on(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.fail(await rig.claim_one(), retryable=False)
    first = await rig.change_one(REPLAY, id, op=OpId("s", 1))
    await rig.claim_one()
    again = await rig.change_one(REPLAY, id, op=OpId("s", 1))
    assert (again.id, again.state) == (first.id, first.state)
    assert (await rig.job(id)).replays == 1


@behaviour(2)
async def op_id_of_another_verb_is_refused_not_executed(rig: Rig) -> None:
    """Each verb with each other one's id: refused by name, nothing changed, and the first is still answered."""
    id = await rig.enqueue()
    first = await rig.submit(b"second", op=OpId("s", 1))
    leased = (await rig.claim(1, op=OpId("s", 2)))[0]
    await rig.change(CANCEL, first.id, op=OpId("s", 4))
    await rig.settle_one(SETTLE_COMPLETE, leased, op=OpId("s", 3))
    before = (await rig.count(), await rig.job(id), await rig.job(first.id))

    async def use(verb: str, op: OpId) -> object:
        if verb == "enqueue":
            return await rig.submit(b"x", op=op)
        if verb == "claim":
            return await rig.claim(1, op=op)
        if verb == "settle":
            return await rig.settle_one(SETTLE_COMPLETE, leased, op=op)
        return await rig.change(CANCEL, first.id, op=op)

    verbs = {"enqueue": 1, "claim": 2, "settle": 3, "change": 4}
    for verb in verbs:
        for other, counter in verbs.items():
            if other != verb:
                error = await refused(InvalidRequest, use(verb, OpId("s", counter)), field="op_id")
                assert other in error.rule
    assert (await rig.count(), await rig.job(id), await rig.job(first.id)) == before
    assert (await rig.submit(b"second", op=OpId("s", 1))).id == first.id


@behaviour(2)
async def repeat_is_answered_for_two_minutes(rig: Rig) -> None:
    first = await rig.submit(op=OpId("s", 1))
    await rig.advance(119 * SECOND)
    assert (await rig.submit(op=OpId("s", 1))).id == first.id


async def not_executed(rig: Rig, counter: int) -> None:
    before = await rig.count()
    try:
        outcome = await rig.submit(op=OpId("s", counter))
    except Error:
        outcome = None
    assert outcome is None, "an operation that is too old was answered"
    assert await rig.count() == before


@behaviour(2)
async def repeat_after_two_minutes_is_refused_not_executed(rig: Rig) -> None:
    await rig.submit(op=OpId("s", 1))
    await rig.advance(100 * SECOND)
    await rig.submit(op=OpId("s", 2))
    await rig.advance(21 * SECOND)
    await not_executed(rig, 1)


@behaviour(2)
async def repeat_of_a_silent_session_is_refused_not_executed(rig: Rig) -> None:
    await rig.submit(op=OpId("s", 1))
    await rig.advance(121 * SECOND)
    await not_executed(rig, 1)


@behaviour(2, rulings=(42,))
async def session_that_was_silent_for_a_day_is_forgotten(rig: Rig) -> None:
    first = await rig.submit(op=OpId("s", 1))
    await rig.advance(DAY - 1)
    await not_executed(rig, 1)
    await rig.advance(DAY)
    assert (await rig.submit(op=OpId("s", 1))).id > first.id


@behaviour(2)
async def repeat_from_over_a_thousand_operations_back_is_refused_not_executed(rig: Rig) -> None:
    ids = {}
    for counter in range(1, 1_101):
        ids[counter] = (await rig.submit(op=OpId("s", counter))).id
    assert (await rig.submit(op=OpId("s", 1_100))).id == ids[1_100]
    assert (await rig.submit(op=OpId("s", 200))).id == ids[200]
    await not_executed(rig, 1)
    await not_executed(rig, 50)


@behaviour(2)
async def repeated_change_by_filter_answers_the_same_count(rig: Rig) -> None:
    """After it was done, and while it goes on."""
    await rig.enqueue_ids([b"x"] * 5)
    first = await rig.change(CANCEL, filter=Filter(queue="default"), op=OpId("s", 1))
    await rig.enqueue_ids([b"x"] * 2_500, queue="more")
    again = await rig.change(CANCEL, filter=Filter(queue="default"), op=OpId("s", 1))
    assert (first.count, again.count) == (5, 5)
    calls = [await rig.start_change(CANCEL, filter=Filter(queue="more"), op=OpId("s", 2)) for _ in range(3)]
    assert await rig.waits(calls[2])
    calls[0].cancel()
    assert [(await rig.finish(call)).count for call in calls[1:]] == [2_500, 2_500]


@behaviour(2)
async def repeated_cancel_of_several_jobs_is_answered_item_by_item(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 2)
    first = await rig.change(CANCEL, *ids, 2**53 - 1, op=OpId("s", 1))
    again = await rig.change(CANCEL, *ids, 2**53 - 1, op=OpId("s", 1))
    assert [first.item(at).state for at in range(2)] == [again.item(at).state for at in range(2)]
    assert first.item(2).error == again.item(2).error
    assert first.item(2).error is not None
