"""The batch reader: a snapshot of a table, cut into partitions when the query is planned."""

from collections.abc import Iterable, Iterator
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
from tenure.spark.connect import Session
from tenure.spark.option import EARLIEST, HISTORIES, LATEST, NUMBER_MAX, Reading
from tenure.spark.scan import Bounds, Wanted, find_bounds
from tenure.spark.span import Span, check_kept, cut, read_span
from tenure.spark.table import MADE_OF, read_queues, schema_of

KEYS: Final = {"events": "seq", "attempts": "seq", "jobs": "id", "results": "id", "dead_letters": "id"}
TYPES: Final = {"events": "type", "attempts": "outcome"}  # the column that has the type of the event


class TenureReader(DataSourceReader):
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.wanted = Wanted() if reading.table == "queues" else MADE_OF[reading.table].wanted
        self.least = 0  # of the key, by what was pushed down
        self.most = NUMBER_MAX

    def partitions(self) -> list[InputPartition]:
        if self.reading.table == "queues":
            return [Span(0, 1)]
        with Session(self.reading.place) as session:
            bounds = session.run(find_bounds(session.client, MADE_OF[self.reading.table].kind))
        after, upto = self._stretch(bounds)
        return [*cut(max(after, self.least - 1), min(upto, self.most), self.reading.min_partitions)]

    def _stretch(self, bounds: Bounds) -> tuple[int, int]:
        if self.reading.table not in HISTORIES:
            return bounds.first - 1, bounds.last
        after, upto = first_after(self.reading, bounds), bounds.last
        ending = self.reading.ending
        if ending == EARLIEST:
            return after, after
        if ending != LATEST:
            upto = int(ending) - 1
            if upto > bounds.last and self.reading.fail_on_data_loss:
                raise InvalidRequest("endingOffsets", ending, f"the newest event is {bounds.last}; it is not there yet")
        return after, min(upto, bounds.last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Span):  # Spark makes up one when there is none
            return iter(())
        if self.reading.table == "queues":
            return self._queues()
        return read_span(self.reading, partition, self.wanted)

    def _queues(self) -> Iterator[pa.RecordBatch]:
        schema = schema_of("queues", self.reading.columns)
        with Session(self.reading.place) as session:
            yield session.run(read_queues(session.client, self.reading.place.tenant)).select(schema.names)


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


class PushingReader(TenureReader):
    """Looks at filters too. It is a class of its own because Spark refuses a reader that has `pushFilters` unless
    spark.sql.python.filterPushdown.enabled is set.

    All filters are given back: what is narrowed here is looked at again there, so that none has to be exact.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
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
        if filter.attribute != (KEYS.get(self.reading.table),) or not isinstance(value, int):
            return
        if isinstance(filter, GreaterThan):
            self.least = max(self.least, value + 1)
        elif isinstance(filter, GreaterThanOrEqual):
            self.least = max(self.least, value)
        elif isinstance(filter, LessThan):
            self.most = min(self.most, value - 1)
        else:
            self.most = min(self.most, value)
