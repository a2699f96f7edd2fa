"""Where the rows of a lake come from: the event stream of a store, of all tenants, as batches of the table `events`."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

import pyarrow as pa

from tenure.core.bound import ID_MAX
from tenure.core.clock import Now
from tenure.core.request import Scan
from tenure.core.table import PAGE_MAX
from tenure.core.tenant import ANY_TENANT, Context
from tenure.lake.arrow import batch_of_events
from tenure.store.contract import Store

PRINCIPAL = "lake"


class Rows(NamedTuple):
    batch: pa.RecordBatch
    upto: int  # everything up to this seq was looked at


class Source(Protocol):
    async def newest(self) -> int:
        """The seq of the newest event."""

    async def read(self, after: int, limit: int) -> Rows:
        """Events of seq > after in rising order, `limit` at most; `EventsLost` when `after` is behind retention."""


class StoreSource:
    """Only events that are on disk are exported: what a crash of the store could take back is not in the lake."""

    def __init__(self, store: Store, clock: Callable[[], Now]) -> None:
        self._store = store
        self._clock = clock
        strongest = store.capabilities.durability[-1:]
        self._context = Context(ANY_TENANT, (ANY_TENANT,), PRINCIPAL, durability=strongest[0] if strongest else "")

    async def newest(self) -> int:
        bounds = await self._store.scan(self._context, Scan("events"), self._clock())
        return bounds.last

    async def read(self, after: int, limit: int) -> Rows:
        scan = Scan("events", after, ID_MAX, min(limit, PAGE_MAX))
        page = await self._store.scan(self._context, scan, self._clock())
        batch = await asyncio.to_thread(batch_of_events, page)
        return Rows(batch, page.next)
