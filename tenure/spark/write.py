"""The batch writer: a DataFrame becomes jobs, all of them or none, and once however often it is written."""

import secrets
from collections.abc import Iterator
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tenure.spark.brief import brief
from tenure.spark.load import Written, abort, check_refused, own_part, publish, stage_rows
from tenure.spark.option import Writing
from tenure.spark.payload import check_columns


class TenureWriter(DataSourceArrowWriter):
    def __init__(self, writing: Writing, schema: StructType) -> None:
        check_columns(writing, schema)
        self.writing = writing
        # Spark makes the batch writer once and pickles it, so the tasks and the commit see one id.
        self.load_id = writing.load_id or f"spark-{secrets.token_hex(12)}"

    @brief
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return stage_rows(self.writing, self.load_id, own_part(), iterator)

    @brief
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        check_refused(self.load_id, publish(self.writing.place, cast("list[Written | None]", messages)))

    @brief
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort(self.writing.place, self.load_id)
