"""The jobs of a batch as MessagePack says them, taken as a column of payloads without reading one after the other.

Most jobs of a batch ask for nothing of their own: `{"data": ...}` again and again. Where each of them ends is found by
stepping over it, and the bytes that came stay the column, with the head of each map as a gap before its payload. What
was read before is known to be MessagePack; what a payload says is not looked at.

This module is compiled with the core and the engine: it looks at bytes one by one.
"""

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i16_le, read_i32_be, read_i32_le, write_i32_le
from mypy_extensions import i32, i64

from tenure.core.packed import PLAIN_BYTES_MAX, Packed

HEAD: Final = b"\x81\xa4data"  # of a map with one entry
HEAD_BYTES: Final = 6
_HEAD_FRONT: Final = int.from_bytes(HEAD[:4], "little")
_HEAD_BACK: Final = int.from_bytes(HEAD[4:], "little")

BIN_8: Final = 0xC4
BIN_16: Final = 0xC5
BIN_32: Final = 0xC6
WIDTHS: Final = {BIN_8: 2, BIN_16: 3, BIN_32: 5}  # of what stands before the content


def cut_column(items: bytes, count: i64, is_wrapped: bool) -> Packed | None:
    """Payloads of so many jobs, one behind the other; None when some job asks for more than to be stored. `is_wrapped`:
    payloads are the content of binary values; None when some are not, or the sizes of some are said in another way."""
    front = i32(_HEAD_FRONT)
    back = i64(_HEAD_BACK)
    if not count * (HEAD_BYTES + 1) <= len(items) <= PLAIN_BYTES_MAX:
        return None
    ends = BytesWriter()
    wrap: i64 = items[HEAD_BYTES] if is_wrapped and count > 0 else 0
    if is_wrapped and wrap not in WIDTHS:
        return None
    at: i64 = 0
    left: i64 = count
    while left > 0:
        if at + HEAD_BYTES >= len(items) or read_i32_le(items, at) != front or i64(read_i16_le(items, at + 4)) != back:
            return None
        at += HEAD_BYTES
        if is_wrapped and i64(items[at]) != wrap:
            return None
        at = _end_of(items, at)
        write_i32_le(ends, i32(at))
        left -= 1
    if at != len(items):
        return None
    return Packed(items, ends.getvalue(), False, HEAD_BYTES + WIDTHS[wrap] if is_wrapped else HEAD_BYTES)


def _end_of(data: bytes, at: i64) -> i64:
    """Where the value ends that begins there."""
    left: i64 = 1
    while left > 0:
        left -= 1
        kind: i64 = data[at]
        at += 1
        if kind < 0x80 or kind >= 0xE0:  # a small number
            continue
        if kind < 0x90:  # a small map
            left += (kind & 15) * 2
        elif kind < 0xA0:  # a small list
            left += kind & 15
        elif kind < 0xC0:  # a short text
            at += kind & 31
        elif kind < BIN_8:  # null, false, true
            continue
        elif kind == BIN_8 or kind == 0xD9:  # binary, text
            at += 1 + i64(data[at])
        elif kind == BIN_16 or kind == 0xDA:
            at += 2 + _short(data, at)
        elif kind == BIN_32 or kind == 0xDB:
            at += 4 + _long(data, at)
        elif kind < 0xCA:  # an extension: its size, its type
            at += (
                (2 + i64(data[at])) if kind == 0xC7 else (3 + _short(data, at)) if kind == 0xC8 else 5 + _long(data, at)
            )
        elif kind < 0xD4:  # numbers of 1 to 8 bytes
            at += NUMBER_BYTES[kind - 0xCA]
        elif kind < 0xD9:  # an extension of 1 to 16 bytes
            at += EXTENSION_BYTES[kind - 0xD4]
        elif kind == 0xDC:
            left += _short(data, at)
            at += 2
        elif kind == 0xDD:
            left += _long(data, at)
            at += 4
        elif kind == 0xDE:
            left += 2 * _short(data, at)
            at += 2
        else:
            left += 2 * _long(data, at)
            at += 4
    return at


NUMBER_BYTES: Final = b"\4\10\1\2\4\10\1\2\4\10"
EXTENSION_BYTES: Final = b"\2\3\5\11\21"


def _short(data: bytes, at: i64) -> i64:
    return i64(read_i16_be(data, at)) & 0xFFFF


def _long(data: bytes, at: i64) -> i64:
    return i64(read_i32_be(data, at)) & 0xFFFFFFFF
