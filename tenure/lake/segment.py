"""Segments: Parquet files of events, written and read a row group at a time, so that their size costs no memory.

A segment holds a run of events without others between, all of one UTC date. Its row groups are in the order of `seq`;
inside a row group the rows are sorted by tenant, then `seq`: a reader of one tenant passes over most pages, and equal
texts beside each other take little room. To sort whole files would take the memory of whole files.
"""

import secrets
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import IO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tenure.lake.entry import Segment
from tenure.lake.error import LakeDamaged
from tenure.lake.place import Draft, Place
from tenure.lake.schema import EVENTS, VERSION
from tenure.ops.place import explained

GROUP_ROWS: Final = 65_536
PAGE_BYTES: Final = 128 * 1024
READ_BYTES: Final = 1024 * 1024
DAY_US: Final = 86_400_000_000
ORDER: Final = [("tenant", "ascending"), ("seq", "ascending")]
# The others are numbers and times that rarely repeat: a dictionary would be made and thrown away.
REPEATING: Final = [
    field.name
    for field in EVENTS
    if pa.types.is_string(field.type) and field.name not in ("message", "detail", "unique_hash")
]


def runs_by_date(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows in their order, cut where the UTC date changes."""
    if not batch.num_rows:
        return
    days = pc.floor_temporal(batch.column("at"), unit="day").cast(pa.int64())
    runs = pc.run_end_encode(days)
    start = 0
    for end, day in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield date_of(day), batch.slice(start, end - start)
        start = end


def date_of(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%d")


class Writer:
    """One segment that is being written. What it has in memory is a row group at most."""

    def __init__(self, place: Place, date: str, store: str, group_rows: int = GROUP_ROWS) -> None:
        self._place = place
        self.date = date
        self._group_rows = group_rows
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0  # rows in them
        self.rows = 0
        self._first_seq = 0
        self._last_seq = 0
        self._min_at = 0
        self._max_at = 0
        self._schema = EVENTS.with_metadata({"tenure.schema": str(VERSION), "tenure.store": store})
        self._draft: Draft = place.draft()
        try:
            self._parquet = pq.ParquetWriter(
                self._draft.file,
                self._schema,
                compression="zstd",
                use_dictionary=REPEATING,
                write_page_index=True,
                data_page_size=PAGE_BYTES,
                sorting_columns=pq.SortingColumn.from_ordering(EVENTS, ORDER),
            )
        except BaseException:
            self._draft.drop()
            raise

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows of its date, in the order of `seq`, after those it has."""
        if not batch.num_rows:
            return
        seqs = pc.min_max(batch.column("seq")).as_py()
        times = pc.min_max(batch.column("at").cast(pa.int64())).as_py()
        if not self.rows:
            self._first_seq = seqs["min"]
            self._min_at = times["min"]
        elif seqs["min"] <= self._last_seq:
            raise LakeDamaged(f"event {seqs['min']} comes after event {self._last_seq}; report this")
        self._last_seq = seqs["max"]
        self._min_at = min(self._min_at, times["min"])
        self._max_at = max(self._max_at, times["max"])
        self.rows += batch.num_rows
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, self._group_rows - self._waiting)
            self._batches.append(part)
            self._waiting += part.num_rows
            start += part.num_rows
            if self._waiting >= self._group_rows:
                self._write_group()

    def _write_group(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._batches).replace_schema_metadata(self._schema.metadata)
        self._batches = []
        self._waiting = 0
        with explained(self._place.title):
            self._parquet.write_table(rows.sort_by(ORDER), row_group_size=self._group_rows)
        del rows
        pa.default_memory_pool().release_unused()  # the server has other uses for it

    def finish(self, after: int, upto: int) -> Segment:
        """Store it, under a name that no other file ever had."""
        self._write_group()
        with explained(self._place.title):
            self._parquet.close()
            file = self._draft.file
            file.flush()
            size = file.tell()
            digest = digest_of(file)
        name = f"{self._first_seq:020}-{self._last_seq:020}-{secrets.token_hex(4)}.parquet"
        path = f"date={self.date}/{name}"
        self._place.keep(self._draft, path)
        return Segment(
            path=path,
            after=after,
            upto=upto,
            first_seq=self._first_seq,
            last_seq=self._last_seq,
            rows=self.rows,
            bytes=size,
            sha256=digest,
            min_at=self._min_at // 1000,
            max_at=self._max_at // 1000,
            schema=VERSION,
        )

    def drop(self) -> None:
        """Nothing of it is kept. After `finish` this does nothing more."""
        self._batches = []
        with suppress(OSError, pa.ArrowException):  # it would write its footer, also on a disk that is full
            self._parquet.close()
        self._draft.drop()


def digest_of(file: IO[bytes]) -> str:
    found = sha256()
    file.seek(0)
    while part := file.read(READ_BYTES):
        found.update(part)
    return found.hexdigest()


def open_segment(place: Place, segment: Segment) -> IO[bytes]:
    """Its file, if that is the very one that was written."""
    file = place.fetch(segment.path)
    try:
        with explained(place.title):
            found = digest_of(file)
        if found != segment.sha256:
            raise LakeDamaged(
                f"{segment.path} in {place.title} is not what was written; restore it, or drop it from your reads"
            )
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def read_groups(place: Place, segment: Segment, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The rows of a segment, a row group at a time, each as it is stored."""
    with closing(open_segment(place, segment)) as file:
        try:
            parquet = pq.ParquetFile(file, pre_buffer=False)
            for number in range(parquet.num_row_groups):
                yield parquet.read_row_group(number, columns=columns)
        except pa.ArrowException as error:
            raise LakeDamaged(f"{segment.path} in {place.title} cannot be read: {error}") from error


def in_current_schema(rows: pa.Table) -> pa.Table:
    """As it is written today: columns that came later are null."""
    columns = [
        rows.column(field.name) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in EVENTS
    ]
    return pa.Table.from_arrays(columns, schema=EVENTS)
