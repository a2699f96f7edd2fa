"""One connection to a server: requests by number, many at once, answers in any order.

What one turn of the loop asks goes out in one write. A connection that is lost says so to everybody who waits for an
answer: nobody knows whether their request was executed.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

from tenure.core.error import Error, PayloadTooLarge, Unavailable, from_fields
from tenure.wire.format import NONSENSE, Format
from tenure.wire.frame import PublicFrames
from tenure.wire.limit import CALLS_PER_CONNECTION, MESSAGE_BYTES_MAX

PING_S = 5.0
SILENCE = 4  # pings without an answer, after which the other side is gone


class Lost(Exception):
    """The connection ended before the answer came."""


class Head(msgspec.Struct):
    """What every answer has; the rest is read by who asked."""

    ok: bool = False
    req_id: str | int | None = msgspec.field(default=None, name="reqId")
    error: str = ""
    code: str = ""
    detail: dict[str, Any] = {}
    event: Any = None


class Connection(asyncio.Protocol):
    def __init__(self, form: Format, told: Callable[[dict[str, Any]], None]) -> None:
        """`told` is given what the server says of itself: events and cancellations."""
        self._form = form
        self._told = told
        self._read_head = form.decoder(Head)
        self._read_all = form.decoder(dict[str, Any])
        self._frames = PublicFrames()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._places = asyncio.Semaphore(CALLS_PER_CONNECTION)
        self._last = 0
        self._out: list[bytes] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._unanswered = 0
        self._pinging: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pinging = asyncio.get_running_loop().call_later(PING_S, self._ping)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        if self._pinging is not None:
            self._pinging.cancel()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Lost())
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._unanswered = 0
        try:
            for body in self._frames.feed(data):
                self._take(body)
        except (*NONSENSE, PayloadTooLarge):
            self.close()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # Requests.

    async def ask(self, fields: dict[str, Any], late: Callable[[bytes], None] | None = None) -> bytes:
        """The body of the answer, or the error it says. `late` is given an answer that came when nobody waited."""
        async with self._places:
            if not self._writable.is_set():
                await self._writable.wait()
            if self._transport is None:
                raise Lost
            self._last += 1
            id = self._last
            body = self._form.encode({**fields, "reqId": id})
            if len(body) > MESSAGE_BYTES_MAX:
                raise PayloadTooLarge(len(body), MESSAGE_BYTES_MAX, "request")
            future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._waiting[id] = future
            self._send(body)
            try:
                return await future
            except asyncio.CancelledError:
                if id in self._waiting:
                    self._abort(id, future, late)
                elif late is not None and not future.cancelled() and future.exception() is None:
                    late(future.result())
                raise

    def _abort(self, id: int, future: asyncio.Future[bytes], late: Callable[[bytes], None] | None) -> None:
        """The caller does not wait any more. What it is given nevertheless has to go back."""
        future.cancel()
        if late is not None:
            tray: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
            self._waiting[id] = tray
            tray.add_done_callback(lambda done: late(done.result()) if not done.exception() else None)
        else:
            del self._waiting[id]
        self._last += 1
        self._send(self._form.encode({"cmd": "ABORT", "id": id, "reqId": self._last}))

    def _take(self, body: bytes) -> None:
        head = self._read_head(body)
        future = self._waiting.pop(head.req_id, None) if isinstance(head.req_id, int) else None
        if head.event is not None:
            self._told(self._read_all(body))
        elif future is not None and not future.done():
            if head.ok:
                future.set_result(body)
            else:
                future.set_exception(error_of(head))

    def _ping(self) -> None:
        if self._transport is None:
            return
        if self._unanswered >= SILENCE:
            self._transport.abort()
            return
        self._unanswered += 1
        self._last += 1
        self._send(self._form.encode({"cmd": "PING", "reqId": self._last}))
        self._pinging = asyncio.get_running_loop().call_later(PING_S, self._ping)

    def _send(self, body: bytes) -> None:
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(self._frames.wrap(body))

    def _flush(self) -> None:
        out, self._out = self._out, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def error_of(head: Head) -> Error:
    if not head.code:
        return Unavailable("the server answered nothing that could be read; are both of the same version?")
    return from_fields(head.code, head.error, head.detail)
