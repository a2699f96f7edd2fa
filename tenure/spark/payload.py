"""Rows of a DataFrame as jobs: an Arrow batch in, payloads and keys out.

The key of a row is its idempotency key. It has to be a value that tells the row from all others and is the same
whenever the row is written again; of null there is no telling, so it is refused. A payload is an object with a member
per column, which is what a task takes as its arguments.

Columns are turned to Python as a whole and encoded by one encoder, a struct a row: several times as fast as dicts.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from tenure.core import bound
from tenure.core.error import InvalidRequest
from tenure.core.job import Extras, Options
from tenure.core.packed import Packed, Texts, ends_of, pack_texts
from tenure.core.request import Batch
from tenure.spark.option import Writing
from tenure.spark.value import values_of

WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
KEY_TYPES: Final = (StringType, *WHOLE, DecimalType, DateType)
CHUNK_BYTES: Final = 8 * 1024 * 1024  # of payloads and keys; a message has twice that
ROW_BYTES: Final = 64  # besides, of a row
CHAR_BYTES: Final = 4  # of a character of a key, at most
REPEATED_SHOWN: Final = 5


class Rows(NamedTuple):
    """Jobs in columns. `extras` are there if they have more than a key; `repeated` are keys that some rows share, a few
    of them; `size` is what a message of them has at most."""

    payloads: list[bytes]
    sizes: list[int]  # of the payloads
    keys: list[str]
    key_column: pa.StringArray  # the same as Arrow has them
    extras: list[Extras | None] | None
    each: list[Options] | None
    repeated: list[str]
    size: int


def check_columns(writing: Writing, schema: StructType) -> None:
    """That the columns which the options name are there, and of a type that serves."""
    known = {field.name: field.dataType for field in schema.fields}
    rules: tuple[tuple[str, str, tuple[type[DataType], ...], str], ...] = (
        ("key", writing.key, KEY_TYPES, "text, a whole number, a decimal or a date"),
        ("payload", writing.payload, (StringType, BinaryType), "text or binary"),
        ("priorityColumn", writing.priority_column, WHOLE, "a whole number"),
        ("runAtColumn", writing.run_at_column, (TimestampType,), "a timestamp"),
        ("groupColumn", writing.group_column, KEY_TYPES, "text, a whole number, a decimal or a date"),
    )
    for option, column, types, words in rules:
        if not column:
            continue
        if column not in known:
            raise InvalidRequest(option, column, f"there is no such column; {bound.nearest(column, known)}")
        if not isinstance(known[column], types):
            raise InvalidRequest(option, column, f"it must be {words}, not {known[column].simpleString()}")
    for column in writing.payload_columns:
        if column not in known:
            raise InvalidRequest("payloadColumns", column, f"there is no such column; {bound.nearest(column, known)}")
    if len({field.name for field in schema.fields}) != len(schema.fields):
        raise InvalidRequest("columns", schema.fieldNames(), "two columns have the same name; rename one")


class RowEncoder:
    """Of one writer: knows which column is what."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing
        self.options = writing.job_options()
        self._by_priority: dict[int, Options] = {}
        self._kind: type[Any] | None = None
        self._columns: list[str] = []
        encoder = msgspec.json.Encoder() if writing.codec == "json" else msgspec.msgpack.Encoder()
        self._encode: Callable[[Any], bytes] = encoder.encode

    def read(self, batch: pa.RecordBatch) -> Rows:
        key_column = texts_of(batch, "key", self._writing.key)
        keys: list[str] = key_column.to_pylist()
        payloads = self._given_payloads(batch) if self._writing.payload else self._own_payloads(batch, keys)
        extras: list[Extras | None] | None = None
        chars = 0
        if self._writing.group_column or self._writing.run_at_column:
            extras = [Extras(idempotency_key=key) for key in keys]
            chars = self._add_groups(batch, extras)
            self._add_times(batch, extras)
        sizes = list(map(len, payloads))
        key_bytes: int = pc.sum(pc.binary_length(key_column)).as_py() or 0
        size = sum(sizes) + key_bytes + ROW_BYTES * len(payloads) + CHAR_BYTES * chars
        return Rows(payloads, sizes, keys, key_column, extras, self._priorities(batch), repeated_of(keys), size)

    def _given_payloads(self, batch: pa.RecordBatch) -> list[bytes]:
        column = batch.column(self._writing.payload)
        if column.null_count:
            raise InvalidRequest(
                "payload", None, f"{self._writing.payload} is null in {column.null_count} rows; fill it"
            )
        found: list[bytes] = pc.cast(column, pa.binary()).to_pylist()
        return found

    def _own_payloads(self, batch: pa.RecordBatch, keys: list[str]) -> list[bytes]:
        if self._kind is None:
            self._columns = self._payload_columns(batch.schema.names)
            fields = [(f"c{at}", Any, msgspec.field(name=name)) for at, name in enumerate(self._columns)]
            self._kind = msgspec.defstruct("Row", fields, gc=False)
        if not self._columns:
            return [self._encode({})] * batch.num_rows
        columns = [
            keys
            if name == self._writing.key and pa.types.is_string(batch.column(name).type)
            else values_of(name, batch.column(name), keys, self._writing.nan)
            for name in self._columns
        ]
        return list(map(self._encode, starmap(self._kind, zip(*columns, strict=True))))

    def _payload_columns(self, names: Sequence[str]) -> list[str]:
        """Those that were named, else all that do not say how a job is to be treated."""
        writing = self._writing
        if writing.payload_columns:
            return list(writing.payload_columns)
        orders = (writing.priority_column, writing.run_at_column, writing.group_column)
        return [name for name in names if name not in orders]

    def _add_groups(self, batch: pa.RecordBatch, extras: list[Extras | None]) -> int:
        """How many characters they have."""
        if not self._writing.group_column:
            return 0
        groups: list[str] = texts_of(batch, "groupColumn", self._writing.group_column, may_be_null=True).to_pylist()
        for extra, group in zip(extras, groups, strict=True):
            if extra is not None and group:
                extra.group = group
        return sum(map(len, groups))

    def _add_times(self, batch: pa.RecordBatch, extras: list[Extras | None]) -> None:
        if self._writing.run_at_column:
            at_ms = pc.cast(batch.column(self._writing.run_at_column), pa.timestamp("ms", "UTC"), safe=False)
            for extra, run_at in zip(extras, pc.cast(at_ms, pa.int64()).to_pylist(), strict=True):
                if extra is not None and run_at is not None:
                    extra.run_at = bound.as_int(bound.instant_ms("runAtColumn", run_at))

    def _priorities(self, batch: pa.RecordBatch) -> list[Options] | None:
        """Rows of one priority share their options. Null is the priority that the others have."""
        if not self._writing.priority_column:
            return None
        return [
            self.options if priority is None else self._of_priority(priority)
            for priority in batch.column(self._writing.priority_column).to_pylist()
        ]

    def _of_priority(self, priority: int) -> Options:
        found = self._by_priority.get(priority)
        if found is None:
            found = self._by_priority[priority] = self._writing.job_options(priority)
        return found


def texts_of(batch: pa.RecordBatch, option: str, name: str, may_be_null: bool = False) -> pa.StringArray:
    """A column as keys of the contract: 1 to 512 bytes of text. Null becomes no text, where it may be."""
    column = batch.column(name)
    if column.null_count and not may_be_null:
        raise InvalidRequest(
            option, None, f"{name} is null in {column.null_count} of {len(column)} rows; every row needs one"
        )
    texts = pc.cast(column, pa.string())
    sizes = pc.binary_length(texts)
    wrong = pc.or_kleene(pc.equal(sizes, 0), pc.greater(sizes, bound.KEY_BYTES_MAX))
    if pc.any(wrong).as_py():
        raise InvalidRequest(
            option, texts.filter(wrong)[0].as_py(), f"{name} must have 1 to {bound.KEY_BYTES_MAX} bytes"
        )
    return pc.fill_null(texts, "") if texts.null_count else texts


def packed_texts(column: pa.StringArray) -> Texts:
    """Arrow lays texts out as a packed column does, but that they may begin anywhere."""
    _, offsets, content = column.buffers()
    if column.offset or sys.byteorder == "big" or not len(column):
        return pack_texts(column.to_pylist())
    places = memoryview(offsets).cast("i")[: len(column) + 1]
    if places[0]:
        return pack_texts(column.to_pylist())
    return Texts(Packed(content.slice(0, places[-1]).to_pybytes(), places[1:].tobytes()))


def repeated_of(keys: list[str]) -> list[str]:
    """Of the keys that are there more than once, the first few."""
    if len(set(keys)) == len(keys):
        return []
    return [key for key, count in Counter(keys).items() if count > 1][:REPEATED_SHOWN]


def chunks_of(rows: Rows, options: Options) -> list[Batch]:
    """Rows in messages that a server takes: bounded in number and in bytes. Most often all of them fit into one."""
    count = len(rows.payloads)
    if 0 < count <= bound.BATCH_ITEMS_MAX and rows.size <= CHUNK_BYTES:
        return [_part(rows, options, 0, count)]
    chunks: list[Batch] = []
    first = size = 0
    for at, (payload_bytes, key) in enumerate(zip(rows.sizes, rows.keys, strict=True)):
        extra = None if rows.extras is None else rows.extras[at]
        own = payload_bytes + ROW_BYTES + CHAR_BYTES * (len(key) + (0 if extra is None else len(extra.group)))
        if at > first and (size + own > CHUNK_BYTES or at - first == bound.BATCH_ITEMS_MAX):
            chunks.append(_part(rows, options, first, at))
            first, size = at, 0
        size += own
    if first < count:
        chunks.append(_part(rows, options, first, count))
    return chunks


def _part(rows: Rows, options: Options, first: int, end: int) -> Batch:
    each = None if rows.each is None else rows.each[first:end]
    payloads = Packed(b"".join(rows.payloads[first:end]), ends_of(rows.sizes[first:end]))
    if rows.extras is None:
        return Batch(options, payloads, None, each, keys=packed_texts(rows.key_column.slice(first, end - first)))
    return Batch(options, payloads, rows.extras[first:end], each)
