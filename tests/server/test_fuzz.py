"""Many messages (`make fuzz` for more), valid, bent and broken, in pieces of any size: each is answered once, or the
connection is closed; nothing escapes, and nothing is kept.

The connection is fed directly, on a transport that keeps what is written; store, handler and clock are the real ones of
a server, but for the time, which the test moves.
"""

import asyncio
import json
import os
import re
from random import Random
from typing import Any, Final

import msgspec
import pytest

from tenure.server.auth import Gate
from tenure.server.caller import Grant
from tenure.server.handler import Handler
from tenure.server.tcp import Connection, Door
from tenure.store.embedded.memory import MemoryStore
from tests.server.garble import Garbler, learn
from tests.server.house import Clock
from tests.server.talk import FRAMES, JSON_FRAMES, LINES, Manner, Message

INPUTS: Final = 100_000 * int(os.environ.get("TENURE_FUZZ", "1"))
SHARES: Final = ((LINES, 1), (LINES, 2), (FRAMES, 3), (FRAMES, 4), (JSON_FRAMES, 5))
PER_CONNECTION: Final = 40
PER_STORE: Final = 2_000
WAIT_MS: Final = 700_000  # more than the longest wait
SETTLE_TURNS_MAX: Final = 200  # of the longest wait each
GROWTH_KB_MAX: Final = 60_000


class Transport(asyncio.Transport):
    """Keeps what is written, and whether the other side wants to be read."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.reads = True
        self.is_closed = False

    def write(self, data: Any) -> None:
        assert not self.is_closed
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        assert self.reads
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads
        self.reads = True

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Run:
    """One share of the inputs."""

    def __init__(self, manner: Manner, seed: int) -> None:
        self.manner = manner
        self.random = Random(seed)
        self.escaped: list[dict[str, Any]] = []
        self.answered = 0
        self.codes: dict[str, int] = {}

    async def go(self, count: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.escaped.append(context))
        for _ in range(count // PER_STORE):
            await self._open_store()
            for _ in range(PER_STORE // PER_CONNECTION):
                await self._converse()
                assert not self.escaped, self.escaped
            await self.store.close()

    async def _open_store(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore()
        await self.store.open(self.clock())
        handler = Handler(self.store, self.clock, lambda: None)
        self.door = Door(handler, Gate(self.clock, None, Grant("anybody")), "fuzz")

    async def _converse(self) -> None:
        """A connection, from its first byte to its end."""
        garbler = Garbler(self.random, self.manner)
        connection = self.door.protocol()
        transport = Transport()
        connection.connection_made(transport)
        asked: set[int] = set()
        bodies = 0
        answers: list[Message] = []
        for number in range(PER_CONNECTION):
            data, id = self._input(garbler, number)
            if id is not None:
                asked.add(id)
            bodies += self.manner.is_framed or bool(data.strip())
            await self._feed(connection, transport, data)
            for answer in self._answers(transport):
                learn(garbler, answer)
                answers.append(answer)
        await self._settle(connection, transport)
        answers += self._answers(transport)
        self._check(answers, asked, bodies, transport)
        connection.connection_lost(None)
        await self._spin(lambda: not connection._calls and not connection._follows)
        assert not self.door.connections
        assert not self.door.workers

    def _input(self, garbler: Garbler, number: int) -> tuple[bytes, int | None]:
        """A message, and its id if it must be answered under that."""
        random = self.random
        message = garbler.command()
        chance = random.random()
        is_whole = chance <= 0.7 or not number
        id = 1_000 + number if is_whole and random.random() < 0.8 else None
        if id is not None:
            message["reqId"] = id
        if chance < 0.35:
            fields = {name: value for name, value in message.items() if name != "reqId"}
            is_readable = garbler.bend(fields)
            message = fields if id is None else {**fields, "reqId": id}
            id = id if is_readable else None
        body = garbler.encode(message)
        if is_whole:
            return garbler.wrapped(body), id
        if chance < 0.75:
            return garbler.wrapped(random.randbytes(random.choice((1, 4, 30, 200)))), None
        return garbler.wrapped(garbler.break_bytes(body)), None

    async def _feed(self, connection: Connection, transport: Transport, data: bytes) -> None:
        random = self.random
        at = 0
        while at < len(data):
            if transport.is_closed:
                return
            if not transport.reads:
                await self._settle(connection, transport)
            size = len(data) if random.random() < 0.7 else random.choice((1, 2, 3, 5, 17, 100))
            connection.data_received(data[at : at + size])
            at += size

    async def _settle(self, connection: Connection, transport: Transport) -> None:
        """Until nothing waits any more: time passes for whatever does."""
        for _ in range(SETTLE_TURNS_MAX):
            if transport.is_closed or not (connection._calls or connection._backlog):
                return
            self.clock.passed_ms += WAIT_MS
            await self.store.tick(self.clock())
            await self._spin(lambda: not connection._calls and not connection._backlog, 20)
        raise AssertionError(f"a request does not end: {connection._calls}")

    async def _spin(self, is_done: Any, turns: int = 1_000) -> None:
        for _ in range(turns):
            if is_done():
                return
            await asyncio.sleep(0)
        assert turns < 1_000

    def _answers(self, transport: Transport) -> list[Message]:
        found = b"".join(transport.written)
        transport.written.clear()
        bodies = found.splitlines() if not self.manner.is_framed else list(_cut(found))
        return [_read(body) for body in bodies]

    def _check(self, answers: list[Message], asked: set[int], bodies: int, transport: Transport) -> None:
        ids: list[Any] = []
        count = 0
        for answer in answers:
            if "event" in answer:
                continue
            count += 1
            ids.append(answer.get("reqId"))
            code = answer.get("code", "")
            self.codes[code] = self.codes.get(code, 0) + 1
            assert code != "Internal", answer
        self.answered += count
        own = [id for id in ids if id in asked]
        assert len(own) == len(set(own))
        if not transport.is_closed:
            assert set(own) == asked
            assert count == bodies


def _cut(data: bytes) -> Any:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _read(body: bytes) -> Message:
    """Values are given back as they were sent, also numbers that are too large for msgspec, such as 1e398."""
    found: Message = json.loads(body) if body.startswith(b"{") else msgspec.msgpack.decode(body)
    return found


def _memory_kb() -> int:
    with open("/proc/self/status") as file:
        found = re.search(r"VmRSS:\s+(\d+)", file.read())
    assert found is not None
    return int(found[1])


@pytest.mark.slow
@pytest.mark.parametrize(("manner", "seed"), SHARES, ids=[f"{manner.name}-{seed}" for manner, seed in SHARES])
async def test_every_message_is_answered_once_or_the_connection_is_closed(manner: Manner, seed: int) -> None:
    run = Run(manner, seed)
    await run.go(4 * PER_STORE)
    before = _memory_kb()
    await run.go(INPUTS // len(SHARES) - 4 * PER_STORE)
    assert _memory_kb() - before < GROWTH_KB_MAX
    assert run.answered > INPUTS // len(SHARES) // 3
    assert {"", "InvalidRequest", "JobNotFound", "Unsupported"} <= set(run.codes)
