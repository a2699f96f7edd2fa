"""Section 6: who may settle a job, what the others are told, and what each verb does."""

import msgspec

from tenure.core.bound import FOLLOWUPS_MAX, PAYLOAD_BYTES_DEFAULT
from tenure.core.error import (
    TOKEN_AMBIGUOUS,
    TOKEN_NOT_HELD,
    AlreadySettled,
    DependencyNotFound,
    InvalidRequest,
    JobCancelled,
    JobNotFound,
    LeaseLost,
    PayloadTooLarge,
)
from tenure.core.request import CANCEL, DISCARD, LOG, PROGRESS, REMOVE, REPLAY, Append, Extend
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import (
    COMPLETED,
    READY,
    RETRYING,
    SETTLE_CANCEL,
    SETTLE_COMPLETE,
    SETTLE_FAIL,
    SETTLE_NAMES,
    SETTLE_RELEASE,
    SETTLE_SNOOZE,
)
from tenure.store.behaviour.expect import error_of, refused
from tenure.store.behaviour.leased import Leased
from tenure.store.behaviour.registry import CAPPED, behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, HOUR, LEASE_MS, Rig
from tenure.store.behaviour.trap import ACK_BY_ID, BATCH_ACK

VERBS = (SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_SNOOZE, SETTLE_CANCEL)
INVENTED = b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01invented"
UNKNOWN_ID = 2**53 - 1


def forged(leased: Leased) -> Leased:
    return msgspec.structs.replace(leased, token=leased.token[:-1] + bytes([leased.token[-1] ^ 1]))


@behaviour(6)
async def live_token_completes(rig: Rig) -> None:
    id = await rig.enqueue(b"x")
    leased = await rig.claim_one(worker="w1")
    await rig.advance(250)
    outcome = await rig.complete(leased, result=b"42")
    assert (outcome.id, outcome.state) == (id, COMPLETED)
    job = await rig.job(id)
    assert (job.state, job.result, job.attempt, job.delivery) == ("completed", b"42", 1, 1)
    assert (job.ended_at, job.ended_at - job.started_at) == (rig.wall_ms, 250)
    assert (job.lease_until, job.reason, job.error) == (0, "", None)


@behaviour(6)
async def completing_again_answers_the_first_answer(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    first = await rig.complete(leased, result=b"first")
    await rig.advance(10)
    again = await rig.complete(leased, result=b"second")
    assert (again.id, again.state) == (first.id, first.state)
    assert (await rig.job(id)).result == b"first"
    assert await rig.types_of(id) == ["enqueued", "started", "completed"]


@behaviour(6)
async def failing_again_answers_the_first_answer_and_spends_no_second_attempt(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 5_000))
    leased = await rig.claim_one()
    first = await rig.fail(leased, type="E")
    await rig.advance(100)
    again = await rig.fail(leased, type="Other")
    assert (first.state, again.state) == (RETRYING, RETRYING)
    job = await rig.job(id)
    assert (job.attempt, job.run_at) == (1, rig.wall_ms - 100 + 5_000)
    assert await rig.types_of(id) == ["enqueued", "started", "retrying"]


@behaviour(6)
async def releasing_again_answers_the_first_answer(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    first = await rig.release(leased)
    again = await rig.release(leased)
    assert (first.state, again.state) == (READY, READY)
    assert await rig.types_of(id) == ["enqueued", "started", "released"]


@behaviour(6)
async def settling_by_another_verb_is_already_settled(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.complete(leased, result=b"kept")
    for verb in (SETTLE_FAIL, SETTLE_RELEASE, SETTLE_SNOOZE, SETTLE_CANCEL):
        await refused(AlreadySettled, rig.settle_one(verb, leased), job=id, outcome=SETTLE_NAMES[SETTLE_COMPLETE])
    job = await rig.job(id)
    assert (job.state, job.result) == ("completed", b"kept")
    assert len(await rig.events_of(id)) == 3


@behaviour(6)
async def completing_a_failed_attempt_is_already_settled(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 5_000))
    leased = await rig.claim_one()
    await rig.fail(leased)
    await refused(AlreadySettled, rig.complete(leased), job=id, outcome=SETTLE_NAMES[SETTLE_FAIL])
    assert await rig.state(id) == "retrying"


@behaviour(6, trap=ACK_BY_ID)
async def token_of_a_released_attempt_cannot_complete_it(rig: Rig) -> None:
    id = await rig.enqueue()
    first = await rig.claim_one()
    await rig.release(first)
    await refused(AlreadySettled, rig.complete(first), job=id, outcome=SETTLE_NAMES[SETTLE_RELEASE])
    assert await rig.state(id) == "ready"


@behaviour(6, trap=ACK_BY_ID)
async def token_of_a_released_attempt_cannot_settle_the_next_one(rig: Rig) -> None:
    id = await rig.enqueue()
    first = await rig.claim_one()
    await rig.release(first)
    second = await rig.claim_one()
    assert second.token != first.token
    await refused(AlreadySettled, rig.complete(first), job=id, outcome=SETTLE_NAMES[SETTLE_RELEASE])
    assert await rig.state(id) == "running"
    await rig.complete(second)
    await refused(LeaseLost, rig.complete(first), job=id, reason="superseded")


@behaviour(6)
async def last_settlement_is_answered_again_though_the_job_was_leased_since(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=None)
    for verb in (SETTLE_RELEASE, SETTLE_FAIL, SETTLE_SNOOZE):
        first = await rig.claim_one()
        settle = rig.fail(first, delay_ms=0) if verb == SETTLE_FAIL else rig.settle_one(verb, first)
        before = await settle
        second = await rig.claim_one()
        again = await rig.settle_one(verb, first)
        assert (again.id, again.state) == (before.id, before.state)
        assert await rig.state(id) == "running"
        await rig.release(second)


@behaviour(6, rulings=(23,), trap=ACK_BY_ID)
async def stale_worker_cannot_settle_the_next_attempt(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 1_000))
    stale = await rig.claim_one()
    await rig.advance(LEASE_MS)
    await rig.advance(1_000)
    live = await rig.claim_one()
    await refused(LeaseLost, rig.complete(stale), job=id, reason="superseded")
    await refused(LeaseLost, rig.fail(stale), job=id, reason="superseded")
    assert await rig.state(id) == "running"
    await rig.complete(live, result=b"live")
    assert (await rig.job(id)).result == b"live"


@behaviour(6, rulings=(23,))
async def invented_token_is_lease_lost(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await refused(LeaseLost, rig.complete(forged(leased)), job=id, reason="unknown")
    error_of(await rig.settle(SETTLE_COMPLETE, [id], [b""]), 0, LeaseLost, reason="unknown")
    assert await rig.state(id) == "running"


@behaviour(6)
async def empty_token_is_no_token_of_an_ended_job(rig: Rig) -> None:
    """It would stand for a settlement that never was."""
    for end in (CANCEL, DISCARD):
        id = await rig.enqueue(tags=("side",))
        await rig.claim_one()
        await rig.change_one(end, id)
        before = await rig.job(id)
        error_of(await rig.settle(SETTLE_COMPLETE, [id], [b""]), 0, LeaseLost, reason="unknown")
        await refused(LeaseLost, rig.append(Append(LOG, id, b"", text="x")), job=id, reason="unknown")
        extended = await rig.store.extend(rig.context(), Extend([id], [b""]), rig.now())
        assert extended.lease_until == [0]
        assert isinstance((extended.errors or {})[0], LeaseLost)
        assert await rig.job(id) == before
        after = await rig.enqueue(queue="after")
        await rig.advance(HOUR)
        assert (await rig.claim_one(queues="after")).id == after


@behaviour(6)
async def token_of_another_job_does_not_settle(rig: Rig) -> None:
    first = await rig.enqueue()
    second = await rig.enqueue()
    one = await rig.claim_one()
    two = await rig.claim_one()
    answers = await rig.settle(SETTLE_COMPLETE, [first, second], [two.token, one.token])
    assert [type(answers.item(at).error) for at in (0, 1)] == [LeaseLost, LeaseLost]
    assert await rig.states(first, second) == ["running", "running"]


@behaviour(6)
async def unknown_job_with_an_invented_token_is_not_found(rig: Rig) -> None:
    for verb in VERBS:
        error_of(await rig.settle(verb, [UNKNOWN_ID], [INVENTED]), 0, JobNotFound, job=UNKNOWN_ID)


@behaviour(6)
async def unknown_job_with_a_genuine_token_is_already_settled(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    answers = await rig.settle(SETTLE_COMPLETE, [UNKNOWN_ID], [leased.token])
    error_of(answers, 0, AlreadySettled, job=UNKNOWN_ID, outcome="unknown")


@behaviour(6)
async def settling_a_removed_job_is_already_settled(rig: Rig) -> None:
    await rig.enqueue(keep_completed_ms=0)
    leased = await rig.claim_one()
    await rig.complete(leased)
    assert await rig.state(leased.id) == "gone"
    await refused(AlreadySettled, rig.complete(leased), job=leased.id, outcome="unknown")
    await refused(AlreadySettled, rig.fail(leased), job=leased.id, outcome="unknown")
    await refused(JobNotFound, rig.complete(forged(leased)), job=leased.id)


@behaviour(6)
async def settling_in_a_foreign_tenant_changes_nothing(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await refused(AlreadySettled, rig.complete(leased, tenant=GLOBEX), job=id, outcome="unknown")
    await refused(JobNotFound, rig.complete(forged(leased), tenant=GLOBEX), job=id)
    assert await rig.state(id) == "running"


@behaviour(6, rulings=(23,))
async def late_word_on_a_cancelled_job_is_job_cancelled_every_time(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.change_one(CANCEL, id)
    for verb in (*VERBS, *VERBS):
        await refused(JobCancelled, rig.settle_one(verb, leased), job=id)
    await refused(JobCancelled, rig.extend(leased), job=id)
    assert await rig.types_of(id) == ["enqueued", "started", "cancelled"]


@behaviour(6, rulings=(23,))
async def late_word_on_a_discarded_job_is_already_settled(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.change_one(DISCARD, id)
    for verb in (*VERBS, *VERBS):
        await refused(AlreadySettled, rig.settle_one(verb, leased), job=id, outcome="discarded")
    job = await rig.job(id)
    assert (job.state, job.reason) == ("failed", "discarded")


@behaviour(6, rulings=(22,))
async def token_may_be_left_out_on_the_claiming_connection(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(connection=7)
    answers = await rig.settle(SETTLE_COMPLETE, [id], None, connection=7)
    assert answers.item(0).error is None
    assert await rig.state(id) == "completed"


@behaviour(6, rulings=(22,))
async def token_may_not_be_left_out_on_another_connection(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(connection=7)
    for connection in (0, 8):
        answers = await rig.settle(SETTLE_COMPLETE, [id], None, connection=connection)
        error_of(answers, 0, InvalidRequest, field="token")
    assert await rig.state(id) == "running"


@behaviour(6, rulings=(22,))
async def token_may_not_be_left_out_without_a_connection(rig: Rig) -> None:
    running, ready = await rig.enqueue_ids([b"x"] * 2)
    await rig.claim_one()
    for connection in (0, 7):
        for id in (running, ready):
            answers = await rig.settle(SETTLE_COMPLETE, [id], None, connection=connection)
            error_of(answers, 0, InvalidRequest, field="token")
    assert await rig.states(running, ready) == ["running", "ready"]


@behaviour(6, rulings=(22,))
async def token_may_be_left_out_when_the_holder_settled_every_earlier_lease(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 0))
    for verb in (SETTLE_FAIL, SETTLE_RELEASE, SETTLE_SNOOZE, SETTLE_COMPLETE):
        await rig.claim_one(connection=7)
        answers = await rig.settle(verb, [id], None, connection=7)
        assert answers.item(0).error is None
    assert await rig.state(id) == "completed"


@behaviour(6, rulings=(22,))
async def token_is_needed_once_an_earlier_lease_expired(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 0))
    await rig.claim_one(connection=7)
    await rig.advance(LEASE_MS)
    second = await rig.claim_one(connection=7)
    for verb in VERBS:
        answers = await rig.settle(verb, [id], None, connection=7)
        error_of(answers, 0, LeaseLost, job=id, reason=TOKEN_AMBIGUOUS)
    await rig.settle_one(SETTLE_RELEASE, second)
    third = await rig.claim_one(connection=7)
    error_of(await rig.settle(SETTLE_COMPLETE, [id], None, connection=7), 0, LeaseLost, reason=TOKEN_AMBIGUOUS)
    await rig.complete(third)


@behaviour(6)
async def client_without_tokens_settles_on_any_connection_of_its_principal(rig: Rig) -> None:
    for verb in VERBS:
        id = await rig.enqueue()
        await rig.claim_one(connection=7, principal="shop")
        answers = await rig.settle(verb, [id], None, connection=8, principal="shop", tokenless=True)
        assert answers.item(0).error is None
        assert await rig.state(id) != "running"
        await rig.change_one(REMOVE, id)


@behaviour(6)
async def client_without_tokens_renews_and_reports_on_any_connection_of_its_principal(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(connection=7, principal="shop")
    context = rig.context(connection=8, principal="shop", tokenless=True)
    await rig.advance(1_000)
    assert (await rig.store.extend(context, Extend([id]), rig.now())).lease_until == [rig.wall_ms + LEASE_MS]
    assert await rig.store.append(context, Append(PROGRESS, id, None, 10), rig.now()) == 10


@behaviour(6)
async def client_without_tokens_settles_nothing_that_others_claimed(rig: Rig) -> None:
    id = await rig.enqueue()
    error_of(
        await rig.settle(SETTLE_COMPLETE, [id], None, principal="shop", tokenless=True),
        0,
        LeaseLost,
        reason=TOKEN_NOT_HELD,
    )
    leased = await rig.claim_one(connection=7, principal="shop")
    for principal in ("other", ""):
        answers = await rig.settle(SETTLE_COMPLETE, [id], None, connection=8, principal=principal, tokenless=True)
        error_of(answers, 0, LeaseLost, job=id, reason=TOKEN_NOT_HELD)
    answers = await rig.settle(SETTLE_COMPLETE, [id], None, principal="shop", tokenless=True, tenant=GLOBEX)
    error_of(answers, 0, JobNotFound, job=id)
    answers = await rig.settle(SETTLE_COMPLETE, [id], None, connection=8, principal="shop")
    error_of(answers, 0, InvalidRequest, field="token")
    await rig.complete(leased)


@behaviour(6)
async def client_without_tokens_cannot_settle_once_a_lease_was_lost(rig: Rig) -> None:
    for how in ("expired", "timed out", "discarded"):
        options: dict[str, object] = {"timeout_ms": 5_000} if how == "timed out" else {}
        id = await rig.enqueue(b"x", tenant=ACME, backoff=Backoff(FIXED, 0), **options)
        await rig.claim_one(connection=7, principal="shop")
        if how == "discarded":
            await rig.change_one(DISCARD, id)
            await rig.change_one(REPLAY, id)
        else:
            await rig.advance(LEASE_MS if how == "expired" else 5_000)
        leased = await rig.claim_one(connection=7, principal="shop")
        assert leased.id == id
        for connection in (7, 8):
            answers = await rig.settle(
                SETTLE_COMPLETE, [id], None, connection=connection, principal="shop", tokenless=True
            )
            error_of(answers, 0, LeaseLost, job=id, reason=TOKEN_AMBIGUOUS)
        assert await rig.state(id) == "running"
        await rig.complete(leased)


@behaviour(6)
async def client_without_tokens_hears_that_its_job_was_cancelled(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(connection=7, principal="shop")
    await rig.change_one(CANCEL, id)
    answers = await rig.settle(SETTLE_COMPLETE, [id], None, connection=8, principal="shop", tokenless=True)
    error_of(answers, 0, JobCancelled, job=id)


@behaviour(6)
async def empty_token_in_a_batch_is_none(rig: Rig) -> None:
    one, two = await rig.enqueue_ids([b"1", b"2"])
    first = await rig.claim_one(connection=7, principal="shop")
    await rig.claim_one(connection=7, principal="shop")
    answers = await rig.settle(
        SETTLE_COMPLETE, [one, two], [first.token, b""], connection=8, principal="shop", tokenless=True
    )
    assert not answers.errors()
    assert await rig.states(one, two) == ["completed", "completed"]


@behaviour(6, rulings=(22,))
async def leaving_the_token_out_does_not_show_a_job_to_others(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(connection=7)
    for connection in (7, 8):
        answers = await rig.settle(SETTLE_COMPLETE, [id], None, connection=connection, tenant=GLOBEX)
        error_of(answers, 0, JobNotFound, job=id)
    error_of(await rig.settle(SETTLE_COMPLETE, [UNKNOWN_ID], None, connection=7), 0, JobNotFound, job=UNKNOWN_ID)


@behaviour(6, rulings=(17,))
async def batch_settles_item_by_item(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"0", b"1", b"2"])
    leased = await rig.claim(3)
    await rig.change_one(CANCEL, ids[1])
    answers = await rig.complete_all(leased)
    assert [answers.item(at).error is None for at in range(3)] == [True, False, True]
    error_of(answers, 1, JobCancelled, job=ids[1])
    assert answers.count == 2
    assert await rig.states(*ids) == ["completed", "cancelled", "completed"]


@behaviour(6, rulings=(17,))
async def same_job_twice_in_a_batch_is_settled_once(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    answers = await rig.settle(SETTLE_COMPLETE, [id, id], [leased.token, leased.token], results=[b"first", b"second"])
    assert [(answers.item(at).id, answers.item(at).state) for at in (0, 1)] == [(id, COMPLETED), (id, COMPLETED)]
    assert not answers.errors()
    assert (await rig.job(id)).result == b"first"
    assert await rig.types_of(id) == ["enqueued", "started", "completed"]


@behaviour(6, trap=BATCH_ACK)
async def batch_of_completions_keeps_each_result(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"0", b"1", b"2"])
    leased = await rig.claim(3)
    tokens = [one.token for one in leased]
    await rig.settle(SETTLE_COMPLETE, [one.id for one in leased], tokens, results=[b"a", None, b"c"])
    assert [(await rig.job(id)).result for id in ids] == [b"a", None, b"c"]
    for id in ids:
        assert await rig.types_of(id) == ["enqueued", "started", "completed"]


@behaviour(6, trap=BATCH_ACK)
async def batch_of_completions_frees_the_slots_of_each_queue(rig: Rig) -> None:
    for queue in ("one", "two"):
        await rig.set_queue(queue, concurrency=1)
        await rig.enqueue_ids([b"first", b"second"], queue=queue)
    leased = await rig.claim(2, queues=("one", "two"))
    assert sorted(one.options.queue for one in leased) == ["one", "two"]
    assert await rig.claim(2, queues=("one", "two")) == []
    await rig.complete_all(leased)
    again = await rig.claim(4, queues=("one", "two"))
    assert sorted(one.options.queue for one in again) == ["one", "two"]


@behaviour(6)
async def completion_stores_its_followups_in_the_same_step(rig: Rig) -> None:
    await rig.enqueue(b"parent")
    leased = await rig.claim_one()
    await rig.complete(leased, followups=rig.batch([b"a", b"b"], queue="next"))
    assert await rig.line(queues="next") == [b"a", b"b"]
    assert await rig.state(leased.id) == "completed"


@behaviour(12)
async def followup_that_is_a_duplicate_leaves_the_existing_job_as_it_is(rig: Rig) -> None:
    """Though that came in at the same time: it has another parent, or none."""
    id = await rig.enqueue(b"first", queue="next", custom_id="next")
    before = await rig.get(id)
    parent = await rig.enqueue()
    batch = rig.batch([b"again", b"new"], queue="next", each=[{"custom_id": "next"}, {}])
    await rig.complete(await rig.claim_one(), followups=batch)
    assert await rig.get(id) == before
    new = (await rig.claim(9, queues=("next",)))[1]
    found = await rig.get(new.id)
    assert found is not None and found.parent == parent


@behaviour(6, rulings=(25,))
async def followups_belong_to_the_tenant_of_the_job(rig: Rig) -> None:
    await rig.enqueue(b"parent", tenant=GLOBEX)
    leased = (await rig.claim(1, tenant=ACME, tenants=(ACME, GLOBEX)))[0]
    await rig.complete(leased, followups=rig.batch([b"child"], queue="next"), tenant=GLOBEX)
    assert await rig.claim(1, queues="next", tenant=ACME) == []
    assert (await rig.claim_one(queues="next", tenant=GLOBEX)).payload == b"child"


@behaviour(6, rulings=(25,))
async def bad_followup_refuses_the_completion_and_the_lease_stays(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    bad = rig.batch([b"good", b"bad"], each=[{}, {"depends_on": [UNKNOWN_ID]}], queue="next")
    await refused(DependencyNotFound, rig.complete(leased, followups=bad), job=UNKNOWN_ID)
    assert await rig.state(leased.id) == "running"
    assert await rig.count("next") == {}
    await rig.complete(leased)


@behaviour(4)
async def too_many_followups_refuse_the_completion_and_the_lease_stays(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    many = rig.batch([b"x"] * (FOLLOWUPS_MAX + 1), queue="next")
    await refused(InvalidRequest, rig.complete(leased, followups=many))
    assert await rig.state(leased.id) == "running"
    assert await rig.count("next") == {}
    await rig.complete(leased, followups=rig.batch([b"x"] * FOLLOWUPS_MAX, queue="next"))
    assert await rig.count("next") == {"ready": FOLLOWUPS_MAX}


@behaviour(6, rulings=(25,), needs=(CAPPED,))
async def result_over_the_cap_is_refused_and_the_lease_stays(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    size = PAYLOAD_BYTES_DEFAULT + 1
    await refused(PayloadTooLarge, rig.complete(leased, b"x" * size), size=size, max=PAYLOAD_BYTES_DEFAULT)
    assert await rig.state(leased.id) == "running"
    await rig.complete(leased, b"x" * PAYLOAD_BYTES_DEFAULT)
    assert len((await rig.job(leased.id)).result or b"") == PAYLOAD_BYTES_DEFAULT


@behaviour(6)
async def handler_cancels_its_own_job(rig: Rig) -> None:
    id = await rig.enqueue(unique_key="k")
    leased = await rig.claim_one()
    await rig.cancel_running(leased)
    await rig.cancel_running(leased)
    assert await rig.state(id) == "cancelled"
    assert await rig.types_of(id) == ["enqueued", "started", "cancelled"]
    assert await rig.enqueue(unique_key="k") != id


@behaviour(6)
async def cancel_wins_over_a_completion_on_its_way(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.change_one(CANCEL, id)
    await refused(JobCancelled, rig.complete(leased, b"late"), job=id)
    job = await rig.job(id)
    assert (job.state, job.result) == ("cancelled", None)


@behaviour(6)
async def cancelled_job_that_is_gone_is_still_refused(rig: Rig) -> None:
    id = await rig.enqueue(keep_completed_ms=0)
    leased = await rig.claim_one()
    await rig.change_one(CANCEL, id)
    await rig.advance(HOUR)
    if await rig.state(id) != "gone":
        await rig.change_one(REMOVE, id)
    await refused(AlreadySettled, rig.complete(leased), job=id, outcome="unknown")
