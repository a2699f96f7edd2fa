"""A connection to the process that owns the file: the verbs of the store as calls, many at once."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from tenure.core.answer import Claimed
from tenure.core.error import Error, PayloadTooLarge, Unavailable
from tenure.core.request import Settle
from tenure.core.state import SETTLE_RELEASE
from tenure.core.tenant import ANY_TENANT, Context
from tenure.store.contract import Moved
from tenure.store.embedded.unix import reachable
from tenure.wire import value
from tenure.wire.frame import Frames, frame
from tenure.wire.limit import CALLS_PER_CONNECTION, HELLO_S
from tenure.wire.message import (
    NONSENSE,
    PROTOCOL,
    VERBS,
    Abort,
    Arguments,
    Call,
    Gone,
    Hello,
    Ping,
    Refusal,
    Reply,
    Welcome,
    encode,
    read_answer,
)

PING_S = 1.0
LEAVE_S = 1.0  # for answers to what was sent before the owner stopped


class Lost(Exception):
    """The connection ended before the answer came: nobody knows whether the call was executed."""


class Link(asyncio.Protocol):
    def __init__(self, silence: int) -> None:
        """Given up after so many pings without any answer. Pings are counted, not seconds: a process that was stopped
        itself finds the answers waiting when it goes on."""
        self.epoch = 0
        self.ended = asyncio.Event()
        self.is_silent = False
        self._is_leaving = False
        self._silence = silence
        self._unanswered = 0
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._welcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls: dict[int, tuple[str, asyncio.Future[object]]] = {}  # until answered, also when given up
        self._places = asyncio.Semaphore(CALLS_PER_CONNECTION)
        self._last_id = 0
        self._pinging: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._releasing: set[asyncio.Task[None]] = set()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # that of uvloop is no subclass
        self._send(encode(Hello(PROTOCOL)))

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        if self._pinging is not None:
            self._pinging.cancel()
        if not self._welcome.done():
            self._welcome.set_exception(Lost())
            self._welcome.exception()  # said, if anybody asks
        for _, future in self._calls.values():
            if not future.done():
                future.set_exception(Lost())
        self._calls.clear()
        self._writable.set()
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        self._unanswered = 0
        try:
            for body in self._frames.feed(data):
                self._take(body)
        except (*NONSENSE, PayloadTooLarge, KeyError):
            self.close()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Calls.

    async def welcome(self) -> None:
        """Wait until the other side has said who it is."""
        await self._welcome
        self._ping()

    async def call(self, verb: str, context: Context, arguments: Arguments) -> object:
        body = msgspec.Raw(VERBS[verb].pack(arguments))
        async with self._places:
            await self._writable.wait()
            if self._transport is None or self._is_leaving:
                raise Moved("the process that owned the file does not serve it any more")
            self._last_id += 1
            id = self._last_id
            future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            self._calls[id] = (verb, future)
            try:
                self._send(encode(Call(id, verb, value.pack_context(context), body)))
                return await future
            except BaseException:
                self._give_up(id, future)
                raise

    def _give_up(self, id: int, future: asyncio.Future[object]) -> None:
        """The caller does not wait any more; what it is given nevertheless goes back."""
        if id in self._calls:
            future.cancel()
            self._send(encode(Abort(id)))
        elif future.done() and not future.cancelled() and future.exception() is None:
            self._release(future.result())

    def _release(self, found: object) -> None:
        if isinstance(found, Claimed) and found.ids:
            settle = Settle(SETTLE_RELEASE, found.ids, [found.token] * len(found.ids))
            task = asyncio.get_running_loop().create_task(self._release_now(settle))
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def _release_now(self, settle: Settle) -> None:
        with suppress(Error, Lost):  # else the leases expire
            await self.call("settle", Context(tenants=(ANY_TENANT,)), (settle,))

    def _take(self, body: bytes) -> None:
        answer = read_answer(body)
        if isinstance(answer, Reply):
            verb, future = self._calls.pop(answer.id)
            found = VERBS[verb].unpack_answer(answer.body)
            if future.done():
                self._release(found)
            else:
                future.set_result(found)
        elif isinstance(answer, Refusal):
            _, future = self._calls.pop(answer.id)
            if not future.done():
                future.set_exception(value.unpack_error(answer.error))
        elif isinstance(answer, Gone):
            self._is_leaving = True
        elif isinstance(answer, Welcome) and not self._welcome.done():
            self.epoch = answer.epoch
            if answer.protocol == PROTOCOL and answer.epoch:
                self._welcome.set_result(None)
            else:
                self._welcome.set_exception(
                    Unavailable(
                        f"the process that owns the file speaks protocol {answer.protocol}, this one {PROTOCOL};"
                        " run the same version in both"
                    )
                )
        if self._is_leaving and not self._calls:
            self.close()

    def _ping(self) -> None:
        if self._transport is None:
            return
        if self._unanswered >= self._silence:
            self.is_silent = True
            self._transport.abort()
            return
        self._unanswered += 1
        self._send(encode(Ping()))
        self._pinging = asyncio.get_running_loop().call_later(PING_S, self._ping)

    def _send(self, body: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(body))

    def leave(self) -> None:
        """Take no more calls, and close when those that were sent are answered."""
        self._is_leaving = True
        if self._calls:
            asyncio.get_running_loop().call_later(LEAVE_S, self.close)
        else:
            self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def join(path: Path, silence: int) -> Link:
    """A connection to whoever serves there; OSError, Lost or TimeoutError when nobody answers."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(HELLO_S):
        with reachable(str(path)) as name:
            _, link = await loop.create_unix_connection(lambda: Link(silence), name)
        try:
            await link.welcome()
        except BaseException:
            link.close()
            raise
    return link
