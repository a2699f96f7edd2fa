"""Unix sockets: names that are short enough for one, and listening on one that the caller has bound and removes."""

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

NAME_BYTES_MAX = 100  # of a socket; systems allow 104 to 108
DESCRIPTORS = "/proc/self/fd"  # of Linux: folders by their descriptors


@contextmanager
def reachable(path: str) -> Iterator[str]:
    """A name of the path that is short enough for a socket, while the context lasts."""
    if len(os.fsencode(path)) <= NAME_BYTES_MAX:
        yield path
        return
    folder, name = os.path.split(path)
    if not os.path.isdir(DESCRIPTORS):
        with tempfile.TemporaryDirectory(prefix="tenure") as short:
            link = os.path.join(short, "f")
            os.symlink(os.path.abspath(folder or "."), link)
            yield os.path.join(link, name)
        return
    handle = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{DESCRIPTORS}/{handle}/{name}"
    finally:
        os.close(handle)


async def serve_unix(protocol: Callable[[], asyncio.BaseProtocol], listener: socket.socket) -> asyncio.Server:
    loop = asyncio.get_running_loop()
    more: dict[str, Any] = {}
    if sys.version_info >= (3, 13) and isinstance(loop, asyncio.SelectorEventLoop):
        more["cleanup_socket"] = False  # it would look for the file by the name it was bound to, and remove it
    return await loop.create_unix_server(protocol, sock=listener, **more)
