"""A server on a real port, in this process, and clients of it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.server import Server
from tenure.store.contract import Store
from tenure.store.embedded.memory import MemoryStore
from tests.http.store import PLAIN

Serve = Callable[..., Any]


class Served:
    """A server and a client of it. `say` answers status and fields."""

    def __init__(self, server: Server, client: httpx.AsyncClient) -> None:
        self.server = server
        self.client = client
        self._is_stopped = False

    async def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            await self.server.stop()

    @property
    def port(self) -> int:
        return self.server.http_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def say(self, method: str, path: str, body: Any = None, token: str = "", **headers: str) -> tuple[int, Any]:
        found = await self.ask(method, path, body, token, **headers)
        return found.status_code, found.json()

    async def ask(self, method: str, path: str, body: Any = None, token: str = "", **headers: str) -> httpx.Response:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            more["authorization"] = f"Bearer {token}"
        given: dict[str, Any] = {} if body is None else {"json": body}
        return await self.client.request(method, path, headers=more, **given)

    async def push(self, queue: str = "mail", **fields: Any) -> int:
        status, found = await self.say("POST", f"/v1/queues/{queue}/jobs", fields)
        assert status == 201, found
        return int(found["id"])

    async def claim(self, queue: str = "mail", **fields: Any) -> dict[str, Any]:
        status, found = await self.say("POST", "/v1/claims", {"queue": queue, "timeout": 0, **fields})
        assert status == 200, found
        [job] = found["jobs"]
        return dict(job)


@asynccontextmanager
async def serving(
    store: Store | None = None, tokens: dict[str, Token] | None = None, **settings: Any
) -> AsyncIterator[Served]:
    """`tokens` by their text; their hash is filled in."""
    known = {name: Token(hash_token(name), *_rest(token)) for name, token in (tokens or {}).items()}
    server = Server(Settings(tcp=False, http_port=0, grpc=False, tokens=known, **settings), store or MemoryStore())
    await server.start()
    url = f"http://127.0.0.1:{server.http_port}"
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False, verify=PLAIN) as client:
        served = Served(server, client)
        try:
            yield served
        finally:
            await served.stop()


def _rest(token: Token) -> tuple[Any, ...]:
    return token.roles, token.tenants, token.queues, token.rate


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(serving())
