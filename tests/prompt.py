"""A durable store that answers without a coroutine whatever it can, and a kernel that syncs a simulated disk."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar, cast
from unittest import mock

from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Error
from tenure.core.request import Batch, Claim, Extend, Settle
from tenure.core.tenant import Context
from tenure.store.contract import Wait
from tenure.store.embedded import writer
from tenure.store.embedded.kernel import Done
from tenure.store.embedded.log import Log
from tenure.store.embedded.sqlite import SqliteStore
from tenure.store.embedded.writer import Group, Writer

RESTS = 20_000  # turns of the loop

T = TypeVar("T")


class SimulatedKernel:
    """Syncs by way of the log, and so of whatever disk that is on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._done: Done | None = None

    def sync(self, log: Log, done: Done) -> None:
        self._done = done
        self._loop.run_in_executor(None, log.sync).add_done_callback(self._tell)

    def _tell(self, ended: "asyncio.Future[None]") -> None:
        error = ended.exception()
        if self._done is not None:
            self._done(None if error is None else OSError(str(error)))

    def close(self) -> None:
        self._done = None


@contextlib.contextmanager
def simulated_kernel() -> Iterator[list[Group]]:
    """Answers the groups that the loop writes; it may take as long for that as it likes."""
    here: list[Group] = []
    write_here = Writer.write_here

    def noted(self: Writer, group: Group) -> bool:
        is_here = write_here(self, group)
        if is_here:
            here.append(group)
        return is_here

    with (
        mock.patch.object(writer, "kernel", lambda loop, _log: SimulatedKernel(loop)),
        mock.patch.object(writer, "HERE_S", 60.0),
        mock.patch.object(Writer, "write_here", noted),
    ):
        yield here


class PromptStore(SqliteStore):
    """As if each of its callers were alone."""

    _is_lone = property(lambda _: True, lambda _self, _value: None)

    async def open(self, now: Now, over: int | None = None) -> None:
        await super().open(now, over)
        await self._rest()

    async def _rest(self) -> None:
        """Until the thread has nothing to do, as between two calls of one caller; not if it hangs."""
        for _ in range(RESTS):
            if self._writer._given == self._writer._ended and not self._in_flight and not self._reserving:
                return
            await asyncio.sleep(0)

    async def _do(self, context: Context, asked: object, now: Now, verb: Callable[[], Coroutine[Any, Any, T]]) -> T:
        told: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        found: object | None
        if isinstance(asked, Claim):
            found = self.claim_or_wait(context, asked, now, lambda *said: settle(told, *said))
        elif self.is_prompt:
            found = self.at_once(context, asked, now)
        else:
            found = self.soon(context, asked, now, lambda *said: settle(told, *said))
        if found is None:
            answer = await verb()
            if not self.is_prompt and not isinstance(asked, Claim):
                await self._rest()
            return answer
        if not isinstance(found, Wait):
            return cast("T", found)
        try:
            return await told
        except asyncio.CancelledError:
            if told.done() and not told.cancelled() and told.exception() is None:
                self.give_back(told.result())
            found.give_up()
            raise

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        verb = super().enqueue
        return await self._do(context, batch, now, lambda: verb(context, batch, now))

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        verb = super().claim
        return await self._do(context, claim, now, lambda: verb(context, claim, now))

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        verb = super().settle
        return await self._do(context, settle, now, lambda: verb(context, settle, now))

    async def extend(self, context: Context, extend: Extend, now: Now) -> Extended:
        verb = super().extend
        return await self._do(context, extend, now, lambda: verb(context, extend, now))


def settle(told: "asyncio.Future[T]", answer: T | None, error: Error | None) -> None:
    if told.cancelled():
        return
    if error is not None:
        told.set_exception(error)
    else:
        told.set_result(cast("T", answer))
