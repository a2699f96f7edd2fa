"""Real processes, killed at any moment: every event is in the lake once."""

from pathlib import Path

import pytest

from tests.lake.kill import kill_often

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 1_000])
async def test_killed_exporter_leaves_every_event_once(tmp_path: Path, seed: int) -> None:
    """Nothing lost, doubled or changed after ten kills, each in the middle of something; more by hand, see kill.py."""
    books = await kill_often(tmp_path, str(tmp_path / "lake"), 10, seed)
    assert books.events > 300
    assert books.orphans > 0, "no kill came between a file and its commit"


@pytest.mark.usefixtures("s3")
async def test_exporter_to_a_bucket_that_is_killed_leaves_every_event_once(tmp_path: Path) -> None:
    books = await kill_often(tmp_path, f"s3://blobs/{tmp_path.name}", 5, 2_000)
    assert books.events > 100
