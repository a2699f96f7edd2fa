"""Seeds that must run clean on a disk that fails and loses power; each gives the same run every time."""

import pytest

from tests.simulation.disk import run_on_disk

SEEDS = 16


@pytest.mark.slow
def test_seeds_run_clean_on_a_failing_disk() -> None:
    crashes = refused = lost = 0
    for seed in range(1, SEEDS + 1):
        _, world = run_on_disk(seed)
        crashes += world.crashes
        refused += world.refused
        lost += world.lost
    assert crashes > SEEDS
    assert refused > SEEDS
    assert lost > 0


def test_a_seed_gives_the_same_run_twice() -> None:
    one, world = run_on_disk(4)
    assert world.crashes > 0
    assert run_on_disk(4)[0] == one
