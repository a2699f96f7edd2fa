"""Through Spark Connect, batch and stream: nothing here depends on the classic session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.spark import load_report
from tests.spark.rig import Make, Shop

pytestmark = pytest.mark.spark

CHILD_S = 400  # on a machine that does much else


def test_connect_reads_writes_and_streams_every_row(serve: Make, tmp_path: Path) -> None:
    shop = Shop(serve().url, "default")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_child", shop.url, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    assert ended.returncode == 0, ended.stderr[-4_000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found == {"read": 500, "ended": True, "copies": 500, "connect": True}
    report = load_report(shop.url, "connect")
    assert (report.rows, report.new, report.duplicates) == (500, 500, 0)
    assert shop.count() == {"ready": 500}
    assert shop.count("copies") == {"ready": 500}
