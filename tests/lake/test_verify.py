"""`tenure lake`: what it says of a lake, and what it finds wrong."""

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from tenure.lake.entry import Name, State, encode
from tenure.lake.place import Folder, Place
from tenure.lake.verify import check_chain, verify
from tests.cli.rig import run
from tests.lake.rig import Rig, lake_of
from tests.lake.test_tidy import run_of, small_segments


async def lake_in(place: Place) -> Rig:
    rig = await Rig().open()
    await small_segments(rig, place, 4)
    return rig


async def test_sound_lake_is_called_sound(folder: Place) -> None:
    await lake_in(folder)
    ended = run("lake", "verify", folder.title)
    assert (ended.code, "is sound (20 events, 4 files" in ended.out) == (0, True)
    found = run("lake", "verify", folder.title, "--json").json
    assert (found["is_sound"], found["rows"], found["skipped"], found["lost"], found["orphans"]) == (True, 20, 0, 0, 0)


@pytest.mark.parametrize("harm", ["flip", "cut", "gone", "other"])
async def test_damaged_segment_is_found(folder: Folder, harm: str) -> None:
    await lake_in(folder)
    lake = lake_of(folder)
    first, second = (Path(file) for file in lake.files()[:2])
    if harm == "flip":
        data = bytearray(first.read_bytes())
        data[len(data) // 3] ^= 8
        first.write_bytes(data)
    elif harm == "cut":
        first.write_bytes(first.read_bytes()[:-20])
    elif harm == "gone":
        first.unlink()
    else:
        first.write_bytes(second.read_bytes())
    ended = run("lake", "verify", folder.title, "--json")
    assert ended.code == 1
    [finding] = ended.json["findings"]
    assert lake.segments()[0].path in finding


async def test_log_that_says_other_than_the_files_is_found(folder: Folder) -> None:
    """Rows that are doubled, or said to be more, with a hash that is right."""
    await lake_in(folder)
    lake = lake_of(folder)
    segment = lake.segments()[0]
    file = Path(lake.files()[0])
    rows = pq.read_table(file)
    pq.write_table(pq.read_table(file).slice(0, 4).take([0, 1, 2, 3, 3]).cast(rows.schema), file)
    from hashlib import sha256

    right = msgspec.structs.replace(segment, sha256=sha256(file.read_bytes()).hexdigest())
    state = msgspec.structs.replace(lake.state, segments=(right, *lake.state.segments[1:]))
    folder.put(str(Name(state.number, True)), encode(state))
    found = verify(lake_of(folder)).findings
    assert any("are there twice" in finding for finding in found)
    assert any("the log says otherwise" in finding for finding in found)


def test_chain_with_a_hole_or_a_double_is_found() -> None:
    segments = run_of(10, 10, 10)
    assert check_chain(State(segments=segments, upto=30)) == []
    assert "are nowhere" in check_chain(State(segments=(segments[0], segments[2]), upto=30))[0]
    assert "some are doubled" in check_chain(State(segments=(*segments, *run_of(5, start=20)), upto=30))[0]
    assert "its segments end at 30" in check_chain(State(segments=segments, upto=31))[0]


async def test_status_files_compact_and_prune(folder: Folder) -> None:
    rig = await lake_in(folder)
    url = folder.title
    assert "20 events, 4 files" in run("lake", "status", url).out
    found = run("lake", "status", url, "--json").json
    assert (found["rows"], found["upto"], found["segments"], found["schema"], found["format"]) == (20, 20, 4, [1], 1)
    assert found["store"] == (await rig.store.identity()).store
    assert run("lake", "files", url).out.splitlines() == lake_of(folder).files()
    assert len(run("lake", "files", url, "--json").lines) == 4
    assert run("lake", "files", url, "--first", "2026-01-01").out == ""
    ended = run("lake", "compact", url, "--json").json
    assert (ended["segments_before"], ended["segments"], ended["deleted"]) == (4, 1, 0)
    ended = run("lake", "prune", url, "--grace", "0s", "--json").json
    assert (ended["rows"], ended["deleted"]) == (0, 4)
    assert run("lake", "verify", url).code == 0
    ended = run("lake", "prune", url, "--older", "1d", "--grace", "0s", "--json").json
    assert (ended["rows"], ended["segments"], ended["deleted"]) == (20, 1, 1)
    assert run("lake", "status", url, "--json").json["rows"] == 0
    assert run("lake", "verify", url).code == 0


def test_lake_that_is_not_there_is_named(tmp_path: Path) -> None:
    ended = run("lake", "status", str(tmp_path / "none"))
    assert (ended.code, "is not a folder" in ended.err) == (1, True)
    (tmp_path / "empty").mkdir()
    assert "tenure serve --lake" in run("lake", "status", str(tmp_path / "empty")).out
    assert run("lake", "verify", "ftp://x").code == 2
