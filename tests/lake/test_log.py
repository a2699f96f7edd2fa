"""The log of commits: one order whoever writes, checkpoints, and what is refused."""

from pathlib import Path

import pytest

from tenure.lake.entry import EXPORT, Entry, Name, Segment, State, Unreadable, encode, fold, read_name
from tenure.lake.error import LakeDamaged
from tenure.lake.log import Log, Moved
from tenure.lake.place import Folder, Missing, Place
from tests.lake.rig import Faulty, tree


def export(state: State, rows: int = 10, writer: str = "w") -> Entry:
    after = state.upto
    segment = Segment(
        path=f"date=2026-01-01/{after + 1}-{after + rows}-{writer}.parquet", after=after, upto=after + rows,
        first_seq=after + 1, last_seq=after + rows, rows=rows, bytes=1, sha256="", min_at=1, max_at=2, schema=1,
    )  # fmt: skip
    return Entry(
        kind=EXPORT, store="s", life="l", writer=writer, at=5, after=after, upto=after + rows, added=(segment,)
    )


def test_entries_add_up_and_old_ones_go(place: Place) -> None:
    log = Log(place, checkpoint_entries=5)
    state = log.load()
    for _ in range(23):
        state = log.commit(state, export(state))
    assert Log(place).load() == state
    assert (state.number, state.upto, state.rows, len(state.segments)) == (23, 230, 230, 23)
    names = sorted(name for path in place.names("_log") if (name := read_name(path)))
    assert [name.number for name in names if name.is_checkpoint] == [15, 20]
    assert [name.number for name in names if not name.is_checkpoint] == list(range(16, 24))


def test_of_two_who_commit_one_is_told(place: Place) -> None:
    one, other = Log(place), Log(place)
    state = one.load()
    assert other.load() == state
    mine = one.commit(state, export(state, writer="one"))
    with pytest.raises(Moved):
        other.commit(state, export(state, writer="other"))
    assert other.load() == mine


def test_writer_that_slept_while_its_number_was_cleared_away_is_told(place: Place) -> None:
    """Its entry can be put there, behind a checkpoint: nobody reads it, and it must not believe in it."""
    sleeper = Log(place)
    old = sleeper.load()
    log = Log(place, checkpoint_entries=3)
    state = log.load()
    for _ in range(10):
        state = log.commit(state, export(state))
    assert str(Name(1, False)) not in set(place.names("_log"))
    with pytest.raises(Moved):
        sleeper.commit(old, export(old, writer="sleeper"))
    assert Log(place).load() == state


def test_commit_that_was_carried_out_and_repeated_is_ones_own(folder: Place) -> None:
    """As a library does that repeats a request whose answer was lost."""

    class Repeating(Faulty):
        def create(self, name: str, data: bytes) -> bool:
            super().create(name, data)
            return super().create(name, data)

    log = Log(Repeating(folder, 1_000_000, False))
    state = log.load()
    assert log.commit(state, export(state)).number == 1


def test_reader_whose_files_are_cleared_away_meanwhile_reads_again(folder: Place) -> None:
    log = Log(folder, checkpoint_entries=3)
    state = log.load()
    for _ in range(4):
        state = log.commit(state, export(state))

    class Slow(Faulty):
        """Between its listing and its first read others go on."""

        is_done = False

        def get(self, name: str) -> bytes:
            nonlocal state
            if not self.is_done:
                self.is_done = True
                for _ in range(9):
                    state = log.commit(state, export(state))
            return super().get(name)

    assert Log(Slow(folder, 1_000_000, False)).load() == state


def test_hole_and_damage_in_the_log_are_named(folder: Folder, tmp_path: Path) -> None:
    log = Log(folder)
    state = log.load()
    for _ in range(3):
        state = log.commit(state, export(state))
    second = tmp_path / "lake" / str(Name(2, False))
    data = second.read_bytes()
    second.write_bytes(data.replace(b'"upto":20', b'"upto":29'))
    with pytest.raises(LakeDamaged, match=r"0002.json .* checksum does not agree"):
        log.load()
    second.unlink()
    with pytest.raises(LakeDamaged, match=r"has a hole: it has no _log/0+2\.json"):
        log.load()


def test_entries_that_cannot_follow_are_refused() -> None:
    state = fold(State(), export(State()))
    with pytest.raises(Unreadable, match="goes on from 0"):
        fold(state, Entry(kind=EXPORT, store="s", life="l", writer="w", at=1, after=0, upto=5))
    with pytest.raises(Unreadable, match="overlap"):
        fold(state, export(State(), writer="other"))
    with pytest.raises(Unreadable, match="not there"):
        fold(state, Entry(kind="retain", store="s", life="l", writer="w", at=1, dropped=("x",)))


def test_checkpoint_that_cannot_be_written_does_not_harm_the_commit(folder: Place) -> None:
    from tenure.core.error import Unavailable

    class Broken(Faulty):
        def put(self, name: str, data: bytes) -> None:
            raise Unavailable("no")

    log = Log(Broken(folder, 1_000_000, False), checkpoint_entries=2)
    state = log.load()
    for _ in range(6):
        state = log.commit(state, export(state))
    assert Log(folder).load() == state


# Places.


def test_place_gives_a_name_once(place: Place) -> None:
    assert place.create("_log/a", b"1")
    assert not place.create("_log/a", b"2")
    assert place.get("_log/a") == b"1"
    place.put("_log/a", b"3")
    assert place.get("_log/a") == b"3"
    with pytest.raises(Missing):
        place.get("_log/b")
    with pytest.raises(Missing):
        place.fetch("_log/b")
    assert list(place.names("_log")) == ["_log/a"]
    place.delete(["_log/a", "_log/a"])
    assert list(place.names("_log")) == []


def test_draft_has_no_name_until_it_is_kept(place: Place) -> None:
    draft = place.draft()
    draft.file.write(b"x" * 100)
    assert list(place.names("")) == []
    place.keep(draft, "date=2026-01-01/a.parquet")
    with place.fetch("date=2026-01-01/a.parquet") as file:
        assert file.read() == b"x" * 100
    place.draft().drop()
    assert list(place.names("")) == ["date=2026-01-01/a.parquet"]


def test_drafts_of_the_dead_are_cleared(folder: Folder, tmp_path: Path) -> None:
    draft = folder.draft()
    draft.file.close()
    at_s = (tmp_path / "lake" / "_partial").stat().st_mtime
    assert folder.clear_drafts(at_s - 10) == 0
    assert folder.clear_drafts(at_s + 10) == 1
    assert tree(tmp_path / "lake") == []


def test_large_draft_goes_to_a_bucket_in_parts(s3: object, tmp_path: Path) -> None:
    from tenure.lake.place import PART_BYTES, open_place

    place = open_place(f"s3a://blobs/{tmp_path.name}")
    assert place.address("a") == f"s3://blobs/{tmp_path.name}/a"
    draft = place.draft()
    draft.file.write(bytes(PART_BYTES + 5))
    place.keep(draft, "a")
    with place.fetch("a") as file:
        assert len(file.read()) == PART_BYTES + 5


def test_names_of_the_log_are_told_from_others() -> None:
    assert read_name(str(Name(7, True))) == Name(7, True)
    assert read_name(str(Name(7, False))) == Name(7, False)
    for other in ("_log/7.json", "_log/probe-1", "x/00000000000000000007.json", "_log/00000000000000000007.txt"):
        assert read_name(other) is None
    assert encode(State()).count(b"\n") == 2
