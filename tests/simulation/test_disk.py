"""Seeds that must run clean on a disk that fails and loses power; each gives the same run every time."""

import pytest

from tenure.store.embedded.guard import IS_COMPILED
from tenure.store.embedded.history import History, StoreWithHistory
from tests.simulation.disk import run_on_disk
from tests.simulation.run import Failed

SEEDS = 16


@pytest.mark.slow
def test_seeds_run_clean_on_a_failing_disk() -> None:
    crashes = refused = lost = amid = 0
    for seed in range(1, SEEDS + 1):
        _, world = run_on_disk(seed)
        crashes += world.crashes
        refused += world.refused
        lost += world.lost
        amid += world.turns_amid_a_thread
    assert crashes > SEEDS
    assert refused > SEEDS
    assert lost > 0
    assert amid > SEEDS


def test_a_seed_gives_the_same_run_twice() -> None:
    one, world = run_on_disk(4)
    assert world.crashes > 0
    assert run_on_disk(4)[0] == one


@pytest.mark.skipif(IS_COMPILED, reason="the guard is in the interpreted build")
def test_a_thread_that_calls_the_engine_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the simulation ran in its own thread before, it could not see."""
    usual = StoreWithHistory._history

    def with_an_engine(store: StoreWithHistory) -> History:
        history = usual(store)
        monkeypatch.setattr(history, "oldest", lambda: store._engine.oldest_event())
        return history

    monkeypatch.setattr(StoreWithHistory, "_history", with_an_engine)
    with pytest.raises(Failed, match="called by another thread"):
        run_on_disk(4)
