"""Section 3: slots and groups are used as locks. They outlive the state until the handler has really stopped.

Cancel, discard and timeout end state and lease at once; slots and group are freed when the worker's first complete,
fail or release with the ended token arrives, though it is refused, and at the latest at the old deadline.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from tenure.core.error import AlreadySettled, Error, JobCancelled, LeaseLost
from tenure.core.request import CANCEL, DISCARD
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.leased import Leased
from tenure.store.behaviour.registry import Check, add, behaviour
from tenure.store.behaviour.rig import ACME, LEASE_MS, Rig
from tenure.store.behaviour.trap import LEAKED_SLOT

TIMEOUT_MS: Final = 5_000

Fields = dict[str, object]
Hold = Callable[[Rig], Awaitable[Fields]]
End = Callable[[Rig, Leased], Awaitable[None]]


async def by_queue(rig: Rig) -> Fields:
    await rig.set_queue(concurrency=1)
    return {}


async def by_key(rig: Rig) -> Fields:
    await rig.set_key("lock:", concurrency=1)
    return {"limit_keys": ["lock:1"]}


async def by_tenant(rig: Rig) -> Fields:
    await rig.set_tenant(running_max=1)
    return {}


async def by_group(rig: Rig) -> Fields:  # noqa: ARG001
    return {"group": "lock"}


async def cancel(rig: Rig, leased: Leased) -> None:
    await rig.change_one(CANCEL, leased.id)


async def discard(rig: Rig, leased: Leased) -> None:
    await rig.change_one(DISCARD, leased.id)


async def time_out(rig: Rig, leased: Leased) -> None:
    await rig.advance(leased.lease_until - LEASE_MS + TIMEOUT_MS - rig.wall_ms)


HOLDS: Final[dict[str, tuple[Hold, tuple[str, ...]]]] = {
    "queue_slot": (by_queue, ()),
    "key_slot": (by_key, ("limits",)),
    "tenant_slot": (by_tenant, ()),
    "group": (by_group, ("groups",)),
}
ENDS: Final[dict[str, tuple[End, type[Error]]]] = {
    "cancel": (cancel, JobCancelled),
    "discard": (discard, AlreadySettled),
    "timeout": (time_out, LeaseLost),
}


async def lock(rig: Rig, hold: Hold) -> Leased:
    """A running job that holds what a second one needs."""
    fields = await hold(rig)
    await rig.enqueue(b"first", tenant=ACME, timeout_ms=TIMEOUT_MS, max_attempts=1, **fields)
    first = await rig.claim_one()
    await rig.enqueue(b"second", tenant=ACME, **fields)
    assert await rig.claim() == []
    return first


def until_confirmed(hold: Hold, end: End, error: type[Error], verb: int) -> Check:
    async def check(rig: Rig) -> None:
        first = await lock(rig, hold)
        await end(rig, first)
        assert await rig.state(first.id) != "running"
        assert await rig.claim() == []
        await refused(error, rig.settle_one(verb, first))
        assert (await rig.claim_one()).payload == b"second"

    return check


def until_deadline(hold: Hold, end: End) -> Check:
    async def check(rig: Rig) -> None:
        first = await lock(rig, hold)
        await end(rig, first)
        await rig.advance(first.lease_until - 1 - rig.wall_ms)
        assert await rig.claim() == []
        await rig.advance(1)
        assert (await rig.claim_one()).payload == b"second"

    return check


def after_stall(hold: Hold) -> Check:
    async def check(rig: Rig) -> None:
        fields = await hold(rig)
        await rig.enqueue(b"first", tenant=ACME, max_attempts=1, **fields)
        first = await rig.claim_one()
        await rig.enqueue(b"second", tenant=ACME, **fields)
        await rig.advance(first.lease_until - 1 - rig.wall_ms)
        assert await rig.claim() == []
        await rig.advance(1)
        assert (await rig.claim_one()).payload == b"second"

    return check


VERBS: Final = (SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE)

for _at, (_held, (_hold, _needs)) in enumerate(HOLDS.items()):
    for _after, (_ended, (_end, _error)) in enumerate(ENDS.items()):
        _name = f"{_held}_is_held_after_{_ended}_until"
        _check = until_confirmed(_hold, _end, _error, VERBS[(_at + _after) % 3])
        add(f"{_name}_the_handler_confirms", __name__, _check, 3, (), LEAKED_SLOT, _needs)
        add(f"{_name}_the_old_deadline", __name__, until_deadline(_hold, _end), 3, (), LEAKED_SLOT, _needs)
    add(f"{_held}_is_freed_when_the_lease_is_over", __name__, after_stall(_hold), 3, (), LEAKED_SLOT, _needs)


@behaviour(3)
async def confirmed_slot_is_freed_once(rig: Rig) -> None:
    first = await lock(rig, by_queue)
    await rig.enqueue(b"third")
    await cancel(rig, first)
    await refused(JobCancelled, rig.complete(first))
    await refused(JobCancelled, rig.complete(first))
    second = await rig.claim_one(lease_ms=10 * LEASE_MS)
    assert await rig.claim() == []
    await rig.advance(LEASE_MS)
    assert await rig.claim() == []
    await rig.complete(second)
    assert (await rig.claim_one()).payload == b"third"


@behaviour(3)
async def heartbeat_of_a_cancelled_job_is_no_confirmation(rig: Rig) -> None:
    first = await lock(rig, by_queue)
    await cancel(rig, first)
    await refused(JobCancelled, rig.extend(first), job=first.id)
    assert await rig.claim() == []
    await refused(JobCancelled, rig.release(first))
    assert (await rig.claim_one()).payload == b"second"


@behaviour(3)
async def confirmation_wakes_a_waiting_claim(rig: Rig) -> None:
    first = await lock(rig, by_queue)
    await cancel(rig, first)
    task = await rig.start_claim()
    assert await rig.waits(task)
    await refused(JobCancelled, rig.fail(first))
    assert (await rig.answer(task))[0].payload == b"second"


@behaviour(3)
async def old_deadline_wakes_a_waiting_claim(rig: Rig) -> None:
    first = await lock(rig, by_queue)
    await cancel(rig, first)
    task = await rig.start_claim()
    await rig.advance(first.lease_until - 1 - rig.wall_ms)
    assert await rig.waits(task)
    await rig.advance(1)
    assert (await rig.answer(task))[0].payload == b"second"


@behaviour(3)
async def timed_out_job_does_not_run_again_beside_its_old_handler(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    id = await rig.enqueue(timeout_ms=TIMEOUT_MS, backoff=Backoff(FIXED, 0))
    first = await rig.claim_one()
    await rig.advance(TIMEOUT_MS)
    assert await rig.state(id) == "ready"
    assert await rig.claim() == []
    await refused(LeaseLost, rig.fail(first), reason="timed_out")
    assert (await rig.claim_one()).attempt == 2


@behaviour(3, needs=("groups",))
async def retry_after_a_timeout_keeps_a_strict_group(rig: Rig) -> None:
    await rig.enqueue(b"first", group="g", timeout_ms=TIMEOUT_MS, backoff=Backoff(FIXED, 1_000))
    await rig.enqueue(b"second", group="g")
    first = await rig.claim_one()
    await rig.advance(TIMEOUT_MS)
    await refused(LeaseLost, rig.complete(first), reason="timed_out")
    assert await rig.claim() == []
    await rig.advance(1_000)
    assert (await rig.claim_one()).payload == b"first"


@behaviour(3)
async def settled_job_holds_nothing_until_its_deadline(rig: Rig) -> None:
    await rig.set_queue(concurrency=1)
    await rig.enqueue_ids([b"x"] * 3)
    await rig.complete(await rig.claim_one())
    second = await rig.claim_one(lease_ms=10 * LEASE_MS)
    await rig.advance(LEASE_MS)
    assert await rig.claim() == []
    await rig.complete(second)
    await rig.claim_one()


@behaviour(3, trap=LEAKED_SLOT)
async def unique_key_is_free_as_soon_as_its_job_was_ended(rig: Rig) -> None:
    for end, _ in ENDS.values():
        first = await rig.enqueue(unique_key="k", timeout_ms=TIMEOUT_MS, max_attempts=1)
        leased = await rig.claim_one()
        assert (await rig.submit(unique_key="k")).duplicate
        await end(rig, leased)
        second = await rig.submit(unique_key="k")
        assert not second.duplicate
        assert second.id != first
        await rig.change_one(CANCEL, second.id)


@behaviour(3, trap=LEAKED_SLOT)
async def unique_key_is_free_when_the_lease_is_over_on_the_last_attempt(rig: Rig) -> None:
    await rig.enqueue(unique_key="k", max_attempts=1)
    await rig.claim_one()
    await rig.advance(LEASE_MS - 1)
    assert (await rig.submit(unique_key="k")).duplicate
    await rig.advance(1)
    assert not (await rig.submit(unique_key="k")).duplicate
