"""Frames: a length of four bytes, big-endian, and a body. Nothing here reads or writes."""

from tenure.core.error import PayloadTooLarge
from tenure.wire.limit import FRAME_BYTES_MAX, HEADER_BYTES, MESSAGE_BYTES_MAX


def frame(body: bytes) -> bytes:
    if len(body) > FRAME_BYTES_MAX:
        raise PayloadTooLarge(len(body), FRAME_BYTES_MAX, "frame")
    return len(body).to_bytes(HEADER_BYTES) + body


class PublicFrames:
    """Cuts what arrives into bodies. A length over the bound is refused before a byte of its body is stored."""

    def __init__(self, size_max: int = MESSAGE_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self.size_max = size_max

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are whole now; the rest stays in the buffer."""
        buffer = self._buffer
        size = len(data) - HEADER_BYTES
        if not buffer and 0 <= size <= self.size_max and int.from_bytes(data[:HEADER_BYTES]) == size:
            return [data[HEADER_BYTES:]]  # most come whole, and one at a time
        found: list[bytes] = []
        buffer += data
        at = 0
        while len(buffer) - at >= HEADER_BYTES:
            size = int.from_bytes(buffer[at : at + HEADER_BYTES])
            if size > self.size_max:
                raise PayloadTooLarge(size, self.size_max, "frame")
            end = at + HEADER_BYTES + size
            if len(buffer) < end:
                break
            found.append(bytes(memoryview(buffer)[at + HEADER_BYTES : end]))
            at = end
        del buffer[:at]
        return found

    def wrap(self, body: bytes) -> bytes:
        return len(body).to_bytes(HEADER_BYTES) + body


class Frames(PublicFrames):
    """Between processes on one file."""

    def __init__(self) -> None:
        super().__init__(FRAME_BYTES_MAX)


class Lines:
    """One JSON object a line. Empty lines are nothing."""

    def __init__(self, size_max: int = MESSAGE_BYTES_MAX) -> None:
        self._buffer = bytearray()
        self.size_max = size_max

    def feed(self, data: bytes) -> list[bytes]:
        buffer = self._buffer
        searched = len(buffer)
        buffer += data
        found: list[bytes] = []
        at = 0
        while (end := buffer.find(b"\n", max(at, searched))) >= 0:
            line = bytes(memoryview(buffer)[at:end]).strip()
            at = end + 1
            if line:
                found.append(line)
        del buffer[:at]
        longest = max((len(line) for line in found), default=0)
        if max(longest, len(buffer)) > self.size_max:
            raise PayloadTooLarge(max(longest, len(buffer)), self.size_max, "line")
        return found

    def wrap(self, body: bytes) -> bytes:
        return body + b"\n"
