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
    ArrayType,
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
KEY_WORDS: Final = "text, a whole number, a decimal or a date"
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
        ("key", writing.key, KEY_TYPES, KEY_WORDS),
        ("payload", writing.payload, (StringType, BinaryType), "text or binary"),
        ("priorityColumn", writing.priority_column, WHOLE, "a whole number"),
        ("runAtColumn", writing.run_at_column, (TimestampType,), "a timestamp"),
        ("groupColumn", writing.group_column, KEY_TYPES, KEY_WORDS),
        ("uniqueKeyColumn", writing.unique_key_column, KEY_TYPES, KEY_WORDS),
        ("queueColumn", writing.queue_column, (StringType,), "text"),
        ("taskColumn", writing.task_column, (StringType,), "text"),
        ("tagsColumn", writing.tags_column, (StringType, ArrayType), "text or an array of text"),
    )
    for option, column, types, words in rules:
        if not column:
            continue
        if column not in known:
            raise InvalidRequest(option, column, f"there is no such column; {bound.nearest(column, known)}")
        kind = known[column]
        if not isinstance(kind, types) or (
            isinstance(kind, ArrayType) and not isinstance(kind.elementType, StringType)
        ):
            raise InvalidRequest(option, column, f"it must be {words}, not {kind.simpleString()}")
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
        self._kinds: dict[tuple[str, str, int | None], Options] = {}
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
        if self._has_extras():
            made = [Extras(idempotency_key=key) for key in keys]
            chars = self._add_groups(batch, made) + self._add_unique_keys(batch, made) + self._add_tags(batch, made)
            self._add_times(batch, made)
            extras = [*made]
        sizes = list(map(len, payloads))
        key_bytes: int = pc.sum(pc.binary_length(key_column)).as_py() or 0
        size = sum(sizes) + key_bytes + ROW_BYTES * len(payloads) + CHAR_BYTES * chars
        return Rows(payloads, sizes, keys, key_column, extras, self._each(batch), repeated_of(keys), size)

    def _has_extras(self) -> bool:
        writing = self._writing
        named = (writing.group_column, writing.run_at_column, writing.unique_key_column, writing.tags_column)
        return any(named) or bool(writing.tags)

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
        return [name for name in names if name not in writing.order_columns]

    def _add_groups(self, batch: pa.RecordBatch, extras: list[Extras]) -> int:
        """How many characters they have."""
        if not self._writing.group_column:
            return 0
        groups: list[str] = texts_of(batch, "groupColumn", self._writing.group_column, may_be_null=True).to_pylist()
        for extra, group in zip(extras, groups, strict=True):
            extra.group = group
        return sum(map(len, groups))

    def _add_unique_keys(self, batch: pa.RecordBatch, extras: list[Extras]) -> int:
        name = self._writing.unique_key_column
        if not name:
            return 0
        keys: list[str] = texts_of(batch, "uniqueKeyColumn", name, may_be_null=True).to_pylist()
        for extra, key in zip(extras, keys, strict=True):
            extra.unique_key = key
        return sum(map(len, keys))

    def _add_tags(self, batch: pa.RecordBatch, extras: list[Extras]) -> int:
        """Null, in a row or in a list, is no tag."""
        chars = 0
        for extra, tags in zip(extras, self._tags(batch), strict=True):
            if tags:
                extra.tags = bound.make_extras(tags=tags).tags
                chars += sum(map(len, tags)) + len(tags)
        return chars

    def _tags(self, batch: pa.RecordBatch) -> list[list[str]]:
        name = self._writing.tags_column
        if not name:
            return [list(self._writing.tags)] * batch.num_rows
        found: list[str | list[str | None] | None] = batch.column(name).to_pylist()
        return [[tag for tag in ([tags] if isinstance(tags, str) else tags or ()) if tag is not None] for tags in found]

    def _add_times(self, batch: pa.RecordBatch, extras: list[Extras]) -> None:
        if self._writing.run_at_column:
            at_ms = pc.cast(batch.column(self._writing.run_at_column), pa.timestamp("ms", "UTC"), safe=False)
            for extra, run_at in zip(extras, pc.cast(at_ms, pa.int64()).to_pylist(), strict=True):
                if run_at is not None:
                    extra.run_at = bound.as_int(bound.instant_ms("runAtColumn", run_at))

    def _each(self, batch: pa.RecordBatch) -> list[Options] | None:
        """Rows of one queue, task and priority share their options. Null is what the options say of all rows."""
        writing = self._writing
        if not (writing.queue_column or writing.task_column or writing.priority_column):
            return None
        queues = self._names(batch, "queueColumn", writing.queue_column, writing.queue)
        tasks = self._names(batch, "taskColumn", writing.task_column, writing.task)
        priorities: list[int | None] = [None] * batch.num_rows
        if writing.priority_column:
            priorities = batch.column(writing.priority_column).to_pylist()
        return list(map(self._kind_of, queues, tasks, priorities))

    def _names(self, batch: pa.RecordBatch, option: str, name: str, otherwise: str) -> list[str]:
        if not name:
            return [otherwise] * batch.num_rows
        found: list[str] = texts_of(batch, option, name, may_be_null=bool(otherwise)).to_pylist()
        return [text or otherwise for text in found]

    def _kind_of(self, queue: str, task: str, priority: int | None) -> Options:
        kind = (queue, task, priority)
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = self._writing.job_options(queue, task, priority)
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
        own = payload_bytes + ROW_BYTES + CHAR_BYTES * (len(key) + _chars_of(extra))
        if at > first and (size + own > CHUNK_BYTES or at - first == bound.BATCH_ITEMS_MAX):
            chunks.append(_part(rows, options, first, at))
            first, size = at, 0
        size += own
    if first < count:
        chunks.append(_part(rows, options, first, count))
    return chunks


def _chars_of(extra: Extras | None) -> int:
    if extra is None:
        return 0
    return len(extra.group) + len(extra.unique_key) + sum(map(len, extra.tags)) + len(extra.tags)


def _part(rows: Rows, options: Options, first: int, end: int) -> Batch:
    each = None if rows.each is None else rows.each[first:end]
    payloads = Packed(b"".join(rows.payloads[first:end]), ends_of(rows.sizes[first:end]))
    if rows.extras is None:
        return Batch(options, payloads, None, each, keys=packed_texts(rows.key_column.slice(first, end - first)))
    return Batch(options, payloads, rows.extras[first:end], each)
