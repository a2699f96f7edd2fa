"""uvicorn's protocols with what they lack: bounds on the head of a request, in size and in time, errors in JSON, and a
bound on the messages of a WebSocket that has not authenticated.

llhttp, strict, refuses what two servers could read in two ways: a length together with chunks, two lengths, a bare
newline. Whatever it refuses ends the connection.
"""

import asyncio
import re
import weakref
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from tenure.core.error import Error
from tenure.server.entrance import Visit
from tenure.wire import limit

VISIT = "visit"  # in the state of a connection: how it is counted at the entrance
SOCKET = "socket"  # of a WebSocket: a weak reference to its protocol, which refers to that state
NO_SNIFF = (b"x-content-type-options", b"nosniff")  # on everything: no browser is to guess what an answer is
HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(:[0-9]{0,5})?")
CODES = {408: "RequestTimeout", 414: "RequestUriTooLong", 431: "RequestHeaderFieldsTooLarge"}  # else InvalidRequest
FRAGMENTS_MAX = 1_024  # of one message
FRAGMENTED = 1009  # the code of the close frame: the message is too big


class State(ServerState):
    """What the connections share. The date of answers is written anew when a second has passed and somebody asks."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        super().__init__()
        self._wall_ms = wall_ms
        self._second = -1

    def date(self, second: int) -> None:
        if second != self._second:
            self._second = second
            date = formatdate(self._wall_ms() / 1_000, usegmt=True).encode()
            self.default_headers = [(b"date", date), NO_SNIFF]


class _Refused(Exception):
    pass


class Protocol(HttpToolsProtocol):
    def __init__(
        self,
        config: Config,
        server_state: State,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._state = server_state
        self._visit: Visit | None = app_state.get(VISIT)
        self._is_in_head = True
        self._awaits_body = False
        self._head_bytes = 0
        self._passed_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._status = 400
        self._why = "this is no request of HTTP 1.1"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._timer = self.loop.call_later(limit.HTTP_HEAD_S, self._end_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        if self._visit is not None:
            self._visit.leave()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > limit.HTTP_HEAD_BYTES_MAX:
                self._note_large()
                self.send_400_response("")
            elif self._timer is None:
                self._timer = self.loop.call_later(limit.HTTP_HEAD_S, self._end_slow)
        elif self._awaits_body and self.transport.get_protocol() is self:
            self._stop_timer()
            self._timer = self.loop.call_later(limit.HTTP_BODY_S, self._end_slow)

    def on_message_begin(self) -> None:
        self._is_in_head = True
        self._head_bytes = 0
        self._passed_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._awaits_body = True
        if self._timer is not None:
            self._stop_timer()
        if len(self.url) > limit.HTTP_URL_BYTES_MAX:
            self._status, self._why = 414, f"the address has more than {limit.HTTP_URL_BYTES_MAX} bytes"
            raise _Refused
        if len(self.headers) > limit.HTTP_HEADERS_MAX or self._size() > limit.HTTP_HEAD_BYTES_MAX:
            self._note_large()
            raise _Refused
        hosts = [value for name, value in self.headers if name == b"host"]
        is_old = self.parser.get_http_version() == "1.0" and not hosts
        if not is_old and (len(hosts) != 1 or HOST.fullmatch(hosts[0]) is None):
            self._why = "a request has one Host, and it is a name or an address, perhaps with a port"
            raise _Refused
        self._state.date(int(self.loop.time()))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """The rest of a body that was refused is let pass, so that the answer can be read, up to a point."""
        if self.cycle.response_complete:
            self._passed_bytes += len(body)
            if self._passed_bytes > limit.MESSAGE_BYTES_MAX:
                self.transport.close()
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._awaits_body = False
        if self._timer is not None:
            self._stop_timer()
        super().on_message_complete()

    def _size(self) -> int:
        return sum(len(name) + len(value) for name, value in self.headers)

    def _note_large(self) -> None:
        most = f"{limit.HTTP_HEADERS_MAX} headers or {limit.HTTP_HEAD_BYTES_MAX} bytes"
        self._status, self._why = 431, f"the headers have more than {most}"

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_slow(self) -> None:
        self._timer = None
        if self._awaits_body and not self.cycle.response_started:
            self._status, self._why = 408, f"nothing of the body came for {limit.HTTP_BODY_S:g} s"
            self.send_400_response("")
        elif (self._is_in_head or self._awaits_body) and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Of uvicorn's words only the log is told; ours say what it was."""
        del msg
        if self.transport.is_closing():
            return
        status = HTTPStatus(self._status)
        code = CODES.get(self._status, "InvalidRequest")
        self.transport.write(last_answer(status, {"error": self._why, "code": code, "detail": {}}))
        self.transport.close()


def last_answer(status: HTTPStatus, fields: dict[str, object], more: str = "") -> bytes:
    """Before a connection is closed."""
    body = msgspec.json.encode(fields)
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n{more}"
    head += "x-content-type-options: nosniff\r\n"
    head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


def refusal(error: Error) -> bytes:
    """What is answered to a connection that is not let in."""
    fields: dict[str, object] = {"error": error.message, "code": error.code, "detail": error.fields}
    return last_answer(HTTPStatus.SERVICE_UNAVAILABLE, fields, "retry-after: 1\r\n")


class SocketProtocol(WebSocketsSansIOProtocol):
    """Until the peer has authenticated its messages are as small as those of the sockets."""

    def __init__(
        self,
        config: Config,
        server_state: State,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, SOCKET: weakref.ref(self)}, _loop)
        self._visit: Visit | None = app_state.get(VISIT)
        self.conn.max_message_size = limit.STRANGER_BYTES_MAX

    def take_large(self) -> None:
        self.conn.max_message_size = limit.MESSAGE_BYTES_MAX

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) >= FRAGMENTS_MAX:
            self.conn.fail(FRAGMENTED, "too many fragments")
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._visit is not None:
            self._visit.leave()
        self.frames = []
        self.conn.parser.close()  # it holds what has come of a message, and itself
