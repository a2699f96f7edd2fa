"""The keeper: a process beside a worker that renews the leases in their table, whatever the worker's handlers do.

It ends when its input ends, which the worker holds open, or when the worker is no longer its parent: a worker that
died shall lose its leases, and so does one that is stopped (SIGSTOP). While the worker's loop does not run, what it
claims cannot be taken: its claims under way are withdrawn, so that others get the jobs.
"""

import asyncio
import os
import signal
import sys
import time

import msgspec
import uvloop

from tenure.client.client import Client, connect
from tenure.core import bound
from tenure.core.error import Error, JobCancelled, Unavailable
from tenure.core.request import Extend
from tenure.core.tenant import OpId
from tenure.worker.keeping import Told
from tenure.worker.parent import is_stopped
from tenure.worker.table import CANCELLED, EXPIRED, Table

ROUND_S = 0.2
SILENT_S = 0.5  # the loop has not run for so long: something blocks it, or the process is stopped
WITHDRAW_S = 1.0  # between two times that the same claim is withdrawn
SIGN_OF_LIFE_S = 15.0
BATCH = 1_000

Key = tuple[int, int, int]  # record, id, use


class Keeper:
    def __init__(self, table: Table, client: Client, session: str, queues: list[str], parent: int) -> None:
        self._table = table
        self._client = client
        self._session = session
        self._queues = queues
        self._parent = parent
        self._renewed: dict[Key, tuple[float, int]] = {}  # when that was asked for, and how long the lease was then
        self._withdrawn: dict[int, float] = {}  # by counter
        self.is_stopped = False

    async def round(self, now: float) -> None:
        """`now` is of `time.monotonic()`, the clock that the worker shares."""
        is_silent = now - self._table.beat_at > SILENT_S
        self.is_stopped = is_silent and is_stopped(self._parent)
        if is_silent:
            await self._withdraw(now)
        if not self.is_stopped:
            await self._renew(now)
        self._table.count_round()

    async def _renew(self, now: float) -> None:
        """What a third of its time is over of; remember the rest."""
        due: list[tuple[Key, bytes]] = []
        seen: dict[Key, tuple[float, int]] = {}
        for at, id, lease_ms, use, asked_at, token in self._table.taken():
            key = (at, id, use)
            last = seen[key] = self._renewed.get(key, (asked_at, lease_ms))
            if now - last[0] >= last[1] / 3_000 - ROUND_S:
                due.append((key, token))
        self._renewed = seen
        for first in range(0, len(due), BATCH):
            await self._extend(due[first : first + BATCH])

    async def _extend(self, due: list[tuple[Key, bytes]]) -> None:
        asked_at = time.monotonic()  # before it is sent: the lease is never taken for longer than it is
        try:
            extended = await self._client.extend_batch(
                Extend([id for (_, id, _), _ in due], [token for _, token in due])
            )
        except Error as error:  # tried again in the next round
            if not isinstance(error, Unavailable):
                sys.stderr.write(f"tenure keeper: leases could not be renewed: {error}\n")
            return
        errors = extended.errors or {}
        for at, (key, _) in enumerate(due):
            if at in errors:
                self._table.mark_lost(*key, CANCELLED if isinstance(errors[at], JobCancelled) else EXPIRED)
            else:
                lease_ms = max(extended.lease_ms[at], self._renewed[key][1])  # less where the timeout is near
                self._renewed[key] = (asked_at, lease_ms)

    async def _withdraw(self, now: float) -> None:
        """Again after a while: a claim may come to the server later than its withdrawal."""
        before, self._withdrawn = self._withdrawn, {}
        for place, counter in self._table.claiming():
            at = before.get(counter)
            if at is not None and now - at < WITHDRAW_S:
                self._withdrawn[counter] = at
            elif self._table.withdraw(place, counter):
                self._withdrawn[counter] = now
                try:
                    claim = bound.make_claim(self._queues, withdraw=True)
                    await self._client.claim_batch(claim, OpId(self._session, counter))
                except Error as error:
                    sys.stderr.write(f"tenure keeper: a claim could not be withdrawn: {error}\n")


async def keep(told: Told, parent: int) -> None:
    table = Table(told.descriptor, told.records, told.claims)
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        loop.remove_reader(0)
        ended.set_result(None)

    loop.add_reader(0, end)
    async with connect(told.url, tenant=told.tenant, tenants=told.tenants, token=told.token) as client:
        keeper = Keeper(table, client, told.session, told.queues, parent)
        seen_at = loop.time()
        while not ended.done() and os.getppid() == parent:
            await keeper.round(time.monotonic())
            if loop.time() - seen_at > SIGN_OF_LIFE_S and not keeper.is_stopped:
                seen_at = loop.time()
                await _show_life(client, told.worker)
            await asyncio.wait([ended], timeout=ROUND_S)


async def _show_life(client: Client, worker: str) -> None:
    try:
        await client.configure("worker", worker, alive=True)
    except Error:
        pass


def _first_line() -> bytes:
    """Of the input, and nothing behind it: the end of it has to be seen by the loop."""
    line = bytearray()
    while not line.endswith(b"\n"):
        more = os.read(0, 1)
        if not more:
            break
        line += more
    return bytes(line)


def main() -> None:
    parent = os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group: the worker's jobs may still end
        signal.signal(number, signal.SIG_IGN)
    told = msgspec.json.decode(_first_line(), type=Told)
    try:
        uvloop.run(keep(told, parent))
    except Error as error:
        sys.stderr.write(f"tenure keeper: {error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
