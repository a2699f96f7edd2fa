"""The numbers of events: none given twice, none missing but where a crash skipped them.

All numbers in order would be one sort of everything. Instead they are counted in parts of 262,144 with their sum and
the sum of their squares: a part without a gap and without a double has exactly the sums of its range. Only parts that
do not are looked at number by number.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from tenure.core.error import InvalidRequest
from tenure.core.event import ENQUEUED, EVENT_NAMES
from tenure.spark.audit.check import Check, Family, told

if TYPE_CHECKING:
    from tenure.spark.audit.history import History

SEQ_ONCE: Final = Check("I18", "seq_given_once", "No seq is given to two events, and no event is there twice.")
SEQ_DENSE: Final = Check("I12", "seq_dense", "No seq is missing, but for the many that a crash skips.")

PART_BITS: Final = 18
PARTS_MAX: Final = 1_000_000
# A store reserves numbers a million ahead before it uses them, and skips what is left of them after a crash. Fewer than
# this were therefore not skipped: they are missing.
CRASH_SKIPS_LEAST: Final = 500_000


@dataclass(frozen=True)
class Gap:
    store: int
    seq: int  # the first after it
    missing: int


@dataclass(frozen=True)
class Numbers:
    """What is known of the numbers of all events."""

    events: int
    born: int  # jobs that were enqueued
    first: dict[int, int]  # of each store
    last: dict[int, int]
    gaps: list[Gap]  # between parts
    suspects: list[tuple[int, int]]  # store and part

    @property
    def skipped(self) -> list[Gap]:
        return [gap for gap in self.gaps if gap.missing >= CRASH_SKIPS_LEAST]


def count_numbers(events: DataFrame) -> Numbers:
    place = fn.col("seq").bitwiseAND(2**PART_BITS - 1)
    parts = events.groupBy("store", fn.shiftright("seq", PART_BITS).alias("part")).agg(
        fn.count(fn.lit(1)).alias("events"),
        fn.min("seq").alias("low"),
        fn.max("seq").alias("high"),
        fn.count(fn.when(fn.col("type") == EVENT_NAMES[ENQUEUED], fn.lit(1))).alias("born"),
        fn.sum(place).alias("total"),
        fn.sum(place * place).alias("squares"),
    )
    rows = parts.limit(PARTS_MAX + 1).collect()
    if len(rows) > PARTS_MAX:
        raise InvalidRequest("events", sum(row["events"] for row in rows), "audit fewer at a time")
    return _read_parts(sorted(rows, key=lambda row: (row["store"], row["part"])))


def _read_parts(rows: list[Row]) -> Numbers:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    gaps: list[Gap] = []
    for row in rows:
        store, low = row["store"], row["low"]
        if store in last and low > last[store] + 1:
            gaps.append(Gap(store, low, low - last[store] - 1))
        first.setdefault(store, low)
        last[store] = row["high"]
    suspects = [(row["store"], row["part"]) for row in rows if not _is_dense(row)]
    return Numbers(sum(row["events"] for row in rows), sum(row["born"] for row in rows), first, last, gaps, suspects)


def _is_dense(row: Row) -> bool:
    low, high = (row[name] % 2**PART_BITS for name in ("low", "high"))
    count = high - low + 1
    squares = _squares_upto(high) - _squares_upto(low - 1)
    return bool(row["events"] == count and 2 * row["total"] == (low + high) * count and row["squares"] == squares)


def _squares_upto(last: int) -> int:
    return last * (last + 1) * (2 * last + 1) // 6


def find(history: "History") -> DataFrame:
    """Doubles, and where the whole of a store was given, gaps."""
    session = history.events.sparkSession
    store = f"store {history.events.schema['store'].dataType.simpleString()}"
    suspects = session.createDataFrame(history.numbers.suspects, f"{store}, part long")
    numbered = history.events.select(
        "store", "seq", "job", "job_seq", fn.shiftright("seq", PART_BITS).alias("part")
    ).join(fn.broadcast(suspects), ["store", "part"], "left_semi")
    by_seq = Window.partitionBy("store", "part").orderBy("seq", "job", "job_seq")
    looked = numbered.withColumn("before", fn.lag("seq").over(by_seq))
    double = told(SEQ_ONCE, fn.col("seq") == fn.col("before"), "seq ", fn.col("seq"), " is there twice")
    missing = fn.col("seq") - fn.col("before") - 1
    between = session.createDataFrame(
        [(gap.store, gap.seq, gap.seq - gap.missing - 1) for gap in history.numbers.gaps],
        f"{store}, seq long, before long",
    )
    if not history.is_dense:
        return looked.withColumn("findings", fn.array(double))
    is_short = (missing > 0) & (missing < CRASH_SKIPS_LEAST)
    gap = told(SEQ_DENSE, is_short, "missing before seq ", fn.col("seq"), ": ", missing)
    both = looked.unionByName(between, allowMissingColumns=True)
    return both.withColumn("findings", fn.array(double, gap))


FAMILY: Final = Family((SEQ_ONCE, SEQ_DENSE), find)
