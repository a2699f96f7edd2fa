"""`tenure bench` says how fast a store is, and leaves nothing behind."""

from pathlib import Path

import pytest

import tenure
from tests.cli.rig import run

KEYS = {
    "durability",
    "enqueue_p50_us",
    "enqueue_p99_us",
    "claim_complete_p50_us",
    "claim_complete_p99_us",
    "enqueue_per_s",
    "claim_complete_per_s",
}
FEW = ("--jobs", "200", "--batch", "100", "--singles", "5")


def test_figures_are_told_and_the_queue_is_left_empty(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    found = run("bench", "--url", url, "--json", *FEW).json
    assert set(found) == KEYS
    assert all(found[key] > 0 for key in KEYS - {"durability"})
    assert found["durability"] == "fsync"
    shown = run("bench", "--url", url, *FEW).out
    assert "claim and complete in batches" in shown
    assert "2 batches of 100, 5 single jobs" in shown
    with tenure.connect_sync(url) as client:
        assert sum(client.count("tenure.bench").get("tenure.bench", {}).values()) == 0


@pytest.mark.parametrize("options", [("--batch", "0"), ("--batch", "10001"), ("--jobs", "1"), ("--singles", "0")])
def test_counts_that_make_no_sense_are_refused(options: tuple[str, ...], tmp_path: Path) -> None:
    result = run("bench", "--url", f"sqlite:///{tmp_path}/jobs.db", *options)
    assert result.code == 2
