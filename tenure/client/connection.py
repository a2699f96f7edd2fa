"""One connection to a server: requests by number, many at once, answers in any order.

What one turn of the loop asks goes out in one write. A connection that is lost says so to everybody who waits for an
answer: nobody knows whether their request was executed.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

import msgspec

from tenure.core.error import Error, PayloadTooLarge, Timeout, Unavailable, from_fields
from tenure.wire.format import NONSENSE, Format
from tenure.wire.frame import PublicFrames
from tenure.wire.limit import CALLS_PER_CONNECTION, MESSAGE_BYTES_MAX

PING_S = 5.0
SILENCE = 4  # pings without an answer, after which the other side is gone


class Lost(Exception):
    """The connection ended before the answer came."""


class Unsent(Lost):
    """The connection ended before the request was sent."""


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
        self._late: dict[int, Callable[[bytes], None]] = {}  # who is given an answer that nobody waits for any more
        self._places = asyncio.Semaphore(CALLS_PER_CONNECTION)
        self._last = 0
        self._out: list[bytes] = []
        self._is_corked = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._unanswered = 0
        self._pinging: asyncio.TimerHandle | None = None
        self._is_left = False

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
        """Whether requests can be made on it."""
        return self._transport is not None and not self._is_left

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    def leave(self) -> None:
        """The server stops: no more requests are made here, and it ends with the last answer that is waited for."""
        self._is_left = True
        if not self._waiting:
            self.close()

    # Requests.

    async def ask(
        self, fields: dict[str, Any], late: Callable[[bytes], None] | None = None, until: float = math.inf
    ) -> bytes:
        """The body of the answer, or the error it says; `Timeout` when it has not come by then, on the loop's clock.
        `late` is given an answer that came when nobody waited."""
        loop = asyncio.get_running_loop()
        if self._places.locked() or not self._writable.is_set():
            await self._until_room(until)
        async with self._places:
            if not self.is_open:
                raise Unsent
            self._last += 1
            id = self._last
            body = self._form.encode({**fields, "reqId": id})
            if len(body) > MESSAGE_BYTES_MAX:
                raise PayloadTooLarge(len(body), MESSAGE_BYTES_MAX, "request")
            future: asyncio.Future[bytes] = loop.create_future()
            self._waiting[id] = future
            if late is not None:
                self._late[id] = late
            self._send(body)
            timer = None if until == math.inf else loop.call_at(until, self._expire, id, future, late)
            try:
                return await future
            except asyncio.CancelledError:
                if id in self._waiting:
                    future.cancel()
                    self._abort(id, late)
                elif late is not None and not future.cancelled() and future.exception() is None:
                    late(future.result())
                raise
            finally:
                if id not in self._waiting:
                    self._late.pop(id, None)
                if timer is not None:
                    timer.cancel()

    async def _until_room(self, until: float) -> None:
        """A place among the calls of the connection, and a peer that reads; or `Timeout`."""
        try:
            async with asyncio.timeout_at(None if until == math.inf else until):
                async with self._places:
                    await self._writable.wait()
        except TimeoutError:
            raise Timeout("the server takes no more requests; it may be overloaded") from None

    def _expire(self, id: int, future: asyncio.Future[bytes], late: Callable[[bytes], None] | None) -> None:
        if id in self._waiting and not future.done():
            future.set_exception(Timeout("the server did not answer in time"))
            self._abort(id, late)

    def _abort(self, id: int, late: Callable[[bytes], None] | None) -> None:
        """The caller does not wait any more. What it is given nevertheless has to go back."""
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
        late = self._late.pop(head.req_id, None) if isinstance(head.req_id, int) else None
        if head.event is not None:
            self._told(self._read_all(body))
        elif future is not None and future.done():
            if late is not None and head.ok:  # it was given up in the moment in which the answer came
                late(body)
        elif future is not None:
            if head.ok:
                future.set_result(body)
            else:
                future.set_exception(error_of(head))
        if self._is_left and not self._waiting:
            self.close()

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
        """The first of a turn of the loop goes at once, those behind it together."""
        frame = self._frames.wrap(body)
        if self._is_corked:
            self._out.append(frame)
            return
        self._is_corked = True
        asyncio.get_running_loop().call_soon(self._uncork)
        self._write(frame)

    def _uncork(self) -> None:
        self._is_corked = False
        if self._out:
            out, self._out = self._out, []
            self._write(b"".join(out))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def error_of(head: Head) -> Error:
    if not head.code:
        return Unavailable("the server answered nothing that could be read; are both of the same version?")
    return from_fields(head.code, head.error, head.detail)
