"""Requests byte by byte, for what a well-behaved client would not send."""

import asyncio


async def exchange(port: int, *parts: bytes, until_closed: bool = False) -> bytes:
    """What is answered to bytes: the first answer, or everything until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(20):
            if until_closed:
                return await reader.read(-1)
            return await read_answer(reader)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return head + await reader.readexactly(int(value))
    return head


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
