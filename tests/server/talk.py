"""A client as anybody could write it: a socket, and lines of JSON or frames of JSON or MessagePack."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

PATIENCE_S: Final = 20.0

Message = dict[str, Any]
Address = tuple[str, int] | str


class Manner(NamedTuple):
    """How a connection speaks."""

    name: str
    is_json: bool
    is_framed: bool


LINES: Final = Manner("lines", True, False)
FRAMES: Final = Manner("frames", False, True)
JSON_FRAMES: Final = Manner("json-frames", True, True)
MANNERS: Final = (LINES, FRAMES, JSON_FRAMES)


def encode(message: Message, manner: Manner) -> bytes:
    body = msgspec.json.encode(message) if manner.is_json else msgspec.msgpack.encode(message)
    return wrap(body, manner)


def wrap(body: bytes, manner: Manner) -> bytes:
    return len(body).to_bytes(4) + body if manner.is_framed else body + b"\n"


class Talk:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, manner: Manner) -> None:
        self.reader = reader
        self.writer = writer
        self.manner = manner

    def send(self, command: str, **fields: Any) -> None:
        self.writer.write(encode({"cmd": command, **fields}, self.manner))

    async def receive(self) -> Message:
        async with asyncio.timeout(PATIENCE_S):
            body = await self._body()
        found: Message = msgspec.json.decode(body) if self.manner.is_json else msgspec.msgpack.decode(body)
        return found

    async def _body(self) -> bytes:
        if not self.manner.is_framed:
            return await self.reader.readuntil(b"\n")
        return await self.reader.readexactly(int.from_bytes(await self.reader.readexactly(4)))

    async def ask(self, command: str, **fields: Any) -> Message:
        self.send(command, **fields)
        return await self.receive()

    async def do(self, command: str, **fields: Any) -> Message:
        """What must work."""
        answer = await self.ask(command, **fields)
        assert answer.get("ok") is True, (command, fields, answer)
        return answer

    async def refused(self, command: str, **fields: Any) -> str:
        """The code of what must not work."""
        answer = await self.ask(command, **fields)
        assert answer["ok"] is False, (command, fields, answer)
        assert answer["error"]
        return str(answer["code"])

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(PATIENCE_S):
            await self.writer.drain()

    async def ended(self) -> bytes:
        """What is left to read until the other side has closed."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


async def connect(address: Address, manner: Manner = LINES) -> Talk:
    async with asyncio.timeout(PATIENCE_S):
        if isinstance(address, str):
            streams = await asyncio.open_unix_connection(address, limit=2**25)
        else:
            streams = await asyncio.open_connection(*address, limit=2**25)
    return Talk(*streams, manner)


@asynccontextmanager
async def talking(address: Address, manner: Manner = LINES) -> AsyncIterator[Talk]:
    talk = await connect(address, manner)
    try:
        yield talk
    finally:
        await talk.close()
