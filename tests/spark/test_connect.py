"""Through Spark Connect, batch and stream: nothing here depends on the classic session."""

import json
from pathlib import Path

import pytest

from tenure.spark import load_report
from tests.spark.rig import Make, Shop, run_child

pytestmark = pytest.mark.spark


def test_connect_reads_writes_and_streams_every_row(serve: Make, tmp_path: Path) -> None:
    shop = Shop(serve().url, "default")
    found = json.loads(run_child("tests.spark.connect_child", tmp_path, shop.url))
    assert found == {"read": 500, "ended": True, "copies": 500, "connect": True}
    report = load_report(shop.url, "connect")
    assert (report.rows, report.new, report.duplicates) == (500, 500, 0)
    assert shop.count() == {"ready": 500}
    assert shop.count("copies") == {"ready": 500}
