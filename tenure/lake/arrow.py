"""Pages of a scan as Arrow batches of the tables in `lake.schema`."""

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tenure.core.record import Scanned
from tenure.core.table import EVENT_NUMBERS, EVENT_RARE, EVENT_TEXTS
from tenure.lake.schema import EVENTS, JOBS

EVENT_TIMES = frozenset({"at", "run_at", "expires_at", "enqueued_at", "ready_at", "started_at"})
UNSET = -1  # of what a queue decides


def batch_of_events(scanned: Scanned, columns: tuple[str, ...] = ()) -> pa.RecordBatch:
    """All columns of the table, or those named; the page must have been asked for what they are made of."""
    schema = EVENTS if not columns else pa.schema([EVENTS.field(name) for name in columns])
    page = _Events(scanned)
    return pa.RecordBatch.from_arrays([page.column(field) for field in schema], schema=schema)


def needed_for(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Which columns of a scan the columns of the table `events` are made of."""
    found: dict[str, None] = {}
    for name in columns:
        for needed in MADE_OF.get(name, (name,)):
            found[needed] = None
    return tuple(found)


MADE_OF = {
    "attempt": ("attempt", "job"),
    "delivery": ("delivery", "job"),
    "priority": ("priority", "type"),
    "max_attempts": ("max_attempts", "type"),
    "payload_bytes": ("payload_bytes", "type"),
    "wait_ms": ("started_at", "ready_at"),
    "run_ms": ("run_ms", "started_at", "type"),
    "result_bytes": ("result_bytes", "started_at", "type"),
}


class _Events:
    """Columns of one page; what several of them need is made once."""

    def __init__(self, scanned: Scanned) -> None:
        self._columns = scanned.columns
        self._rows = scanned.rows
        self._numbers: dict[str, pa.Array] = {}
        self._masks: dict[str, pa.Array] = {}

    def _number(self, name: str) -> pa.Array:
        if name not in self._numbers:
            self._numbers[name] = pa.Array.from_buffers(
                pa.int64(), self._rows, [None, pa.py_buffer(self._columns[name])]
            )
        return self._numbers[name]

    def _text(self, name: str) -> pa.Array:
        values, codes = self._columns[name]
        indices = pa.Array.from_buffers(pa.int32(), self._rows, [None, pa.py_buffer(codes)])
        return pa.array([value or None for value in values], pa.string()).take(indices)

    def _rare(self, name: str, kind: pa.DataType) -> pa.Array:
        found = self._columns[name]
        if not found:
            return pa.nulls(self._rows, kind)
        return pa.array([found.get(row) for row in range(self._rows)], kind)

    def _is(self, what: str) -> pa.Array:
        if what not in self._masks:
            if what == "new":
                mask = pc.equal(self._text("type"), "enqueued")
            elif what == "job":
                mask = pc.not_equal(self._number("job"), 0)
            elif what == "started":
                mask = pc.not_equal(self._number("started_at"), 0)
            else:
                mask = pc.and_(self._is("started"), pc.not_equal(self._text("type"), "started"))
            self._masks[what] = mask
        return self._masks[what]

    def column(self, field: pa.Field) -> pa.Array:
        name = field.name
        if name in EVENT_TEXTS:
            return self._text(name)
        if name in EVENT_RARE:
            return self._rare(name, field.type)
        if name == "wait_ms":
            return self._where("started", pc.subtract(self._number("started_at"), self._number("ready_at")))
        numbers = self._number(name)
        if name in EVENT_TIMES:
            times = pc.multiply(numbers, 1000).cast(field.type)
            return times if not field.nullable else pc.if_else(pc.equal(numbers, 0), None, times)
        if name in ("run_ms", "result_bytes"):
            return self._where("over", numbers)
        if name == "payload_bytes":
            return self._where("new", numbers)
        if name in ("job", "max_attempts"):
            numbers = pc.if_else(pc.equal(numbers, 0), None, numbers)
        elif name == "priority":
            numbers = self._where("new", numbers)
        elif name in ("attempt", "delivery"):
            numbers = self._where("job", numbers)
        return numbers.cast(field.type)

    def _where(self, what: str, numbers: pa.Array) -> pa.Array:
        return pc.if_else(self._is(what), numbers, None)


def batch_of_jobs(scanned: Scanned, columns: tuple[str, ...] = ()) -> pa.RecordBatch:
    schema = JOBS if not columns else pa.schema([JOBS.field(name) for name in columns])
    arrays = [_job_column(field, scanned.columns.get(field.name, []) if scanned.rows else []) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _job_column(field: pa.Field, values: list[Any]) -> pa.Array:
    name, kind = field.name, field.type
    if pa.types.is_timestamp(kind):
        return pa.array([value * 1000 or None for value in values], kind)
    if name == "progress":
        return pa.array([_timed(value, ("at",)) for value in values], kind)
    if name == "history":
        ended = [[_timed(each, ("started_at", "ended_at")) for each in value or ()] or None for value in values]
        return pa.array(ended, kind)
    if name == "backoff":
        return pa.array([msgspec.json.encode(value).decode() for value in values], kind)
    if name == "metadata":
        return pa.array([list(value.items()) or None if value else None for value in values], kind)
    if name in ("payload_blob", "result_blob"):
        return pa.array([None if value is None else value["name"] for value in values], kind)
    if name.startswith("keep_"):
        return pa.array([None if value == UNSET else value for value in values], kind)
    if name in ("flow", "parent", "timeout_ms", "lease_ms"):
        return pa.array([value or None for value in values], kind)
    if pa.types.is_string(kind) or pa.types.is_list(kind):
        return pa.array([value or None for value in values], kind)
    return pa.array(values, kind)


def _timed(value: dict[str, Any] | None, times: tuple[str, ...]) -> dict[str, Any] | None:
    return None if value is None else {**value, **{name: value[name] * 1000 or None for name in times}}


assert set(EVENT_NUMBERS) | set(EVENT_TEXTS) | set(EVENT_RARE) | {"wait_ms"} == set(EVENTS.names)
