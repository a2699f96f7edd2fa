"""The sink in Spark: loads that are all or nothing, and streams into queues that may be replayed."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tenure.core.error import InvalidRequest
from tenure.spark import load_report
from tests.spark.rig import ORDERS, Shop, run_child

pytestmark = pytest.mark.spark

QUERY_S = 60


def orders(spark: SparkSession, number: int, parts: int = 3) -> DataFrame:
    made = spark.range(0, number, 1, parts)
    return made.select(
        f.concat(f.lit("order-"), f.col("id")).alias("order_id"),
        (f.col("id") / 4).alias("amount"),
        f.col("id").alias("n"),
        f.when(f.col("id") % 10 == 0, f.lit("gift")).alias("note"),
    )


def write(frame: DataFrame, shop: Shop, **more: str) -> None:
    frame.write.format("tenure").mode("append").options(**shop.options(**ORDERS, **more)).save()


def stream(spark: SparkSession, shop: Shop, folder: Path, **more: str) -> None:
    """From the folder's Parquet files into the queue; a file a batch."""
    source = spark.readStream.schema("order_id string, amount double, n long, note string").option(
        "maxFilesPerTrigger", "1"
    )
    writer = source.parquet(str(folder / "rows")).writeStream.format("tenure").options(**shop.options(**ORDERS, **more))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).queryName("orders")
    started = query.trigger(availableNow=True).start()
    assert started.awaitTermination(QUERY_S)
    if error := started.exception():
        raise error


def test_frame_is_loaded_once_however_often_it_is_written(spark: SparkSession, shop: Shop) -> None:
    frame = orders(spark, 1_000)
    write(frame, shop, loadId="day-1")
    report = load_report(shop.url, "day-1", tenant=shop.tenant)
    assert (report.rows, report.new, report.duplicates, report.refused) == (1_000, 1_000, 0, 0)
    assert shop.count() == {"ready": 1_000}
    write(frame.repartition(2), shop, loadId="day-1")
    assert load_report(shop.url, "day-1", tenant=shop.tenant) == report
    write(orders(spark, 1_200), shop, loadId="day-2")
    again = load_report(shop.url, "day-2", tenant=shop.tenant)
    assert (again.rows, again.new, again.duplicates) == (1_200, 200, 1_000)
    found = sorted(json.loads(payload)["n"] for payload in shop.payloads())
    assert found == list(range(1_200))


def test_thread_writes_once_the_session_is_its_own(spark: SparkSession, shop: Shop) -> None:
    """Spark looks for sources of Python in the active session of the thread, which a new one does not have."""
    frame = orders(spark, 20)

    def write_as_documented() -> None:
        spark.createDataFrame([], "nothing int")
        write(frame, shop, loadId="from-a-thread")

    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
            thread.submit(write, frame, shop).result()
        thread.submit(write_as_documented).result()
    assert shop.count() == {"ready": 20}


def test_tasks_that_spark_tries_again_stage_their_rows_once(shop: Shop, tmp_path: Path) -> None:
    report = json.loads(run_child("tests.spark.sink_child", tmp_path, shop.url, shop.tenant))
    assert {path.name for path in tmp_path.glob("failed-*")} == {"failed-0", "failed-1"}
    assert (report["rows"], report["new"], report["duplicates"], report["refused"]) == (1_000, 1_000, 0, 0)
    assert sorted(json.loads(payload)["id"] for payload in shop.payloads()) == list(range(1_000))


def test_aborted_job_leaves_nothing(spark: SparkSession, shop: Shop) -> None:
    """One task fails in the middle of its rows; the others have staged theirs."""
    broken = orders(spark, 9_000).withColumn("amount", f.when(f.col("n") == 8_999, f.raise_error(f.lit("bad row"))))
    with pytest.raises(PySparkException, match="bad row"):
        write(broken, shop, loadId="broken")
    assert shop.count() == {}
    with pytest.raises(InvalidRequest, match="nothing is known of it"):
        load_report(shop.url, "broken", tenant=shop.tenant)
    write(orders(spark, 90), shop, loadId="broken")
    assert shop.count() == {"ready": 90}


def test_null_key_fails_the_write(spark: SparkSession, shop: Shop) -> None:
    frame = orders(spark, 10).withColumn("order_id", f.when(f.col("n") > 3, f.col("order_id")))
    with pytest.raises(PySparkException, match="order_id is null"):
        write(frame, shop)
    assert shop.count() == {}


def test_stream_into_a_queue_has_each_row_once(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    for _ in range(2):
        orders(spark, 60, 2).write.mode("append").parquet(str(tmp_path / "rows"))
    stream(spark, shop, tmp_path)
    assert shop.count() == {"ready": 60}
    stream(spark, shop, tmp_path)
    assert shop.count() == {"ready": 60}


def test_batch_that_is_replayed_after_a_crash_adds_nothing(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """The driver died between the publication and Spark's own note of it. The keys are past their time, so that
    nothing but the load's id is left to tell that the batch was written before."""
    orders(spark, 40, 2).write.parquet(str(tmp_path / "rows"))
    stream(spark, shop, tmp_path, idempotencyTtl="1s")
    with shop.client() as client:
        for job in client.claim("orders", n=100):
            client.complete(job)
            client.remove(job.id)
    shutil.rmtree(tmp_path / "checkpoint" / "commits")
    stream(spark, shop, tmp_path, idempotencyTtl="1s")
    assert shop.count() == {}


def test_stream_that_failed_goes_on_and_loses_nothing(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    """A task fails after Spark has noted which rows the batch has; the next run writes that batch again."""
    orders(spark, 40, 2).write.parquet(str(tmp_path / "rows"))
    with pytest.raises(StreamingQueryException, match="note is null in"):
        stream(spark, shop, tmp_path, payload="note")
    assert shop.count() == {}
    stream(spark, shop, tmp_path, loadId="mine")
    assert shop.count() == {"ready": 40}
    assert load_report(shop.url, "mine-0", tenant=shop.tenant).new == 20


def test_outputs_that_replace_are_refused(spark: SparkSession, shop: Shop) -> None:
    with pytest.raises(PySparkException, match="none is replaced"):
        orders(spark, 1).write.format("tenure").mode("overwrite").options(**shop.options(**ORDERS)).save()
