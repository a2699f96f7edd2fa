"""What the loop and the sockets cost by themselves: a server that sends every frame back as it came."""

import asyncio
import sys

import uvloop

from tenure.wire.frame import PublicFrames


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self._frames = PublicFrames()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        for body in self._frames.feed(data):
            self._transport.write(self._frames.wrap(body))


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the parent ends


if __name__ == "__main__":
    uvloop.run(main())
