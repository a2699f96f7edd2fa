"""What a durable store answers without a wait, and when it does not."""

import asyncio
from pathlib import Path

import pytest

from tenure.core.answer import Answers, Claimed
from tenure.core.clock import Now
from tenure.core.error import Error, Unavailable
from tenure.core.job import Options
from tenure.core.request import Batch, Claim, Pick
from tenure.core.tenant import Context, OpId
from tenure.store.contract import Told
from tenure.store.embedded.shared import SharedStore
from tenure.store.embedded.sqlite import RESERVE, SqliteStore
from tests.crash.workload import START

FIRST = Batch(Options(queue="first"), [b"payload"])
ONE = Batch(Options(queue="plain"), [b"payload"])
PULL = Claim((Pick("plain"),), 1, 60_000)


async def opened(path: Path, durability: str = "relaxed") -> SqliteStore:
    store = SqliteStore(path, durability)
    await store.open(START)
    await store.enqueue(Context(), FIRST, START)  # the first call waits until numbers are reserved
    return store


def told_to(said: list[Claimed | Error | None]) -> Told:
    return lambda claimed, error: said.append(error if claimed is None else claimed)


async def test_relaxed_answers_at_once_and_is_on_disk_when_closed(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    answers = store.at_once(Context(), ONE, START)
    assert isinstance(answers, Answers)
    await store.close()
    again = await opened(tmp_path / "jobs.db")
    claimed = again.claim_or_wait(Context(), PULL, START, told_to([]))
    assert isinstance(claimed, Claimed)
    assert claimed.ids == answers.ids
    await again.close()


@pytest.mark.parametrize(("own", "asked"), [("fsync", ""), ("write", ""), ("relaxed", "fsync"), ("fsync", "relaxed")])
async def test_what_must_be_written_first_is_not_answered_at_once(own: str, asked: str, tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db", own)
    assert store.at_once(Context(durability=asked), ONE, START) is None
    assert await store.count(Context(), "plain", START) == {}
    await store.close()


async def test_claim_that_waits_is_told_within_the_step_that_has_a_job_for_it(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    assert store.at_once(Context(), PULL, START) is None
    said: list[Claimed | Error | None] = []
    context = Context(op=OpId("session", 1))
    wait = store.claim_or_wait(context, PULL, START, told_to(said))
    assert wait is not None
    assert not isinstance(wait, Claimed)
    answers = store.at_once(Context(), ONE, START)
    assert isinstance(answers, Answers)
    [claimed] = said
    assert isinstance(claimed, Claimed)
    assert claimed.ids == answers.ids
    again = store.claim_or_wait(context, PULL, START, told_to(said))
    assert isinstance(again, Claimed)
    assert (again.ids, again.token) == (claimed.ids, claimed.token)
    await store.close()
    assert len(said) == 1


async def test_who_gave_up_is_not_told_and_the_job_is_left_for_others(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    said: list[Claimed | Error | None] = []
    wait = store.claim_or_wait(Context(), PULL, START, told_to(said))
    assert wait is not None
    assert not isinstance(wait, Claimed)
    wait.give_up()
    wait.give_up()
    assert store._engine.waiting_claims() == []
    store.at_once(Context(), ONE, START)
    assert isinstance(store.claim_or_wait(Context(), PULL, START, told_to(said)), Claimed)
    await store.close()
    assert said == []


@pytest.mark.parametrize("durability", ["relaxed", "fsync"])
async def test_job_that_one_cannot_be_told_of_goes_to_the_next_who_waits(durability: str, tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db", durability)
    told: asyncio.Future[Claimed] = asyncio.get_running_loop().create_future()

    def broken(_claimed: object, _error: object) -> None:
        raise RuntimeError("broken")

    for tell in (broken, broken, lambda claimed, _error: told.set_result(claimed)):
        assert store.claim_or_wait(Context(), PULL, START, tell) is not None
    answers = await store.enqueue(Context(), ONE, START)
    async with asyncio.timeout(20):
        assert (await told).ids == answers.ids
    await store.close()


async def test_wait_ends_with_its_time_or_with_the_store(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    said: list[Claimed | Error | None] = []
    store.claim_or_wait(Context(), PULL, START, told_to(said))
    later = Now(START.wall_ms + PULL.wait_ms, START.elapsed_ms + PULL.wait_ms)
    await store.tick(later)
    [nothing] = said
    assert isinstance(nothing, Claimed)
    assert nothing.ids == []
    store.claim_or_wait(Context(), PULL, later, told_to(said))
    await store.close()
    assert isinstance(said[1], Unavailable)


async def test_numbers_that_a_crash_could_give_again_are_not_answered_at_once(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    store._reserved_id = store._engine.last_id() + RESERVE // 2 - 1
    assert store.at_once(Context(), ONE, START) is None
    await store.close()


async def test_broken_or_lost_store_answers_nothing_at_once(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    store._broken = "the disk is full"
    assert store.at_once(Context(), ONE, START) is None
    with pytest.raises(Unavailable):
        await store.enqueue(Context(), ONE, START)
    store._broken = ""
    await store.close()
    assert store.at_once(Context(), ONE, START) is None


async def test_who_joined_the_owner_answers_nothing_at_once(tmp_path: Path) -> None:
    owner, joined = (SharedStore(tmp_path / "jobs.db", "relaxed") for _ in range(2))
    await owner.open(START)
    await joined.open(START)
    await owner.enqueue(Context(), FIRST, START)
    assert joined.at_once(Context(), ONE, START) is None
    assert owner.at_once(Context(), ONE, START) is not None
    await joined.close()
    await owner.close()
    assert owner.at_once(Context(), ONE, START) is None
