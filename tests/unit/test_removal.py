"""Queues are forgotten one by one, at a cost that does not depend on how many others there are."""

from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import REMOVE, STORE, Batch, Change, Claim, Configure, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.engine.engine import Engine

DAY_MS = 86_400_000


def complete(engine: Engine, queue: str, now: Now) -> int:
    engine.enqueue(Context(), Batch(Options(queue), [b"x"]), now)
    claimed = engine.claim(Context(), Claim((Pick(queue),)), now)
    engine.settle(Context(), Settle(SETTLE_COMPLETE, claimed.ids, [claimed.token]), now)
    return claimed.ids[0]


def pass_time(engine: Engine, now: Now) -> None:
    while (due := engine.tick(now)) is not None and due.elapsed_ms <= now.elapsed_ms and due.wall_ms <= now.wall_ms:
        pass


def test_forgetting_queues_leaves_the_heap_of_ended_jobs_as_it_is() -> None:
    now = Now(DAY_MS, 0)
    engine = Engine(bytes(16), 1, now)
    ids = [complete(engine, f"queue{number}", now) for number in range(50)]
    engine.change(Context(), Change(REMOVE, ids), now)
    heap = engine._w.kept_heap
    assert len(heap) == 50
    pass_time(engine, Now(DAY_MS + 2 * 3_600_000, 2 * 3_600_000))
    assert engine.count(Context(), "", now) == {}
    assert engine._w.kept_heap is heap
    assert engine.verify() == []


def test_oldest_go_first_also_in_queues_that_took_the_place_of_forgotten_ones() -> None:
    engine = Engine(bytes(16), 1, Now(DAY_MS, 0))
    for round in range(3):
        now = Now((round + 1) * DAY_MS, round * DAY_MS)
        pass_time(engine, now)
        ids = [complete(engine, f"queue{round}-{number}", now) for number in range(10)]
        if round < 2:
            engine.change(Context(), Change(REMOVE, ids), now)
    assert len(engine._w.kepts) == 10
    engine.configure(Context(), Configure(STORE, "", {"terminal_jobs_max": 4}), now)
    pass_time(engine, now)
    left = [record.id for record in engine.get(Context(), ids, [], now) if record is not None]
    assert left == ids[-4:]
    assert engine.verify() == []
