"""A program that writes a DataFrame to a queue, where each task fails once when it has staged some of its rows: one
by an exception, one because its Python process is killed. Spark tries both again.

`python -m tests.spark.sink_child URL TENANT FOLDER`. Prints the report of the load as JSON.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pandas as pd
from pyspark import TaskContext
from pyspark.sql import SparkSession

from tenure.spark import load_report
from tests.spark.rig import settings_of

MASTER = "local[2,4]"  # a task is tried four times
ROWS = 1_000
BATCH = 50
STAGED = 5  # batches, before a task fails


def main(url: str, tenant: str, folder: Path) -> None:
    def fail_once(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        context = TaskContext.get()
        assert context is not None
        for number, frame in enumerate(frames):
            if number == STAGED and context.attemptNumber() == 0:
                (folder / f"failed-{context.partitionId()}").touch()
                if context.partitionId() == 0:
                    raise RuntimeError("this attempt fails")
                os.kill(os.getpid(), signal.SIGKILL)
            yield frame.assign(order_id=frame["id"].map("order-{}".format))

    builder = SparkSession.builder.master(MASTER)
    settings = {**settings_of(folder), "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH)}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        frame = spark.range(0, ROWS, 1, 2).mapInPandas(fail_once, "id long, order_id string")
        into = {"url": url, "tenant": tenant, "queue": "orders", "task": "pay", "key": "order_id", "loadId": "nightly"}
        frame.write.format("tenure").mode("append").options(**into).save()
        print(msgspec.json.encode(load_report(url, "nightly", tenant=tenant)).decode())
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
