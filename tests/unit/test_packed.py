"""Columns in one piece: what goes in comes out, and what is no column is refused before it is stored."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import packed as module
from tenure.core.error import InvalidRequest
from tenure.core.packed import (
    GAP_MAX,
    OPENED_MAX,
    PLAIN_BYTES_MAX,
    Packed,
    Texts,
    compressed,
    ends_of,
    pack,
    pack_texts,
)
from tenure.wire.piece import in_one_piece, packed_of
from tests.packing import gapped, squeezed, zstd


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_contents_come_out_as_they_went_in(contents: list[bytes]) -> None:
    for packed in (pack(contents), squeezed(pack(contents))):
        assert list(packed) == contents
        assert [packed[at] for at in range(len(packed))] == contents
        assert [packed.size(at) for at in range(len(packed))] == [len(content) for content in contents]
        assert packed.longest == max(map(len, contents), default=0)
        assert packed.bytes == sum(map(len, contents))
        packed.rest()
        assert list(packed) == contents


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 9))
def test_what_stands_between_entries_is_not_of_them(contents: list[bytes], gap: int) -> None:
    plain = gapped(contents, gap)
    for packed in (plain, squeezed(plain), packed_of(in_one_piece(plain))):
        assert list(packed) == contents
        assert [packed.size(at) for at in range(len(packed))] == [len(content) for content in contents]
        assert packed.longest == max(map(len, contents), default=0)
        assert packed.bytes == sum(map(len, contents))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.integers(0, 9), st.data())
def test_part_has_some_of_the_entries_and_nothing_else(contents: list[bytes], gap: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(contents) - 1))
    count = data.draw(st.integers(1, len(contents) - first))
    wanted = contents[first : first + count]
    plain = gapped(contents, gap)
    for packed in (plain, squeezed(plain)):
        part = packed.part(first, count)
        assert list(part) == wanted
        assert (len(part.content), part.gap) == (sum(map(len, wanted)) + gap * count, gap)
        assert (part.bytes, part.longest) == (sum(map(len, wanted)), max(map(len, wanted)))


def test_column_that_rests_is_not_kept() -> None:
    kept = squeezed(pack([b"x" * 5_000]))
    assert list(kept) == [b"x" * 5_000]
    assert any(opened is kept for opened in module._opened)
    kept.rest()
    assert not any(opened is kept for opened in module._opened)


def test_gap_has_bounds_and_no_entry_is_shorter_than_it() -> None:
    for gap in (-1, GAP_MAX + 1):
        with pytest.raises(InvalidRequest, match="gap"):
            Packed(b"", b"", False, gap)
    with pytest.raises(InvalidRequest, match="ends before it begins"):
        Packed(b"abcde", ends_of([3, 2]), False, 3)


@given(st.lists(st.text(max_size=20), max_size=30))
def test_texts_come_out_as_they_went_in(texts: list[str]) -> None:
    for packed in (pack_texts(texts), Texts(squeezed(pack_texts(texts).packed))):
        assert list(packed) == texts
        assert [packed[at] for at in range(len(packed))] == texts


def number(value: int) -> bytes:
    return value.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("content", "ends", "rule"),
    [
        (b"abc", b"\3\0\0", "4 bytes for each"),
        (b"abc", number(2) + number(1), "ends before it begins"),
        (b"abc", number(1 << 31), "ends before it begins"),  # below 0, as it is read
        (b"abc", number(2), "the end of the content"),
        (b"abc", number(4), "the end of the content"),
        (b"abc", b"", "the end of the content"),
        (b"", number(PLAIN_BYTES_MAX + 1), "at most"),
    ],
)
def test_ends_that_are_none_are_refused(content: bytes, ends: bytes, rule: str) -> None:
    with pytest.raises(InvalidRequest, match=rule):
        Packed(content, ends)


FRAME = zstd.compress(b"abc" * 1_000)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"abc" * 1_000,
        FRAME[:-1],
        FRAME + b"x",
        FRAME + FRAME,
        zstd.compress(b"abc" * 1_000 + b"x"),
        zstd.compress(b"abc" * 999),
    ],
)
def test_content_that_is_no_frame_of_that_size_is_refused(content: bytes) -> None:
    assert len(Packed(FRAME, number(3_000), True)) == 1
    with pytest.raises(InvalidRequest, match="zstd"):
        Packed(content, number(3_000), True)


def test_frame_that_would_become_a_gigabyte_takes_no_memory() -> None:
    bomb = zstd.compress(bytes(1 << 30))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="zstd"):
            Packed(bomb, number(3_000), True)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_frame_that_asks_for_a_large_window_is_refused() -> None:
    wide: dict[int, int] = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.content_size_flag: 0}
    writer = zstd.ZstdCompressor(options=wide)
    frame = writer.compress(b"abc" * 1_000) + writer.flush()
    with pytest.raises(InvalidRequest, match="zstd"):
        Packed(frame, number(3_000), True)


@pytest.mark.parametrize("contents", [[b"\xff"], ["é".encode()[:1], "é".encode()[1:]]])
def test_texts_that_are_not_utf8_are_refused(contents: list[bytes]) -> None:
    with pytest.raises(InvalidRequest, match="UTF-8"):
        Texts(pack(contents))


def test_what_does_not_get_shorter_is_not_compressed() -> None:
    assert compressed(random.Random(1).randbytes(100_000)) is None
    assert compressed(b"a" * 100) is None
    assert compressed(b"a" * 100_000) is not None


def test_ends_are_sums_of_sizes() -> None:
    assert ends_of([1, 0, 300]) == number(1) + number(1) + number(301)


def test_only_the_last_ones_stay_decompressed() -> None:
    columns = [squeezed(pack([b"%d" % number])) for number in range(OPENED_MAX + 2)]
    assert [column[0] for column in columns] == [b"%d" % number for number in range(OPENED_MAX + 2)]
    assert [column._plain is None for column in columns] == [True, True] + [False] * OPENED_MAX
    assert columns[0][0] == b"0"
