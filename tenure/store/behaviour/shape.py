"""Sections 18 and 20: what no maker checks (settle, change, append, load, context) is checked by the store."""

from tenure.core import state as states
from tenure.core.bound import BATCH_ITEMS_MAX, DELAY_MS_MAX, PAYLOAD_BYTES_DEFAULT
from tenure.core.error import InvalidRequest, PayloadTooLarge
from tenure.core.request import (
    CANCEL,
    CLONE,
    DELAY,
    PRIORITY,
    REPLAY,
    STAGE,
    UPDATE,
    Append,
    Change,
    Extend,
    Filter,
    Load,
)
from tenure.core.tenant import OpId
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import CAPPED, behaviour
from tenure.store.behaviour.rig import Rig

BIG = b"x" * (PAYLOAD_BYTES_DEFAULT + 1)


@behaviour(6)
async def only_the_verbs_of_workers_settle(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    not_verbs = (states.SETTLE_NONE, states.SETTLE_EXPIRED, states.SETTLE_TIMED_OUT, states.SETTLE_CANCELLED)
    for verb in (*not_verbs, states.SETTLE_DISCARDED, 10, -1, 99):
        await refused(InvalidRequest, rig.settle(verb, [id], [leased.token]))
    assert await rig.state(id) == "running"
    await rig.complete(leased)


@behaviour(20)
async def settle_refuses_a_wrong_delay(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for delay_ms in (-1, DELAY_MS_MAX + 1):
        await refused(InvalidRequest, rig.release(leased, delay_ms=delay_ms), field="delay_ms")
        await refused(InvalidRequest, rig.snooze(leased, delay_ms=delay_ms), field="delay_ms")
    assert await rig.state(leased.id) == "running"


@behaviour(20)
async def settle_refuses_a_wrong_pause_key(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    call = rig.release(leased, delay_ms=1_000, pause_key="k" * 513)
    await refused(InvalidRequest, call, field="pause_key")
    assert await rig.state(leased.id) == "running"


@behaviour(20)
async def extend_refuses_a_wrong_lease(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for lease_ms in (-1, 1, 999, 43_200_001):
        await refused(InvalidRequest, rig.extend(leased, lease_ms), field="lease_ms")
    assert (await rig.job(leased.id)).lease_until == leased.lease_until
    assert await rig.extend(leased, 43_200_000) == rig.wall_ms + 43_200_000


@behaviour(20)
async def extend_refuses_a_wrong_shape(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 2)
    leased = await rig.claim(2)
    extend = Extend(ids, [leased[0].token])
    await refused(InvalidRequest, rig.store.extend(rig.context(), extend, rig.now()))
    many = Extend([ids[0]] * (BATCH_ITEMS_MAX + 1), [leased[0].token] * (BATCH_ITEMS_MAX + 1))
    await refused(InvalidRequest, rig.store.extend(rig.context(), many, rig.now()))


@behaviour(18)
async def change_refuses_a_wrong_shape(rig: Rig) -> None:
    id = await rig.enqueue()
    wrong = (
        Change(99, [id]),
        Change(-1, [id]),
        Change(CANCEL),
        Change(CANCEL, [id], Filter()),
        Change(CANCEL, [id] * (BATCH_ITEMS_MAX + 1)),
    )
    for change in wrong:
        await refused(InvalidRequest, rig.store.change(rig.context(), change, rig.now()))
    assert await rig.types_of(id) == ["enqueued"]


@behaviour(20, needs=(CAPPED,))
async def change_refuses_a_payload_over_the_cap(rig: Rig) -> None:
    id = await rig.enqueue(b"old")
    failed = await rig.enqueue(b"old", queue="failed")
    await rig.fail(await rig.claim_one(queues="failed"), retryable=False)
    for action, job in ((UPDATE, id), (CLONE, id), (REPLAY, failed)):
        await refused(PayloadTooLarge, rig.change_one(action, job, payload=BIG), size=len(BIG))
    assert await rig.states(id, failed) == ["ready", "failed"]
    assert (await rig.job(id)).payload == b"old"


@behaviour(20)
async def change_refuses_wrong_values(rig: Rig) -> None:
    id = await rig.enqueue(metadata={"k": "v"}, tags=["t"])
    await refused(InvalidRequest, rig.change_one(PRIORITY, id, priority=2**31), field="priority")
    await refused(InvalidRequest, rig.change_one(UPDATE, id, metadata={"k": "v" * 5_000}), field="metadata")
    await refused(InvalidRequest, rig.change_one(UPDATE, id, tags=("t" * 129,)))
    await refused(InvalidRequest, rig.change_one(DELAY, id, run_at=2**60), field="run_at")
    job = await rig.job(id)
    assert (job.priority, job.metadata, job.tags, job.state) == (0, {"k": "v"}, ("t",), "ready")


@behaviour(20, needs=(CAPPED,))
async def replaced_payload_over_the_cap_is_refused(rig: Rig) -> None:
    id = await rig.enqueue(b"old", unique_key="k")
    await refused(PayloadTooLarge, rig.enqueue(BIG, unique_key="k", on_conflict="replace"), size=len(BIG))
    assert (await rig.job(id)).payload == b"old"


@behaviour(18)
async def append_refuses_a_wrong_kind(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for kind in (3, -1):
        await refused(InvalidRequest, rig.append(Append(kind, leased.id, leased.token)), field="kind")


@behaviour(20)
async def load_refuses_a_wrong_shape(rig: Rig) -> None:
    batch = rig.batch([b"x"])
    wrong = (
        Load(STAGE, "", 0, "w", 0, batch),
        Load(STAGE, "l" * 513, 0, "w", 0, batch),
        Load(STAGE, "load", 0, "w", 0, None),
        Load(99, "load", 0, "w", 0, batch),
    )
    for load in wrong:
        await refused(InvalidRequest, rig.store.load(rig.context(), load, rig.now()))


@behaviour(20)
async def tenant_with_a_wrong_name_is_refused(rig: Rig) -> None:
    for tenant in ("", "a b", "é", "a" * 129, "*"):
        await refused(InvalidRequest, rig.enqueue(tenant=tenant), field="tenant")
    await rig.enqueue(tenant="a" * 128)


@behaviour(2)
async def operation_with_a_wrong_id_is_refused(rig: Rig) -> None:
    for op in (OpId("s", 0), OpId("s", -1), OpId("", 1), OpId("s" * 10_000, 1)):
        await refused(InvalidRequest, rig.submit(op=op))
    assert await rig.count() == {}
