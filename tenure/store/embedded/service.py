"""Serves the store that this process owns to others on the same machine, over a Unix socket beside the file.

Calls of a connection run side by side. A connection that ends takes its calls with it: what a claim would have been
given is released at once. A service that stops ends what waits and refuses what is new with `Moved`, which sends the
caller to the next owner; calls that are being executed are answered first. What a client sent before it heard of that
is read and refused as well, so that it knows that nothing was done.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from tenure.core.answer import Claimed
from tenure.core.clock import Now
from tenure.core.error import Error, Internal, InvalidRequest, PayloadTooLarge, Timeout, Unavailable, Unsupported
from tenure.core.request import Settle
from tenure.core.state import SETTLE_RELEASE
from tenure.core.tenant import ANY_TENANT, Context
from tenure.store.contract import Moved, Store
from tenure.store.embedded.unix import reachable, serve_unix
from tenure.store.repeat import is_sweep, wait_ms_of
from tenure.wire import value
from tenure.wire.frame import Frames, frame
from tenure.wire.limit import CALLS_PER_CONNECTION, CONNECTIONS_MAX, UNSENT_BYTES_MAX
from tenure.wire.message import (
    NONSENSE,
    PROTOCOL,
    VERBS,
    Abort,
    Call,
    Gone,
    Hello,
    Ping,
    Pong,
    Refusal,
    Reply,
    Welcome,
    encode,
    read_request,
)

BACKLOG = 128
GONE_S = 1.0  # for clients to hear that the service stops, and to close
FINISH_S = 5.0  # for calls that are being executed when the service stops, and for their answers to be read

log = logging.getLogger("tenure")


class Service:
    def __init__(self, store: Store, epoch: int, clock: Callable[[], Now], arm: Callable[[], None]) -> None:
        """`clock` tells the time of a call, `arm` is told that one is being made."""
        self.store = store
        self.epoch = epoch
        self.clock = clock
        self.arm = arm
        self.connections: set[_Connection] = set()
        self.is_stopping = False
        self._server: asyncio.Server | None = None
        self._path = ""
        self._inode = 0
        self._removing: asyncio.Future[None] | None = None

    async def start(self, path: Path) -> None:
        """Listen there, in the place of whoever did before; only this user may connect."""
        self._path = str(path)
        made = f"{path}.{os.getpid()}"
        with suppress(FileNotFoundError):
            os.unlink(made)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with reachable(made) as name:
                listener.bind(name)
            os.chmod(made, 0o600)  # nobody can connect before it listens
            listener.listen(BACKLOG)
            listener.setblocking(False)
            self._server = await serve_unix(lambda: _Connection(self), listener)
            self._inode = os.stat(made).st_ino
            os.rename(made, path)
        except BaseException:
            listener.close()
            with suppress(FileNotFoundError):
                os.unlink(made)
            raise

    def refuse(self) -> None:
        """From now on nobody can connect, and calls are sent to the next owner."""
        if self._server is not None and not self.is_stopping:
            self._server.close()
            self._removing = asyncio.get_running_loop().run_in_executor(None, self._remove_socket)
        self.is_stopping = True

    def moved(self) -> Moved:
        return Moved("the process that owned the file does not serve it any more; the next owner does")

    async def stop(self) -> None:
        self.refuse()
        ended = [connection.end() for connection in list(self.connections)]
        await asyncio.gather(*ended)
        if self._removing is not None:
            await self._removing

    def _remove_socket(self) -> None:
        """If it is there and still ours. On a disk that fails it stays, and the next owner replaces it."""
        with suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)


class _Connection(asyncio.Protocol):
    def __init__(self, service: Service) -> None:
        self._service = service
        self._frames = Frames()
        self._backlog: deque[bytes] = deque()  # what was read at once and is not begun yet
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._waits: set[int] = set()  # those that may take long, and can be made again
        self._greeted = False
        self._reads = True
        self._transport: asyncio.Transport | None = None
        self._lost = asyncio.Event()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # that of uvloop is no subclass
        self._service.connections.add(self)
        if len(self._service.connections) > CONNECTIONS_MAX:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._lost.set()
        self._service.connections.discard(self)
        self._backlog.clear()
        for call in self._calls.values():
            call.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._backlog.extend(self._frames.feed(data))
            self._go_on()
        except (*NONSENSE, PayloadTooLarge) as error:
            log.warning("a connection to the store was ended: %s", error)
            self._drop()

    def pause_writing(self) -> None:
        self._read(False)

    def resume_writing(self) -> None:
        self._go_on()

    # Calls.

    def _go_on(self) -> None:
        """Begin what may begin; read on when nothing is left of what was read."""
        while self._backlog and len(self._calls) < CALLS_PER_CONNECTION:
            self._take(read_request(self._backlog.popleft()))
        self._read(not self._backlog)

    def _read(self, wanted: bool) -> None:
        if self._transport is not None and wanted != self._reads and not self._transport.is_closing():
            self._reads = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _take(self, request: Hello | Call | Abort | Ping) -> None:
        if isinstance(request, Call) and self._greeted and request.id not in self._calls:
            task = asyncio.get_running_loop().create_task(self._answer(request))
            self._calls[request.id] = task
            task.add_done_callback(lambda _: self._called(request.id))
        elif isinstance(request, Abort):
            if (call := self._calls.get(request.id)) is not None:
                call.cancel()
        elif isinstance(request, Ping):
            self._send(encode(Pong()))
        elif isinstance(request, Hello) and request.protocol == PROTOCOL:
            self._greeted = True
            self._send(encode(Welcome(PROTOCOL, self._service.epoch)))
        else:
            self._send(encode(Welcome(PROTOCOL, 0)))
            self._drop()

    def _called(self, id: int) -> None:
        self._calls.pop(id, None)
        self._waits.discard(id)
        if self._backlog and self._transport is not None:
            self._go_on()

    async def _answer(self, call: Call) -> None:
        try:
            body = await self._execute(call)
        except asyncio.CancelledError:
            ended = self._service.moved() if self._service.is_stopping else Timeout("the call was given up")
            self._send(encode(Refusal(call.id, value.pack_error(ended))))
            raise
        except Error as error:
            if self._service.is_stopping and isinstance(error, Unavailable) and not isinstance(error, Moved):
                return  # the connection is about to end, which says that nobody knows whether it was done
            body = encode(Refusal(call.id, value.pack_error(error)))
        except Exception as error:
            log.exception("a call to the store failed: %s", call.verb)
            body = encode(Refusal(call.id, value.pack_error(Internal(f"{call.verb} failed: {error!r}; see the log"))))
        self._send(body)

    async def _execute(self, call: Call) -> bytes:
        verb = VERBS.get(call.verb)
        if verb is None:
            raise Unsupported(call.verb)
        try:
            context = value.unpack_context(call.context)
            arguments = verb.unpack(call.body)
        except (*NONSENSE, IndexError, TypeError) as error:
            raise InvalidRequest(call.verb, str(error), "both processes must run the same version") from error
        service = self._service
        if service.is_stopping:
            raise service.moved()
        if wait_ms_of(call.verb, arguments) or is_sweep(arguments):
            self._waits.add(call.id)
        service.arm()
        found = await getattr(service.store, call.verb)(context, *arguments, service.clock())
        body = encode(Reply(call.id, msgspec.Raw(verb.pack_answer(found))))
        try:
            frame(body)
        except PayloadTooLarge:
            if isinstance(found, Claimed):
                release = Settle(SETTLE_RELEASE, found.ids, [found.token] * len(found.ids))
                await service.store.settle(Context(tenants=(ANY_TENANT,)), release, service.clock())
            raise
        return body

    def _send(self, body: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(frame(body))
        if transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            log.warning("a connection to the store does not read its answers and was ended")
            self._drop()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def end(self) -> None:
        """What waits is ended, what is being executed is answered, what still comes is refused."""
        for id in self._waits:
            self._calls[id].cancel()
        if self._calls:
            _, late = await asyncio.wait(self._calls.values(), timeout=FINISH_S)
            for call in late:
                call.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._greeted and self._transport is not None:
            self._send(encode(Gone()))
            with suppress(TimeoutError):
                async with asyncio.timeout(GONE_S):
                    await self._lost.wait()
        if self._transport is not None:
            asyncio.get_running_loop().call_later(FINISH_S, self._transport.abort)
            self._transport.close()
