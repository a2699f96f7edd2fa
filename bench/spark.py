"""Tenure on Spark, `local[2]`, beside Spark itself doing the same without Tenure.

    make bench BENCH=spark ARGS=--quick

The server is a process of its own on the same two cores. Every figure stands beside its reference, taken in turns in
the same run, after a round of each that does not count, and each after a rest: what the server does after an answer,
such as its checkpoint, is in no figure. Medians of several rounds.

- spark.enqueue: a DataFrame staged, published and let in, all rows new, beside the same DataFrame into a Python sink
  that does nothing.
- spark.read.events: all events of the store into Spark's `noop`, beside a Python source that has the same batches in
  memory.
- spark.read.lake: the events of a lake, beside a plain scan of the same Parquet files.
- spark.gold, spark.audit: see `bench/spark_gold.py` and `bench/spark_audit.py`, which run by themselves, too.
"""

import os
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import CaseInsensitiveDict

from bench.idle import IdleSink, MemorySource
from bench.report import Report, arguments, seconds
from bench.server import served
from bench.spark_audit import measure_audit
from bench.spark_gold import EVENTS, EVENTS_QUICK, make_lake, measure_gold, throw_away
from tenure.engine import engine
from tenure.spark import load_report
from tenure.spark.bronze import read_events
from tenure.spark.source import TenureSource

ROUNDS = 3
ENQUEUE_ROUNDS = 7  # it has to do with the disk, and with memory that the machine has to find
REST_S = 0.3
REST_MOST_S = 10.0


def start_session(folder: Path) -> SparkSession:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("tenure-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def in_turns(
    rounds: int,
    rows: int,
    own: Callable[[], object],
    other: Callable[[], object],
    begin: Callable[[], object] = lambda: None,
) -> tuple[float, float]:
    """Rows a second of the two, each after a round that does not count, and after a rest."""
    found: list[tuple[float, float]] = []
    for number in range(rounds + 1):
        begin()
        pair: list[float] = []
        for do in (other, own):
            rest()
            pair.append(rows / seconds(do))
        if number:
            found.append((pair[0], pair[1]))
    return statistics.median(mine for _, mine in found), statistics.median(theirs for theirs, _ in found)


def rest() -> None:
    """Until the machine has little to do, at most some time: what a server and Spark do after an answer is not to be
    in the next figure."""
    until = time.monotonic() + REST_MOST_S
    while time.monotonic() < until:
        before = ticks()
        time.sleep(REST_S)
        busy, all = (now - then for now, then in zip(ticks(), before, strict=True))
        if busy < all / 20:
            return


def ticks() -> tuple[int, int]:
    """Of all cores: those that were busy, and all."""
    spent = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(spent) - spent[3] - spent[4], sum(spent)


def orders(spark: SparkSession, number: int, rows: int) -> DataFrame:
    """Four columns, 80 bytes of JSON a row; keys that no other round has."""
    id = f.col("id")
    return spark.range(number * rows, (number + 1) * rows, 1, 2).select(
        f.concat(f.lit("order-"), id).alias("order_id"),
        (id * 1.25).alias("amount"),
        id.alias("customer"),
        f.lit("some kind of order").alias("kind"),
    )


def measure_enqueue(report: Report, spark: SparkSession, port: int, rows: int, rounds: int) -> None:
    """Every round has rows of its own, so code of its own, which Java compiles when it is first run: before the figures
    of a round its rows go into the idle sink once, uncounted."""
    spark.dataSource.register(IdleSink)
    url = f"tenure://127.0.0.1:{port}"
    loads: list[str] = []

    def load() -> None:
        into = {"url": url, "queue": "orders", "task": "pay", "key": "order_id", "loadId": loads[-1]}
        orders(spark, len(loads), rows).write.format("tenure").mode("append").options(**into).save()

    def idle() -> None:
        orders(spark, len(loads), rows).write.format("idle").mode("append").save()

    def begin() -> None:
        loads.append(secrets.token_hex(4))
        idle()

    rate, reference = in_turns(rounds, rows, load, idle, begin)
    for id in loads:
        told = load_report(url, id)
        assert (told.rows, told.new) == (rows, rows)
    report.add("spark.enqueue", rate, "rows/s", reference, rate / reference)


def keep_batches(url: str, folder: Path) -> int:
    """What the source reads, partition by partition, as Arrow files; how many rows that is."""
    source = TenureSource(CaseInsensitiveDict({"url": url, "table": "events"}))
    reader = source.reader(source.schema())
    rows = 0
    for number, span in enumerate(reader.partitions()):
        batches = [batch for batch in reader.read(span) if isinstance(batch, pa.RecordBatch)]
        with (
            pa.OSFile(str(folder / f"{number:04}.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, batches[0].schema) as file,
        ):
            for batch in batches:
                file.write_batch(batch)
                rows += batch.num_rows
    return rows


def measure_events(report: Report, spark: SparkSession, port: int, folder: Path, rounds: int) -> None:
    spark.dataSource.register(MemorySource)
    url = f"tenure://127.0.0.1:{port}"
    kept = folder / "events"
    kept.mkdir()
    rows = keep_batches(url, kept)

    def from_server() -> None:
        frame = spark.read.format("tenure").options(url=url, table="events").load()
        frame.write.format("noop").mode("overwrite").save()

    def from_memory() -> None:
        frame = spark.read.format("batches_in_memory").option("folder", str(kept)).load()
        frame.write.format("noop").mode("overwrite").save()

    rate, reference = in_turns(rounds, rows, from_server, from_memory)
    report.add("spark.read.events", rate, "rows/s", reference, rate / reference)


def measure_lake(report: Report, spark: SparkSession, lake: Path, events: int, rounds: int) -> None:
    files = sorted(str(path) for path in lake.glob("date=*/*.parquet"))

    def from_lake() -> None:
        throw_away(read_events(spark, lake))

    def from_files() -> None:
        throw_away(spark.read.parquet(*files))

    rate, reference = in_turns(rounds, events, from_lake, from_files)
    report.add("spark.read.lake", rate, "events/s", reference, rate / reference)


def measure_spark(report: Report, spark: SparkSession, folder: Path, rows: int) -> None:
    """What Spark does by itself here, for those who compare machines."""
    for name, make in (
        ("rate", lambda: orders(spark, 0, rows)),
        ("parquet", lambda: spark.read.parquet(str(folder / "orders"))),
    ):
        if name == "parquet":
            orders(spark, 0, rows).write.parquet(str(folder / "orders"))
        spent = seconds(lambda make=make: make().write.format("noop").mode("overwrite").save())  # type: ignore[misc]
        report.note(f"# Spark's own {name} into noop: {rows / spent:,.0f} rows/s")


def main() -> None:
    chosen = arguments(__doc__)
    report = Report(chosen.json)
    build = "compiled" if engine.__file__.endswith(".so") else "interpreted"
    report.note(f"# spark: {build} engine")
    rows, rounds = (100_000, 1) if chosen.quick else (500_000, ROUNDS)
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        spark = start_session(folder)
        measure_spark(report, spark, folder, rows)
        with served("write") as port:
            measure_enqueue(report, spark, port, rows, 1 if chosen.quick else ENQUEUE_ROUNDS)
            measure_events(report, spark, port, folder, rounds)
        lake = folder / "lake"
        events = make_lake(lake, EVENTS_QUICK if chosen.quick else EVENTS)
        measure_lake(report, spark, lake, events, rounds)
        measure_gold(spark, lake, events, report, rounds)
        measure_audit(spark, report, EVENTS_QUICK if chosen.quick else EVENTS)
        spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
