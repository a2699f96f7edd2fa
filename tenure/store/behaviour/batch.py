"""Section 4: batches answer item by item, in input order, and do what singles do."""

from typing import cast

import msgspec

from tenure.core.bound import BATCH_BYTES_MAX, BATCH_ITEMS_MAX, MIB, PAYLOAD_BYTES_DEFAULT, make_options
from tenure.core.error import Conflict, DependencyNotFound, InvalidRequest, PayloadTooLarge
from tenure.core.packed import pack
from tenure.core.record import Event
from tenure.core.request import CANCEL, Batch
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import READY, SCHEDULED, SETTLE_COMPLETE, SETTLE_FAIL
from tenure.store.behaviour.expect import error_of, refused
from tenure.store.behaviour.registry import CAPPED, behaviour
from tenure.store.behaviour.rig import HOUR, Rig
from tenure.store.behaviour.trap import BATCH_ACK, DROPPED_ITEM

UNKNOWN_ID = 2**53 - 1
Fields = dict[str, object]


@behaviour(4)
async def batch_keeps_its_order(rig: Rig) -> None:
    names = [b"%d" % at for at in range(100)]
    ids = await rig.enqueue_ids(names)
    assert ids == sorted(set(ids))
    assert [(await rig.job(id)).payload for id in ids] == names
    assert await rig.line() == names


@behaviour(4)
async def payloads_of_a_batch_may_be_in_one_piece(rig: Rig) -> None:
    names = [b"%d" % at for at in range(100)]
    batch = rig.batch([], task="t")
    batch.payloads = pack(names)
    answers = await rig.send(batch)
    assert not answers.errors()
    assert answers.ids == sorted(set(answers.ids))
    assert (await rig.job(answers.ids[50])).payload == b"50"
    assert [leased.payload for leased in await rig.claim(3)] == names[:3]
    assert await rig.count() == {"ready": 97, "running": 3}
    assert await rig.line() == names[3:]


@behaviour(4, needs=(CAPPED,))
async def bad_payload_in_one_piece_harms_no_other(rig: Rig) -> None:
    names = [b"%d" % at for at in range(40)]
    names[20] = b"x" * (PAYLOAD_BYTES_DEFAULT + 1)
    batch = rig.batch([])
    batch.payloads = pack(names)
    answers = await rig.send(batch)
    error_of(answers, 20, PayloadTooLarge)
    assert list(answers.errors()) == [20]
    assert await rig.line() == names[:20] + names[21:]


@behaviour(4)
async def batch_may_have_options_for_each_job(rig: Rig) -> None:
    each: list[Fields] = [{"queue": "a"}, {"queue": "b", "priority": 5}, {"delay_ms": HOUR}]
    answers = await rig.enqueue_many([b"a", b"b", b"c"], each=each, task="t")
    jobs = [await rig.job(answers.item(at).id) for at in range(3)]
    assert [(job.queue, job.priority, job.task) for job in jobs] == [("a", 0, "t"), ("b", 5, "t"), ("default", 0, "t")]
    assert [answers.item(at).state for at in range(3)] == [READY, READY, SCHEDULED]


@behaviour(4)
async def empty_batch_is_answered_with_nothing(rig: Rig) -> None:
    assert len(await rig.enqueue_many([])) == 0
    assert len(await rig.settle(SETTLE_COMPLETE, [], [])) == 0
    assert len(await rig.change(CANCEL)) == 0


@behaviour(4, rulings=(5,), trap=DROPPED_ITEM, needs=(CAPPED,))
async def bad_item_harms_no_other_and_is_not_dropped(rig: Rig) -> None:
    big = b"x" * (PAYLOAD_BYTES_DEFAULT + 1)
    taken = await rig.enqueue(b"taken", unique_key="k", queue="taken")
    each: list[Fields] = [
        {},
        {},
        {"expires_at": 1},
        {},
        {"depends_on": [UNKNOWN_ID]},
        {"queue": "taken", "unique_key": "k", "on_conflict": "error"},
        {"group": "g", "lifo": True},
        {},
    ]
    answers = await rig.enqueue_many([b"0", big, b"2", b"3", b"4", b"5", b"6", b"7"], each=each)
    error_of(answers, 1, PayloadTooLarge, size=len(big))
    error_of(answers, 2, InvalidRequest, field="expires_at")
    error_of(answers, 4, DependencyNotFound, job=UNKNOWN_ID)
    error_of(answers, 5, Conflict, existing=taken)
    error_of(answers, 6, InvalidRequest, field="lifo")
    assert sorted(answers.errors()) == [1, 2, 4, 5, 6]
    assert [answers.ids[at] for at in (1, 2, 4, 5, 6)] == [0] * 5
    assert await rig.line() == [b"0", b"3", b"7"]


@behaviour(4, rulings=(5,), trap=DROPPED_ITEM)
async def payload_that_is_not_bytes_is_refused_alone(rig: Rig) -> None:
    items = cast("list[bytes]", [b"good", "text", None, 5, b"also good"])
    answers = await rig.send(Batch(make_options(), items))
    for at in (1, 2, 3):
        assert error_of(answers, at, InvalidRequest).field.startswith("payload")
    assert await rig.line() == [b"good", b"also good"]


@behaviour(4, rulings=(9,))
async def atomic_batch_with_a_bad_item_stores_nothing(rig: Rig) -> None:
    first = await rig.enqueue(queue="other")
    each: list[Fields] = [{"unique_key": "k"}, {"depends_on": [UNKNOWN_ID]}, {"expires_at": 1}]
    answers = await rig.enqueue_many([b"a", b"b", b"c"], each=each, atomic=True)
    error_of(answers, 0, Conflict)
    error_of(answers, 1, DependencyNotFound, job=UNKNOWN_ID)
    error_of(answers, 2, Conflict)
    assert await rig.count() == {}
    fresh = await rig.submit(unique_key="k")
    assert (fresh.duplicate, fresh.id) == (False, first + 1)


@behaviour(4, rulings=(9,))
async def atomic_batch_without_a_bad_item_is_stored_whole(rig: Rig) -> None:
    answers = await rig.enqueue_many([b"a", b"b"], atomic=True)
    assert not answers.errors()
    assert await rig.line() == [b"a", b"b"]


@behaviour(4, rulings=(9,))
async def duplicates_do_not_refuse_an_atomic_batch(rig: Rig) -> None:
    id = await rig.enqueue(unique_key="k")
    each: list[Fields] = [{}, {"unique_key": "k"}]
    answers = await rig.enqueue_many([b"a", b"b"], each=each, atomic=True)
    assert not answers.errors()
    assert (answers.item(1).id, answers.item(1).duplicate) == (id, True)
    assert await rig.count() == {"ready": 2}


@behaviour(4, rulings=(9,))
async def conflicts_refuse_an_atomic_batch(rig: Rig) -> None:
    id = await rig.enqueue(unique_key="k")
    each: list[Fields] = [{}, {"unique_key": "k", "on_conflict": "error"}]
    answers = await rig.enqueue_many([b"a", b"b"], each=each, atomic=True)
    error_of(answers, 0, Conflict)
    error_of(answers, 1, Conflict, existing=id)
    assert await rig.count() == {"ready": 1}


@behaviour(4, rulings=(9,))
async def full_queue_refuses_an_atomic_batch_whole(rig: Rig) -> None:
    await rig.set_queue(jobs_max=2)
    answers = await rig.enqueue_many([b"a", b"b", b"c"], atomic=True)
    assert sorted(answers.errors()) == [0, 1, 2]
    assert await rig.count() == {}


@behaviour(20, rulings=(10,))
async def batch_of_too_many_items_is_refused_whole(rig: Rig) -> None:
    await refused(InvalidRequest, rig.enqueue_many([b"x"] * (BATCH_ITEMS_MAX + 1)))
    assert await rig.count() == {}
    assert len(await rig.enqueue_many([b"x"] * BATCH_ITEMS_MAX)) == BATCH_ITEMS_MAX


@behaviour(20, rulings=(10,))
async def batch_of_too_many_bytes_is_refused_whole(rig: Rig) -> None:
    payloads = [b"x" * MIB] * (BATCH_BYTES_MAX // MIB)
    await refused(InvalidRequest, rig.enqueue_many([*payloads, b"x"]))
    assert await rig.count() == {}
    assert not (await rig.enqueue_many(payloads)).errors()


@behaviour(4, rulings=(10,))
async def columns_of_different_lengths_are_refused(rig: Rig) -> None:
    options = make_options()
    await refused(InvalidRequest, rig.send(Batch(options, [b"a", b"b"], extras=[None])))
    await refused(InvalidRequest, rig.send(Batch(options, [b"a", b"b"], each=[options])))
    assert await rig.count() == {}


@behaviour(6, rulings=(10,))
async def settle_with_columns_of_different_lengths_is_refused(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"])
    leased = await rig.claim(2)
    tokens = [one.token for one in leased]
    await refused(InvalidRequest, rig.settle(SETTLE_COMPLETE, ids, tokens[:1]))
    await refused(InvalidRequest, rig.settle(SETTLE_COMPLETE, ids, tokens, results=[b"x"]))
    await refused(InvalidRequest, rig.settle(SETTLE_COMPLETE, ids, tokens, followups=[None]))
    assert await rig.states(*ids) == ["running", "running"]


@behaviour(20)
async def settle_of_too_many_jobs_is_refused(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    count = BATCH_ITEMS_MAX + 1
    await refused(InvalidRequest, rig.settle(SETTLE_COMPLETE, [id] * count, [leased.token] * count))
    assert await rig.state(id) == "running"


@behaviour(20)
async def impossible_ids_are_answered_alone(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    ids = [0, -1, 2**53, 2**63, 2**70, id]
    answers = await rig.settle(SETTLE_COMPLETE, ids, [leased.token] * 6)
    assert sorted(answers.errors()) == [0, 1, 2, 3, 4]
    assert await rig.state(id) == "completed"
    again = await rig.change(CANCEL, *ids)
    assert sorted(again.errors()) == [0, 1, 2, 3, 4, 5]
    found = await rig.store.get(rig.context(), ids, [], rig.now())
    assert [one.id if one else 0 for one in found] == [0, 0, 0, 0, 0, id]


async def live_single(rig: Rig, queue: str) -> list[int]:
    ids = [await rig.enqueue(b"x", queue=queue, backoff=Backoff(FIXED, 5_000)) for _ in range(4)]
    leased = [await rig.claim_one(queues=queue, worker="w") for _ in range(4)]
    await rig.complete(leased[0], b"ok")
    await rig.complete(leased[1], b"ok")
    await rig.fail(leased[2])
    await rig.fail(leased[3])
    for id in ids:
        await rig.change(CANCEL, id)
    return ids


async def live_batch(rig: Rig, queue: str) -> list[int]:
    ids = await rig.enqueue_ids([b"x"] * 4, queue=queue, backoff=Backoff(FIXED, 5_000))
    leased = await rig.claim(4, queues=queue, worker="w")
    tokens = [one.token for one in leased]
    await rig.settle(SETTLE_COMPLETE, ids[:2], tokens[:2], results=[b"ok", b"ok"])
    await rig.settle(SETTLE_FAIL, ids[2:], tokens[2:])
    await rig.change(CANCEL, *ids)
    return ids


def stripped(events: list[Event]) -> list[dict[str, object]]:
    apart = ("seq", "job", "queue")
    return [{name: value for name, value in msgspec.structs.asdict(one).items() if name not in apart} for one in events]


@behaviour(15, trap=BATCH_ACK)
async def batches_emit_what_singles_do(rig: Rig) -> None:
    singles = await live_single(rig, "singles")
    batched = await live_batch(rig, "batched")
    for single, batch in zip(singles, batched, strict=True):
        assert stripped(await rig.events_of(single)) == stripped(await rig.events_of(batch))
