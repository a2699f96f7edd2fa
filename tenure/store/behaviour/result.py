"""Section 14: waiting for a job's end, and what a running job reports."""

from contextlib import suppress

from tenure.core.error import AlreadySettled, InvalidRequest, JobCancelled, JobNotFound, LeaseLost, Timeout
from tenure.core.request import CANCEL, PROGRESS, REMOVE, Append
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import GLOBEX, LEASE_MS, Rig

UNKNOWN_ID = 2**53 - 1


@behaviour(14)
async def watch_of_an_ended_job_answers_at_once(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.complete(await rig.claim_one(), b"42")
    job = await rig.answer(await rig.start_watch(id, wait_ms=0))
    assert (job.id, job.state, job.result) == (id, "completed", b"42")


@behaviour(14)
async def watch_answers_at_the_instant_of_settlement(rig: Rig) -> None:
    id = await rig.enqueue()
    first, second = await rig.start_watch(id), await rig.start_watch(id)
    leased = await rig.claim_one()
    assert await rig.waits(first)
    await rig.complete(leased, b"42")
    assert (await rig.answer(first)).result == b"42"
    assert (await rig.answer(second)).result == b"42"


@behaviour(14)
async def watch_answers_with_the_error_of_the_job(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2)
    task = await rig.start_watch(id)
    await rig.fail(await rig.claim_one(), type="E", message="first", delay_ms=0)
    assert await rig.waits(task)
    await rig.fail(await rig.claim_one(), type="E", message="second")
    job = await rig.answer(task)
    assert job.error is not None
    assert (job.state, job.reason, job.error.message) == ("failed", "attempts_exhausted", "second")


@behaviour(14)
async def watch_answers_when_the_job_is_cancelled(rig: Rig) -> None:
    id = await rig.enqueue()
    task = await rig.start_watch(id)
    await rig.change_one(CANCEL, id)
    assert (await rig.answer(task)).state == "cancelled"


@behaviour(14)
async def watch_ends_with_a_timeout_after_its_wait(rig: Rig) -> None:
    id = await rig.enqueue()
    task = await rig.start_watch(id, wait_ms=5_000)
    await rig.advance(4_999)
    assert await rig.waits(task)
    await rig.advance(1)
    error = await refused(Timeout, rig.answer(task))
    assert isinstance(error, TimeoutError)
    await refused(Timeout, rig.answer(await rig.start_watch(id, wait_ms=0)))


@behaviour(14)
async def giving_up_a_watch_does_not_cancel_the_job(rig: Rig) -> None:
    id = await rig.enqueue()
    task = await rig.start_watch(id)
    task.cancel()
    await rig.pause()
    assert await rig.state(id) == "ready"
    await rig.complete(await rig.claim_one())


@behaviour(2)
async def watch_of_an_unknown_or_foreign_job_is_not_found(rig: Rig) -> None:
    id = await rig.enqueue()
    await refused(JobNotFound, rig.answer(await rig.start_watch(UNKNOWN_ID)), job=UNKNOWN_ID)
    await refused(JobNotFound, rig.answer(await rig.start_watch(id, tenant=GLOBEX)), job=id)


@behaviour(12)
async def watch_is_answered_though_the_job_is_removed_at_its_end(rig: Rig) -> None:
    id = await rig.enqueue(keep_completed_ms=0)
    task = await rig.start_watch(id)
    await rig.complete(await rig.claim_one(), b"42")
    job = await rig.answer(task)
    assert (job.state, job.result) == ("completed", b"42")
    await rig.tick()
    assert await rig.state(id) == "gone"


@behaviour(3)
async def watch_of_a_removed_job_does_not_hang(rig: Rig) -> None:
    id = await rig.enqueue()
    task = await rig.start_watch(id)
    await rig.change_one(REMOVE, id)
    await rig.tick()
    with suppress(JobNotFound):
        await rig.answer(task)


@behaviour(14)
async def progress_is_kept_with_its_message(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    assert await rig.progress(leased, 40, "half way") == 40
    progress = (await rig.job(id)).progress
    assert progress is not None
    assert (progress.percent, progress.message, progress.at) == (40, "half way", rig.wall_ms)
    event = await rig.last_event(id)
    assert (event.type, event.state) == ("progress", "running")


@behaviour(14, rulings=(35,))
async def progress_is_kept_once_a_second(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    kept = []
    for percent in (10, 20, 30, 40, 50):
        kept.append(await rig.progress(leased, percent))
        await rig.advance(500)
    assert kept == [10, 10, 30, 30, 50]
    assert (await rig.types_of(id)).count("progress") == 3


@behaviour(14, rulings=(35,))
async def progress_of_a_hundred_is_always_kept(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.progress(leased, 10)
    assert await rig.progress(leased, 100) == 100
    progress = (await rig.job(id)).progress
    assert progress is not None
    assert progress.percent == 100


@behaviour(14, rulings=(35,))
async def progress_outside_its_range_is_refused(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for percent in (-1, 101):
        await refused(InvalidRequest, rig.progress(leased, percent), field="percent")
    assert (await rig.job(leased.id)).progress is None


@behaviour(6)
async def reports_need_the_live_token(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    forged = Append(PROGRESS, id, leased.token[:-1] + bytes([leased.token[-1] ^ 1]), 10)
    await refused(LeaseLost, rig.append(forged), job=id, reason="unknown")
    await rig.complete(leased)
    await refused(AlreadySettled, rig.progress(leased, 10), job=id)
    await refused(AlreadySettled, rig.log(leased, "late"), job=id)


@behaviour(6)
async def reports_of_an_expired_or_cancelled_attempt_are_refused(rig: Rig) -> None:
    first, second = await rig.enqueue_ids([b"x"] * 2)
    one, two = await rig.claim_one(), await rig.claim_one()
    await rig.change_one(CANCEL, first)
    await refused(JobCancelled, rig.progress(one, 10), job=first)
    rig.move_clock(LEASE_MS)
    await refused(LeaseLost, rig.emit(two, b"x"), job=second, reason="expired")


@behaviour(2)
async def reports_for_an_unknown_or_foreign_job_are_refused(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await refused(JobNotFound, rig.append(Append(PROGRESS, UNKNOWN_ID, b"x" * 20, 10)), job=UNKNOWN_ID)
    await refused(JobNotFound, rig.append(Append(PROGRESS, id, b"x" * 20, 10), tenant=GLOBEX), job=id)
    genuine = Append(PROGRESS, id, leased.token, 10)
    await refused(AlreadySettled, rig.append(genuine, tenant=GLOBEX), job=id, outcome="unknown")


@behaviour(6)
async def reports_may_leave_the_token_out_on_the_claiming_connection(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(connection=7)
    assert await rig.append(Append(PROGRESS, id, None, 10), connection=7) == 10
    await refused(InvalidRequest, rig.append(Append(PROGRESS, id, None, 10), connection=8), field="token")
