"""A program that works off a queue through Spark Connect, where one job kills the process of its task once.

`python -m tests.spark.process_child URL TENANT FOLDER`. Prints the report as JSON.
"""

import os
import signal
import sys
import time
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

import tenure.spark
from tests.spark.rig import settings_of
from tests.spark.workshop import QUEUE

KILLER = 7
MASTER = "local[2,4]"  # a task is tried four times


def task_of(nursery: int) -> int:
    """The process of Spark's task: the parent of what forks the processes of handlers."""
    return int(Path(f"/proc/{nursery}/stat").read_text().rpartition(")")[2].split()[1])


def main(url: str, tenant: str, folder: Path) -> None:
    mark = str(folder / "killed")

    def handle(payloads: list[dict[str, int]]) -> list[int]:
        if any(payload["n"] == KILLER for payload in payloads) and not os.path.exists(mark):
            Path(mark).touch()
            os.kill(task_of(os.getppid()), signal.SIGKILL)
            time.sleep(60)  # the end of the task is this one's, too
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
