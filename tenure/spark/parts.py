"""The jobs of a store in parts: ranges of ids that rise with the number of the part, one task for each."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tenure.core.error import InvalidRequest
from tenure.spark.loop import each_of

PARTS_MAX: Final = 10_000
PART_IDS: Final = 50_000  # that a task reads, if nobody says how many parts there are to be

Work = Callable[[int], AsyncGenerator[pa.RecordBatch, None]]


class Parts(msgspec.Struct, frozen=True):
    """All ids from `first` to `last`, divided."""

    first: int
    last: int
    count: int

    def bounds(self, part: int) -> tuple[int, int]:
        """A part has the ids over the one and up to the other."""
        ids = self.last - self.first + 1
        return self.first - 1 + ids * part // self.count, self.first - 1 + ids * (part + 1) // self.count


def plan_parts(first: int, last: int, asked: int = 0) -> Parts:
    if not 0 <= asked <= PARTS_MAX:
        raise InvalidRequest("parts", asked, f"it must be from 1 to {PARTS_MAX}, or 0 for as many as are useful")
    ids = max(last - first + 1, 1)
    return Parts(first, max(last, first), min(asked or -(-ids // PART_IDS), PARTS_MAX, ids))


def map_numbers(spark: SparkSession, count: int, work: Work, schema: pa.Schema) -> DataFrame:
    """What `work` gives for each number below `count`, each in a task of its own."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from each_of(work(number))

    return spark.range(0, count, 1, count).mapInArrow(run, from_arrow_schema(schema))
