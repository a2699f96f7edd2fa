"""Numbers and texts in bytes, for the event log and the journal.

Numbers are varints: seven bits a byte, low first, the eighth says that more follow. Signed ones are zigzag. Texts are
their length and UTF-8.
"""

from librt.strings import BytesWriter
from mypy_extensions import i64, u8


def put(out: BytesWriter, number: i64) -> None:
    while number >= 128:
        out.append(u8((number & 127) | 128))
        number = number >> 7
    out.append(u8(number))


def put_signed(out: BytesWriter, number: i64) -> None:
    put(out, number * 2 if number >= 0 else -number * 2 - 1)


def put_text(out: BytesWriter, text: str) -> None:
    if not text:
        out.append(u8(0))
        return
    put_bytes(out, text.encode("utf-8", "replace"))


def patch(out: BytesWriter, at: i64, number: i64) -> None:
    """Write four bytes, low first, where `hold` left room for them."""
    out[at] = u8(number & 255)
    out[at + 1] = u8((number >> 8) & 255)
    out[at + 2] = u8((number >> 16) & 255)
    out[at + 3] = u8((number >> 24) & 255)


def hold(out: BytesWriter) -> i64:
    """Leave room for a number that is not known yet; answers where."""
    at: i64 = len(out)
    out.write(b"\0\0\0\0")
    return at


def put_bytes(out: BytesWriter, data: bytes) -> None:
    put(out, len(data))
    out.write(data)


class Cursor:
    """Reads what the functions above wrote, from `pos` on."""

    def __init__(self, data: bytes, pos: i64) -> None:
        self.data = data
        self.pos: i64 = pos

    def number(self) -> i64:
        data = self.data
        pos: i64 = self.pos
        byte: i64 = data[pos]
        number: i64 = byte & 127
        scale: i64 = 128
        while byte >= 128:
            pos += 1
            byte = data[pos]
            number += (byte & 127) * scale
            scale *= 128
        self.pos = pos + 1
        return number

    def signed(self) -> i64:
        number: i64 = self.number()
        half: i64 = number // 2
        return half if number % 2 == 0 else -half - 1

    def text(self) -> str:
        return self.blob().decode()

    def blob(self) -> bytes:
        size: i64 = self.number()
        start: i64 = self.pos
        self.pos = start + size
        return self.data[start : start + size]
