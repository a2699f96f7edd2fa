"""What the source and the sink are held against: a Python sink that does nothing, and a source whose batches are in
memory before it is asked. Both go through the same parts of Spark."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


class IdleSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "idle"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return IdleWriter()


class IdleWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


@cache
def batches_of(path: str) -> list[pa.RecordBatch]:
    """Read once in the life of a worker, which Spark uses again."""
    with pa.memory_map(path) as source:
        return [*pa.ipc.open_file(source).read_all().to_batches()]


class MemorySource(DataSource):
    """The option `folder` has an Arrow file for each partition."""

    @classmethod
    def name(cls) -> str:
        return "batches_in_memory"

    def _paths(self) -> list[str]:
        return sorted(str(path) for path in Path(self.options["folder"]).glob("*.arrow"))

    def schema(self) -> StructType:
        with pa.memory_map(self._paths()[0]) as source:
            return from_arrow_schema(pa.ipc.open_file(source).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return MemoryReader(self._paths())


class MemoryReader(DataSourceReader):
    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(path) for path in self._paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from batches_of(partition.value)
