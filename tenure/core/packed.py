"""Columns in one piece of memory: all contents one behind the other, and where each of them ends.

Of a load that waits for its publication, and of a batch that nobody has claimed from yet, nobody looks at a single
payload or key. An object for each takes twice the memory of its bytes, and memory that was not used before is what a
large load is longest about. So a column stays the bytes that came, compressed if they came so, also in the journal; an
entry is cut out of it when it is asked for.
"""

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64

from tenure.core.error import InvalidRequest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

END_BYTES: Final = 4
PLAIN_BYTES_MAX: Final = 16 * 1024 * 1024  # of a column, before compression
WINDOW_LOG_MAX: Final = 24  # of a compressed column: what reading it may take besides, as a power of two
PIECE_BYTES: Final = 64 * 1024  # that are read at once to check it
OPENED_MAX: Final = 4  # columns that stay decompressed
GAP_MAX: Final = 64  # bytes before each entry; they take room and count for nothing
LEVEL: Final = 1
WORTH_BYTES: Final = 1024  # less is not compressed


class Packed:
    """Contents in one piece. `ends` has where each of them ends, 4 bytes a number, the lowest byte first; they are
    places in `content`, or in what it is when it is decompressed. Before each entry are `gap` bytes that are not of
    it."""

    def __init__(self, content: bytes, ends: bytes, is_compressed: bool = False, gap: i64 = 0) -> None:
        self.content = content
        self.ends = ends
        self.is_compressed = is_compressed
        self.gap: i64 = gap
        self.count: i64 = len(ends) // END_BYTES
        self.longest: i64 = _longest(ends, gap)
        end: i64 = i64(read_i32_le(ends, len(ends) - END_BYTES)) if ends else 0
        self.bytes: i64 = end - self.count * gap  # of all entries
        if end > PLAIN_BYTES_MAX:
            raise InvalidRequest("content", f"{int(end)} bytes", f"it has at most {PLAIN_BYTES_MAX} of them")
        self._plain: bytes | None = None  # if it was compressed, while somebody looks at it
        if is_compressed:
            _check_frame(content, int(end))
        elif len(content) == end:
            self._plain = content
        else:
            raise InvalidRequest("ends", int(end), f"the last must be the end of the content, {len(content)}")

    def __len__(self) -> int:
        return int(self.count)

    def __getitem__(self, at: int) -> bytes:
        return self.entry(at)

    def __iter__(self) -> Iterator[bytes]:
        for at in range(len(self)):
            yield self.entry(at)

    def entry(self, at: i64) -> bytes:
        return self.plain()[self._start(at) : read_i32_le(self.ends, END_BYTES * at)]

    def part(self, first: i64, count: i64) -> "Packed":
        """Some of its entries, at least one, in a piece of their own that is not compressed."""
        begin: i64 = self._start(first) - self.gap
        ends = BytesWriter()
        at: i64 = first
        while at < first + count:
            write_i32_le(ends, i32(i64(read_i32_le(self.ends, END_BYTES * at)) - begin))
            at += 1
        end = read_i32_le(self.ends, END_BYTES * (at - 1))
        return Packed(self.plain()[begin:end], ends.getvalue(), False, self.gap)

    def plain(self) -> bytes:
        plain = self._plain
        if plain is None:
            plain = _reader().decompress(self.content)
            self._plain = plain
            _opened.append(self)
            if len(_opened) > OPENED_MAX:
                _opened.pop(0).rest()
        return plain

    def size(self, at: i64) -> i64:
        return i64(read_i32_le(self.ends, END_BYTES * at)) - self._start(at)

    def _start(self, at: i64) -> i64:
        return (i64(read_i32_le(self.ends, END_BYTES * (at - 1))) if at > 0 else 0) + self.gap

    def rest(self) -> None:
        """Nobody will look at an entry soon."""
        if self.is_compressed and self._plain is not None:
            self._plain = None
            if self in _opened:
                _opened.remove(self)


_opened: list[Packed] = []  # those that were decompressed last


def _longest(ends: bytes, gap: i64) -> i64:
    """The size of the largest entry; refuses ends that are none."""
    if len(ends) % END_BYTES:
        raise InvalidRequest("ends", len(ends), f"it must have {END_BYTES} bytes for each entry")
    if not 0 <= gap <= GAP_MAX:
        raise InvalidRequest("gap", int(gap), f"it must be from 0 to {GAP_MAX}")
    longest: i64 = 0
    last: i64 = 0
    place: i64 = 0
    while place < len(ends):
        end = i64(read_i32_le(ends, place))
        if end < last + gap:
            raise InvalidRequest("ends", int(end), f"entry {int(place // END_BYTES)} ends before it begins")
        longest = max(longest, end - last - gap)
        last = end
        place += END_BYTES
    return longest


def _reader() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG_MAX})


def _check_frame(content: bytes, size: int) -> None:
    """That it becomes so many bytes. It is read piece by piece: whatever it claims to be takes no memory."""
    reader = _reader()
    left = size
    try:
        left -= len(reader.decompress(content, PIECE_BYTES))
        while left >= 0 and not reader.eof and not reader.needs_input:
            left -= len(reader.decompress(b"", PIECE_BYTES))
    except zstd.ZstdError as error:
        raise InvalidRequest("content", f"{len(content)} bytes", f"it must be a frame of zstd: {error}") from None
    if left or not reader.eof or reader.unused_data:
        raise InvalidRequest("content", f"{len(content)} bytes", f"it must be one frame of zstd, of {size} bytes")


def compressed(content: bytes) -> bytes | None:
    """None when it is not worth it."""
    if len(content) < WORTH_BYTES:
        return None
    shorter = zstd.compress(content, LEVEL)
    return shorter if len(shorter) < len(content) * 9 // 10 else None


class Texts:
    """Texts in one piece, as UTF-8."""

    def __init__(self, packed: Packed) -> None:
        self.packed = packed
        for at in range(0 if packed.plain().isascii() else len(packed)):
            try:
                packed.entry(at).decode()
            except UnicodeDecodeError as error:
                raise InvalidRequest("content", f"entry {at}", f"it must be UTF-8: {error.reason}") from None

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, at: int) -> str:
        return self.packed.entry(at).decode()

    def __iter__(self) -> Iterator[str]:
        for content in self.packed:
            yield content.decode()


def pack(contents: list[bytes]) -> Packed:
    ends = BytesWriter()
    end: i64 = 0
    for content in contents:
        end += len(content)
        write_i32_le(ends, i32(end))
    return Packed(b"".join(contents), ends.getvalue())


def pack_texts(texts: Sequence[str]) -> Texts:
    together = "".join(texts)
    if together.isascii():
        return Texts(Packed(together.encode(), ends_of(list(map(len, texts)))))
    return Texts(pack([text.encode() for text in texts]))


def ends_of(sizes: Sequence[int]) -> bytes:
    ends = array("I", accumulate(sizes))
    if sys.byteorder == "big":
        ends.byteswap()
    return ends.tobytes()
