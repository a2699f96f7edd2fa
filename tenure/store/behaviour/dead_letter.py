"""Section 14: what a dead letter keeps, and how dead letters are grouped."""

from tenure.core.bound import ERROR_MESSAGE_BYTES_MAX, ERROR_TRACE_BYTES_MAX
from tenure.core.request import DISCARD, REPLAY
from tenure.core.retry import FIXED, Backoff
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import GLOBEX, LEASE_MS, Rig


@behaviour(14)
async def dead_letter_keeps_its_error(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=1)
    await rig.fail(await rig.claim_one(), type="ValueError", message="user 17 is gone", trace="line 1\nline 2")
    job = await rig.job(id)
    assert (job.state, job.reason, job.ended_at) == ("failed", "attempts_exhausted", rig.wall_ms)
    assert job.error is not None
    assert (job.error.type, job.error.message, job.error.trace) == ("ValueError", "user 17 is gone", "line 1\nline 2")
    assert len(job.error.fingerprint) == 16
    assert int(job.error.fingerprint, 16) >= 0


@behaviour(14)
async def dead_letter_keeps_the_history_of_its_attempts(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=3, backoff=Backoff(FIXED, 1_000))
    started: list[int] = []
    for worker in ("w1", "w2"):
        leased = await rig.claim_one(worker=worker)
        started.append(rig.wall_ms)
        await rig.advance(100)
        await rig.fail(leased, type=worker)
        await rig.advance(1_000)
    await rig.claim_one(worker="w3")
    started.append(rig.wall_ms)
    await rig.advance(LEASE_MS)
    history = (await rig.job(id)).history
    assert [(one.attempt, one.delivery, one.worker) for one in history] == [(1, 1, "w1"), (2, 2, "w2"), (3, 3, "w3")]
    assert [one.started_at for one in history] == started
    assert [one.ended_at - one.started_at for one in history] == [100, 100, LEASE_MS]
    assert [one.cause for one in history] == ["fail", "fail", "expire_lease"]
    assert [one.error.type for one in history[:2] if one.error] == ["w1", "w2"]


@behaviour(14)
async def failed_attempt_is_kept_while_the_job_is_retried(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.fail(await rig.claim_one(), type="E", message="first", delay_ms=0)
    job = await rig.job(id)
    assert job.error is not None
    assert (job.error.message, job.reason, len(job.history)) == ("first", "", 1)


@behaviour(15)
async def fingerprint_masks_what_varies(rig: Rig) -> None:
    messages = (
        "user 17 not found in 'eu'",
        "user 18 not found in 'us'",
        'user 9000 not found in "a b"',
        "user 1 lost 123e4567-e89b-12d3-a456-426614174000",
        "user 2 lost 00000000-0000-0000-0000-000000000000",
    )
    found: list[str] = []
    for message in messages:
        id = await rig.enqueue()
        await rig.fail(await rig.claim_one(), type="E", message=message, retryable=False)
        error = (await rig.job(id)).error
        found.append(error.fingerprint if error else "")
    assert len(set(found[:3])) == 1
    assert len(set(found[3:])) == 1
    assert found[0] != found[3]


@behaviour(20)
async def error_texts_are_cut_not_refused(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.fail(await rig.claim_one(), type="T" * 5_000, message="é" * 9_000, trace="é" * 90_000, retryable=False)
    error = (await rig.job(id)).error
    assert error is not None
    assert len(error.message.encode()) == ERROR_MESSAGE_BYTES_MAX
    assert len(error.trace.encode()) == ERROR_TRACE_BYTES_MAX
    assert error.message == "é" * (ERROR_MESSAGE_BYTES_MAX // 2)


@behaviour(14)
async def dead_letters_are_grouped_by_fingerprint_and_reason(rig: Rig) -> None:
    for at in range(3):
        await rig.enqueue(queue="a")
        await rig.fail(await rig.claim_one(queues="a"), type="E", message=f"user {at}", retryable=False)
        await rig.advance(1_000)
    await rig.enqueue(queue="b", max_attempts=1)
    await rig.fail(await rig.claim_one(queues="b"), type="E", message="user 9")
    groups = await rig.store.groups(rig.context(), "", rig.now())
    assert [(one.count, one.reason, one.type) for one in groups] == [
        (3, "permanent", "E"),
        (1, "attempts_exhausted", "E"),
    ]
    largest = groups[0]
    assert largest.last_at - largest.first_at == 2_000
    assert (await rig.job(largest.example)).reason == "permanent"
    only = await rig.store.groups(rig.context(), "b", rig.now())
    assert [(one.count, one.reason) for one in only] == [(1, "attempts_exhausted")]


@behaviour(14)
async def replayed_dead_letter_leaves_its_group(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.fail(await rig.claim_one(), type="E", retryable=False)
    await rig.change_one(REPLAY, id)
    assert await rig.store.groups(rig.context(), "", rig.now()) == []


@behaviour(2)
async def groups_show_nothing_of_another_tenant(rig: Rig) -> None:
    await rig.enqueue()
    await rig.fail(await rig.claim_one(), type="E", retryable=False)
    assert await rig.store.groups(rig.context(GLOBEX), "", rig.now()) == []
    assert await rig.store.groups(rig.context(GLOBEX), "default", rig.now()) == []


@behaviour(14)
async def dead_letter_without_an_error_has_its_reason(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.change_one(DISCARD, id)
    groups = await rig.store.groups(rig.context(), "", rig.now())
    assert [(one.reason, one.count, one.example) for one in groups] == [("discarded", 1, id)]
