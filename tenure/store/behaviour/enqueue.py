"""Section 4: what enqueue stores, when the job may run, and until when."""

from tenure.core.bound import PAYLOAD_BYTES_DEFAULT, PAYLOAD_BYTES_MAX
from tenure.core.error import InvalidRequest, PayloadTooLarge
from tenure.core.request import STORE
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import READY, SCHEDULED
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import CAPPED, behaviour
from tenure.store.behaviour.rig import ACME, DAY, HOUR, Rig


@behaviour(4)
async def enqueued_job_is_ready_and_can_be_read(rig: Rig) -> None:
    outcome = await rig.submit(b"payload", queue="mail", task="send")
    assert (outcome.state, outcome.duplicate, outcome.replaced) == (READY, False, False)
    job = await rig.job(outcome.id)
    assert (job.id, job.tenant, job.queue, job.task) == (outcome.id, ACME, "mail", "send")
    assert (job.state, job.payload, job.codec, job.schema_version) == ("ready", b"payload", "json", 0)
    assert (job.attempt, job.delivery, job.max_attempts, job.priority) == (0, 0, 3, 0)
    assert (job.created_at, job.ready_at) == (rig.wall_ms, rig.wall_ms)
    assert (job.started_at, job.ended_at, job.expires_at, job.lease_until) == (0, 0, 0, 0)
    assert (job.result, job.error, job.reason, job.worker, job.history) == (None, None, "", "", ())


@behaviour(4)
async def record_has_what_was_asked_for(rig: Rig) -> None:
    id = await rig.enqueue(
        b"x",
        custom_id="c",
        priority="high",
        group="g",
        tags=["a", "b"],
        metadata={"k": "v"},
        trace="00-aa-bb-01",
        codec="msgpack",
        schema_version=7,
        max_attempts=9,
        expires_at=rig.wall_ms + DAY,
    )
    job = await rig.job(id)
    assert (job.custom_id, job.priority, job.group, job.tags) == ("c", 10, "g", ("a", "b"))
    assert (job.metadata, job.trace, job.codec, job.schema_version) == ({"k": "v"}, "00-aa-bb-01", "msgpack", 7)
    assert (job.max_attempts, job.expires_at) == (9, rig.wall_ms + DAY)


@behaviour(1)
async def ids_are_positive_and_rise(rig: Rig) -> None:
    ids = [await rig.enqueue() for _ in range(5)] + await rig.enqueue_ids([b"x"] * 5)
    ids += await rig.enqueue_ids([b"x"] * 5, delay_ms=1_000)
    assert ids == sorted(set(ids))
    assert ids[0] > 0
    assert ids[-1] < 2**53


@behaviour(1, rulings=(11,))
async def refused_job_spends_no_id(rig: Rig) -> None:
    first = await rig.enqueue(unique_key="k")
    await refused(InvalidRequest, rig.enqueue(expires_at=1))
    assert (await rig.submit(unique_key="k")).duplicate
    assert await rig.enqueue() == first + 1


@behaviour(1)
async def ids_are_not_given_twice_after_removal(rig: Rig) -> None:
    first = await rig.enqueue(keep_completed_ms=0)
    await rig.complete(await rig.claim_one())
    assert await rig.state(first) == "gone"
    assert await rig.enqueue() > first


@behaviour(4)
async def delayed_job_is_scheduled(rig: Rig) -> None:
    outcome = await rig.submit(delay_ms=5_000)
    assert outcome.state == SCHEDULED
    job = await rig.job(outcome.id)
    assert (job.state, job.run_at, job.ready_at) == ("scheduled", rig.wall_ms + 5_000, 0)
    await rig.advance(4_999)
    assert await rig.claim() == []
    await rig.advance(1)
    job = await rig.job(outcome.id)
    assert (job.state, job.ready_at) == ("ready", rig.wall_ms)
    assert await rig.types_of(outcome.id) == ["enqueued", "ready"]


@behaviour(4)
async def job_with_a_run_time_ahead_is_scheduled(rig: Rig) -> None:
    run_at = rig.wall_ms + DAY
    outcome = await rig.submit(run_at=run_at)
    assert (outcome.state, (await rig.job(outcome.id)).run_at) == (SCHEDULED, run_at)
    await rig.advance(DAY - 1)
    assert await rig.state(outcome.id) == "scheduled"
    await rig.advance(1)
    assert await rig.state(outcome.id) == "ready"


@behaviour(4, rulings=(4,))
async def run_time_not_ahead_means_at_once(rig: Rig) -> None:
    for run_at in (0, 1, rig.wall_ms - 1, rig.wall_ms):
        assert (await rig.submit(run_at=run_at)).state == READY
    assert (await rig.submit(delay_ms=0)).state == READY


@behaviour(4, rulings=(4,))
async def delay_and_run_time_together_are_refused(rig: Rig) -> None:
    call = rig.enqueue(delay_ms=1_000, run_at=rig.wall_ms + 1_000)
    await refused(InvalidRequest, call, field={"delay_ms", "run_at"})


@behaviour(4, rulings=(4,))
async def ttl_and_expiry_together_are_refused(rig: Rig) -> None:
    call = rig.enqueue(ttl_ms=1_000, expires_at=rig.wall_ms + 1_000)
    await refused(InvalidRequest, call, field={"ttl_ms", "expires_at"})


@behaviour(4)
async def ttl_counts_from_the_enqueue(rig: Rig) -> None:
    id = await rig.enqueue(ttl_ms=HOUR, delay_ms=1_000)
    assert (await rig.job(id)).expires_at == rig.wall_ms + HOUR


@behaviour(4, rulings=(6,))
async def expiry_must_be_after_the_run_time(rig: Rig) -> None:
    run_at = rig.wall_ms + 5_000
    await refused(InvalidRequest, rig.enqueue(run_at=run_at, expires_at=run_at), field="expires_at")
    await refused(InvalidRequest, rig.enqueue(delay_ms=5_000, ttl_ms=5_000), field={"expires_at", "ttl_ms"})
    await rig.enqueue(run_at=run_at, expires_at=run_at + 1)


@behaviour(4, rulings=(6,))
async def expiry_must_be_ahead(rig: Rig) -> None:
    await refused(InvalidRequest, rig.enqueue(expires_at=rig.wall_ms), field="expires_at")
    await refused(InvalidRequest, rig.enqueue(expires_at=rig.wall_ms - 1, run_at=1), field="expires_at")
    await rig.enqueue(expires_at=rig.wall_ms + 1)


@behaviour(3)
async def waiting_job_fails_at_its_expiry(rig: Rig) -> None:
    ready = await rig.enqueue(ttl_ms=5_000)
    scheduled = await rig.enqueue(ttl_ms=5_000, delay_ms=4_999)
    await rig.advance(4_998)
    assert await rig.states(ready, scheduled) == ["ready", "scheduled"]
    await rig.advance(2)
    for id in (ready, scheduled):
        job = await rig.job(id)
        assert (job.state, job.reason, job.ended_at) == ("failed", "expired", rig.wall_ms)
        event = await rig.last_event(id)
        assert (event.type, event.cause, event.reason) == ("failed", "expire", "expired")


@behaviour(4, rulings=(2,))
async def job_past_its_expiry_is_not_leased_noticed_or_not(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 2_500, ttl_ms=5_000)
    rig.move_clock(5_000)
    assert await rig.claim(2_500) == []
    await rig.tick()
    assert await rig.count() == {"failed": 2_500}


@behaviour(4)
async def running_attempt_is_not_stopped_by_expiry(rig: Rig) -> None:
    id = await rig.enqueue(ttl_ms=5_000)
    leased = await rig.claim_one()
    await rig.advance(10_000)
    assert await rig.state(id) == "running"
    await rig.complete(leased)
    assert await rig.state(id) == "completed"


@behaviour(4)
async def failed_attempt_past_expiry_is_not_tried_again(rig: Rig) -> None:
    id = await rig.enqueue(ttl_ms=5_000, backoff=Backoff(FIXED, 0))
    leased = await rig.claim_one()
    await rig.advance(10_000)
    await rig.fail(leased)
    assert await rig.claim() == []
    await rig.tick()
    job = await rig.job(id)
    assert (job.state, job.reason) == ("failed", "expired")


@behaviour(3)
async def retrying_job_expires(rig: Rig) -> None:
    id = await rig.enqueue(ttl_ms=5_000, backoff=Backoff(FIXED, HOUR))
    await rig.fail(await rig.claim_one())
    await rig.advance(5_000)
    assert (await rig.job(id)).reason == "expired"


@behaviour(14, needs=(CAPPED,))
async def payload_over_the_cap_is_refused(rig: Rig) -> None:
    size = PAYLOAD_BYTES_DEFAULT + 1
    await refused(PayloadTooLarge, rig.enqueue(b"x" * size), size=size, max=PAYLOAD_BYTES_DEFAULT)
    id = await rig.enqueue(b"x" * PAYLOAD_BYTES_DEFAULT)
    assert len((await rig.claim_one()).payload) == PAYLOAD_BYTES_DEFAULT
    assert await rig.state(id) == "running"


@behaviour(14, needs=(CAPPED,))
async def payload_cap_can_be_set(rig: Rig) -> None:
    await rig.configure(STORE, "", payload_bytes_max=100)
    await refused(PayloadTooLarge, rig.enqueue(b"x" * 101), size=101, max=100)
    await rig.configure(STORE, "", payload_bytes_max=PAYLOAD_BYTES_MAX)
    await rig.enqueue(b"x" * PAYLOAD_BYTES_MAX)
    assert len((await rig.claim_one()).payload) == PAYLOAD_BYTES_MAX


@behaviour(4)
async def payload_is_opaque(rig: Rig) -> None:
    for payload in (b"", b"\x00", b"\xff" * 100, bytes(range(256))):
        await rig.enqueue(payload)
        leased = await rig.claim_one()
        assert leased.payload == payload
        await rig.complete(leased, result=payload)
        assert (await rig.job(leased.id)).result == payload
