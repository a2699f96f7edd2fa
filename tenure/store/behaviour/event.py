"""Section 15: one event per transition, in an order that nobody has to go back in."""

from tenure.core import state as states
from tenure.core.error import EventsLost
from tenure.core.fingerprint import fingerprint
from tenure.core.record import Event
from tenure.core.request import CANCEL, DELAY, DISCARD, PRIORITY, PROMOTE, REMOVE, REPLAY, STORE, UPDATE
from tenure.core.retry import FIXED, Backoff
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, HOUR, LEASE_MS, MINUTE, Rig


async def busy_day(rig: Rig) -> list[int]:
    """A little of everything that can happen to jobs."""
    backoff = Backoff(FIXED, 1_000)
    ids = await rig.enqueue_ids([b"x"] * 9, backoff=backoff, max_attempts=2, timeout_ms=HOUR)
    ids.append(await rig.enqueue(depends_on=[ids[0]], delay_ms=2_000))
    ids.append(await rig.enqueue(delay_ms=5_000, ttl_ms=20_000))
    leased = await rig.claim(8, worker="w")
    await rig.complete(leased[0], b"r")
    await rig.fail(leased[1])
    await rig.fail(leased[2], retryable=False)
    await rig.release(leased[3])
    await rig.snooze(leased[4], delay_ms=3_000)
    await rig.change_one(CANCEL, ids[5])
    await rig.change_one(DISCARD, ids[6])
    await rig.change_one(REPLAY, ids[2])
    await rig.change_one(UPDATE, ids[3], payload=b"new")
    await rig.change_one(PRIORITY, ids[8], priority=3)
    await rig.change_one(DELAY, ids[8], run_at=rig.wall_ms + HOUR)
    await rig.change_one(PROMOTE, ids[1])
    await rig.advance(1_500)
    await rig.claim(2, worker="w")
    await rig.advance(LEASE_MS)
    await rig.advance(HOUR)
    await rig.change_one(REMOVE, ids[0])
    return ids


@behaviour(15)
async def history_of_every_job_is_a_path_in_the_table(rig: Rig) -> None:
    for id in await busy_day(rig):
        state = states.NEW
        for event in await rig.events_of(id):
            if event.type == "progress":
                continue
            cause = states.CAUSE_NAMES.index(event.cause)
            after = states.GONE if event.type == "removed" else states.STATE_NAMES.index(event.state)
            assert states.allows(cause, state, after), f"{event.cause} from {state} to {after}"
            state = after
        assert await rig.state(id) == ("gone" if state == states.GONE else states.STATE_NAMES[state])


@behaviour(15)
async def job_seq_is_dense_within_each_job(rig: Rig) -> None:
    for id in await busy_day(rig):
        numbers = [event.job_seq for event in await rig.events_of(id)]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] in {0, 1}


@behaviour(15)
async def seq_and_time_rise(rig: Rig) -> None:
    await busy_day(rig)
    events = await rig.events()
    seqs = [event.seq for event in events]
    assert seqs == sorted(set(seqs))
    times = [event.at for event in events]
    assert times == sorted(times)


@behaviour(15, needs=("dense_events",))
async def seq_is_dense(rig: Rig) -> None:
    await busy_day(rig)
    await rig.enqueue(tenant=GLOBEX)
    seqs = [event.seq for event in await rig.events(tenants=("*",))]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


@behaviour(15)
async def enqueued_event_says_what_was_asked_for(rig: Rig) -> None:
    first = await rig.enqueue()
    id = await rig.enqueue(
        b"12345",
        queue="q",
        task="t",
        priority=7,
        max_attempts=9,
        group="g",
        limit_keys=["a", "b"],
        depends_on=[first],
        unique_key="secret",
        run_at=rig.wall_ms + HOUR,
        expires_at=rig.wall_ms + 2 * HOUR,
    )
    event = (await rig.events_of(id))[0]
    assert (event.type, event.tenant, event.queue, event.task, event.job) == ("enqueued", ACME, "q", "t", id)
    assert (event.state, event.cause, event.at) == ("blocked", "enqueue", rig.wall_ms)
    assert (event.run_at, event.expires_at) == (rig.wall_ms + HOUR, rig.wall_ms + 2 * HOUR)
    assert (event.priority, event.max_attempts, event.group) == (7, 9, "g")
    assert (event.limit_keys, event.depends_on, event.payload_bytes) == (("a", "b"), (first,), 5)
    assert event.unique_hash
    assert "secret" not in event.unique_hash


@behaviour(15)
async def hash_of_the_unique_key_is_the_same_for_the_same_key(rig: Rig) -> None:
    hashes = []
    for key in ("k", "k", "other"):
        id = await rig.enqueue(unique_key=key)
        hashes.append((await rig.last_event(id)).unique_hash)
        await rig.change_one(CANCEL, id)
    assert hashes[0] == hashes[1] != hashes[2]


@behaviour(15)
async def enqueue_to_ready_is_one_event(rig: Rig) -> None:
    id = await rig.enqueue()
    assert [(event.type, event.state) for event in await rig.events_of(id)] == [("enqueued", "ready")]


@behaviour(15)
async def started_event_names_the_worker_and_the_attempt(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.release(await rig.claim_one())
    await rig.advance(10)
    await rig.claim_one(worker="w1")
    event = await rig.last_event(id)
    assert (event.type, event.state, event.cause, event.at) == ("started", "running", "claim", rig.wall_ms)
    assert (event.worker, event.attempt, event.delivery) == ("w1", 1, 2)


@behaviour(15)
async def event_that_ends_an_attempt_has_its_times(rig: Rig) -> None:
    id = await rig.enqueue(delay_ms=1_000)
    enqueued_at = rig.wall_ms
    await rig.advance(1_000)
    await rig.advance(300)
    leased = await rig.claim_one(worker="w1")
    await rig.advance(700)
    await rig.complete(leased, b"1234567")
    event = await rig.last_event(id)
    assert (event.type, event.state, event.worker, event.attempt) == ("completed", "completed", "w1", 1)
    assert (event.enqueued_at, event.ready_at, event.started_at) == (
        enqueued_at,
        enqueued_at + 1_000,
        enqueued_at + 1_300,
    )
    assert (event.wait_ms, event.run_ms, event.result_bytes) == (300, 700, 7)


@behaviour(15)
async def failed_and_retrying_events_have_the_error(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2, backoff=Backoff(FIXED, 0))
    for expected in ("retrying", "failed"):
        leased = await rig.claim_one()
        await rig.advance(50)
        await rig.fail(leased, type="ValueError", message="user 17 is gone", trace="secret")
        event = await rig.last_event(id)
        assert (event.type, event.error_type, event.message) == (expected, "ValueError", "user 17 is gone")
        assert (event.fingerprint, event.run_ms) == (fingerprint("ValueError", "user 17 is gone"), 50)
    assert event.reason == "attempts_exhausted"


@behaviour(15)
async def message_of_an_event_is_cut(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.fail(await rig.claim_one(), type="E", message="é" * 1_000, retryable=False)
    assert (await rig.last_event(id)).message == "é" * 128


@behaviour(15)
async def released_event_gives_the_attempt_back(rig: Rig) -> None:
    id = await rig.enqueue()
    await rig.release(await rig.claim_one())
    event = await rig.last_event(id)
    assert (event.type, event.state, event.cause, event.delivery) == ("released", "ready", "release", 1)


@behaviour(15)
async def pause_and_resume_are_events(rig: Rig) -> None:
    await rig.set_queue("q", paused=True)
    await rig.set_queue("q", paused=False)
    found = [(event.type, event.queue) for event in await rig.events() if event.type in {"paused", "resumed"}]
    assert found == [("paused", "q"), ("resumed", "q")]


@behaviour(15)
async def setting_again_what_is_set_is_no_pause(rig: Rig) -> None:
    await rig.set_queue("q", paused=True)
    await rig.set_queue("q", paused=True)
    assert [event.type for event in await rig.events()].count("paused") == 1


@behaviour(15)
async def changed_limits_are_an_event_with_the_limit(rig: Rig) -> None:
    await rig.set_queue("q", concurrency=5)
    changed = [event for event in await rig.events() if event.type == "limits_changed"]
    assert len(changed) == 1
    assert changed[0].queue == "q"
    assert "5" in str(changed[0].detail)


@behaviour(15)
async def changed_limits_of_a_key_are_an_event(rig: Rig) -> None:
    await rig.set_key("api:", concurrency=5)
    changed = [event for event in await rig.events() if event.type == "limits_changed"]
    assert len(changed) == 1
    assert "api:" in str(changed[0].detail)


@behaviour(15)
async def reading_settings_is_no_event(rig: Rig) -> None:
    await rig.set_queue("q", concurrency=5)
    before = await rig.events(tenants=("*",))
    assert (await rig.set_queue("q"))["concurrency"] == 5
    await rig.set_tenant()
    assert await rig.events(tenants=("*",)) == before


@behaviour(15)
async def pages_hold_every_event_once(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 57)
    whole = await rig.events()
    assert len(whole) == 57
    assert await rig.events(limit=10) == whole
    assert await rig.events(limit=1) == whole


@behaviour(15)
async def events_are_read_again_from_an_old_cursor(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 5)
    page = await rig.store.events(rig.context(), "", 3, 0, rig.now())
    await rig.enqueue_ids([b"x"] * 5)
    first = await rig.events(cursor=page.cursor)
    assert len(first) == 7
    assert await rig.events(cursor=page.cursor) == first


@behaviour(15)
async def cursor_at_the_end_shows_only_what_comes(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 5)
    page = await rig.store.events(rig.context(), "end", 10, 0, rig.now())
    assert page.events == ()
    id = await rig.enqueue()
    assert [event.job for event in await rig.events(cursor=page.cursor)] == [id]


@behaviour(15)
async def waiting_reader_is_woken_by_an_event(rig: Rig) -> None:
    page = await rig.store.events(rig.context(), "end", 10, 0, rig.now())
    task = await rig.start(rig.store.events(rig.context(), page.cursor, 10, MINUTE, rig.now()))
    assert await rig.waits(task)
    await rig.enqueue(tenant=GLOBEX)
    assert await rig.waits(task)
    id = await rig.enqueue()
    assert [event.job for event in (await rig.answer(task)).events] == [id]


@behaviour(15)
async def waiting_reader_ends_with_nothing_after_its_wait(rig: Rig) -> None:
    task = await rig.start(rig.store.events(rig.context(), "end", 10, 5_000, rig.now()))
    await rig.advance(4_999)
    assert await rig.waits(task)
    await rig.advance(1)
    assert (await rig.answer(task)).events == ()


@behaviour(15)
async def cursor_behind_retention_is_told_what_is_lost(rig: Rig) -> None:
    await rig.enqueue()
    old = await rig.store.events(rig.context(), "", 1, 0, rig.now())
    await rig.configure(STORE, "", events_max=10)
    for _ in range(6):
        await rig.enqueue_ids([b"x"] * 10_000)
        await rig.advance(1)
    kept = await rig.events(tenants=("*",), limit=10_000)
    assert 10 <= len(kept) <= 30_000
    await refused(EventsLost, rig.events(cursor=old.cursor), oldest=kept[0].seq)


@behaviour(2, rulings=(36,))
async def events_of_a_tenant_are_its_own(rig: Rig) -> None:
    own = await rig.enqueue()
    foreign = await rig.enqueue(tenant=GLOBEX)
    await rig.set_queue(tenant=GLOBEX, paused=True)

    def jobs(events: list[Event]) -> list[int]:
        return [event.job for event in events if event.job]

    assert [event.tenant for event in await rig.events(ACME)] == [ACME]
    assert jobs(await rig.events(GLOBEX)) == [foreign]
    assert jobs(await rig.events(ACME, tenants=("*",))) == [own, foreign]
    assert await rig.events("initech") == []


@behaviour(15)
async def attempt_that_failed_is_not_called_the_last_while_others_are_left(rig: Rig) -> None:
    id = await rig.enqueue(max_attempts=2, backoff=Backoff(FIXED, 1_000))
    [first] = await rig.claim(1)
    await rig.fail(first)
    assert (await rig.last_event(id)).reason == ""
    await rig.advance(1_000)
    [second] = await rig.claim(1)
    await rig.fail(second)
    assert (await rig.last_event(id)).reason == "attempts_exhausted"
