"""Whether the server is well, asked of the store itself: a claim for `/healthz` and gRPC's health service, a job that
is written for `/readyz`.

Nobody needs a token for these, so what they cost is bounded: a finding is good for a second, and is sought by one at a
time. The jobs belong to a tenant of their own and are gone when they are completed.
"""

import asyncio
from collections.abc import Awaitable, Callable

from tenure.core.bound import make_claim, make_options
from tenure.core.error import Error, Unavailable
from tenure.core.request import Batch, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.server.handler import Handler

TENANT = "tenure-system"
HEALTH_QUEUE = "tenure.health"
READY_QUEUE = "tenure.ready"
FRESH_S = 1.0
PATIENCE_S = 5.0
CLAIMED_MOST = 10
NOBODY = ""  # a worker with a name would join those that people see
OPTIONS = {"queue": READY_QUEUE, "keep_completed_ms": 0, "ttl_ms": 60_000, "keep_failed_ms": 0}


class Finding:
    """The last finding of a check, and how to come to a new one."""

    def __init__(self, check: Callable[[], Awaitable[None]]) -> None:
        self._check = check
        self._lock = asyncio.Lock()
        self._until = 0.0
        self._error: Error | None = None

    async def get(self) -> None:
        """Returns if all is well, raises what is not."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            if loop.time() >= self._until:
                self._error = await self._look()
                self._until = loop.time() + FRESH_S
        if self._error is not None:
            raise self._error

    async def _look(self) -> Error | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._check()
        except TimeoutError:
            return Unavailable(f"the store did not answer within {PATIENCE_S} s")
        except Error as error:
            return Unavailable(f"the store refuses: {error.message}")
        return None


class Health:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._options = make_options(**OPTIONS)
        self.claims = Finding(self._claim)
        self.writes = Finding(self._write)

    async def _claim(self) -> None:
        claim = make_claim((HEALTH_QUEUE,), 1, 0, NOBODY)
        await self._handler.store.claim(Context(TENANT), claim, self._handler.clock())

    async def _write(self) -> None:
        store, clock = self._handler.store, self._handler.clock
        answers = await store.enqueue(Context(TENANT), Batch(self._options, [b"null"]), clock())
        error = answers.item(0).error
        if error is not None:
            raise error
        found = await store.claim(Context(TENANT), make_claim((READY_QUEUE,), CLAIMED_MOST, 0, NOBODY), clock())
        if found.ids:
            done = Settle(SETTLE_COMPLETE, found.ids, [found.token] * len(found.ids))
            await store.settle(Context(TENANT), done, clock())
