"""Merging, retention and sweeping: what readers see stays the same, or is what was asked for."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from tenure.lake.entry import Segment
from tenure.lake.error import LakeDamaged
from tenure.lake.lake import Lake
from tenure.lake.log import Log, Moved
from tenure.lake.place import Folder, Place
from tenure.lake.tidy import Keeper, choose_run, compact_once, sweep
from tenure.lake.verify import verify
from tests.lake.rig import DAY_MS, HOUR_MS, SMALL, Rig, assert_holds, data_files, lake_of, rows_of

MERGING = replace(SMALL, is_compacted=True)


async def small_segments(rig: Rig, place: Place, count: int) -> None:
    exporter = await rig.exporter(place)
    for _ in range(count):
        await rig.enqueue(5)
        await exporter.cycle()


async def test_small_segments_become_one_and_nothing_else_changes(place: Place) -> None:
    rig = await Rig().open()
    await small_segments(rig, place, 9)
    before = lake_of(place)
    exporter = await rig.exporter(place, MERGING)
    await exporter.tidy()
    lake = assert_holds(place, await rig.events())
    assert len(before.segments()) == 9
    assert len(lake.segments()) == 1
    assert lake.segments()[0].rows == 45
    with lake.place.fetch(lake.segments()[0].path) as file:
        found = pq.ParquetFile(file).metadata
    assert [found.row_group(number).num_rows for number in range(found.num_row_groups)] == [16, 16, 13]


async def test_reader_with_an_old_list_goes_on_until_the_grace_time_is_over(folder: Place) -> None:
    rig = await Rig().open()
    await small_segments(rig, folder, 9)
    reader = lake_of(folder)
    exporter = await rig.exporter(folder, MERGING)
    await exporter.tidy()
    rig.clock.passed_ms += HOUR_MS - 1
    await exporter.tidy(True)
    assert rows_of(reader).num_rows == 45
    rig.clock.passed_ms += 1
    await exporter.tidy(True)
    assert data_files(folder) == [segment.path for segment in lake_of(folder).segments()]
    assert lake_of(folder).state.dropped == ()
    with pytest.raises(FileNotFoundError):
        pq.read_table(reader.files()[0])
    reader.reload()
    assert rows_of(reader).num_rows == 45


async def test_segments_of_different_dates_are_not_merged(folder: Place) -> None:
    rig = await Rig().open()
    await small_segments(rig, folder, 5)
    rig.clock.passed_ms += DAY_MS
    await small_segments(rig, folder, 5)
    exporter = await rig.exporter(folder, MERGING)
    await exporter.cycle()
    await exporter.tidy()
    dates = [segment.date for segment in lake_of(folder).segments()]
    assert dates.count("2025-12-31") == 1, "that date is over: its segments are merged though they are few"
    assert dates.count("2026-01-01") >= 5
    assert_holds(folder, await rig.events())


def run_of(*rows: int, date: str = "2026-01-01", start: int = 0) -> tuple[Segment, ...]:
    found: list[Segment] = []
    for count in rows:
        found.append(
            Segment(
                path=f"date={date}/{start}", after=start, upto=start + count, first_seq=start + 1,
                last_seq=start + count, rows=count, bytes=1, sha256="", min_at=1, max_at=1, schema=1,
            )
        )  # fmt: skip
        start += count
    return tuple(found)


def test_events_are_written_a_few_times_in_all() -> None:
    """However many small segments come: a merge of eight makes one of the next size."""
    segments: tuple[Segment, ...] = ()
    written = 0
    for number in range(2_000):
        start = segments[-1].upto if segments else 0
        segments = (*segments, *run_of(900, start=start))
        while run := choose_run(segments, 2_000_000):
            merged = run_of(sum(each.rows for each in run), start=run[0].after)
            at = segments.index(run[0])
            segments = (*segments[:at], *merged, *segments[at + len(run) :])
            written += merged[0].rows
        assert len(segments) < 8 * 4, number
    assert written < 5 * 2_000 * 900


def test_merged_segments_keep_to_their_bound_and_to_neighbours() -> None:
    assert choose_run(run_of(*[500_000] * 9), 2_000_000, all_sizes=True) == list(run_of(*[500_000] * 4))
    assert choose_run(run_of(2_000_000, 2_000_000), 2_000_000, all_sizes=True) == []
    apart = run_of(10) + run_of(10, start=11)
    assert choose_run(apart, 100, all_sizes=True) == [], "there is a gap between them"
    assert choose_run((), 100) == []


async def test_damaged_segment_is_not_merged(folder: Folder) -> None:
    rig = await Rig().open()
    await small_segments(rig, folder, 9)
    lake = lake_of(folder)
    file = folder._root / lake.segments()[3].path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(LakeDamaged, match="is not what was written"):
        compact_once(keeper_of(folder, rig), lake.state, MERGING)
    assert lake_of(folder).state == lake.state


def keeper_of(place: Place, rig: Rig) -> Keeper:
    return Keeper(place, Log(place), "hand", rig.clock.wall_ms)


async def test_retention_drops_old_segments_and_the_lake_says_where_it_begins(place: Place) -> None:
    rig = await Rig().open()
    await small_segments(rig, place, 2)
    rig.clock.passed_ms += 5 * HOUR_MS
    await small_segments(rig, place, 2)
    exporter = await rig.exporter(place, replace(SMALL, retention_ms=3 * HOUR_MS))
    await exporter.tidy(True)
    events = await rig.events()
    lake = assert_holds(place, events[10:])
    assert (lake.state.began, lake.state.upto) == (10, 20)
    assert len(data_files(place)) == 4, "for the grace time"
    rig.clock.passed_ms += HOUR_MS
    await exporter.tidy(True)
    assert len(data_files(place)) == 2
    rig.clock.passed_ms += 9 * HOUR_MS
    await exporter.tidy(True)
    await exporter.cycle()
    assert verify(lake_of(place)).findings == []


async def test_orphans_are_swept_and_what_is_about_to_be_committed_is_written_again(folder: Place) -> None:
    """An exporter stands between a file and its commit; somebody sweeps. Its commit must not name what is gone."""
    rig = await Rig().open()
    await small_segments(rig, folder, 2)
    slow = await rig.exporter(folder)
    await rig.enqueue(5)
    commit = slow._log.commit
    swept: list[int] = []

    def commit_late(state: object, entry: object) -> object:
        if not swept:
            swept.append(len(data_files(folder)))
            sweep(keeper_of(folder, rig), Log(folder).load(), HOUR_MS)
            assert len(data_files(folder)) == 2
        return commit(state, entry)  # type: ignore[arg-type]

    slow._log.commit = commit_late  # type: ignore[method-assign, assignment]
    assert await slow.cycle() == 5
    assert swept == [3]
    assert_holds(folder, await rig.events())


async def test_tidying_by_hand_does_not_stop_the_exporter(folder: Place) -> None:
    rig = await Rig().open()
    await small_segments(rig, folder, 9)
    exporter = await rig.exporter(folder)
    compact_once(keeper_of(folder, rig), lake_of(folder).state, MERGING)
    await rig.enqueue(5)
    assert await exporter.cycle() == 5
    stale = lake_of(folder).state
    await rig.enqueue(5)
    await exporter.cycle()
    with pytest.raises(Moved):
        sweep(keeper_of(folder, rig), stale, 0)
    assert_holds(folder, await rig.events())


async def test_lake_names_the_files_of_a_date(folder: Place) -> None:
    rig = await Rig().open()
    await small_segments(rig, folder, 1)
    rig.clock.passed_ms += 2 * DAY_MS
    await small_segments(rig, folder, 1)
    lake = Lake.open(folder.title)
    assert len(lake.files()) >= 2
    assert len(lake.files(last_date="2025-12-31")) == 1
    assert lake.files("2026-01-01") == [file for file in lake.files() if "date=2025" not in file]
