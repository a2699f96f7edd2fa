"""Frames: a length of four bytes, big-endian, and a body. Nothing here reads or writes."""

from tenure.core.error import PayloadTooLarge
from tenure.wire.limit import FRAME_BYTES_MAX, HEADER_BYTES


def frame(body: bytes) -> bytes:
    if len(body) > FRAME_BYTES_MAX:
        raise PayloadTooLarge(len(body), FRAME_BYTES_MAX, "frame")
    return len(body).to_bytes(HEADER_BYTES) + body


class Frames:
    """Cuts what arrives into bodies. A length over the bound is refused before a byte of its body is stored."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        buffer = self._buffer
        buffer += data
        found: list[bytes] = []
        at = 0
        while len(buffer) - at >= HEADER_BYTES:
            size = int.from_bytes(buffer[at : at + HEADER_BYTES])
            if size > FRAME_BYTES_MAX:
                raise PayloadTooLarge(size, FRAME_BYTES_MAX, "frame")
            end = at + HEADER_BYTES + size
            if len(buffer) < end:
                break
            found.append(bytes(memoryview(buffer)[at + HEADER_BYTES : end]))
            at = end
        del buffer[:at]
        return found
