"""Which jobs a lease was given; and that a lone job, once it has ended, is nothing to the collector."""

import gc

import pytest

from tenure.core import bound
from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import Batch, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.engine import engine as engine_module
from tenure.engine.engine import Engine
from tenure.engine.job import NO_IDS, Lease

COMPILED = str(engine_module.__file__).endswith(".so")


def make_lease() -> Lease:
    return Lease(30_000, 1, b"token", "worker", 30_000, 0)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_lease_lists_its_jobs_in_the_order_given(count: int) -> None:
    lease = make_lease()
    given = [7 * at for at in range(count, 0, -1)]
    for id in given:
        lease.add(id)
    assert lease.count == count
    assert all(lease.has(id) for id in given)
    assert not lease.has(1)
    assert lease.listed() == given
    assert all(lease.has(id) for id in given)
    assert NO_IDS == []


def test_lease_that_was_listed_takes_more() -> None:
    lease = make_lease()
    lease.add(3)
    assert lease.listed() == [3]
    lease.add(4)
    assert lease.listed() == [3, 4]


def test_lease_that_is_over_has_no_jobs() -> None:
    for given in ([3], [3, 4]):
        lease = make_lease()
        for id in given:
            lease.add(id)
        lease.clear()
        assert lease.listed() == []
        assert not any(lease.has(id) for id in given)
    assert NO_IDS == []


@pytest.mark.skipif(not COMPILED, reason="interpreted, every object is the collector's")
def test_collector_does_not_see_lone_jobs_that_have_ended() -> None:
    engine = Engine(bytes(32), 1, Now(1_000_000, 1_000_000))
    context = Context()
    batch = Batch(Options(), [b"payload"])
    claim = bound.make_claim(("default",), 1, worker="worker")

    def cycle(count: int) -> int:
        now = Now(1_000_000, 1_000_000)
        for _ in range(count):
            engine.enqueue(context, batch, now)
            found = engine.claim(context, claim, now)
            engine.settle(context, Settle(SETTLE_COMPLETE, found.ids, [found.token]), now)
        gc.collect()
        return len(gc.get_objects())

    before = cycle(500)
    assert cycle(500) - before < 50
