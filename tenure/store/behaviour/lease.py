"""Section 7: a lease is over at its deadline, to the millisecond, noticed or not."""

from tenure.core.error import AlreadySettled, InvalidRequest, JobNotFound, LeaseLost
from tenure.core.request import Extend
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import OpId
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import OWNED, behaviour
from tenure.store.behaviour.rig import GLOBEX, HOUR, LEASE_MS, Rig
from tenure.store.behaviour.trap import SAMPLED_EXPIRY, STALLED_UNRETRIED, STOLEN_BY_CLOCK


@behaviour(7)
async def lease_is_valid_until_a_millisecond_before_its_deadline(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.advance(LEASE_MS - 1)
    assert await rig.state(id) == "running"
    await rig.complete(leased)
    assert await rig.state(id) == "completed"


@behaviour(7, rulings=(2,))
async def expired_lease_cannot_settle(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    rig.move_clock(LEASE_MS)
    await refused(LeaseLost, rig.complete(leased), job=id, reason="expired")
    await refused(LeaseLost, rig.fail(leased), job=id, reason="expired")
    await rig.tick()
    assert await rig.state(id) in {"retrying", "ready"}


@behaviour(7, rulings=(2,))
async def expired_lease_cannot_be_extended(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    rig.move_clock(LEASE_MS)
    await refused(LeaseLost, rig.extend(leased), job=leased.id, reason="expired")


@behaviour(7, rulings=(1, 2))
async def no_expired_lease_can_settle_before_its_timer_was_applied(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 2_500)
    leased = [one for _ in range(2_500) for one in await rig.claim()]
    rig.move_clock(LEASE_MS)
    answers = await rig.complete_all(leased)
    assert all(type(answers.item(at).error) is LeaseLost for at in range(2_500))
    await rig.tick()
    assert "completed" not in await rig.count()
    assert "running" not in await rig.count()


@behaviour(7, trap=SAMPLED_EXPIRY)
async def each_expired_lease_is_found_at_its_deadline_without_a_claim(rig: Rig) -> None:
    ids = [await rig.enqueue(lease_ms=1_000 + at, backoff=Backoff(FIXED, HOUR)) for at in range(50)]
    await rig.claim(50)
    await rig.advance(999)
    for at in range(50):
        await rig.advance(1)
        assert await rig.count() == {"retrying": at + 1} | ({"running": 49 - at} if at < 49 else {})
        assert await rig.state(ids[at]) == "retrying"


@behaviour(7, trap=STALLED_UNRETRIED)
async def job_of_a_stalled_worker_is_tried_again(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2, backoff=Backoff(FIXED, 1_000))
    await rig.claim_one(worker="stalled")
    await rig.advance(LEASE_MS)
    job = await rig.job(id)
    assert (job.state, job.attempt, job.run_at, job.lease_until) == ("retrying", 1, rig.wall_ms + 1_000, 0)
    await rig.advance(1_000)
    assert (await rig.claim_one()).attempt == 2


@behaviour(3)
async def lease_over_on_the_last_attempt_fails_the_job(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=1)
    leased = await rig.claim_one(worker="w1")
    await rig.advance(LEASE_MS)
    job = await rig.job(id)
    assert (job.state, job.reason, job.attempt, job.ended_at) == ("failed", "lease_expired", 1, rig.wall_ms)
    event = await rig.last_event(id)
    assert (event.type, event.reason, event.cause, event.worker) == ("failed", "lease_expired", "expire_lease", "w1")
    await refused(LeaseLost, rig.complete(leased), job=id, reason="expired")


@behaviour(15)
async def lease_over_with_attempts_left_is_a_retrying_event(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 1_000))
    await rig.claim_one(worker="w1")
    await rig.advance(LEASE_MS)
    event = await rig.last_event(id)
    assert (event.type, event.state, event.cause, event.reason) == (
        "retrying",
        "retrying",
        "expire_lease",
        "lease_expired",
    )
    assert (event.attempt, event.delivery, event.run_ms) == (1, 1, LEASE_MS)


@behaviour(8, rulings=(1,))
async def retry_found_late_is_planned_from_the_time_of_the_step(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 1_000))
    await rig.claim_one()
    await rig.advance(LEASE_MS + 7_000)
    job = await rig.job(id)
    assert (job.state, job.run_at) == ("retrying", rig.wall_ms + 1_000)


@behaviour(7)
async def extending_moves_the_deadline_by_the_granted_lease(rig: Rig) -> None:
    await rig.enqueue(lease_ms=10_000)
    leased = await rig.claim_one()
    assert leased.lease_until == rig.wall_ms + 10_000
    await rig.advance(4_000)
    assert await rig.extend(leased) == rig.wall_ms + 10_000
    assert (await rig.job(leased.id)).lease_until == rig.wall_ms + 10_000
    await rig.advance(9_999)
    assert await rig.state(leased.id) == "running"
    await rig.advance(1)
    assert await rig.state(leased.id) != "running"


@behaviour(7)
async def answers_say_how_much_of_a_lease_is_left(rig: Rig) -> None:
    """For workers whose wall clock is another one."""
    await rig.enqueue(lease_ms=10_000, timeout_ms=15_000)
    await rig.enqueue()
    timed, plain = await rig.claim(2, op=OpId("s", 1))
    assert (timed.lease_ms, plain.lease_ms) == (10_000, LEASE_MS)
    await rig.advance(4_000)
    assert [one.lease_ms for one in await rig.claim(2, op=OpId("s", 1))] == [6_000, LEASE_MS - 4_000]
    for lease_ms, left in ((0, [10_000, LEASE_MS]), (60_000, [11_000, 60_000])):
        extend = Extend([timed.id, plain.id], [timed.token, plain.token], lease_ms)
        assert (await rig.store.extend(rig.context(), extend, rig.now())).lease_ms == left
    await rig.complete(plain)
    gone = await rig.store.extend(rig.context(), Extend([plain.id], [plain.token]), rig.now())
    assert gone.lease_ms == [0]


@behaviour(7)
async def extending_by_a_given_lease(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    assert await rig.extend(leased, 60_000) == rig.wall_ms + 60_000
    await rig.advance(59_999)
    await rig.complete(leased)


@behaviour(7)
async def extending_by_a_given_lease_is_for_that_time_only(rig: Rig) -> None:
    await rig.enqueue(lease_ms=10_000)
    leased = await rig.claim_one()
    await rig.extend(leased, 20_000)
    await rig.advance(15_000)
    assert await rig.extend(leased) == rig.wall_ms + 10_000


@behaviour(7, rulings=(24,))
async def extending_never_shortens_a_deadline(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    assert await rig.extend(leased, 1_000) == leased.lease_until
    await rig.advance(LEASE_MS - 1)
    await rig.complete(leased)


@behaviour(7, rulings=(24,))
async def extending_never_passes_the_timeout(rig: Rig) -> None:
    await rig.enqueue(lease_ms=10_000, timeout_ms=15_000)
    leased = await rig.claim_one()
    started_at = rig.wall_ms
    await rig.advance(8_000)
    assert await rig.extend(leased) == started_at + 15_000
    assert await rig.extend(leased, HOUR) == started_at + 15_000


@behaviour(7)
async def extending_one_job_of_a_claim_leaves_its_neighbours(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b", b"c"], backoff=Backoff(FIXED, HOUR))
    leased = await rig.claim(3)
    await rig.advance(20_000)
    await rig.extend(leased[1])
    await rig.advance(10_000)
    assert await rig.states(*ids) == ["retrying", "running", "retrying"]
    await rig.advance(20_000)
    assert await rig.state(ids[1]) == "retrying"


@behaviour(7)
async def batch_of_extensions_answers_item_by_item(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b", b"c"])
    leased = await rig.claim(3)
    await rig.complete(leased[1])
    await rig.advance(1_000)
    extend = Extend(ids, [one.token for one in leased])
    extended = await rig.store.extend(rig.context(), extend, rig.now())
    deadline = rig.wall_ms + LEASE_MS
    assert extended.lease_until == [deadline, 0, deadline]
    assert list(extended.errors or {}) == [1]
    assert type((extended.errors or {})[1]) is AlreadySettled


@behaviour(7)
async def extension_without_a_token_needs_the_claiming_connection(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.claim_one(connection=7)
    await rig.advance(1_000)
    extended = await rig.store.extend(rig.context(connection=7), Extend([id]), rig.now())
    assert extended.lease_until == [rig.wall_ms + LEASE_MS]
    other = await rig.store.extend(rig.context(connection=8), Extend([id]), rig.now())
    assert other.lease_until == [0]
    error = (other.errors or {})[0]
    assert isinstance(error, InvalidRequest)
    assert error.field == "token"


@behaviour(2)
async def foreign_lease_cannot_be_extended(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    await refused(AlreadySettled, rig.extend(leased, tenant=GLOBEX), job=leased.id, outcome="unknown")
    await rig.advance(LEASE_MS)
    assert await rig.state(leased.id) != "running"


@behaviour(7)
async def extending_emits_no_event(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.extend(leased)
    assert await rig.types_of(id) == ["enqueued", "started"]


@behaviour(7)
async def timeout_ends_the_attempt_to_the_millisecond(rig: Rig) -> None:
    id = await rig.enqueue(timeout_ms=5_000, backoff=Backoff(FIXED, HOUR))
    leased = await rig.claim_one()
    await rig.advance(4_999)
    assert await rig.state(id) == "running"
    rig.move_clock(1)
    await refused(LeaseLost, rig.complete(leased), job=id, reason="timed_out")
    await rig.tick()
    assert await rig.state(id) == "retrying"


@behaviour(7)
async def timeout_does_not_shorten_the_deadline(rig: Rig) -> None:
    await rig.enqueue(timeout_ms=5_000)
    leased = await rig.claim_one()
    assert leased.lease_until == rig.wall_ms + LEASE_MS
    assert (await rig.job(leased.id)).lease_until == rig.wall_ms + LEASE_MS


@behaviour(3, rulings=(23,))
async def timeout_on_the_last_attempt_fails_the_job(rig: Rig) -> None:
    id = await rig.enqueue(timeout_ms=5_000, max_attempts=1)
    leased = await rig.claim_one()
    await rig.advance(5_000)
    job = await rig.job(id)
    assert (job.state, job.reason) == ("failed", "timed_out")
    event = await rig.last_event(id)
    assert (event.type, event.reason, event.cause) == ("failed", "timed_out", "time_out")
    await refused(LeaseLost, rig.complete(leased), job=id, reason="timed_out")


@behaviour(7)
async def timeout_counts_from_each_start(rig: Rig) -> None:
    id = await rig.enqueue(timeout_ms=5_000)
    await rig.advance(60_000)
    await rig.release(await rig.claim_one())
    await rig.advance(4_999)
    await rig.claim_one()
    await rig.advance(4_999)
    assert await rig.state(id) == "running"
    await rig.advance(1)
    assert await rig.state(id) != "running"


@behaviour(7)
async def every_claim_has_a_fresh_token(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 40)
    tokens = [(await rig.claim(2))[0].token for _ in range(20)]
    assert len(set(tokens)) == 20
    assert all(tokens)


@behaviour(7)
async def jobs_of_one_claim_share_its_token(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 5)
    leased = await rig.claim(5)
    assert len({one.token for one in leased}) == 1
    answers = await rig.settle(SETTLE_COMPLETE, [leased[3].id], [leased[0].token])
    assert not answers.errors()


@behaviour(16, needs=(OWNED,), trap=STOLEN_BY_CLOCK)
async def setting_the_wall_clock_ends_no_lease(rig: Rig) -> None:
    id = await rig.enqueue(timeout_ms=20_000)
    leased = await rig.claim_one()
    await rig.advance(2 * HOUR, wall_only=True)
    assert await rig.state(id) == "running"
    await rig.advance(19_999)
    await rig.complete(leased)
    assert await rig.state(id) == "completed"


@behaviour(16, needs=(OWNED,), trap=STOLEN_BY_CLOCK)
async def setting_the_wall_clock_back_prolongs_no_lease(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.advance(-2 * HOUR, wall_only=True)
    await rig.advance(LEASE_MS - 1)
    assert await rig.state(id) == "running"
    await rig.advance(1)
    await refused(LeaseLost, rig.complete(leased), job=id, reason="expired")


@behaviour(2)
async def extension_of_an_unknown_job_is_not_found(rig: Rig) -> None:
    extended = await rig.store.extend(rig.context(), Extend([2**53 - 1], [b"\x00" * 20]), rig.now())
    assert extended.lease_until == [0]
    assert type((extended.errors or {})[0]) is JobNotFound


@behaviour(7)
async def thousands_of_leases_of_one_claim_end_in_bounded_steps(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 4_500, backoff=Backoff(FIXED, HOUR))
    leased = await rig.claim(4_500)
    await rig.extend(leased[7], 2 * LEASE_MS)
    rig.move_clock(LEASE_MS)
    assert await rig.count_by_steps("retrying", 4_499) >= 2
    assert await rig.state(leased[7].id) == "running"
    await rig.complete(leased[7])
    await refused(LeaseLost, rig.complete(leased[8]), reason="expired")
