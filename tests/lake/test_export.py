"""What is exported: all of it, once, in files that say what they hold; and how an exporter goes on."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tenure.core.error import InvalidRequest, Unavailable
from tenure.lake.entry import Entry, Name, encode
from tenure.lake.error import LakeTaken, LakeTooNew, OtherStore, StoreBehind
from tenure.lake.lake import Lake
from tenure.lake.place import Draft, Place, open_place
from tenure.lake.schema import EVENTS, VERSION
from tenure.lake.source import Rows
from tenure.store.embedded.sqlite import SqliteStore
from tests.lake.rig import HOUR_MS, SMALL, Crash, Faulty, Rig, assert_holds, data_files, lake_of


async def test_lake_holds_exactly_what_the_store_says(place: Place) -> None:
    rig = await Rig().open()
    await rig.work(30, "acme")
    await rig.work(20, "zeta")
    await rig.enqueue(3, "acme", limit_keys=("k",), priority=7, delay_ms=50)
    exporter = await rig.exporter(place)
    count = await exporter.cycle()
    events = await rig.events()
    lake = assert_holds(place, events)
    assert count == lake.state.upto == lake.state.rows == len(events) > 150
    assert len(lake.segments()) == 4


async def test_exporter_goes_on_where_the_lake_ends(place: Place) -> None:
    rig = await Rig().open()
    for turn in range(4):
        await rig.work(10 + turn)
        exporter = await rig.exporter(place)  # a new one: it knows only what the log says
        await exporter.cycle()
        assert await exporter.cycle() == 0
    assert_holds(place, await rig.events())


async def test_segments_are_split_by_utc_date_and_sorted_by_tenant_within_row_groups(folder: Place) -> None:
    rig = await Rig().open()
    for _ in range(3):
        await rig.enqueue(4, "zeta")
        await rig.enqueue(4, "acme")
        rig.clock.passed_ms += 10 * HOUR_MS
    exporter = await rig.exporter(folder, replace(SMALL, group_rows=100))
    await exporter.cycle()
    lake = assert_holds(folder, await rig.events())
    assert [(each.date, each.first_seq, each.last_seq) for each in lake.segments()] == [
        ("2025-12-31", 1, 16),
        ("2026-01-01", 17, 24),
    ]
    assert lake.state.number == 1, "both dates are one commit"
    tenants = pq.read_table(lake.files()[0]).column("tenant").to_pylist()
    assert tenants == ["acme"] * 8 + ["zeta"] * 8


async def test_files_carry_schema_version_and_can_be_read_by_their_addresses(folder: Place) -> None:
    rig = await Rig().open()
    await rig.work(5)
    await (await rig.exporter(folder)).cycle()
    [file] = lake_of(folder).files()
    schema = pq.read_schema(file)
    assert schema.metadata[b"tenure.schema"] == str(VERSION).encode()
    assert schema.remove_metadata() == EVENTS
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"
    assert Path(file).stat().st_mode & 0o077 == 0


async def test_lake_begins_with_what_is_kept_and_has_no_gap_then(folder: Place) -> None:
    rig = await Rig().open()
    await rig.keep_events(20)
    for _ in range(5):
        await rig.work(10)
    oldest = (await rig.events())[0].seq
    assert oldest > 1
    await (await rig.exporter(folder)).cycle()
    lake = assert_holds(folder, await rig.events())
    assert lake.state.began == oldest - 1
    assert lake.gaps() == []


async def test_retention_that_overtakes_the_export_leaves_a_named_gap(
    folder: Place, caplog: pytest.LogCaptureFixture
) -> None:
    rig = await Rig().open()
    await rig.enqueue(10)
    exporter = await rig.exporter(folder)
    await exporter.cycle()
    before = await rig.events()
    await rig.keep_events(20)
    for _ in range(5):
        await rig.work(10)
    kept = await rig.events()
    missed = kept[0].seq - 1 - exporter.state.upto
    assert missed > 0
    await exporter.cycle()
    lake = assert_holds(folder, [event for event in before if event.seq < kept[0].seq] + kept)
    [gap] = lake.gaps()
    assert gap.upto - gap.after == missed == exporter.lost
    assert "past the store's retention" in caplog.text


async def test_two_exporters_never_double_a_row(place: Place) -> None:
    rig = await Rig().open()
    one, other = await rig.exporter(place), await rig.exporter(place)
    await rig.work(10)
    await one.cycle()
    with pytest.raises(LakeTaken, match=f"another exporter \\({one.writer}\\).*let one server export"):
        await other.cycle()
    await rig.work(10)
    await other.cycle()  # it has read the log again
    with pytest.raises(LakeTaken):
        await one.cycle()
    assert_holds(place, await rig.events())


async def test_commit_whose_answer_was_lost_is_known_again(folder: Place) -> None:
    """The request is carried out, the answer does not come: the exporter must not take its own commit for another's."""
    rig = await Rig().open()
    await rig.work(5)
    deaf = Deaf(folder)
    exporter = await rig.closed_exporter(deaf)
    await exporter.open()
    deaf.is_deaf = True
    with pytest.raises(Unavailable):
        await exporter.cycle()
    deaf.is_deaf = False
    await rig.work(5)
    await exporter.cycle()
    assert_holds(folder, await rig.events())


class Deaf(Faulty):
    def __init__(self, place: Place) -> None:
        super().__init__(place, 1_000_000, False)
        self.is_deaf = False

    def create(self, name: str, data: bytes) -> bool:
        made = super().create(name, data)
        if self.is_deaf:
            raise Unavailable("the answer was lost")
        return made


async def test_place_that_overwrites_is_refused(folder: Place) -> None:
    rig = await Rig().open()
    await rig.work(5)
    exporter = await rig.closed_exporter(Forgetful(folder))
    await exporter.open()
    with pytest.raises(Unavailable, match="does not keep conditional writes"):
        await exporter.cycle()
    with pytest.raises(Unavailable, match="does not keep conditional writes"):
        await exporter.open()


class Forgetful(Faulty):
    """As servers do that do not know If-None-Match."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, 1_000_000, False)

    def create(self, name: str, data: bytes) -> bool:
        self._place.put(name, data)
        return True


async def test_another_stores_lake_is_refused(place: Place) -> None:
    rig, stranger = await Rig().open(), await Rig().open()
    await rig.work(3)
    await (await rig.exporter(place)).cycle()
    await stranger.work(50)
    with pytest.raises(OtherStore, match=r"holds the events of the store .* give it a lake of its own"):
        await stranger.exporter(place)
    assert_holds(place, await rig.events())


async def test_old_copy_of_the_store_is_refused(tmp_path: Path, folder: Place) -> None:
    rig = await Rig(SqliteStore(tmp_path / "jobs.db")).open()
    await rig.work(3)
    await rig.store.close()
    (tmp_path / "copy.db").write_bytes((tmp_path / "jobs.db").read_bytes())
    again = Rig(SqliteStore(tmp_path / "jobs.db"))
    await again.open()
    await again.work(100)
    await (await again.exporter(folder)).cycle()
    await again.store.close()
    old = Rig(SqliteStore(tmp_path / "copy.db"))
    await old.open()
    with pytest.raises(StoreBehind, match="this store only up to"):
        await old.exporter(folder)
    await old.store.close()


@pytest.mark.parametrize("what", ["format", "schema"])
async def test_lake_of_a_newer_tenure_is_refused(folder: Place, what: str) -> None:
    rig = await Rig().open()
    await rig.work(3)
    exporter = await rig.exporter(folder)
    await exporter.cycle()
    state = exporter.state
    added = (msgspec.structs.replace(state.segments[0], schema=VERSION + 1, path="x", after=9, upto=10),)
    entry = Entry(
        kind="export", store=state.store, life=state.life, writer="w", at=1, after=9, upto=10,
        added=added if what == "schema" else (), format=2 if what == "format" else 1,
    )  # fmt: skip
    folder.put(str(Name(2, False)), encode(entry))
    with pytest.raises(LakeTooNew, match=rf"has {what} 2, this Tenure knows {what} 1; use a newer Tenure"):
        lake_of(folder)
    with pytest.raises(LakeTooNew):
        await rig.exporter(folder)


async def test_disk_that_is_full_leaves_the_lake_as_it_was(folder: Place) -> None:
    rig = await Rig().open()
    await rig.work(20)
    full = Full(folder)
    exporter = await rig.closed_exporter(full)
    await exporter.open()
    full.is_full = True
    for _ in range(3):
        with pytest.raises(Unavailable, match="No space left"):
            await exporter.cycle()
    assert lake_of(folder).state.number == 0
    full.is_full = False
    await exporter.cycle()
    assert_holds(folder, await rig.events())


class Full(Faulty):
    def __init__(self, place: Place) -> None:
        super().__init__(place, 1_000_000, False)
        self.is_full = False

    def keep(self, draft: Draft, name: str) -> None:
        if self.is_full:
            raise Unavailable(f"{self.title} cannot be used: No space left on device; check the disk, then try again")
        super().keep(draft, name)


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
async def test_process_that_dies_at_any_step_leaves_every_event_once(folder: Place, is_after: bool) -> None:
    """Every operation on the place in turn is the last one; exports, merges, retention and checkpoints among them."""
    rules = replace(SMALL, rows=10, page_rows=8, is_compacted=True, grace_ms=0, checkpoint_entries=3)
    at = deaths = 0
    rig = await Rig().open()
    while True:
        at += 1
        faulty = Faulty(folder, at, is_after)
        exporter = await rig.closed_exporter(faulty, rules)
        try:
            await exporter.open()
            for _ in range(7):
                await rig.work(4)
                await exporter.cycle()
                await exporter.tidy(True)
        except Crash:
            deaths += 1
            assert_holds(folder, [event for event in await rig.events() if event.seq <= lake_of(folder).state.upto])
            continue
        break
    assert deaths >= 14
    exporter = await rig.exporter(folder, rules)
    await exporter.cycle()
    await exporter.tidy(True)
    lake = assert_holds(folder, await rig.events())
    assert data_files(folder) == sorted(segment.path for segment in lake_of(folder).segments())
    assert lake.state.gaps == ()


async def test_memory_of_the_export_does_not_grow_with_the_backlog(tmp_path: Path) -> None:
    """What Arrow has allocated, looked at whenever something is read or written. `bench/lake.py` has the process."""

    async def highest(count: int) -> int:
        rig = await Rig().open()
        for _ in range(count):
            await rig.work(200)
        place = open_place(str(tmp_path / str(count)), create=True)
        exporter = await rig.closed_exporter(place, replace(SMALL, rows=5_000, page_rows=500, group_rows=1_000))
        await exporter.open()
        before = pa.total_allocated_bytes()
        seen: list[int] = []
        read = exporter._source.read

        async def read_and_look(after: int, limit: int) -> Rows:
            rows = await read(after, limit)
            seen.append(pa.total_allocated_bytes() - before)
            return rows

        exporter._source.read = read_and_look  # type: ignore[method-assign]
        assert await exporter.cycle() >= count * 600
        return max(seen)

    few, many = await highest(4), await highest(24)
    assert many < 3 * few  # of a backlog six times as long; what is being written at the moment differs


async def test_lake_url_that_cannot_be_one_is_refused() -> None:
    for url in ("", "ftp://x/y", "s3://key:secret@bucket/x", "s3:///x", "s3://bucket/x?a=1"):
        with pytest.raises(InvalidRequest) as refused:
            open_place(url)
        assert "secret" not in str(refused.value)


async def test_empty_lake_has_no_files(folder: Place) -> None:
    lake = lake_of(folder)
    assert (lake.files(), lake.segments(), lake.state.upto) == ([], [], 0)
    assert isinstance(lake, Lake)
    assert pa.schema(EVENTS).names[0] == "seq"
