"""The stores that a worker is tried on: in this process, in a file, behind a server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore

PLACES = ("memory", "sqlite", "server")


@asynccontextmanager
async def place(name: str, folder: Path) -> AsyncIterator[str]:
    """The URL of a store."""
    if name == "memory":
        yield "memory://"
    elif name == "sqlite":
        yield f"sqlite:///{folder}/jobs.db?durability=relaxed"
    else:
        server = Server(Settings(tcp_port=0, http=False, grpc=False), MemoryStore())
        await server.start()
        try:
            yield f"tenure://127.0.0.1:{server.tcp_port}"
        finally:
            await server.stop()
