"""Section 16: the clock of a store, its timers, and how much one step does."""

from tenure.core.error import LeaseLost
from tenure.core.limit import Rate
from tenure.core.retry import FIXED, Backoff
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import OWNED, behaviour
from tenure.store.behaviour.rig import DAY, HOUR, LEASE_MS, Rig


@behaviour(16, rulings=(3,))
async def now_never_falls(rig: Rig) -> None:
    first = await rig.enqueue(delay_ms=1_000)
    await rig.advance(1_000)
    latest = rig.wall_ms
    rig.move_clock(-500_000)
    second = await rig.enqueue()
    assert (await rig.job(second)).created_at == latest
    assert await rig.state(first) == "ready"
    leased = await rig.claim_one()
    assert (await rig.job(leased.id)).started_at == latest
    assert leased.lease_until == latest + LEASE_MS
    rig.move_clock(500_000)


@behaviour(16, rulings=(3,))
async def events_never_go_back_in_time(rig: Rig) -> None:
    await rig.enqueue()
    rig.move_clock(-10_000)
    await rig.enqueue()
    times = [event.at for event in await rig.events()]
    assert times[0] == times[1]


@behaviour(16, needs=(OWNED,))
async def run_times_follow_the_wall_clock(rig: Rig) -> None:
    id = await rig.enqueue(run_at=rig.wall_ms + HOUR)
    await rig.advance(HOUR - 1, wall_only=True)
    assert await rig.state(id) == "scheduled"
    await rig.advance(1, wall_only=True)
    assert await rig.state(id) == "ready"


@behaviour(16, needs=(OWNED,))
async def run_times_follow_the_wall_clock_when_it_is_set_back(rig: Rig) -> None:
    id = await rig.enqueue(run_at=rig.wall_ms + HOUR)
    await rig.advance(-HOUR, wall_only=True)
    await rig.advance(2 * HOUR - 1)
    assert await rig.state(id) == "scheduled"
    await rig.advance(1)
    assert await rig.state(id) == "ready"


@behaviour(16, needs=(OWNED,))
async def expiry_follows_the_wall_clock_when_it_is_set_back(rig: Rig) -> None:
    id = await rig.enqueue(expires_at=rig.wall_ms + HOUR)
    await rig.advance(-HOUR, wall_only=True)
    await rig.advance(2 * HOUR - 1)
    assert await rig.state(id) == "ready"
    await rig.advance(1)
    assert (await rig.job(id)).reason == "expired"


@behaviour(16, needs=(OWNED,))
async def delays_count_elapsed_time(rig: Rig) -> None:
    id = await rig.enqueue(delay_ms=HOUR)
    await rig.advance(DAY, wall_only=True)
    assert await rig.state(id) == "scheduled"
    await rig.advance(HOUR - 1)
    assert await rig.state(id) == "scheduled"
    await rig.advance(1)
    assert await rig.state(id) == "ready"


async def _set_the_clock_ahead_for_a_moment(rig: Rig) -> None:
    await rig.advance(HOUR, wall_only=True)
    await rig.advance(2_000)
    await rig.advance(-HOUR, wall_only=True)


@behaviour(16, needs=(OWNED,))
async def clock_that_was_ahead_for_a_moment_holds_up_no_delay(rig: Rig) -> None:
    before = await rig.enqueue(delay_ms=5_000)
    await rig.advance(HOUR, wall_only=True)
    during = await rig.enqueue(delay_ms=5_000)
    await rig.advance(2_000)
    await rig.advance(-HOUR, wall_only=True)
    after = await rig.enqueue(delay_ms=5_000)
    await rig.advance(2_999)
    assert [await rig.state(id) for id in (before, during, after)] == ["scheduled"] * 3
    await rig.advance(1)
    assert [await rig.state(id) for id in (before, during, after)] == ["ready", "ready", "scheduled"]
    await rig.advance(2_000)
    assert await rig.state(after) == "ready"


@behaviour(16, needs=(OWNED,))
async def clock_that_was_ahead_for_a_moment_holds_up_no_retry_and_no_snooze(rig: Rig) -> None:
    await _set_the_clock_ahead_for_a_moment(rig)
    failed = await rig.enqueue(b"failed", backoff=Backoff(FIXED, 5_000))
    await rig.fail(await rig.claim_one())
    snoozed = await rig.enqueue(b"snoozed")
    await rig.snooze(await rig.claim_one(), 5_000)
    await rig.advance(4_999)
    assert [await rig.state(failed), await rig.state(snoozed)] == ["retrying", "scheduled"]
    await rig.advance(1)
    assert [await rig.state(failed), await rig.state(snoozed)] == ["ready", "ready"]


@behaviour(16, needs=(OWNED,))
async def new_jobs_run_at_once_after_the_clock_was_set_back(rig: Rig) -> None:
    await _set_the_clock_ahead_for_a_moment(rig)
    id = await rig.enqueue(metadata={"a": "b"})
    assert await rig.state(id) == "ready"
    assert (await rig.claim_one()).id == id


@behaviour(16, needs=(OWNED,))
async def run_time_of_a_delayed_job_is_shown_as_the_wall_clock_says(rig: Rig) -> None:
    id = await rig.enqueue(delay_ms=HOUR)
    assert (await rig.job(id)).run_at == rig.wall_ms + HOUR
    await rig.advance(-DAY, wall_only=True)
    assert (await rig.job(id)).run_at == rig.wall_ms + HOUR
    assert (await rig.explain(id)).earliest == rig.wall_ms + HOUR


@behaviour(16, needs=(OWNED,))
async def explain_names_a_step_of_the_clock(rig: Rig) -> None:
    id = await rig.enqueue(run_at=rig.wall_ms + HOUR)
    assert "clock" not in (await rig.explain(id)).detail
    await rig.advance(-DAY, wall_only=True)
    assert "the wall clock was set back by 86400.0 s" in (await rig.explain(id)).detail


@behaviour(16, needs=(OWNED,))
async def debounce_counts_elapsed_time(rig: Rig) -> None:
    first = await rig.enqueue(debounce_key="d", debounce_ms=HOUR, debounce_mode="leading")
    await rig.advance(DAY, wall_only=True)
    assert await rig.enqueue(debounce_key="d", debounce_ms=HOUR, debounce_mode="leading") == first
    await rig.advance(HOUR)
    assert await rig.enqueue(debounce_key="d", debounce_ms=HOUR, debounce_mode="leading") != first


@behaviour(16, needs=(OWNED,))
async def idempotency_keys_count_elapsed_time(rig: Rig) -> None:
    first = await rig.enqueue(idempotency_key="i", idempotency_ttl_ms=HOUR)
    await rig.complete(await rig.claim_one())
    await rig.advance(DAY, wall_only=True)
    assert await rig.enqueue(idempotency_key="i", idempotency_ttl_ms=HOUR) == first
    await rig.advance(HOUR)
    assert await rig.enqueue(idempotency_key="i", idempotency_ttl_ms=HOUR) != first


@behaviour(16, needs=(OWNED,))
async def retention_counts_elapsed_time(rig: Rig) -> None:
    await rig.advance(HOUR, wall_only=True)
    id = await rig.enqueue(keep_completed_ms=120_000)
    await rig.complete(await rig.claim_one())
    await rig.advance(-HOUR, wall_only=True)
    await rig.advance(119_999)
    assert await rig.state(id) == "completed"
    await rig.advance(DAY, wall_only=True)
    assert await rig.state(id) == "completed"
    await rig.advance(1)
    assert await rig.state(id) == "gone"


@behaviour(7, needs=(OWNED,))
async def time_in_which_the_owner_did_not_run_ends_no_lease(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.advance(LEASE_MS - 1)
    await rig.stop_for(HOUR)
    assert await rig.state(id) == "running"
    assert (await rig.job(id)).lease_until == rig.wall_ms + LEASE_MS
    await rig.advance(LEASE_MS - 1)
    await rig.complete(leased)
    assert await rig.state(id) == "completed"


@behaviour(7, needs=(OWNED,))
async def lease_that_is_not_renewed_after_the_owner_ran_again_ends(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, DAY))
    leased = await rig.claim_one()
    await rig.stop_for(HOUR)
    await rig.advance(LEASE_MS)
    assert await rig.state(id) == "retrying"
    await refused(LeaseLost, rig.complete(leased), job=id, reason="expired")


@behaviour(7, needs=(OWNED,))
async def lease_that_was_over_stays_over_when_the_owner_runs_again(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, DAY))
    leased = await rig.claim_one()
    await rig.advance(LEASE_MS)
    await rig.stop_for(HOUR)
    await refused(LeaseLost, rig.complete(leased), job=id, reason="expired")


@behaviour(7, needs=(OWNED,))
async def time_in_which_the_owner_did_not_run_is_no_part_of_a_timeout(rig: Rig) -> None:
    id = await rig.enqueue(timeout_ms=5_000, backoff=Backoff(FIXED, DAY))
    await rig.claim_one()
    await rig.advance(3_000)
    await rig.stop_for(HOUR)
    await rig.advance(1_999)
    assert await rig.state(id) == "running"
    await rig.advance(1)
    assert await rig.state(id) == "retrying"


@behaviour(16, needs=(OWNED,))
async def delays_go_on_while_the_owner_does_not_run(rig: Rig) -> None:
    id = await rig.enqueue(delay_ms=HOUR)
    await rig.stop_for(HOUR)
    assert await rig.state(id) == "ready"


@behaviour(16, needs=(OWNED,))
async def expiry_follows_the_wall_clock(rig: Rig) -> None:
    id = await rig.enqueue(ttl_ms=HOUR)
    await rig.advance(HOUR, wall_only=True)
    assert (await rig.job(id)).reason == "expired"


@behaviour(16, needs=(OWNED,))
async def timeouts_count_elapsed_time(rig: Rig) -> None:
    id = await rig.enqueue(timeout_ms=5_000, backoff=Backoff(FIXED, DAY))
    await rig.claim_one()
    await rig.advance(HOUR, wall_only=True)
    assert await rig.state(id) == "running"
    await rig.advance(5_000)
    assert await rig.state(id) == "retrying"


@behaviour(16, needs=(OWNED,))
async def rates_count_elapsed_time(rig: Rig) -> None:
    await rig.set_queue(rate=Rate(1, 1_000))
    await rig.enqueue_ids([b"x"] * 5)
    assert len(await rig.claim(5)) == 1
    await rig.advance(HOUR, wall_only=True)
    assert await rig.claim(5) == []
    await rig.advance(1_000)
    assert len(await rig.claim(5)) == 1


@behaviour(16, needs=(OWNED,))
async def waits_count_elapsed_time(rig: Rig) -> None:
    task = await rig.start_claim(wait_ms=5_000)
    await rig.advance(HOUR, wall_only=True)
    assert await rig.waits(task)
    await rig.advance(5_000)
    assert await rig.answer(task) == []


@behaviour(3, rulings=(2,))
async def no_step_applies_more_than_a_thousand_timers(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 4_500, delay_ms=1_000)
    rig.move_clock(1_000)
    assert await rig.count_by_steps("ready", 4_500) >= 2
    assert [one.id for one in await rig.claim(4_500)] == ids


@behaviour(16)
async def tick_says_when_to_come_again(rig: Rig) -> None:
    assert await rig.tick_once() is None
    await rig.enqueue(delay_ms=5_000)
    again = await rig.tick_once()
    assert again is not None
    assert rig.elapsed_ms < again.elapsed_ms <= rig.elapsed_ms + 5_000
    await rig.enqueue(run_at=rig.wall_ms + 2_000)
    again = await rig.tick_once()
    assert again is not None
    assert rig.wall_ms < again.wall_ms <= rig.wall_ms + 2_000


@behaviour(16)
async def tick_knows_of_leases_and_waits(rig: Rig) -> None:
    task = await rig.start_claim(wait_ms=7_000)
    assert await rig.waits(task)
    again = await rig.tick_once()
    assert again is not None
    assert rig.elapsed_ms < again.elapsed_ms <= rig.elapsed_ms + 7_000
    await rig.advance(7_000)
    await rig.enqueue()
    await rig.claim_one()
    again = await rig.tick_once()
    assert again is not None
    assert rig.elapsed_ms < again.elapsed_ms <= rig.elapsed_ms + LEASE_MS


@behaviour(16)
async def ticking_without_need_changes_nothing(rig: Rig) -> None:
    id = await rig.enqueue()
    before = await rig.events()
    for _ in range(10):
        await rig.advance(1)
    assert await rig.events() == before
    assert await rig.state(id) == "ready"


@behaviour(16, rulings=(1,))
async def timers_of_different_kinds_are_applied_in_the_order_of_their_times(rig: Rig) -> None:
    await rig.enqueue(b"leased", backoff=Backoff(FIXED, 0), lease_ms=2_000)
    await rig.claim_one()
    await rig.enqueue(b"due first", delay_ms=1_000)
    await rig.enqueue(b"due last", delay_ms=3_000)
    await rig.advance(HOUR)
    assert await rig.line() == [b"due first", b"leased", b"due last"]


@behaviour(16)
async def timers_due_are_applied_before_a_verb(rig: Rig) -> None:
    id = await rig.enqueue(b"x", delay_ms=1_000)
    rig.move_clock(1_000)
    assert (await rig.claim_one()).id == id
