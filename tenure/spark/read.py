"""The batch reader: a snapshot of a table, cut into partitions when the query is planned."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from tenure.core.error import InvalidRequest
from tenure.core.tenant import ANY_TENANT
from tenure.spark.brief import brief, brief_rows
from tenure.spark.connect import Session
from tenure.spark.option import AUTO, EARLIEST, EPOCH, HISTORIES, LATEST, NUMBER_MAX, Reading
from tenure.spark.scan import Bounds, Wanted, find_bounds, find_seq_before
from tenure.spark.span import Span, check_kept, cut, read_span
from tenure.spark.table import MADE_OF, read_queues, schema_of

KEYS: Final = {"events": "seq", "attempts": "seq", "jobs": "id", "results": "id", "dead_letters": "id"}
TIMES: Final = {"events": ("at",), "attempts": ("ended_at",)}  # the column that has the time of the event
MILLISECOND: Final = timedelta(milliseconds=1)
TYPES: Final = {"events": "type", "attempts": "outcome"}  # the column that has the type of the event


class TenureReader(DataSourceReader):
    """Takes filters where the session lets Spark hand them over (spark.sql.python.filterPushdown.enabled).

    In a session that does not, Spark refuses a reader that has a `pushFilters` of its own, and a reader is not told of
    the session: so it has one that looks like Spark's, and is called only where it may be.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.wanted = Wanted() if reading.table == "queues" else MADE_OF[reading.table].wanted
        self.least = 0  # of the key, by what was pushed down
        self.most = NUMBER_MAX
        self.least_at_ms: int | None = None  # of the time of events, likewise
        self.most_at_ms: int | None = None
        if reading.pushdown == AUTO:
            vars(self)["pushFilters"] = LikeSparks(self)

    @brief
    def partitions(self) -> list[InputPartition]:
        if self.reading.table == "queues":
            return [Span(0, 1)]
        with Session(self.reading.place) as session:
            bounds = session.run(find_bounds(session.client, MADE_OF[self.reading.table].kind))
            reading = with_offsets(session, self.reading, bounds)
            self._narrow_by_time(session, bounds)
        after, upto = self._stretch(reading, bounds)
        return [*cut(max(after, self.least - 1), min(upto, self.most), self.reading.min_partitions)]

    def _narrow_by_time(self, session: Session, bounds: Bounds) -> None:
        if self.least_at_ms is not None:
            before = session.run(find_seq_before(session.client, bounds, self.least_at_ms))
            self.least = max(self.least, before + 1)
        if self.most_at_ms is not None:
            upto = session.run(find_seq_before(session.client, bounds, self.most_at_ms + 1))
            self.most = min(self.most, upto)

    def _stretch(self, reading: Reading, bounds: Bounds) -> tuple[int, int]:
        if reading.table not in HISTORIES:
            return bounds.first - 1, bounds.last
        after, upto = first_after(reading, bounds), bounds.last
        ending = reading.ending
        if ending == EARLIEST:
            return after, after
        if ending != LATEST:
            upto = int(ending) - 1
            if upto > bounds.last and reading.fail_on_data_loss:
                raise InvalidRequest("endingOffsets", ending, f"the newest event is {bounds.last}; it is not there yet")
        return after, min(upto, bounds.last)

    @brief_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Span):  # Spark makes up one when there is none
            return iter(())
        if self.reading.table == "queues":
            return self._queues()
        return read_span(self.reading, partition, self.wanted)

    def _queues(self) -> Iterator[pa.RecordBatch]:
        schema = schema_of("queues", self.reading.columns, self.reading.loose)
        with Session(self.reading.place) as session:
            rows = session.run(read_queues(session.client, self.reading.place.tenant)).select(schema.names)
        yield pa.RecordBatch.from_arrays(rows.columns, schema=schema)

    def take_filters(self, filters: list[Filter]) -> Iterable[Filter]:
        """All filters are given back: what is narrowed here is looked at again there, so that none has to be exact."""
        for filter in filters:
            if isinstance(filter, EqualTo) and filter.value is not None:
                self._take(filter.attribute, (filter.value,))
            elif isinstance(filter, In):
                self._take(filter.attribute, tuple(filter.value))
            elif isinstance(filter, (GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)):
                self._narrow(filter)
        return filters

    def _take(self, attribute: tuple[str, ...], values: tuple[object, ...]) -> None:
        [name, *members] = attribute
        table = self.reading.table
        if members or table == "queues":
            return
        if name == KEYS[table]:
            numbers = [value for value in values if isinstance(value, int)]
            self.least = max(self.least, min(numbers, default=self.least))
            self.most = min(self.most, max(numbers, default=self.most))
        times = [value for value in values if isinstance(value, datetime)]
        if (name,) == TIMES.get(table) and len(times) == len(values):
            self._take_times(min(times, default=None), max(times, default=None))
        texts = tuple(value for value in values if isinstance(value, str))
        if len(texts) != len(values):
            return
        if name == "queue" and len(texts) == 1:
            self.wanted = self.wanted._replace(queue=texts[0])
        elif name == "state" and table == "jobs":
            self.wanted = self.wanted._replace(states=texts)
        elif name == TYPES.get(table):
            known = self.wanted.types
            self.wanted = self.wanted._replace(
                types=tuple(text for text in texts if not known or text in known) or known
            )
        elif name == "tenant" and self.reading.place.tenant == ANY_TENANT and len(texts) == 1:
            place = msgspec.structs.replace(self.reading.place, tenant=texts[0])
            self.reading = msgspec.structs.replace(self.reading, place=place)

    def _narrow(self, filter: GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual) -> None:
        value = filter.value
        is_above = isinstance(filter, (GreaterThan, GreaterThanOrEqual))
        if filter.attribute == TIMES.get(self.reading.table) and isinstance(value, datetime):
            self._take_times(value if is_above else None, None if is_above else value)
        if filter.attribute != (KEYS.get(self.reading.table),) or not isinstance(value, int):
            return
        if is_above:
            self.least = max(self.least, value + isinstance(filter, GreaterThan))
        else:
            self.most = min(self.most, value - isinstance(filter, LessThan))

    def _take_times(self, least: datetime | None, most: datetime | None) -> None:
        """Cut to whole milliseconds, as the times of events are: what is too much Spark leaves out."""
        if least is not None and least.tzinfo is not None:
            at_ms = (least - EPOCH) // MILLISECOND
            self.least_at_ms = at_ms if self.least_at_ms is None else max(at_ms, self.least_at_ms)
        if most is not None and most.tzinfo is not None:
            at_ms = (most - EPOCH) // MILLISECOND
            self.most_at_ms = at_ms if self.most_at_ms is None else min(at_ms, self.most_at_ms)


class LikeSparks:
    """A `pushFilters` that Spark takes for its own: it compares `__func__`."""

    def __init__(self, reader: TenureReader) -> None:
        self._reader = reader
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._reader.take_filters(filters)


class PushingReader(TenureReader):
    """For those who demand that filters are handed over: Spark refuses it in a session that does not allow it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return self.take_filters(filters)


def with_offsets(session: Session, reading: Reading, bounds: Bounds) -> Reading:
    """The reading with seqs in the place of times."""
    found: dict[str, int] = {}
    for name, at_ms in (("starting", reading.starting_at_ms), ("ending", reading.ending_at_ms)):
        if at_ms is not None:
            found[name] = session.run(find_seq_before(session.client, bounds, at_ms)) + 1
    return msgspec.structs.replace(reading, **found)


def first_after(reading: Reading, bounds: Bounds) -> int:
    """The seq after which a query begins that has no checkpoint."""
    starting = reading.starting
    if starting == EARLIEST:
        return bounds.first - 1
    if starting == LATEST:
        return bounds.last
    after = max(int(starting) - 1, 0)
    if after > bounds.last:
        raise InvalidRequest("startingOffsets", starting, f"the newest event is {bounds.last}")
    return check_kept(reading, after, bounds.first)
