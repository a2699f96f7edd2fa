"""A server with every door open, and the same client behind each: a store."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tenure.client.remote import RemoteStore
from tenure.server.config import Token
from tenure.wire.format import MSGPACK_FORMAT
from tests.grpc.store import GrpcStore
from tests.http.store import HttpStore
from tests.server.house import House, serving


def over_tcp(house: House, token: str) -> RemoteStore:
    return RemoteStore(("127.0.0.1", house.server.tcp_port), token)


def over_unix(house: House, token: str) -> RemoteStore:
    return RemoteStore(house.server.settings.unix, token)


def over_http(house: House, token: str) -> RemoteStore:
    return HttpStore(lambda: house.server.http_port, token, MSGPACK_FORMAT, house.store.capabilities)


def over_grpc(house: House, token: str) -> RemoteStore:
    return GrpcStore(lambda: house.server.grpc_port, token, house.store.capabilities)


DOORS: Final[dict[str, Callable[[House, str], RemoteStore]]] = {
    "tcp": over_tcp,
    "unix": over_unix,
    "http": over_http,
    "grpc": over_grpc,
}


@asynccontextmanager
async def all_open(folder: Path, tokens: dict[str, Token] | None = None, **settings: Any) -> AsyncIterator[House]:
    where: dict[str, Any] = {"unix": str(folder / "s"), "http": True, "http_port": 0, "grpc": True, "grpc_port": 0}
    async with serving(tokens=tokens or {}, **where, **settings) as house:
        yield house


@asynccontextmanager
async def entered(house: House, door: str, token: str = "") -> AsyncIterator[RemoteStore]:
    store = DOORS[door](house, token)
    store.overloaded_tries = 1
    await store.open(house.clock())
    try:
        yield store
    finally:
        await store.close()
