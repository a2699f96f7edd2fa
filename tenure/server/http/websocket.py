"""`/v1/ws`: the commands of the sockets over a WebSocket, one a message; text is JSON, binary MessagePack or JSON.

The connection is that of the sockets, told what comes in and given a transport that writes messages. So whatever holds
there holds here: requests side by side, subscriptions, bounds both ways.
"""

import asyncio
import functools
from collections import deque
from typing import Any

from starlette.types import Receive, Scope, Send

from tenure.core.error import Error
from tenure.server.http.guard import Guard
from tenure.server.http.protocol import NO_SNIFF, SOCKET, VISIT
from tenure.server.http.refusal import Refusal, refuse, say_error
from tenure.server.tcp import Door
from tenure.wire.format import JSON_FORMAT
from tenure.wire.frame import Lines, PublicFrames

PATH = "/v1/ws"
HIGH_BYTES = 1024 * 1024  # unsent, above which nothing more is read from the client
GOING_AWAY = 1001


class Texts(Lines):
    """A message is a whole command, and was bounded when it was read."""

    def feed(self, data: bytes) -> list[bytes]:
        return [data]

    def wrap(self, body: bytes) -> bytes:
        return body


class Binaries(PublicFrames):
    def feed(self, data: bytes) -> list[bytes]:
        return [data]

    def wrap(self, body: bytes) -> bytes:
        return body


class Messages(asyncio.Transport):
    """What a connection writes to: messages wait here until the client takes them."""

    def __init__(self) -> None:
        super().__init__()
        self._unsent: deque[bytes] = deque()
        self._bytes = 0
        self._is_closing = False
        self._more = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._connection: Any = None
        self._is_full = False

    def serve(self, connection: Any) -> None:
        self._connection = connection
        connection.connection_made(self)

    def write(self, data: Any) -> None:
        self._unsent.append(bytes(data))
        self._bytes += len(data)
        self._more.set()
        if self._bytes > HIGH_BYTES and not self._is_full:
            self._is_full = True
            self._connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self._bytes

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        self._more.set()
        self._may_read.set()

    def forget(self) -> None:
        """The connection, which refers to this."""
        self._unsent.clear()
        self._connection = None

    def abort(self) -> None:
        self._unsent.clear()
        self.close()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    async def readable(self) -> bool:
        await self._may_read.wait()
        return not self._is_closing

    async def send_all(self, send: Send) -> None:
        """Until it is closed and everything is sent."""
        while True:
            while self._unsent:
                body = self._unsent.popleft()
                if body[:1] == b"{":
                    await send({"type": "websocket.send", "text": body.decode()})
                else:
                    await send({"type": "websocket.send", "bytes": body})
                self._bytes -= len(body)
                if self._is_full and self._bytes <= HIGH_BYTES // 2:
                    self._is_full = False
                    self._connection.resume_writing()
            if self._is_closing:
                return
            self._more.clear()
            await self._more.wait()


async def serve_socket(door: Door, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    await receive()
    connection = door.protocol()
    connection.on_admitted = functools.partial(_admit, scope["state"])
    if connection.is_known:
        _admit(scope["state"])
    try:
        if scope["path"] != PATH:
            raise Refusal(404, "NotFound", f"WebSockets are at {PATH}")
        guard.check("POST", headers)
        if b"authorization" in headers:
            connection.admit(guard.caller(headers))
    except (Error, Refusal) as error:
        made = say_error(error, JSON_FORMAT) if isinstance(error, Error) else refuse(error, JSON_FORMAT)
        said = [*made.headers, NO_SNIFF]
        await send({"type": "websocket.http.response.start", "status": made.status, "headers": said})
        await send({"type": "websocket.http.response.body", "body": made.body})
        return
    await send({"type": "websocket.accept"})
    transport = Messages()
    transport.serve(connection)
    reading = asyncio.get_running_loop().create_task(_read(connection, transport, receive))
    try:
        await transport.send_all(send)
        await send({"type": "websocket.close", "code": GOING_AWAY})
    except Exception:  # the client went while it was written to, which uvicorn says with an error of its own
        pass
    finally:
        reading.cancel()
        connection.connection_lost(None)
        transport.forget()


def _admit(state: dict[str, Any]) -> None:
    state[VISIT].recognise()
    protocol = state[SOCKET]()
    if protocol is not None:
        protocol.take_large()


async def _read(connection: Any, transport: Messages, receive: Receive) -> None:
    is_first = True
    try:
        while await transport.readable():
            message = await receive()
            if message["type"] != "websocket.receive":
                return
            text = message.get("text")
            body: bytes = message.get("bytes") or b"" if text is None else text.encode()
            if is_first:
                connection.cut_by(Binaries() if text is None else Texts())
                is_first = False
            if body:
                connection.data_received(body)
    finally:
        transport.abort()
