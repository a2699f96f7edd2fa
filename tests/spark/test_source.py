"""The source in Spark: batches and streams of every table that is one, and what goes wrong on the way."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tenure.server.auth import hash_token
from tests.spark.rig import Make, Shop
from tests.spark.test_read_batches import overtaken

pytestmark = pytest.mark.spark

QUERY_S = 60
SECRET = "tok-5ecret"


def read(spark: SparkSession, shop: Shop, table: str, **more: str) -> DataFrame:
    return spark.read.format("tenure").options(**shop.options(table=table, **more)).load()


def run(
    spark: SparkSession,
    shop: Shop,
    folder: Path,
    table: str = "events",
    between: Callable[[Any], None] | None = None,
    **more: str,
) -> list[list[int]]:
    """A query that reads what is there and ends; the seqs of each batch. The checkpoint is the folder's."""
    found: list[list[int]] = []

    def take(batch: DataFrame, number: int) -> None:
        found.append(sorted(row.seq for row in batch.select("seq").collect()))
        if between is not None:
            between(number)

    frame = spark.readStream.format("tenure").options(**shop.options(table=table, **more)).load()
    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_S)
    if error := query.exception():
        raise error
    return found


def flat(batches: list[list[int]]) -> list[int]:
    return [seq for batch in batches for seq in batch]


def test_every_table_is_read_with_counts_and_values(spark: SparkSession, shop: Shop) -> None:
    shop.enqueue(10)
    shop.work(complete=6, fail=2)
    events = read(spark, shop, "events", minPartitions="3")
    assert events.rdd.getNumPartitions() == 3
    assert sorted(row.seq for row in events.select("seq").collect()) == shop.events()
    by_state = {row.state: row["count"] for row in read(spark, shop, "jobs").groupBy("state").count().collect()}
    assert by_state == {"completed": 6, "failed": 2, "ready": 2}
    [attempts] = read(spark, shop, "attempts").agg(f.count("*").alias("n"), f.max("worker").alias("w")).collect()
    assert (attempts.n, attempts.w) == (8, "w-1")
    results = read(spark, shop, "results", columns="id,result").collect()
    assert sorted(row.result for row in results) == sorted(b'{"done": %d}' % row.id for row in results)
    dead = read(spark, shop, "dead_letters").select("error_type", "message", "metadata", "tags").collect()
    assert [(row.error_type, row.message) for row in dead] == [("ValueError", "no such card")] * 2
    [queue] = read(spark, shop, "queues").collect()
    assert (queue.queue, queue.completed, queue.failed, queue.ready) == ("orders", 6, 2, 2)


def test_filters_are_pushed_down_where_the_session_allows_it(spark: SparkSession, shop: Shop) -> None:
    shop.enqueue(5)
    shop.enqueue(3, queue="other")
    at = read(spark, shop, "events").agg(f.max("at")).collect()[0][0]
    frame = read(spark, shop, "events", minPartitions="4").where(f.col("at") > f.lit(at))
    assert (frame.count(), frame.rdd.getNumPartitions()) == (0, 4)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, shop, "jobs").where("queue = 'other' and state = 'ready' and id > 0")
        assert frame.count() == 3
        some = read(spark, shop, "events", minPartitions="4").where(f.col("at") > f.lit(at) + f.expr("interval 1 hour"))
        assert (some.count(), some.rdd.getNumPartitions()) == (0, 1)  # nothing is left to read
        frame = read(spark, shop, "jobs", pushdown="true").where("queue = 'other' and state = 'ready' and id > 0")
        assert frame.count() == 3
        assert read(spark, shop, "jobs").where("queue = 'other'").count() == 3
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    with pytest.raises(AnalysisException, match=r"filterPushdown\.enabled"):
        read(spark, shop, "jobs", pushdown="true").where("queue = 'other'").count()


def test_schema_by_hand_names_the_columns_that_are_fetched(spark: SparkSession, shop: Shop) -> None:
    shop.enqueue(3)
    named = spark.read.format("tenure").options(**shop.options(table="events")).schema("type string, seq bigint")
    assert [(row.type, row.seq) for row in named.load().collect()] == [("enqueued", seq) for seq in shop.events()]


def test_wrong_option_is_named_by_spark(spark: SparkSession, shop: Shop) -> None:
    with pytest.raises(AnalysisException, match="did you mean startingOffsets"):
        read(spark, shop, "events", startingOffset="1")


def test_no_secret_is_in_a_plan_or_an_error(
    spark: SparkSession, serve: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text(SECRET)
    served = serve(settings=f"[server.tokens.shop]\nsha256 = '{hash_token(SECRET)}'\n")
    shop = Shop(served.url, "default")
    frame = read(spark, shop, "events", tokenFile=str(file))
    assert frame.count() == 0
    query = frame._jdf.queryExecution()
    frame.explain(True)
    assert SECRET not in query.toString() + query.stringWithStats() + capsys.readouterr().out
    file.write_text(f"{SECRET}-wrong")
    with pytest.raises(AnalysisException, match="token is not known") as raised:
        read(spark, shop, "events", tokenFile=str(file)).count()
    assert SECRET not in str(raised.value)
    with pytest.raises(AnalysisException, match="tokenFile") as raised:
        read(spark, shop, "events", token=SECRET)
    assert SECRET not in str(raised.value)


# Streams.


def test_stream_reads_all_rows_in_bounded_batches(spark: SparkSession, serve: Make, tmp_path: Path) -> None:
    shop = Shop(serve().url, "default")
    shop.enqueue(95)
    found = run(spark, shop, tmp_path, maxOffsetsPerTrigger="20")
    assert flat(found) == shop.events()
    assert [len(batch) for batch in found] == [20, 20, 20, 20, 15]


def test_stream_goes_on_where_it_stopped(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.enqueue(5)
    first = flat(run(spark, shop, tmp_path))
    shop.enqueue(5)
    shop.work(complete=2, fail=1)
    second = flat(run(spark, shop, tmp_path))
    assert first + second == shop.events()


def test_batch_that_failed_is_read_again_the_same(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    shop.enqueue(12)
    tried: list[list[int]] = []

    def fail(batch: DataFrame, number: int) -> None:
        tried.append(sorted(row.seq for row in batch.select("seq").collect()))
        raise RuntimeError("the sink is down")

    frame = spark.readStream.format("tenure").options(**shop.options(table="events")).load()
    writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        writer.trigger(availableNow=True).start().awaitTermination(QUERY_S)
    before = shop.events()
    shop.enqueue(3)
    found = run(spark, shop, tmp_path)
    assert tried == [before]
    assert found[0] == before
    assert flat(found) == shop.events()


def test_server_restarted_in_the_middle_of_a_stream(spark: SparkSession, serve: Make, tmp_path: Path) -> None:
    served = serve()
    shop = Shop(served.url, "default")
    shop.enqueue(30)

    def restart(number: int) -> None:
        if number == 0:
            served.stop(signal.SIGKILL)
            served.start()

    assert flat(run(spark, shop, tmp_path, between=restart, maxOffsetsPerTrigger="10")) == shop.events()


def test_retention_that_overtakes_a_stream(spark: SparkSession, serve: Make, tmp_path: Path) -> None:
    shop = overtaken(serve)
    with pytest.raises(StreamingQueryException, match="failOnDataLoss=false"):
        run(spark, shop, tmp_path, startingOffsets="1")


def test_store_that_is_another_one_is_noticed(spark: SparkSession, serve: Make, tmp_path: Path) -> None:
    shop = Shop(serve().url, "default")
    shop.enqueue(20)
    assert len(flat(run(spark, shop, tmp_path))) == 20
    other = Shop(serve().url, "default")
    other.enqueue(3)
    with pytest.raises(StreamingQueryException, match="another store"):
        run(spark, other, tmp_path)
