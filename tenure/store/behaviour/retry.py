"""Section 8: how often, and when, an attempt is made again. The delays are computed here once more, by hand."""

from typing import Final

from tenure.core.request import PROMOTE, REPLAY
from tenure.core.retry import EQUAL_JITTER, EXPONENTIAL, FIXED, FULL_JITTER, LINEAR, LISTED, Backoff
from tenure.core.state import FAILED, READY
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import LEASE_MS, Rig
from tenure.store.behaviour.trap import COUNTED_TWICE

# (job, attempt) -> x after its steps, computed by hand: x starts at job mod 2147483646 + 1 and takes attempt mod 64 + 2
# steps of x <- 16807 x mod 2147483647.
GOLDEN: Final = {
    (1, 1): 1097816499,
    (1, 2): 1969887316,
    (1, 3): 140734213,
    (2, 1): 572982925,
    (7, 64): 112318345,
    (1000, 63): 1350239212,
    (2147483645, 1): 524833574,
    (2147483646, 1): 1622650073,
    (9007199254740991, 5): 1812333966,
}


def chance(job: int, attempt: int) -> int:
    x = job % (2**31 - 2) + 1
    for _ in range(attempt % 64 + 2):
        x = x * 7**5 % (2**31 - 1)
    return x


async def delays(rig: Rig, backoff: Backoff, attempts: int) -> tuple[int, list[int]]:
    """The job, and how long it waits after each of its failed attempts."""
    id = await rig.enqueue(backoff=backoff, max_attempts=None)
    found: list[int] = []
    for attempt in range(1, attempts + 1):
        leased = await rig.claim_one()
        assert leased.attempt == attempt
        await rig.fail(leased)
        job = await rig.job(id)
        found.append(job.run_at - rig.wall_ms)
        if job.state == "retrying":
            await rig.change_one(PROMOTE, id)
    return id, found


@behaviour(8)
async def fixed_backoff_waits_the_base(rig: Rig) -> None:
    assert (await delays(rig, Backoff(FIXED, 2_500), 4))[1] == [2_500] * 4


@behaviour(8)
async def linear_backoff_grows_by_the_base(rig: Rig) -> None:
    assert (await delays(rig, Backoff(LINEAR, 1_000, cap_ms=3_500), 5))[1] == [1_000, 2_000, 3_000, 3_500, 3_500]


@behaviour(8)
async def exponential_backoff_doubles_up_to_its_cap(rig: Rig) -> None:
    assert (await delays(rig, Backoff(EXPONENTIAL, 1_000, cap_ms=10_000), 6))[1] == [
        1_000,
        2_000,
        4_000,
        8_000,
        10_000,
        10_000,
    ]


@behaviour(8)
async def exponential_backoff_grows_by_its_factor(rig: Rig) -> None:
    backoff = Backoff(EXPONENTIAL, 1_000, factor=3.0, cap_ms=100_000)
    assert (await delays(rig, backoff, 5))[1] == [1_000, 3_000, 9_000, 27_000, 81_000]


@behaviour(8)
async def exponents_stop_at_thirty(rig: Rig) -> None:
    backoff = Backoff(EXPONENTIAL, 1, cap_ms=10 * 365 * 86_400_000)
    found = (await delays(rig, backoff, 34))[1]
    assert found == [2 ** min(attempt, 30) for attempt in range(34)]


@behaviour(8)
async def listed_backoff_repeats_its_last(rig: Rig) -> None:
    backoff = Backoff(LISTED, delays_ms=(100, 5_000, 700))
    assert (await delays(rig, backoff, 5))[1] == [100, 5_000, 700, 700, 700]


@behaviour(8)
async def jitter_is_what_the_formula_says(rig: Rig) -> None:  # noqa: ARG001
    for (job, attempt), x in GOLDEN.items():
        assert chance(job, attempt) == x


@behaviour(8)
async def full_jitter_follows_the_formula(rig: Rig) -> None:
    await rig.enqueue(queue="other")
    id, found = await delays(rig, Backoff(FULL_JITTER, 1_000, cap_ms=20_000), 70)
    full = [min(1_000 * 2 ** min(attempt, 30), 20_000) for attempt in range(70)]
    assert found == [int(full[at] * (chance(id, at + 1) / (2**31 - 1))) for at in range(70)]


@behaviour(8)
async def equal_jitter_follows_the_formula(rig: Rig) -> None:
    id, found = await delays(rig, Backoff(EQUAL_JITTER, 1_000, cap_ms=60_000), 10)
    full = [min(1_000 * 2**attempt, 60_000) for attempt in range(10)]
    assert found == [int(full[at] / 2 + full[at] / 2 * (chance(id, at + 1) / (2**31 - 1))) for at in range(10)]
    assert all(full[at] // 2 <= found[at] <= full[at] for at in range(10))


@behaviour(8)
async def default_is_full_jitter_from_a_second_to_an_hour(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=None)
    for attempt in range(1, 15):
        await rig.fail(await rig.claim_one())
        full = min(1_000 * 2 ** (attempt - 1), 3_600_000)
        assert (await rig.job(id)).run_at == rig.wall_ms + int(full * (chance(id, attempt) / (2**31 - 1)))
        await rig.change_one(PROMOTE, id)


@behaviour(8)
async def neighbours_do_not_retry_in_step(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 20)
    for leased in await rig.claim(20):
        await rig.fail(leased)
    assert len({(await rig.job(id)).run_at for id in ids}) >= 15


@behaviour(8)
async def handler_says_the_delay(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 1_000, cap_ms=1_000))
    await rig.fail(await rig.claim_one(), delay_ms=600_000)
    job = await rig.job(id)
    assert (job.state, job.run_at) == ("retrying", rig.wall_ms + 600_000)


@behaviour(3, rulings=(18,))
async def failure_with_no_delay_is_ready_at_once(rig: Rig) -> None:
    id = await rig.enqueue()
    assert (await rig.fail(await rig.claim_one(), delay_ms=0)).state == READY
    event = await rig.last_event(id)
    assert (event.type, event.state) == ("retrying", "ready")
    assert (await rig.claim_one()).attempt == 2


@behaviour(8)
async def retrying_job_is_ready_to_the_millisecond(rig: Rig) -> None:
    id = await rig.enqueue(backoff=Backoff(FIXED, 1_000))
    await rig.fail(await rig.claim_one())
    await rig.advance(999)
    assert await rig.state(id) == "retrying"
    await rig.advance(1)
    job = await rig.job(id)
    assert (job.state, job.ready_at) == ("ready", rig.wall_ms)
    assert await rig.types_of(id) == ["enqueued", "started", "retrying", "ready"]


@behaviour(8, trap=COUNTED_TWICE)
async def five_attempts_mean_five_runs(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=5, backoff=Backoff(FIXED, 0))
    for attempt in range(1, 6):
        leased = await rig.claim_one()
        assert leased.attempt == attempt
        outcome = await rig.fail(leased, type="E")
        assert (outcome.state == FAILED) == (attempt == 5)
    job = await rig.job(id)
    assert (job.state, job.reason, job.attempt, job.delivery) == ("failed", "attempts_exhausted", 5, 5)
    assert await rig.claim() == []


@behaviour(8, trap=COUNTED_TWICE)
async def failures_crashes_and_timeouts_spend_one_attempt_each(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=4, backoff=Backoff(FIXED, 0), timeout_ms=10_000, lease_ms=5_000)
    await rig.fail(await rig.claim_one())
    await rig.claim_one()
    await rig.advance(5_000)
    await rig.claim_one(lease_ms=LEASE_MS)
    await rig.advance(10_000)
    assert (await rig.job(id)).attempt == 3
    await rig.complete(await rig.claim_one())
    job = await rig.job(id)
    assert (job.state, job.attempt, job.delivery) == ("completed", 4, 4)


@behaviour(8)
async def releases_and_snoozes_spend_no_attempt(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2, backoff=Backoff(FIXED, 0))
    await rig.release(await rig.claim_one())
    await rig.fail(await rig.claim_one())
    await rig.snooze(await rig.claim_one())
    assert (await rig.job(id)).attempt == 1
    assert (await rig.fail(await rig.claim_one())).state == FAILED
    job = await rig.job(id)
    assert (job.attempt, job.delivery) == (2, 4)


@behaviour(8, rulings=(21,))
async def permanent_failure_is_not_tried_again(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=None)
    assert (await rig.fail(await rig.claim_one(), type="ValueError", retryable=False)).state == FAILED
    job = await rig.job(id)
    assert (job.reason, job.attempt) == ("permanent", 1)


@behaviour(3, rulings=(21,))
async def undecodable_job_is_parked_with_its_bytes(rig: Rig) -> None:
    id = await rig.enqueue(b"\xff\x00garbage")
    assert (await rig.fail(await rig.claim_one(), type="DecodeError", undecodable=True)).state == FAILED
    job = await rig.job(id)
    assert (job.reason, job.payload, job.attempt) == ("undecodable", b"\xff\x00garbage", 1)
    event = await rig.last_event(id)
    assert (event.type, event.cause, event.reason) == ("failed", "refuse", "undecodable")


@behaviour(4)
async def unlimited_attempts_go_on(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=None, backoff=Backoff(FIXED, 0))
    for _ in range(100):
        await rig.fail(await rig.claim_one())
    job = await rig.job(id)
    assert (job.state, job.attempt, job.max_attempts) == ("ready", 100, None)


@behaviour(8)
async def same_attempt_waits_the_same_after_a_replay(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2)
    await rig.fail(await rig.claim_one())
    first = (await rig.job(id)).run_at - rig.wall_ms
    await rig.advance(first)
    await rig.fail(await rig.claim_one())
    await rig.change_one(REPLAY, id)
    await rig.fail(await rig.claim_one())
    assert (await rig.job(id)).run_at - rig.wall_ms == first
