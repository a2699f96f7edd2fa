"""A server in this process, with a clock that only the test moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from tenure.core.clock import Now
from tenure.core.tenant import ROLE_NAMES
from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.http.door import HttpDoor
from tenure.server.server import Server
from tenure.server.tcp import Connection, Door
from tenure.store.embedded.memory import MemoryStore
from tenure.store.embedded.sqlite import SqliteStore
from tests.server.talk import LINES, Address, Manner, Talk, connect

BEGIN_MS: Final = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0

    def __call__(self) -> Now:
        return Now(BEGIN_MS + self.passed_ms, self.passed_ms)

    @property
    def wall_ms(self) -> int:
        return BEGIN_MS + self.passed_ms


class House:
    def __init__(self, settings: Settings, store: MemoryStore | SqliteStore | None = None) -> None:
        self.clock = Clock()
        self.store: MemoryStore | SqliteStore = store or MemoryStore()
        self.server = Server(settings, self.store, self.clock)
        self._talks: list[Talk] = []

    @property
    def address(self) -> Address:
        return ("127.0.0.1", self.server.tcp_port)

    @property
    def doors(self) -> list[Door]:
        """The sockets among them."""
        return [door for door in self.server._doors if isinstance(door, Door)]

    @property
    def http(self) -> HttpDoor:
        [door] = [door for door in self.server._doors if isinstance(door, HttpDoor)]
        return door

    @property
    def connections(self) -> list[Connection]:
        return [each for door in self.doors for each in door.connections.values()]

    async def talk(self, manner: Manner = LINES, token: str = "", hello: bool = True, address: Address = "") -> Talk:
        made = await connect(address or self.address, manner)
        self._talks.append(made)
        if token:
            await made.do("AUTH", token=token)
        if hello:
            await made.do("HELLO", version=1, client="test")
        return made

    async def advance(self, ms: int) -> None:
        self.clock.passed_ms += ms
        await self.store.tick(self.clock())

    async def until_calls(self, count: int) -> None:
        """Until so many requests are in progress: the server has read them, and they wait."""
        async with asyncio.timeout(20):
            while sum(len(each._calls) for each in self.connections) != count:
                await asyncio.sleep(0)

    async def close(self) -> None:
        for talk in self._talks:
            await talk.close()
        await self.server.stop()


@asynccontextmanager
async def serving(store: MemoryStore | SqliteStore | None = None, **settings: Any) -> AsyncIterator[House]:
    house = House(Settings(**{"tcp_port": 0, "http": False, "grpc": False, **settings}), store)
    await house.server.start()
    house.server.handler._arm = lambda: None
    try:
        yield house
    finally:
        await house.close()


def token(text: str, roles: tuple[str, ...] = tuple(ROLE_NAMES), **scope: Any) -> Token:
    return Token(hash_token(text), roles, **scope)
