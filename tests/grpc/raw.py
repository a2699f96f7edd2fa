"""HTTP/2 byte by byte, for what a well-behaved client of gRPC would not send."""

import asyncio
import struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, WINDOW_UPDATE = 0, 1, 4, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW: Final = 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name: str, value: str) -> bytes:
    """A header that is not indexed and not compressed."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class RawCaller:
    """One connection, whose streams have no window: the server can send nothing on them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._stream = 1

    def call(self, path: str, message: bytes | None = b"", **metadata: str) -> int:
        """Without a `message` the request is begun and not ended."""
        stream = self._stream
        self._stream += 2
        known = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
        more = {"content-type": "application/grpc", "te": "trailers", **metadata}
        head = b"".join(literal(name, value) for name, value in {**known, **more}.items())
        self.writer.write(frame(HEADERS, END_HEADERS, stream, head))
        if message is not None:
            self.writer.write(frame(DATA, END_STREAM, stream, b"\x00" + len(message).to_bytes(4) + message))
        return stream

    async def frames_until(self, kind: int, stream: int) -> bytes:
        """The payload of the next one of that kind."""
        while True:
            head = await self.reader.readexactly(9)
            payload = await self.reader.readexactly(int.from_bytes(head[:3]))
            if head[3] == SETTINGS and not head[4] & ACK:
                self.writer.write(frame(SETTINGS, ACK, 0))
            if head[3] == kind and int.from_bytes(head[5:]) == stream:
                return payload

    def close(self) -> None:
        self.writer.close()


async def call_raw(port: int, window: int = 0) -> RawCaller:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW, window)))
    return RawCaller(reader, writer)
