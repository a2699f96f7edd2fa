"""Jobs as Arrow batches of the table `jobs` (`lake.schema`), and back to rows."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from tenure.core.job import UNSET
from tenure.core.record import Scanned
from tenure.core.table import JOB_COLUMNS
from tenure.lake.arrow import batch_of_jobs
from tenure.lake.schema import JOBS
from tenure.transfer.row import Row

NUMBERS: Final = frozenset({"flow", "parent", "timeout_ms", "lease_ms"})  # 0 where there is none
BLOBS: Final = ("payload_blob", "result_blob")


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Of rows that have the bytes of their blobs: they are bytes like any other now."""
    columns = {name: [row[name] for row in rows] for name in JOB_COLUMNS if name not in BLOBS}
    columns.update((name, [None] * len(rows)) for name in BLOBS)
    return batch_of_jobs(Scanned(0, 0, 0, len(rows), columns))


def rows_of_batch(batch: pa.RecordBatch) -> list[Row]:
    """As a scan would give them."""
    columns = [_column(field, batch.column(field.name)) for field in JOBS]
    return [dict(zip(JOBS.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _column(field: pa.Field, column: pa.Array) -> list[Any]:
    name, kind = field.name, field.type
    if pa.types.is_timestamp(kind):
        return [0 if value is None else value // 1_000 for value in column.cast(pa.int64()).to_pylist()]
    if name in ("progress", "history"):
        column = column.cast(_in_numbers(kind))
    values = column.to_pylist()
    if name == "progress":
        return [_timed(value, ("at",)) for value in values]
    if name == "history":
        return [[_timed(each, ("started_at", "ended_at")) for each in value or ()] for value in values]
    if name == "backoff":
        return [msgspec.json.decode(value) for value in values]
    if name == "metadata":
        return [dict(value or ()) for value in values]
    if name.startswith("keep_"):
        return [UNSET if value is None else value for value in values]
    if name in NUMBERS:
        return [value or 0 for value in values]
    if name in BLOBS or name in ("result", "error", "max_attempts"):
        return list(values)
    if pa.types.is_string(kind):
        return [value or "" for value in values]
    if pa.types.is_list(kind):
        return [tuple(value or ()) for value in values]
    return list(values)


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with its times as numbers: as objects they lose what a second has more than six digits of, and time."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_in_numbers(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _in_numbers(each.type)) for each in kind])
    return kind


def _timed(value: dict[str, Any] | None, times: tuple[str, ...]) -> dict[str, Any] | None:
    return None if value is None else {**value, **{name: (value[name] or 0) // 1_000 for name in times}}
