"""How fast events become gold: per-minute metrics with sketches, beside Spark's plain scan of the same Parquet files.

python -m bench.spark_gold [--quick] [--json]

The figure `spark.gold` is one pass over all events to a table of metrics by minute, tenant, queue and task with
sketches of waits and runs; its reference is reading every column of the same files and doing nothing with them. Both go
to Spark's sink that throws rows away, after a round to warm up.
"""

import tempfile
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bench.history import Shape, make_events, write_segments
from bench.report import Report, arguments, median_of, seconds
from tenure.spark.bronze import read_events
from tenure.spark.gold import minutes, with_slo
from tenure.spark.session import open_session, own_session

EVENTS: Final = 5_000_000
EVENTS_QUICK: Final = 500_000
ROUNDS: Final = 3
MASTER: Final = "local[2]"


def make_lake(folder: Path, events: int) -> int:
    """A day of 12 tenants, 4 queues, 8 tasks: some 130,000 rows of metrics. Returns how many events there are."""
    table = make_events(events, Shape())
    write_segments(table, folder)
    return int(table.num_rows)


def throw_away(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def measure_gold(spark: SparkSession, lake: Path, events: int, report: Report, rounds: int = ROUNDS) -> None:
    session = own_session(spark)
    history = read_events(session, lake)
    scan, gold = history, minutes(with_slo(history))
    for frame in (scan, gold):
        throw_away(frame)
    scan_per_s = events / median_of(rounds, lambda: seconds(lambda: throw_away(scan)))
    gold_per_s = events / median_of(rounds, lambda: seconds(lambda: throw_away(gold)))
    report.add("spark.gold", gold_per_s, "events/s", scan_per_s, gold_per_s / scan_per_s)


def main() -> None:
    asked = arguments(__doc__)
    report = Report(asked.json)
    spark = open_session(MASTER, config={"spark.driver.memory": "3g"})
    with tempfile.TemporaryDirectory() as place:
        events = make_lake(Path(place), EVENTS_QUICK if asked.quick else EVENTS)
        report.note(f"{events:,} events on {MASTER}")
        measure_gold(spark, Path(place), events, report, 1 if asked.quick else ROUNDS)
    spark.stop()


if __name__ == "__main__":
    main()
