"""Section 3: what operators and producers do to jobs, by id. A wrong state is said, not worked around."""

from tenure.core.error import AlreadySettled, Conflict, JobNotFound
from tenure.core.request import CANCEL, CLONE, DELAY, DISCARD, PRIORITY, PROMOTE, REMOVE, REPLAY, UPDATE
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import CANCELLED, FAILED, READY, SCHEDULED
from tenure.store.behaviour.expect import error_of, refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import HOUR, Rig

UNKNOWN_ID = 2**53 - 1
ACTIONS = (CANCEL, DISCARD, PROMOTE, PRIORITY, UPDATE, DELAY, CLONE, REPLAY, REMOVE)


async def job_in(rig: Rig, state: str) -> int:
    """A job in the given state, in a queue of that name."""
    if state == "blocked":
        first = await rig.enqueue(queue="first")
        return await rig.enqueue(queue=state, depends_on=[first])
    if state == "scheduled":
        return await rig.enqueue(queue=state, delay_ms=HOUR)
    id = await rig.enqueue(queue=state, backoff=Backoff(FIXED, HOUR))
    if state == "cancelled":
        await rig.change_one(CANCEL, id)
    elif state != "ready":
        leased = await rig.claim_one(queues=state)
        if state == "completed":
            await rig.complete(leased)
        elif state in {"retrying", "failed"}:
            await rig.fail(leased, retryable=state == "retrying")
    assert await rig.state(id) == state
    return id


@behaviour(3)
async def any_live_job_can_be_cancelled(rig: Rig) -> None:
    for state in ("scheduled", "blocked", "ready", "running", "retrying"):
        id = await job_in(rig, state)
        assert (await rig.change_one(CANCEL, id)).state == CANCELLED
        job = await rig.job(id)
        assert (job.state, job.ended_at) == ("cancelled", rig.wall_ms)
        event = await rig.last_event(id)
        assert (event.type, event.state, event.cause) == ("cancelled", "cancelled", "cancel")
    await rig.advance(2 * HOUR)
    assert await rig.claim(9, queues=("scheduled", "blocked", "ready", "running", "retrying")) == []


@behaviour(3, rulings=(26,))
async def cancelling_again_answers_the_cancelled_job(rig: Rig) -> None:
    id = await job_in(rig, "cancelled")
    again = await rig.change_one(CANCEL, id)
    assert (again.id, again.state) == (id, CANCELLED)
    assert await rig.types_of(id) == ["enqueued", "cancelled"]


@behaviour(3)
async def any_live_job_can_be_discarded(rig: Rig) -> None:
    for state in ("scheduled", "blocked", "ready", "running", "retrying"):
        id = await job_in(rig, state)
        assert (await rig.change_one(DISCARD, id)).state == FAILED
        job = await rig.job(id)
        assert (job.state, job.reason) == ("failed", "discarded")
        event = await rig.last_event(id)
        assert (event.type, event.reason, event.cause) == ("failed", "discarded", "discard")


@behaviour(3, rulings=(26,))
async def terminal_job_does_not_change(rig: Rig) -> None:
    for state in ("completed", "failed", "cancelled"):
        id = await job_in(rig, state)
        before = await rig.job(id)
        for action in (CANCEL, DISCARD, PROMOTE, PRIORITY, UPDATE, DELAY):
            if (action, state) != (CANCEL, "cancelled"):
                call = rig.change_one(action, id, run_at=rig.wall_ms + 1, payload=b"new")
                await refused(AlreadySettled, call, job=id, outcome=state)
        assert await rig.job(id) == before


@behaviour(3)
async def promote_makes_a_waiting_job_ready(rig: Rig) -> None:
    for state in ("scheduled", "retrying"):
        id = await job_in(rig, state)
        assert (await rig.change_one(PROMOTE, id)).state == READY
        job = await rig.job(id)
        assert (job.state, job.ready_at) == ("ready", rig.wall_ms)
        event = await rig.last_event(id)
        assert (event.type, event.state, event.cause) == ("ready", "ready", "promote")


@behaviour(3, rulings=(26, 27))
async def promote_of_any_other_job_is_a_conflict(rig: Rig) -> None:
    for state in ("blocked", "ready", "running"):
        id = await job_in(rig, state)
        await refused(Conflict, rig.change_one(PROMOTE, id))
        assert await rig.state(id) == state


@behaviour(3)
async def delay_moves_a_waiting_job(rig: Rig) -> None:
    for state in ("ready", "scheduled", "retrying"):
        id = await job_in(rig, state)
        run_at = rig.wall_ms + 5_000
        assert (await rig.change_one(DELAY, id, run_at=run_at)).state == SCHEDULED
        job = await rig.job(id)
        assert (job.state, job.run_at) == ("scheduled", run_at)
        event = await rig.last_event(id)
        assert (event.type, event.state, event.cause) == ("updated", "scheduled", "delay")
        await rig.advance(4_999)
        assert await rig.claim(queues=state) == []
        await rig.advance(1)
        assert (await rig.claim_one(queues=state)).id == id


@behaviour(3, rulings=(26,))
async def delay_of_a_running_or_blocked_job_is_a_conflict(rig: Rig) -> None:
    for state in ("running", "blocked"):
        id = await job_in(rig, state)
        await refused(Conflict, rig.change_one(DELAY, id, run_at=rig.wall_ms + 1_000))
        assert await rig.state(id) == state


@behaviour(3, rulings=(27,))
async def delay_to_a_time_not_ahead_is_promote(rig: Rig) -> None:
    for state in ("scheduled", "retrying"):
        id = await job_in(rig, state)
        assert (await rig.change_one(DELAY, id, run_at=rig.wall_ms)).state == READY
        assert await rig.state(id) == "ready"


@behaviour(3, rulings=(27,))
async def delay_of_a_ready_job_to_a_time_not_ahead_leaves_it(rig: Rig) -> None:
    await rig.enqueue(b"a")
    second = await rig.enqueue(b"b")
    await rig.enqueue(b"c")
    assert (await rig.change_one(DELAY, second, run_at=rig.wall_ms)).state == READY
    assert await rig.line() == [b"a", b"b", b"c"]


@behaviour(3)
async def update_changes_payload_metadata_and_tags(rig: Rig) -> None:
    id = await rig.enqueue(b"old", metadata={"a": "1"}, tags=["x"])
    await rig.change_one(UPDATE, id, payload=b"new")
    job = await rig.job(id)
    assert (job.payload, job.metadata, job.tags, job.state) == (b"new", {"a": "1"}, ("x",), "ready")
    await rig.change_one(UPDATE, id, metadata={"b": "2"}, tags=("y", "z"))
    job = await rig.job(id)
    assert (job.payload, job.metadata, job.tags) == (b"new", {"b": "2"}, ("y", "z"))
    assert await rig.types_of(id) == ["enqueued", "updated", "updated"]
    assert (await rig.claim_one()).payload == b"new"


@behaviour(3)
async def update_keeps_state_and_place(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b", b"c"])
    await rig.change_one(UPDATE, ids[0], payload=b"A")
    assert await rig.line() == [b"A", b"b", b"c"]
    for state in ("scheduled", "blocked", "retrying"):
        id = await job_in(rig, state)
        await rig.change_one(UPDATE, id, payload=b"new")
        assert await rig.state(id) == state


@behaviour(3, rulings=(31,))
async def update_of_a_running_job_counts_for_its_next_attempt(rig: Rig) -> None:
    id = await rig.enqueue(b"old")
    leased = await rig.claim_one()
    await rig.change_one(UPDATE, id, payload=b"new")
    assert (await rig.state(id), leased.payload) == ("running", b"old")
    await rig.fail(leased, delay_ms=0)
    assert (await rig.claim_one()).payload == b"new"


@behaviour(3, rulings=(29,))
async def clone_makes_a_new_job_of_any(rig: Rig) -> None:
    for state in ("scheduled", "blocked", "ready", "running", "retrying", "completed", "failed", "cancelled"):
        id = await job_in(rig, state)
        outcome = await rig.change_one(CLONE, id)
        assert (outcome.state, outcome.id != id) == (READY, True)
        clone = await rig.job(outcome.id)
        assert (clone.state, clone.queue, clone.attempt, clone.delivery) == ("ready", state, 0, 0)
        assert await rig.state(id) == state
        assert await rig.types_of(outcome.id) == ["enqueued"]


@behaviour(3, rulings=(29,))
async def clone_copies_the_job_without_keys_times_and_dependencies(rig: Rig) -> None:
    first = await rig.enqueue(queue="first")
    id = await rig.enqueue(
        b"x",
        task="t",
        priority=5,
        max_attempts=7,
        tags=["a"],
        metadata={"k": "v"},
        group="g",
        custom_id="c",
        unique_key="u",
        idempotency_key="i",
        depends_on=[first],
        delay_ms=1_000,
        ttl_ms=HOUR,
    )
    clone = await rig.job((await rig.change_one(CLONE, id)).id)
    assert (clone.payload, clone.task, clone.priority, clone.max_attempts) == (b"x", "t", 5, 7)
    assert (clone.tags, clone.metadata, clone.group) == (("a",), {"k": "v"}, "g")
    assert (clone.custom_id, clone.depends_on, clone.expires_at, clone.state) == ("", (), 0, "ready")
    assert (await rig.submit(unique_key="u")).id == id


@behaviour(3)
async def clone_takes_an_edited_payload(rig: Rig) -> None:
    id = await rig.enqueue(b"old", metadata={"a": "1"})
    outcome = await rig.change_one(CLONE, id, payload=b"new", metadata={"b": "2"}, tags=("t",))
    clone = await rig.job(outcome.id)
    assert (clone.payload, clone.metadata, clone.tags) == (b"new", {"b": "2"}, ("t",))
    assert (await rig.job(id)).payload == b"old"


@behaviour(3)
async def remove_takes_away_any_job_that_does_not_run(rig: Rig) -> None:
    for state in ("scheduled", "blocked", "ready", "retrying", "completed", "failed", "cancelled"):
        id = await job_in(rig, state)
        await rig.change_one(REMOVE, id)
        assert await rig.state(id) == "gone"
        event = await rig.last_event(id)
        assert (event.type, event.reason, event.cause) == ("removed", "removed", "remove")
        assert await rig.count(state) == {}


@behaviour(3, rulings=(26,))
async def remove_of_a_running_job_is_a_conflict(rig: Rig) -> None:
    id = await job_in(rig, "running")
    await refused(Conflict, rig.change_one(REMOVE, id))
    assert await rig.state(id) == "running"


@behaviour(2)
async def change_of_an_unknown_job_is_not_found(rig: Rig) -> None:
    for action in ACTIONS:
        await refused(JobNotFound, rig.change_one(action, UNKNOWN_ID), job=UNKNOWN_ID)


@behaviour(3)
async def batch_of_changes_answers_item_by_item(rig: Rig) -> None:
    ready = await job_in(rig, "ready")
    completed = await job_in(rig, "completed")
    answers = await rig.change(CANCEL, ready, UNKNOWN_ID, completed)
    assert answers.item(0).state == CANCELLED
    error_of(answers, 1, JobNotFound, job=UNKNOWN_ID)
    error_of(answers, 2, AlreadySettled, outcome="completed")
    assert (answers.count, await rig.state(ready)) == (1, "cancelled")


@behaviour(3)
async def replay_puts_a_dead_letter_back(rig: Rig) -> None:
    id = await rig.enqueue(b"x", max_attempts=1, ttl_ms=HOUR, delay_ms=1_000)
    await rig.advance(1_000)
    await rig.fail(await rig.claim_one(), type="E", message="m")
    await rig.advance(1_000)
    assert (await rig.change_one(REPLAY, id)).state == READY
    job = await rig.job(id)
    assert (job.state, job.attempt, job.delivery, job.replays) == ("ready", 0, 1, 1)
    assert (job.expires_at, job.reason, job.ended_at, job.ready_at) == (0, "", 0, rig.wall_ms)
    event = await rig.last_event(id)
    assert (event.type, event.state, event.cause) == ("replayed", "ready", "replay")
    leased = await rig.claim_one()
    assert (leased.attempt, (await rig.job(id)).delivery) == (1, 2)


@behaviour(3)
async def replay_gives_all_attempts_again(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2, backoff=Backoff(FIXED, 0))
    for _ in range(3):
        await rig.fail(await rig.claim_one())
        assert (await rig.fail(await rig.claim_one())).state == FAILED
        await rig.change_one(REPLAY, id)
    assert (await rig.job(id)).replays == 3


@behaviour(14)
async def replay_takes_an_edited_payload(rig: Rig) -> None:
    id = await rig.enqueue(b"bad")
    await rig.fail(await rig.claim_one(), retryable=False)
    await rig.change_one(REPLAY, id, payload=b"good")
    assert (await rig.claim_one()).payload == b"good"


@behaviour(3, rulings=(26,))
async def replay_of_a_job_that_has_not_failed_is_refused(rig: Rig) -> None:
    for state in ("scheduled", "blocked", "ready", "running", "retrying", "completed", "cancelled"):
        id = await job_in(rig, state)
        await refused(Conflict, rig.change_one(REPLAY, id))
        assert await rig.state(id) == state


@behaviour(3, needs=("dependencies",), rulings=(28,))
async def replay_is_refused_while_a_dependency_is_failed(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(depends_on=[first])
    await rig.fail(await rig.claim_one(), retryable=False)
    await refused(Conflict, rig.change_one(REPLAY, child), existing=first)
    await rig.change_one(REPLAY, first)
    await rig.change_one(REPLAY, child)
    assert await rig.states(first, child) == ["ready", "blocked"]
    await rig.complete(await rig.claim_one())
    assert await rig.state(child) == "ready"


@behaviour(3, needs=("dependencies",), rulings=(28,))
async def replay_is_refused_while_no_dependency_is_left_to_succeed(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 2)
    child = await rig.enqueue(depends_on=ids, dependency_policy="any_success")
    for _ in range(2):
        await rig.fail(await rig.claim_one(), retryable=False)
    await refused(Conflict, rig.change_one(REPLAY, child))
    await rig.change_one(REPLAY, ids[1])
    await rig.change_one(REPLAY, child)
    assert await rig.state(child) == "blocked"
    await rig.complete(await rig.claim_one())
    assert await rig.state(child) == "ready"


@behaviour(3)
async def no_job_starts_after_its_cancel(rig: Rig) -> None:
    for state in ("ready", "scheduled", "retrying"):
        id = await job_in(rig, state)
        await rig.change_one(CANCEL, id)
        await rig.advance(2 * HOUR)
        assert await rig.claim(9, queues=state) == []
        assert "started" not in (await rig.types_of(id))[-2:]
