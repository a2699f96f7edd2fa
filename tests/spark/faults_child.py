"""A program on a standalone cluster of which parts die at the worst moments: a node whose tasks hold leases, an
executor in the middle of a load, an executor in the middle of a migration.

`python -m tests.spark.faults_child MASTER SOURCE TARGET TENANT FOLDER`. Prints what it was told as JSON. Marks in the
folder say that what was to die has died.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pandas as pd
from pyspark import TaskContext
from pyspark.sql import SparkSession

import tenure
import tenure.spark
from tenure.core.error import Error
from tenure.core.request import READ, Load
from tenure.spark.migrate import migrate
from tests.spark.cluster import EXECUTOR, WORKER, executors_of, take_down
from tests.spark.rig import ORDERS, settings_of
from tests.spark.workshop import QUEUE
from tests.transfer.rig import wall_ms

KILLER = 7
ROWS = 1_000
STAGED = 3  # batches of a task, before its executor dies
LOAD_ID = "on-the-cluster"
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def work(spark: SparkSession, url: str, tenant: str, folder: Path) -> object:
    """One job takes the node down on which it runs, worker and executor and all, once."""
    mark = folder / "node"

    def handle(payloads: list[dict[str, int]]) -> list[int]:
        if any(payload["n"] == KILLER for payload in payloads) and not mark.exists():
            mark.touch()
            take_down(WORKER)
        return [payload["n"] * 10 for payload in payloads]

    return tenure.spark.process(QUEUE, handle, url=url, spark=spark, tenant=tenant, parallelism=2, batch=10, lease="3s")


def load(spark: SparkSession, url: str, tenant: str, folder: Path) -> object:
    """A task's executor dies when it has staged some of its rows."""
    mark = folder / "executor"

    def die_once(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        context = TaskContext.get()
        assert context is not None
        for number, frame in enumerate(frames):
            if number == STAGED and context.partitionId() == 1 and not mark.exists():
                mark.touch()
                take_down(EXECUTOR)
            yield frame.assign(order_id=frame["id"].map("order-{}".format))

    frame = spark.range(0, ROWS, 1, 3).mapInPandas(die_once, "id long, order_id string")
    into = {"url": url, "tenant": tenant, **ORDERS, "loadId": LOAD_ID}
    frame.write.format("tenure").mode("append").options(**into).save()
    return tenure.spark.load_report(url, LOAD_ID, tenant=tenant)


def move(spark: SparkSession, source: str, target: str, tenant: str, folder: Path) -> object:
    """An executor dies when the first rows are staged and most are not."""
    application = spark.sparkContext.applicationId
    over = threading.Event()

    def kill() -> None:
        with tenure.connect_sync(target, tenant=tenant) as client:
            while not over.wait(0.005):
                try:
                    if not client.load(Load(READ, LOAD_ID)).rows:
                        continue
                except Error:  # it is not known yet
                    continue
                for pid in executors_of(application):
                    (folder / "mover").touch()
                    os.kill(pid, signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        done = migrate(spark, source, target, now_ms=wall_ms, tenant=tenant, load_id=LOAD_ID, parts=6)
    finally:
        over.set()
        killer.join()
    assert done.verified is not None
    return {"copied": done.copied, "is_same": done.verified.is_same, "rows": done.verified.rows}


def main(master: str, source: str, target: str, tenant: str, folder: Path) -> None:
    builder = SparkSession.builder.master(master)
    settings = {
        **settings_of(folder),
        # For a few rows, compiling costs more than it gains.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.sql.shuffle.partitions": "2",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        said = {
            "worked": work(spark, source, tenant, folder),
            "loaded": load(spark, source, tenant, folder),
            "moved": move(spark, source, target, tenant, folder),
        }
        print(json.dumps(msgspec.to_builtins(said)))
    finally:
        spark.stop()


if __name__ == "__main__":
    _, at_master, from_url, to_url, of_tenant, in_folder = sys.argv
    main(at_master, from_url, to_url, of_tenant, Path(in_folder))
