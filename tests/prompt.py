"""A durable store that answers without a coroutine whatever it can."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Error
from tenure.core.request import Batch, Claim, Extend, Settle
from tenure.core.tenant import Context
from tenure.store.contract import Wait
from tenure.store.embedded.sqlite import SqliteStore

RESTS = 20_000  # turns of the loop

T = TypeVar("T")


class PromptStore(SqliteStore):
    """As if each of its callers were alone."""

    _is_lone = property(lambda _: True, lambda _self, _value: None)

    async def open(self, now: Now, over: int | None = None) -> None:
        await super().open(now, over)
        await self._rest()

    async def _rest(self) -> None:
        """Until the thread has nothing to do, as between two calls of one caller; not if it hangs."""
        for _ in range(RESTS):
            if not self._in_flight and not self._reserving:
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
