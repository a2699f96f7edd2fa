"""A Tenure server for the benchmark: as `tenure serve`, on a port that it prints."""

import asyncio
import sys

import uvloop

from tenure.server.collector import collecting
from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.url import open_store


async def main() -> None:
    server = Server(Settings(tcp_port=0, http=False, grpc=False), open_store(sys.argv[1]))
    await server.start()
    async with collecting(lambda: server.handler.requests):
        print(server.tcp_port, flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    uvloop.run(main())
