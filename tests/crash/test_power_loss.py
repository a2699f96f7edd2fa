"""Whatever a loss of power leaves of the unsynced writes: answered jobs are there, none twice, nothing damaged."""

from pathlib import Path

import pytest

from tests.crash.power import campaign

SEEDS = 12
IMAGES = 180


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_power_loss(seed: int, memory_path: Path) -> None:
    total = await campaign(seed, IMAGES, memory_path)
    assert total.findings == []
    assert total.images == IMAGES
    assert total.answered > IMAGES
