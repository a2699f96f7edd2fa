"""Section 11: debounce. Leading runs the first of a window, trailing the last."""

from tenure.core.request import PROMOTE
from tenure.core.state import SCHEDULED
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import GLOBEX, Rig


async def lead(rig: Rig, payload: bytes, **fields: object) -> tuple[int, bool]:
    outcome = await rig.submit(
        payload, tenant="acme", op=None, connection=0, debounce_key="k", debounce_ms=5_000, **fields
    )
    return outcome.id, outcome.duplicate


async def trail(rig: Rig, payload: bytes, **fields: object) -> tuple[int, bool]:
    return await lead(rig, payload, debounce_mode="trailing", **fields)


@behaviour(11)
async def leading_returns_the_first_until_the_window_ends(rig: Rig) -> None:
    id, _ = await lead(rig, b"first")
    assert await rig.state(id) == "ready"
    await rig.advance(4_999)
    assert await lead(rig, b"second") == (id, True)
    assert (await rig.job(id)).payload == b"first"
    await rig.advance(1)
    fresh, duplicate = await lead(rig, b"third")
    assert (fresh != id, duplicate) == (True, False)


@behaviour(11)
async def leading_window_is_not_moved_by_later_jobs(rig: Rig) -> None:
    id, _ = await lead(rig, b"first")
    for _ in range(4):
        await rig.advance(1_000)
        assert await lead(rig, b"later") == (id, True)
    await rig.advance(1_000)
    assert (await lead(rig, b"new window"))[1] is False


@behaviour(11, rulings=(8,))
async def leading_returns_the_first_even_when_it_has_ended_or_is_gone(rig: Rig) -> None:
    id, _ = await lead(rig, b"first", keep_completed_ms=0)
    leased = await rig.claim_one()
    assert await lead(rig, b"running") == (id, True)
    await rig.complete(leased)
    assert await rig.state(id) == "gone"
    assert await lead(rig, b"gone") == (id, True)


@behaviour(11)
async def trailing_runs_the_last_a_window_after_it(rig: Rig) -> None:
    id, _ = await trail(rig, b"first")
    assert (await rig.job(id)).run_at == rig.wall_ms + 5_000
    await rig.advance(4_000)
    assert await trail(rig, b"last", metadata={"n": "2"}) == (id, True)
    job = await rig.job(id)
    assert (job.state, job.payload, job.metadata) == ("scheduled", b"last", {"n": "2"})
    assert job.run_at == rig.wall_ms + 5_000
    await rig.advance(4_999)
    assert await rig.claim() == []
    await rig.advance(1)
    assert (await rig.claim_one()).payload == b"last"


@behaviour(11, rulings=(8,))
async def trailing_answers_that_it_replaced(rig: Rig) -> None:
    first = await rig.submit(b"1", debounce_key="k", debounce_ms=5_000, debounce_mode="trailing")
    second = await rig.submit(b"2", debounce_key="k", debounce_ms=5_000, debounce_mode="trailing")
    assert (first.duplicate, first.replaced, first.state) == (False, False, SCHEDULED)
    assert (second.id, second.duplicate, second.replaced) == (first.id, True, True)
    assert await rig.types_of(first.id) == ["enqueued", "updated"]


@behaviour(11)
async def trailing_is_put_off_for_ten_windows_at_most(rig: Rig) -> None:
    id, _ = await trail(rig, b"first")
    latest = rig.wall_ms + 50_000
    for _ in range(12):
        await rig.advance(4_000)
        assert await trail(rig, b"again") == (id, True)
    assert (await rig.job(id)).run_at == latest
    await rig.advance(latest - rig.wall_ms)
    assert await rig.state(id) == "ready"


@behaviour(11)
async def trailing_is_put_off_for_max_wait_at_most(rig: Rig) -> None:
    id, _ = await trail(rig, b"first", debounce_max_wait_ms=7_000)
    latest = rig.wall_ms + 7_000
    await rig.advance(4_000)
    await trail(rig, b"again", debounce_max_wait_ms=7_000)
    assert (await rig.job(id)).run_at == latest


@behaviour(11)
async def trailing_opens_a_new_window_once_leased(rig: Rig) -> None:
    id, _ = await trail(rig, b"first")
    await rig.advance(5_000)
    await rig.claim_one()
    fresh, duplicate = await trail(rig, b"second")
    assert (fresh != id, duplicate) == (True, False)
    assert (await rig.job(fresh)).run_at == rig.wall_ms + 5_000


@behaviour(11, rulings=(8,))
async def trailing_opens_a_new_window_once_promoted(rig: Rig) -> None:
    id, _ = await trail(rig, b"first")
    await rig.change_one(PROMOTE, id)
    fresh, duplicate = await trail(rig, b"second")
    assert (fresh != id, duplicate) == (True, False)
    assert (await rig.job(id)).payload == b"first"


@behaviour(11, rulings=(8,))
async def on_conflict_plays_no_part_in_debounce(rig: Rig) -> None:
    id, _ = await lead(rig, b"first")
    assert await lead(rig, b"second", on_conflict="error") == (id, True)
    assert await lead(rig, b"third", on_conflict="replace") == (id, True)
    assert (await rig.job(id)).payload == b"first"


@behaviour(11)
async def debounce_keys_of_queues_and_tenants_are_apart(rig: Rig) -> None:
    first, _ = await lead(rig, b"first")
    other, duplicate = await lead(rig, b"other", queue="other")
    assert (other != first, duplicate) == (True, False)
    foreign = await rig.submit(b"foreign", debounce_key="k", debounce_ms=5_000, tenant=GLOBEX)
    assert not foreign.duplicate
