import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.bound import TIME_MS_MAX
from tenure.ops.error import BackupDamaged
from tenure.ops.manifest import CHUNK_BYTES, Blob, Chunk, Manifest, name_at, read, show_time, time_of, write

CHUNK = Chunk("chunks/" + "a" * 64 + "-01234567", 100)
BLOB = Blob("c" * 64 + "-2-7", "blobs/" + "c" * 64 + "-01234567", 2_000_000)
MANIFEST = Manifest(
    name=name_at(1_700_000_000_123, "01234567"),
    at=1_700_000_000_123,
    store="b" * 16,
    format=1,
    epoch=3,
    position=17,
    page_bytes=4096,
    size_bytes=CHUNK_BYTES + 4096,
    chunk_bytes=CHUNK_BYTES,
    chunks=[CHUNK, CHUNK],
    blobs=[BLOB],
    lost=["d" * 64 + "-2-8"],
)


def test_manifest_is_read_as_it_was_written() -> None:
    assert read("it", write(MANIFEST)) == MANIFEST
    assert [MANIFEST.length_of(0), MANIFEST.length_of(1)] == [CHUNK_BYTES, 4096]


def test_every_changed_byte_is_noticed() -> None:
    data = write(MANIFEST)
    for at in range(len(data)):
        with pytest.raises(BackupDamaged, match=r"^it "):
            read("it", data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_every_cut_is_noticed() -> None:
    data = write(MANIFEST)
    for size in range(len(data)):
        with pytest.raises(BackupDamaged):
            read("it", data[:size])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "use a newer Tenure"),
        ({"blobs": [Blob("../escape", BLOB.object, 1)]}, "cannot be read"),
        ({"blobs": [Blob(BLOB.name, CHUNK.object, 1)]}, "cannot be read"),
        ({"blobs": [Blob("b" * 64 + "-1-1", BLOB.object, 1)]}, "takes a blob for another"),
        ({"lost": ["../escape"]}, "cannot be read"),
        ({"chunks": [CHUNK]}, "does not name all its chunks"),
        ({"chunks": [CHUNK, Chunk("../escape", 1)]}, "cannot be read"),
        ({"size_bytes": -1}, "cannot be read"),
        ({"chunk_bytes": 1 << 40}, "cannot be read"),
    ],
)
def test_manifest_that_cannot_be_right_is_refused(change: dict[str, object], reason: str) -> None:
    with pytest.raises(BackupDamaged, match=reason):
        read("it", write(msgspec.structs.replace(MANIFEST, **change)))


class LaterManifest(Manifest, frozen=True):
    later: int = 1


def test_field_of_a_later_release_does_no_harm() -> None:
    assert read("it", write(LaterManifest(**msgspec.structs.asdict(MANIFEST)))) == MANIFEST


@given(st.lists(st.integers(0, TIME_MS_MAX - 1), min_size=2))
def test_names_sort_by_time_and_tell_it(times: list[int]) -> None:
    names = [name_at(at, "00000000") for at in times]
    assert [time_of(name) for name in names] == times
    assert sorted(names) == [name_at(at, "00000000") for at in sorted(times)]


@pytest.mark.parametrize("name", ["", "notes", "20231114T221320.123Z", "20231399T221320.123Z-01234567"])
def test_other_names_are_no_backups(name: str) -> None:
    assert time_of(name) is None


def test_time_is_shown_in_utc() -> None:
    assert show_time(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
