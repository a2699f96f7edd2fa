"""Jobs over HTTP, one a request, beside an empty JSON endpoint of the same framework on the same server software.

The load comes from another process over as many connections as there are clients, one request at a time on each.
"""

import asyncio
import re
import time
from typing import cast

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from bench.report import Report, arguments
from bench.server import apart, process
from tenure.server.collector import collecting
from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore

CLIENTS = 32
BODY = b'{"data":{"to":"a@example.com","subject":"hi"}}'
DONE = b"\r\n\r\n"
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


async def empty(_: Request) -> Response:
    return JSONResponse({})


async def serve_empty() -> int:
    app = Starlette(routes=[Route("/empty", empty, methods=["POST"])])
    config = Config(app, lifespan="off", log_config=None, access_log=False)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: HttpToolsProtocol(config, state, {}), "127.0.0.1", 0)
    return int(listener.sockets[0].getsockname()[1])


async def serve_jobs() -> None:
    server = Server(Settings(tcp=False, http_port=0, grpc=False), MemoryStore())
    await server.start()
    async with collecting(lambda: server.handler.requests):
        print(server.http_port, flush=True)
        await asyncio.get_running_loop().create_future()


async def serve(what: str) -> None:
    if what == "jobs":
        await serve_jobs()
    print(await serve_empty(), flush=True)
    await asyncio.get_running_loop().create_future()


class Client(asyncio.Protocol):
    """Asks again as soon as it is answered."""

    def __init__(self, request: bytes, until: float) -> None:
        self._request = request
        self._until = until
        self._came = b""
        self.answers = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write
        self._write(self._request)

    def data_received(self, data: bytes) -> None:
        self._came += data
        head, _, body = self._came.partition(DONE)
        length = LENGTH.search(head)
        if length is None or len(body) < int(length[1]):
            return  # there is more to come
        self._came = b""
        self.answers += 1
        if time.perf_counter() < self._until:
            self._write(self._request)
        elif not self.done.done():
            self.done.set_result(None)


async def load(port: int, path: str, seconds: float) -> float:
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}"
    request = head.encode() + DONE + BODY
    until = time.perf_counter() + seconds
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    for _ in range(CLIENTS):
        _, client = await loop.create_connection(lambda: Client(request, until), "127.0.0.1", port)
        clients.append(client)
    began = time.perf_counter()
    await asyncio.gather(*(client.done for client in clients))
    return sum(client.answers for client in clients) / (time.perf_counter() - began)


def measure(what: str, path: str, seconds: float) -> float:
    with process("-m", "bench.http", "--child", what, pinned=True) as port, apart():
        uvloop.run(load(port, path, seconds / 4))
        return uvloop.run(load(port, path, seconds))


def main() -> None:
    given = arguments(__doc__)
    if given.child:
        uvloop.run(serve(given.child))
        return
    report = Report(given.json)
    seconds, rounds = (2.0, 3) if given.quick else (5.0, 5)
    pairs = []
    for _ in range(rounds):
        reference = measure("empty", "/empty", seconds)
        pairs.append((measure("jobs", "/v1/queues/mail/jobs", seconds) / reference, reference))
    ratio, reference = sorted(pairs)[rounds // 2]
    report.add("server.http.push", ratio * reference, "jobs/s", reference, ratio)


if __name__ == "__main__":
    main()
