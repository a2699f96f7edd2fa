"""The stream reader: events, or the attempts among them, by their seq.

An offset is `{"seq": n}`: everything up to event n was read. Spark keeps it in the checkpoint and asks for what lies
between two of them, the same again after a crash. Nothing here depends on `commit`, which lags behind by a batch.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from tenure.core.error import InvalidRequest
from tenure.spark.brief import brief, brief_rows
from tenure.spark.connect import PATIENCE_S, Session
from tenure.spark.option import Reading
from tenure.spark.read import first_after, with_offsets
from tenure.spark.scan import Bounds, find_bounds, find_nth, read_page
from tenure.spark.span import Span, check_kept, cut, read_span
from tenure.spark.table import MADE_OF, derive, page_columns, schema_of

Offset = dict[str, Any]
ROWS_WEIGHED: Final = 1_000  # to tell how many rows so many bytes are


class TenureStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._target: int | None = None  # of a query that reads what there is and ends
        self._newest: int | None = None

    def _bounds(self) -> Bounds:
        with Session(self.reading.place, PATIENCE_S) as session:
            found = session.run(find_bounds(session.client, "events"))
        self._newest = found.last
        return found

    @brief
    def initialOffset(self) -> Offset:
        bounds = self._bounds()
        with Session(self.reading.place, PATIENCE_S) as session:
            return {"seq": first_after(with_offsets(session, self.reading, bounds), bounds)}

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.reading.max_offsets:
            return ReadMaxRows(self.reading.max_offsets)
        return ReadMaxBytes(self.reading.max_bytes) if self.reading.max_bytes else ReadAllAvailable()

    def _most_rows(self, limit: ReadLimit, after: int, upto: int) -> int:
        """How many rows after that event a batch may have."""
        if isinstance(limit, ReadMaxBytes):
            return self._rows_in(limit.max_bytes, after, upto)
        if not isinstance(limit, ReadMaxRows):
            return upto - after
        if not self.reading.max_bytes:
            return limit.max_rows
        return min(limit.max_rows, self._rows_in(self.reading.max_bytes, after, upto))

    def _rows_in(self, most_bytes: int, after: int, upto: int) -> int:
        """By what the first of them take; at least one."""
        if after >= upto:
            return 0
        made, columns = MADE_OF[self.reading.table], page_columns(self.reading.table, self.reading.columns)
        with Session(self.reading.place, PATIENCE_S) as session:
            page = session.run(read_page(session.client, made.kind, after, upto, made.wanted, columns, ROWS_WEIGHED))
        rows = derive(self.reading.table, page.batch, schema_of(self.reading.table, self.reading.columns))
        return max(rows.num_rows * most_bytes // rows.nbytes, 1) if rows.num_rows else ROWS_WEIGHED

    @brief
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """What a batch may reach. It counts from the oldest event that is kept: a batch that lies before it is empty,
        and the query would stand still."""
        bounds = self._bounds()
        check_same_store(start["seq"], bounds)
        end = bounds.last if self._target is None else min(self._target, bounds.last)
        after = max(start["seq"], bounds.first - 1)
        rows = self._most_rows(limit, after, end)
        if rows < end - after:
            end = self._nth(after, end, rows)
        return {"seq": max(end, start["seq"])}

    def _nth(self, after: int, upto: int, rows: int) -> int:
        wanted = MADE_OF[self.reading.table].wanted
        with Session(self.reading.place, PATIENCE_S) as session:
            return session.run(find_nth(session.client, after, upto, rows, wanted))

    @brief
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._bounds().last

    def reportLatestOffset(self) -> Offset | None:
        return None if self._newest is None else {"seq": self._newest}

    @brief
    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        if start["seq"] >= end["seq"]:
            return []
        bounds = self._bounds()
        check_same_store(end["seq"], bounds)
        after = check_kept(self.reading, start["seq"], bounds.first)
        return [*cut(after, end["seq"], self.reading.min_partitions)]

    @brief_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Span):
            return iter(())
        return read_span(self.reading, partition, MADE_OF[self.reading.table].wanted)


def check_same_store(seq: int, bounds: Bounds) -> None:
    """An event that a checkpoint knows must be there. Going on would leave out as many of the new store's."""
    if seq > bounds.last:
        rule = f"the newest event is {bounds.last}: this is another store, or a restored one; begin a new checkpoint"
        raise InvalidRequest("offset", seq, rule)
