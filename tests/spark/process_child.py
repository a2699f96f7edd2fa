"""A program that works off a queue through Spark Connect, where one job kills the Python process of its task once.

`python -m tests.spark.process_child URL TENANT FOLDER`. Prints the report as JSON.
"""

import os
import signal
import sys
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

import tenure.spark
from tests.spark.rig import settings_of
from tests.spark.workshop import QUEUE

KILLER = 7
MASTER = "local[2,4]"  # a task is tried four times


def main(url: str, tenant: str, folder: Path) -> None:
    mark = str(folder / "killed")

    def handle(payloads: list[dict[str, int]]) -> list[int]:
        if any(payload["n"] == KILLER for payload in payloads) and not os.path.exists(mark):
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [payload["n"] * 10 for payload in payloads]

    builder = SparkSession.builder.remote(MASTER)
    for name, value in settings_of(folder).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        report = tenure.spark.process(QUEUE, handle, url=url, spark=spark, tenant=tenant, batch=10, lease="5s")
        print(msgspec.json.encode(report).decode())
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
