"""Section 11: keys that make a second job the first one, what each spans and how long it holds."""

from tenure.core.error import Conflict, InvalidRequest
from tenure.core.request import CANCEL, DISCARD, REMOVE, REPLAY
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import COMPLETED, READY, RUNNING
from tenure.store.behaviour.expect import error_of, refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import DAY, GLOBEX, HOUR, MINUTE, Rig
from tenure.store.behaviour.trap import CROSSED_TENANT


async def finish(rig: Rig, id: int) -> None:
    leased = await rig.claim_one()
    assert leased.id == id
    await rig.complete(leased)


@behaviour(11)
async def custom_id_returns_the_existing_job(rig: Rig) -> None:
    id = await rig.enqueue(b"first", custom_id="c")
    second = await rig.submit(b"second", custom_id="c", queue="elsewhere", task="other")
    assert (second.id, second.duplicate, second.replaced, second.state) == (id, True, False, READY)
    job = await rig.job(id)
    assert (job.payload, job.custom_id) == (b"first", "c")
    assert await rig.types_of(id) == ["enqueued"]


@behaviour(11)
async def custom_id_holds_while_the_job_is_kept(rig: Rig) -> None:
    id = await rig.enqueue(custom_id="c")
    leased = await rig.claim_one()
    assert (await rig.submit(custom_id="c")).state == RUNNING
    await rig.complete(leased)
    again = await rig.submit(custom_id="c")
    assert (again.id, again.duplicate, again.state) == (id, True, COMPLETED)


@behaviour(11, rulings=(7,))
async def custom_id_holds_while_the_outcome_is_kept(rig: Rig) -> None:
    id = await rig.enqueue(custom_id="c", keep_completed_ms=0)
    await finish(rig, id)
    assert await rig.state(id) == "gone"
    await rig.advance(DAY - 1)
    again = await rig.submit(custom_id="c")
    assert (again.id, again.duplicate, again.state) == (id, True, COMPLETED)
    await rig.advance(1)
    fresh = await rig.submit(custom_id="c")
    assert not fresh.duplicate
    assert fresh.id != id


@behaviour(11)
async def job_is_read_by_its_custom_id(rig: Rig) -> None:
    id = await rig.enqueue(custom_id="c")
    found = await rig.store.get(rig.context(), [id], ["c", "none"], rig.now())
    assert [one.id if one else 0 for one in found] == [id, id, 0]
    foreign = await rig.store.get(rig.context(GLOBEX), [id], ["c"], rig.now())
    assert foreign == [None, None]


@behaviour(11)
async def idempotency_key_returns_the_existing_job(rig: Rig) -> None:
    first = await rig.submit(idempotency_key="k")
    second = await rig.submit(idempotency_key="k")
    assert (second.id, second.duplicate) == (first.id, True)


@behaviour(11)
async def idempotency_keys_of_a_batch_may_stand_in_a_column(rig: Rig) -> None:
    taken = await rig.enqueue(idempotency_key="taken")
    batch = rig.batch([b"a", b"b", b"c", b"d", b"e", b"f"])
    batch.keys = ["a", "taken", "a", "", "", "f"]
    answers = await rig.send(batch)
    a, again, same, none, other, f = (answers.item(at) for at in range(6))
    assert [outcome.duplicate for outcome in (a, again, same, none, other, f)] == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]
    assert (again.id, same.id) == (taken, a.id)
    assert len({taken, a.id, none.id, other.id, f.id}) == 5
    assert (await rig.submit(idempotency_key="f")).id == f.id
    assert await rig.line() == [b"x", b"a", b"d", b"e", b"f"]


@behaviour(11)
async def idempotency_key_is_of_its_queue_and_task(rig: Rig) -> None:
    ids = {
        await rig.enqueue(idempotency_key="k"),
        await rig.enqueue(idempotency_key="k", queue="other"),
        await rig.enqueue(idempotency_key="k", task="other"),
    }
    assert len(ids) == 3


@behaviour(11)
async def idempotency_key_holds_after_the_end_for_its_time(rig: Rig) -> None:
    id = await rig.enqueue(idempotency_key="k", idempotency_ttl_ms=10 * MINUTE)
    await finish(rig, id)
    await rig.advance(10 * MINUTE - 1)
    assert (await rig.submit(idempotency_key="k")).id == id
    await rig.advance(1)
    assert not (await rig.submit(idempotency_key="k")).duplicate


@behaviour(11)
async def idempotency_key_holds_for_a_day_unless_told(rig: Rig) -> None:
    id = await rig.enqueue(idempotency_key="k", keep_completed_ms=10 * DAY)
    await finish(rig, id)
    await rig.advance(DAY - 1)
    assert (await rig.submit(idempotency_key="k")).duplicate
    await rig.advance(1)
    assert not (await rig.submit(idempotency_key="k")).duplicate


@behaviour(11)
async def idempotency_key_holds_after_the_job_is_gone(rig: Rig) -> None:
    id = await rig.enqueue(idempotency_key="k", keep_completed_ms=0)
    await finish(rig, id)
    assert await rig.state(id) == "gone"
    await rig.advance(HOUR)
    again = await rig.submit(idempotency_key="k")
    assert (again.id, again.duplicate, again.state) == (id, True, COMPLETED)


@behaviour(11)
async def idempotency_key_holds_while_the_job_lives_however_long(rig: Rig) -> None:
    id = await rig.enqueue(idempotency_key="k", idempotency_ttl_ms=MINUTE, delay_ms=10 * DAY)
    await rig.advance(5 * DAY)
    assert (await rig.submit(idempotency_key="k")).id == id
    await rig.change_one(CANCEL, id)
    assert not (await rig.submit(idempotency_key="k")).duplicate


@behaviour(11)
async def unique_key_holds_until_the_job_has_ended(rig: Rig) -> None:
    id = await rig.enqueue(unique_key="k", backoff=Backoff(FIXED, 1_000))
    assert (await rig.submit(unique_key="k")).id == id
    leased = await rig.claim_one()
    assert (await rig.submit(unique_key="k")).id == id
    await rig.fail(leased)
    assert (await rig.submit(unique_key="k")).id == id
    await rig.advance(1_000)
    await rig.complete(await rig.claim_one())
    fresh = await rig.submit(unique_key="k")
    assert (fresh.duplicate, fresh.id != id) == (False, True)


@behaviour(11)
async def unique_key_is_of_its_queue(rig: Rig) -> None:
    first = await rig.enqueue(unique_key="k", task="a")
    assert (await rig.submit(unique_key="k", task="b")).id == first
    assert not (await rig.submit(unique_key="k", queue="other")).duplicate


@behaviour(11)
async def unique_key_is_free_after_every_kind_of_end(rig: Rig) -> None:
    for action in (CANCEL, DISCARD, REMOVE):
        id = await rig.enqueue(unique_key="k")
        await rig.change_one(action, id)
        assert not (await rig.submit(unique_key="k")).duplicate
        await rig.complete(await rig.claim_one())
    await rig.enqueue(unique_key="k", ttl_ms=1_000)
    await rig.advance(1_000)
    assert not (await rig.submit(unique_key="k")).duplicate


@behaviour(11, trap=CROSSED_TENANT)
async def keys_of_tenants_are_apart(rig: Rig) -> None:
    for key in ("custom_id", "idempotency_key", "unique_key"):
        own = await rig.enqueue_many([b"own"], each=[{key: "k"}])
        foreign = await rig.enqueue_many([b"foreign"], each=[{key: "k"}], tenant=GLOBEX)
        assert not foreign.item(0).duplicate
        assert own.item(0).id != foreign.item(0).id


@behaviour(11)
async def checks_are_made_in_order_and_the_first_hit_answers(rig: Rig) -> None:
    by_custom = await rig.enqueue(custom_id="c")
    by_idempotency = await rig.enqueue(idempotency_key="i")
    by_unique = await rig.enqueue(unique_key="u")
    assert (await rig.submit(custom_id="c", idempotency_key="i", unique_key="u")).id == by_custom
    assert (await rig.submit(custom_id="new", idempotency_key="i", unique_key="u")).id == by_idempotency
    assert (await rig.submit(custom_id="new", idempotency_key="new", unique_key="u")).id == by_unique


@behaviour(11)
async def duplicate_takes_none_of_its_other_keys(rig: Rig) -> None:
    await rig.enqueue(custom_id="c")
    assert (await rig.submit(custom_id="c", unique_key="u", idempotency_key="i")).duplicate
    assert not (await rig.submit(unique_key="u")).duplicate
    assert not (await rig.submit(idempotency_key="i")).duplicate


@behaviour(11)
async def duplicates_inside_one_batch_are_found(rig: Rig) -> None:
    answers = await rig.enqueue_many([b"a", b"b", b"c"], each=[{"unique_key": "k"}, {}, {"unique_key": "k"}])
    assert [answers.item(at).duplicate for at in range(3)] == [False, False, True]
    assert answers.item(2).id == answers.item(0).id
    assert await rig.count() == {"ready": 2}


@behaviour(11)
async def conflict_error_names_the_existing_job(rig: Rig) -> None:
    for key in ("custom_id", "idempotency_key", "unique_key"):
        fields: dict[str, object] = {key: "k"}
        answers = await rig.enqueue_many([b"first"], each=[fields])
        id = answers.item(0).id
        again = await rig.enqueue_many([b"second"], each=[{**fields, "on_conflict": "error"}])
        error_of(again, 0, Conflict, existing=id)
        assert (await rig.job(id)).payload == b"first"


@behaviour(11, rulings=(7,))
async def replace_changes_payload_and_metadata_of_a_waiting_job(rig: Rig) -> None:
    id = await rig.enqueue(b"old", unique_key="k", metadata={"a": "1"}, priority=5, delay_ms=HOUR)
    second = await rig.submit(b"new", unique_key="k", metadata={"b": "2"}, priority=9, on_conflict="replace")
    assert (second.id, second.duplicate, second.replaced) == (id, True, True)
    job = await rig.job(id)
    assert (job.payload, job.metadata, job.priority, job.state) == (b"new", {"b": "2"}, 5, "scheduled")
    assert await rig.types_of(id) == ["enqueued", "updated"]


@behaviour(11, rulings=(7,))
async def replace_does_not_touch_a_running_job(rig: Rig) -> None:
    id = await rig.enqueue(b"old", unique_key="k")
    await rig.claim_one()
    second = await rig.submit(b"new", unique_key="k", on_conflict="replace")
    assert (second.id, second.duplicate, second.replaced, second.state) == (id, True, False, RUNNING)
    assert (await rig.job(id)).payload == b"old"


@behaviour(11, rulings=(7,))
async def replace_does_not_touch_a_terminal_job(rig: Rig) -> None:
    id = await rig.enqueue(b"old", custom_id="c")
    await finish(rig, id)
    second = await rig.submit(b"new", custom_id="c", on_conflict="replace")
    assert (second.id, second.duplicate, second.replaced, second.state) == (id, True, False, COMPLETED)
    assert (await rig.job(id)).payload == b"old"


@behaviour(11, rulings=(5,))
async def duplicate_is_answered_even_when_the_queue_is_full(rig: Rig) -> None:
    id = await rig.enqueue(unique_key="k")
    await rig.set_queue(jobs_max=1)
    second = await rig.submit(unique_key="k")
    assert (second.id, second.duplicate) == (id, True)


@behaviour(11, rulings=(28,))
async def replay_takes_its_keys_back(rig: Rig) -> None:
    id = await rig.enqueue(unique_key="k")
    await rig.fail(await rig.claim_one(), retryable=False)
    await rig.change_one(REPLAY, id)
    assert (await rig.submit(unique_key="k")).id == id


@behaviour(11, rulings=(28,))
async def replay_conflicts_with_a_job_that_took_its_key(rig: Rig) -> None:
    id = await rig.enqueue(unique_key="k")
    await rig.fail(await rig.claim_one(), retryable=False)
    other = await rig.enqueue(unique_key="k")
    await refused(Conflict, rig.change_one(REPLAY, id), existing=other)
    assert await rig.state(id) == "failed"
    await rig.complete(await rig.claim_one())
    await rig.change_one(REPLAY, id)
    assert await rig.state(id) == "ready"


@behaviour(11, rulings=(8,))
async def debounce_key_and_window_need_each_other(rig: Rig) -> None:
    fields = {"debounce_key", "debounce_ms"}
    await refused(InvalidRequest, rig.enqueue(debounce_key="k"), field=fields)
    await refused(InvalidRequest, rig.enqueue(debounce_ms=1_000), field=fields)
    assert await rig.count() == {}


@behaviour(11)
async def removal_of_an_ended_job_does_not_free_the_keys_of_another(rig: Rig) -> None:
    first = await rig.enqueue(unique_key="u", idempotency_key="i", idempotency_ttl_ms=1_000)
    await finish(rig, first)
    await rig.advance(1_000)
    second = await rig.submit(unique_key="u", idempotency_key="i")
    assert not second.duplicate
    await rig.change_one(REMOVE, first)
    assert (await rig.submit(unique_key="u")).id == second.id
    assert (await rig.submit(idempotency_key="i")).id == second.id


@behaviour(11)
async def discarded_replayed_and_ended_job_frees_its_key_once(rig: Rig) -> None:
    first = await rig.enqueue(unique_key="u")
    await rig.change_one(DISCARD, first)
    await rig.change_one(REPLAY, first)
    await rig.change_one(CANCEL, first)
    second = await rig.enqueue(unique_key="u")
    assert second != first
    await rig.change_one(REMOVE, first)
    assert (await rig.submit(unique_key="u")).id == second


@behaviour(11, rulings=(7, 8))
async def replacing_keeps_tags(rig: Rig) -> None:
    """Payload and metadata are replaced, and nothing else."""
    unique: dict[str, object] = {"unique_key": "u", "on_conflict": "replace"}
    trailing: dict[str, object] = {"debounce_key": "d", "debounce_ms": 1_000, "debounce_mode": "trailing"}
    for fields in (unique, trailing):
        each: list[dict[str, object]] = [{**fields, "tags": ["old"]}, {**fields, "tags": ["new"]}]
        answers = await rig.enqueue_many([b"first", b"second"], each=each)
        assert answers.item(1).replaced
        job = await rig.job(answers.item(0).id)
        assert (job.payload, job.tags) == (b"second", ("old",))
