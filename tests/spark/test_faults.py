"""A cluster of one master and two workers, of which one dies with its executor, and executors that die later on."""

from pathlib import Path

import pytest

from tests.spark.faults import run_round

pytestmark = pytest.mark.spark


def test_deaths_of_a_node_and_of_executors_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """Workers that hold leases, tasks that stage a load, tasks that move a store."""
    assert run_round(tmp_path).findings == []
