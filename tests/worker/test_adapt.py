"""`--concurrency auto`: the rule alone, and that a worker obeys it."""

import asyncio

import pytest

import tenure
from tenure.worker.adapt import Adaptation, Adapting, Sample, memory_free
from tenure.worker.lane import Lane

FAST = Sample(ended=100, slow_s=0.01, is_full=True)
SLOW = Sample(ended=100, slow_s=2.0, is_full=True)


def test_it_grows_while_it_is_full_and_fast_and_brings_more() -> None:
    rule = Adaptation(1.0, limit=10)
    limits = [rule.next(Sample(ended=10 * round, slow_s=0.1, is_full=True)) for round in range(1, 30)]
    assert limits == sorted(limits)
    assert limits[0] == 11
    assert limits[-1] > 60


def test_it_shrinks_when_jobs_are_slower_than_asked() -> None:
    rule = Adaptation(1.0, limit=100)
    assert [rule.next(SLOW) for _ in range(3)] == [80, 64, 51]


def test_it_settles_around_what_keeps_the_target() -> None:
    """Jobs take 10 ms, and longer in proportion when more than 40 run at once."""
    rule = Adaptation(0.02, limit=10)
    seen: list[int] = []
    for _ in range(200):
        run_s = 0.01 * max(1.0, rule.limit / 40)
        seen.append(rule.next(Sample(ended=int(min(rule.limit, 40) / run_s), slow_s=run_s, is_full=True)))
    assert all(30 <= limit <= 90 for limit in seen[50:])


def test_it_does_not_grow_where_more_brings_nothing() -> None:
    rule = Adaptation(1.0, limit=10)
    for _ in range(50):
        rule.next(FAST)
    assert rule.limit < 20


def test_it_does_not_grow_while_there_are_free_places() -> None:
    rule = Adaptation(1.0, limit=10)
    assert rule.next(Sample(ended=100, slow_s=0.01, is_full=False)) == 10
    assert rule.next(Sample()) == 10


@pytest.mark.parametrize(
    "sample",
    [
        Sample(ended=100, slow_s=0.01, is_full=True, late_s=0.5),
        Sample(ended=100, slow_s=0.01, is_full=True, unsettled=100_000),
        Sample(ended=100, slow_s=0.01, is_full=True, memory_free=0.01),
        Sample(late_s=0.5),
    ],
)
def test_it_backs_off_under_pressure(sample: Sample) -> None:
    assert Adaptation(1.0, limit=90).next(sample) == 60


def test_it_keeps_its_bounds() -> None:
    low, high = Adaptation(1.0, limit=1), Adaptation(1.0, limit=100, most=105)
    assert [low.next(SLOW) for _ in range(3)] == [1, 1, 1]
    assert [high.next(Sample(ended=100 * n, is_full=True)) for n in range(1, 4)] == [105, 105, 105]


async def test_lane_follows_what_was_seen() -> None:
    lane = Lane(frozenset({"task"}), 10)
    adapting = Adapting(lane, 1.0)
    for _ in range(10):
        lane.enter()
    waiting = asyncio.ensure_future(lane.change())
    await asyncio.sleep(0)
    adapting.note(0.01)
    adapting.step(0.0)
    await waiting
    assert lane.limit == 11
    adapting.note(5.0)
    adapting.step(0.0)
    assert lane.limit == 8
    assert lane.free == -2


async def test_worker_finds_room_for_more_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.adapt.ROUND_S", 0.05)
    app = tenure.App("memory://")

    @app.task
    async def work() -> None:
        await asyncio.sleep(0.01)

    async with app:
        async for _ in app.enqueue_many(work.bind() for _ in range(2_000)):
            pass
        async with app.worker(concurrency=2, latency_target="5s") as worker:
            await worker.until_idle()
            assert worker.here.limit > 2


def test_memory_of_the_machine_is_a_share() -> None:
    assert 0.0 < memory_free() <= 1.0
