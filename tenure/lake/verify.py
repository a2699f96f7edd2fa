"""Looks for damage in a lake: every file is read, and held against what the log says of it. Changes nothing."""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tenure.core.error import Error
from tenure.lake.entry import Segment, State
from tenure.lake.lake import Lake
from tenure.lake.place import Place
from tenure.lake.schema import EVENTS
from tenure.lake.segment import date_of, open_segment
from tenure.lake.tidy import find_orphans


@dataclass(slots=True)
class Verified:
    segments: int = 0
    rows: int = 0
    bytes: int = 0
    skipped: int = 0  # numbers that the store never gave an event
    lost: int = 0  # numbers in gaps
    orphans: int = 0  # files of no commit: harmless, swept later
    findings: list[str] = field(default_factory=list)


def verify(lake: Lake) -> Verified:
    """As of when the lake was opened."""
    found = Verified()
    found.findings += check_chain(lake.state)
    found.lost = sum(gap.upto - gap.after for gap in lake.state.gaps)
    for segment in lake.state.segments:
        found.segments += 1
        found.rows += segment.rows
        found.bytes += segment.bytes
        found.skipped += segment.upto - segment.after - segment.rows
        found.findings += check_segment(lake.place, segment)
    found.orphans = len(find_orphans(lake.place, lake.state))
    return found


def check_chain(state: State) -> list[str]:
    """Whether the segments and gaps follow each other from where the lake begins to where it ends."""
    found: list[str] = []
    parts = [(each.after, each.upto, each.path) for each in state.segments]
    parts += [(each.after, each.upto, f"the gap of {each.after + 1} to {each.upto}") for each in state.gaps]
    reached = state.began
    for after, upto, what in sorted(parts):
        if after < reached:
            found.append(f"{what} begins at {after + 1}, and events up to {reached} are elsewhere: some are doubled")
        elif after > reached:
            found.append(f"events {reached + 1} to {after} are nowhere, before {what}")
        reached = max(reached, upto)
    if reached != state.upto:
        found.append(f"the log says that the lake has events up to {state.upto}, its segments end at {reached}")
    return found


def check_segment(place: Place, segment: Segment) -> list[str]:
    try:
        with open_segment(place, segment) as file:
            return [f"{segment.path}: {problem}" for problem in _check_rows(pq.ParquetFile(file), segment)]
    except Error as error:
        return [error.message]
    except (pa.ArrowException, OSError) as error:
        return [f"{segment.path} cannot be read: {error}"]


def _check_rows(parquet: pq.ParquetFile, segment: Segment) -> list[str]:
    found: list[str] = []
    schema = parquet.schema_arrow
    wrong = [
        name for name in schema.names if name in EVENTS.names and schema.field(name).type != EVENTS.field(name).type
    ]
    if wrong or "seq" not in schema.names:
        return [f"its columns are not those of the schema: {', '.join(wrong) or 'seq is missing'}"]
    rows = parquet.read(columns=["seq", "at"])
    if rows.num_rows != segment.rows:
        found.append(f"it has {rows.num_rows} rows, the log says {segment.rows}")
    if not rows.num_rows:
        return [*found, "it has no row"]
    seqs = pc.min_max(rows.column("seq")).as_py()
    if (seqs["min"], seqs["max"]) != (segment.first_seq, segment.last_seq):
        found.append(f"its events are {seqs['min']} to {seqs['max']}, the log says otherwise")
    if not segment.after < seqs["min"] <= seqs["max"] <= segment.upto:
        found.append(f"it has events outside of {segment.after + 1} to {segment.upto}")
    doubled = rows.num_rows - pc.count_distinct(rows.column("seq")).as_py()
    if doubled:
        found.append(f"{doubled} of its events are there twice")
    times = pc.min_max(rows.column("at").cast(pa.int64())).as_py()
    if {date_of(times["min"]), date_of(times["max"])} != {segment.date}:
        found.append("it has events of another date")
    return found
