"""A stretch of a table: how much there is to read, how it is cut among tasks, and the reading of one piece.

Bounds are taken once, when a query is planned. What comes into being later is not read, by no task, whenever it runs.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import pairwise
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tenure.core.error import EventsLost
from tenure.spark.connect import PATIENCE_S, Session
from tenure.spark.option import HISTORIES, Reading
from tenure.spark.scan import Page, Wanted, read_page
from tenure.spark.table import MADE_OF, derive, page_columns, schema_of

ROWS_PER_PARTITION: Final = 100_000
PARTITIONS_DEFAULT_MAX: Final = 32

log: Final = logging.getLogger("tenure.spark")


class DataLoss(EventsLost):
    """Events that a query was to read are past retention."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(oldest)
        self.message = (
            f"events {wanted} to {oldest - 1} are past retention, {oldest} is the oldest kept; say startingOffsets "
            f"{oldest} in a query without a checkpoint, or failOnDataLoss=false to go on from there"
        )
        self.args = (self.message,)


class Span(InputPartition):
    """Rows with after < key <= upto."""

    def __init__(self, after: int, upto: int) -> None:
        self.after = after
        self.upto = upto


def cut(after: int, upto: int, min_partitions: int) -> list[Span]:
    """As many pieces as rows call for, and at least as many as were asked for, if there are so many keys."""
    keys = upto - after
    if keys <= 0:
        return []
    usual = min(-(-keys // ROWS_PER_PARTITION), PARTITIONS_DEFAULT_MAX)
    count = min(max(usual, min_partitions), keys)
    ends = [after + keys * number // count for number in range(count + 1)]
    return [Span(first, last) for first, last in pairwise(ends)]


def check_kept(reading: Reading, after: int, first: int) -> int:
    """The key to go on after; `first` is the oldest that is kept. What is gone is an error, or a warning."""
    if after >= first - 1 or reading.table not in HISTORIES:
        return after
    if reading.fail_on_data_loss:
        raise DataLoss(after + 1, first)
    log.warning("events %d to %d are past retention and are left out", after + 1, first - 1)
    return first - 1


def read_span(reading: Reading, span: Span, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Page by page. The next one is on its way while Spark takes the last."""
    made = MADE_OF[reading.table]
    schema = schema_of(reading.table, reading.columns, reading.loose)
    columns = page_columns(reading.table, reading.columns)
    after, upto = span.after, span.upto
    if after >= upto:
        return
    with Session(reading.place, PATIENCE_S) as session:

        def ask() -> "Future[Page]":
            return session.begin(read_page(session.client, made.kind, after, upto, wanted, columns))

        coming = ask()
        try:
            while True:
                try:
                    page = coming.result()
                except EventsLost as error:  # retention went on since the query was planned
                    after = min(check_kept(reading, after, error.oldest), upto)
                    if after >= upto:
                        return
                    coming = ask()
                    continue
                after = page.next
                if after < upto:
                    coming = ask()
                rows = derive(reading.table, page.batch, schema)
                if rows.num_rows:
                    yield rows
                if after >= upto:
                    return
        finally:
            coming.cancel()
