"""Looking after a lake: small segments merged, old ones dropped, files deleted that nobody needs. Each is a commit.

A file is deleted only after a commit has named it. Whoever had written it and was about to commit it finds his number
taken, and writes it again under another name. So no clock decides whether an orphan is one.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import msgspec

from tenure.lake.entry import COMPACT, RETAIN, SWEEP, Entry, Segment, State
from tenure.lake.error import LakeDamaged
from tenure.lake.log import CHECKPOINT_ENTRIES, Log
from tenure.lake.place import Place
from tenure.lake.schema import VERSION
from tenure.lake.segment import GROUP_ROWS, Writer, in_current_schema, read_groups

MERGED = 8  # so many of a size become one
TARGET_ROWS = 2_000_000  # of a segment that is not merged any more
SMALLEST_ROWS = 1_000
DELETED_MAX = 10_000  # in one commit
DATA = "date="

log = logging.getLogger("tenure.lake")


@dataclass(frozen=True, slots=True)
class Rules:
    """How a lake is kept. Durations are in milliseconds."""

    rows: int = 250_000  # of a segment, after which it is closed
    every_ms: int = 60_000  # how often what is new is exported
    retention_ms: int = 0  # 0 keeps everything
    grace_ms: int = 3_600_000  # how long a file that was dropped stays for those who read it
    is_compacted: bool = True
    target_rows: int = TARGET_ROWS
    group_rows: int = GROUP_ROWS
    page_rows: int = 2_000  # read at once: the store answers nothing else meanwhile
    checkpoint_entries: int = CHECKPOINT_ENTRIES


@dataclass(frozen=True, slots=True)
class Keeper:
    """Who looks after the lake, with what."""

    place: Place
    log: Log
    writer: str
    clock_ms: Callable[[], int]

    def entry(self, state: State, kind: str, **fields: tuple[str, ...] | tuple[Segment, ...]) -> Entry:
        made = Entry(kind=kind, store=state.store, life=state.life, writer=self.writer, at=self.clock_ms())
        return msgspec.structs.replace(made, **fields)


# Merging.


def choose_run(segments: tuple[Segment, ...], target_rows: int, all_sizes: bool = False) -> list[Segment]:
    """Neighbours of one date to be merged into one segment; none when there is nothing to gain.

    `MERGED` of a similar size become one that is at least twice as large as each, so that an event is written a few
    times in all. Of a date that is over (a later one has begun), or with `all_sizes`, any two that fit are merged.
    """
    last_date = segments[-1].date if segments else ""
    for run in _neighbours(segments, target_rows):
        if len(run) > 1 and (all_sizes or run[0].date != last_date):
            return run
    size = SMALLEST_ROWS
    while size <= target_rows:
        for run in _neighbours(segments, target_rows, size):
            if len(run) >= MERGED and 2 * max(each.rows for each in run) <= sum(each.rows for each in run):
                return run
        size *= MERGED
    return []


def _neighbours(segments: tuple[Segment, ...], target_rows: int, smaller: int = 0) -> list[list[Segment]]:
    """Runs of one date and schema without a gap, of `target_rows` in all at most, each smaller than `smaller`."""
    runs: list[list[Segment]] = []
    total = 0
    for segment in segments:
        fits = segment.schema == VERSION and (not smaller or segment.rows < smaller)
        if not fits:
            runs.append([])
            continue
        last = runs[-1][-1] if runs and runs[-1] else None
        if (
            last is None
            or last.date != segment.date
            or last.upto != segment.after
            or total + segment.rows > target_rows
        ):
            runs.append([])
            total = 0
        runs[-1].append(segment)
        total += segment.rows
    return runs


def compact_once(keeper: Keeper, state: State, rules: Rules, all_sizes: bool = False) -> State:
    """Merge one run; the same state when there is none. What was merged stays as long as readers may have it open."""
    run = choose_run(state.segments, rules.target_rows, all_sizes)
    if not run:
        return state
    writer = Writer(keeper.place, run[0].date, state.store, rules.group_rows)
    try:
        for segment in run:
            for group in read_groups(keeper.place, segment):
                for batch in in_current_schema(group).sort_by("seq").to_batches():
                    writer.add(batch)
        expected = sum(segment.rows for segment in run)
        if writer.rows != expected:
            raise LakeDamaged(f"{run[0].path} and those after it have {writer.rows} rows, not {expected}")
        merged = writer.finish(run[0].after, run[-1].upto)
    finally:
        writer.drop()
    paths = tuple(segment.path for segment in run)
    return keeper.log.commit(state, keeper.entry(state, COMPACT, added=(merged,), dropped=paths))


# Dropping and deleting.


def retain(keeper: Keeper, state: State, retention_ms: int) -> State:
    """Drop segments from the oldest on whose newest event is older than that."""
    oldest = keeper.clock_ms() - retention_ms
    gone: list[str] = []
    for segment in state.segments:
        if segment.max_at >= oldest:
            break
        gone.append(segment.path)
    if not retention_ms or not gone:
        return state
    return keeper.log.commit(state, keeper.entry(state, RETAIN, dropped=tuple(gone)))


def sweep(keeper: Keeper, state: State, grace_ms: int, orphans: bool = True) -> State:
    """Delete what was dropped longer ago than the grace time, and files that no commit has ever named."""
    due = keeper.clock_ms() - grace_ms
    names = [dropped.path for dropped in state.dropped if dropped.at <= due]
    if orphans:
        names += find_orphans(keeper.place, state)
    names = names[:DELETED_MAX]
    if not names:
        return state
    after = keeper.log.commit(state, keeper.entry(state, SWEEP, deleted=tuple(names)))
    keeper.place.delete(names)
    return after


def find_orphans(place: Place, state: State) -> list[str]:
    """Files that no entry names: left by a crash, or just being committed. They are in nobody's way."""
    known = {segment.path for segment in state.segments} | {dropped.path for dropped in state.dropped}
    found = (name for name in place.names("") if name.startswith(DATA) and name not in known)
    return sorted(islice(found, DELETED_MAX))
