"""Twenty kills in a run: nothing that was answered is lost, nothing is there twice."""

from pathlib import Path

import pytest

from tests.kill.cycle import run_database


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "seed", "cycles"), [("fsync", 1, 7), ("write", 1, 7), ("relaxed", 1, 6)])
def test_answers_survive_kills(mode: str, seed: int, cycles: int, tmp_path: Path) -> None:
    totals = run_database(tmp_path, mode, seed, cycles)
    assert totals.findings == []
    assert totals.cycles == cycles
    assert totals.answered > 0
