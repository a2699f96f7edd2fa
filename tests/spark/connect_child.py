"""A client of Spark Connect, in a process of its own: it cannot live beside a classic session.

Writes, reads and streams, and prints what it counted as a line of JSON.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main(url: str, folder: Path) -> None:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        orders = spark.range(0, 500, 1, 3).select(f.concat(f.lit("o-"), "id").alias("order_id"), f.col("id").alias("n"))
        into = {"url": url, "queue": "orders", "task": "pay", "key": "order_id"}
        for _ in range(2):
            orders.write.format("tenure").mode("append").options(**into, loadId="connect").save()
        events = spark.read.format("tenure").options(url=url, table="events", minPartitions="2").load()
        read = events.where("type = 'enqueued'").count()
        stream = spark.readStream.format("tenure").options(url=url, table="events", maxOffsetsPerTrigger="200").load()
        copied = stream.select("seq", f.concat(f.lit("s-"), "seq").alias("order_id"))
        query = (
            copied.writeStream.format("tenure")
            .options(**{**into, "queue": "copies"})
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        ended = query.awaitTermination(60)
        copies = spark.read.format("tenure").options(url=url, table="jobs").load().where("queue = 'copies'").count()
        print(
            json.dumps({"read": read, "ended": ended, "copies": copies, "connect": "connect" in type(spark).__module__})
        )
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
