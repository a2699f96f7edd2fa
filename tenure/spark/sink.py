"""The stream writer: each micro-batch is a load of its own, published once whatever happens.

The id of the load has to be the same when Spark writes a batch again after a crash. Spark makes the writer anew for
every batch, twice, so nothing that is made up here would do. A task is told the id of its query, which lies in the
checkpoint, and the number of the batch: together they name it.
"""

from collections.abc import Iterator
from typing import Final, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tenure.core.error import Unsupported
from tenure.spark.brief import brief
from tenure.spark.load import Written, abort, own_part, publish, stage_rows
from tenure.spark.option import Writing
from tenure.spark.payload import check_columns

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class TenureStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, writing: Writing, schema: StructType) -> None:
        check_columns(writing, schema)
        self.writing = writing

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage_rows(self.writing, self._load_id(), own_part(), iterator)

    def _load_id(self) -> str:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        batch = None if context is None else context.getLocalProperty(BATCH_ID)
        prefix = self.writing.load_id or query
        if not prefix or batch is None:
            raise Unsupported(f"a task that is not told its query ({QUERY_ID}) and batch ({BATCH_ID}) by Spark")
        return name_load(prefix, int(batch))

    @brief
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Rows that were refused are told in the log: raising would stop the query at the same batch for ever."""
        publish(self.writing.place, cast("list[Written | None]", messages), is_stream=True)

    @brief
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = [message for message in cast("list[Written | None]", messages) if message is not None]
        if written:
            abort(self.writing.place, written[0].load_id)
        elif self.writing.load_id:
            abort(self.writing.place, name_load(self.writing.load_id, batchId))
        # Else no task got so far as to say its query's id. What they staged is dropped when the batch is written again.


def name_load(prefix: str, batch: int) -> str:
    return f"{prefix}-{batch}"
