"""Seeds that must run clean, and the proof that a seed is all there is to a run."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.simulation.__main__ import tell
from tests.simulation.run import Failed, run
from tests.simulation.world import World

ROOT = Path(__file__).parents[2]
QUICK = (1, 2, 3)
SLOW = tuple(range(4, 61))


@pytest.mark.parametrize("seed", QUICK)
def test_seed_runs_clean(seed: int) -> None:
    run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW)
def test_more_seeds_run_clean(seed: int) -> None:
    run(seed)


def digest_of(seed: int) -> str:
    """Of the whole run, or as far as it came."""
    try:
        return run(seed)[0].digest
    except Failed as failed:
        return failed.world.trace.digest()


def test_seed_gives_the_same_run_twice_and_another_seed_another() -> None:
    digests = [digest_of(seed) for seed in (1, 2, 1, 2)]
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_run_does_not_depend_on_the_process(hash_seed: str) -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds", "2", "--keep-going"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert all(digest_of(seed) in done.stdout for seed in (1, 2)), done.stdout + done.stderr


def test_failure_is_told_with_the_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell(Failed(17, 4, ["job 1 is lost"], World(Random(17))))
    shown = capsys.readouterr().out
    assert "seed 17 FAILED at step 4" in shown
    assert "job 1 is lost" in shown
    assert "python -m tests.simulation --seeds 1 --start 17" in shown
