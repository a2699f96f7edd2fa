"""The keeper: a process beside a worker that renews the leases in their table, whatever the worker's handlers do.

It ends when its input ends, which the worker holds open, or when the worker is no longer its parent: a worker that
died shall lose its leases.
"""

import asyncio
import math
import os
import signal
import sys

import msgspec
import uvloop

from tenure.client.client import Client, connect
from tenure.core.error import Error, Unavailable
from tenure.core.request import Extend
from tenure.worker.keeping import Told
from tenure.worker.table import Table

ROUND_S = 0.2
SIGN_OF_LIFE_S = 15.0
BATCH = 1_000

Key = tuple[int, int, int]  # record, id, use


class Keeper:
    def __init__(self, table: Table, client: Client) -> None:
        self._table = table
        self._client = client
        self._renewed: dict[Key, float] = {}

    async def round(self, now: float) -> None:
        """Renew what a third of its time is over of; remember the rest."""
        due: list[tuple[Key, bytes]] = []
        seen: dict[Key, float] = {}
        for at, id, lease_ms, use, token in self._table.taken():
            key = (at, id, use)
            last = self._renewed.get(key, now)
            if now - last >= lease_ms / 3_000 - ROUND_S:
                due.append((key, token))
                last = now
            seen[key] = last
        self._renewed = seen
        for first in range(0, len(due), BATCH):
            await self._extend(due[first : first + BATCH])
        self._table.count_round()

    async def _extend(self, due: list[tuple[Key, bytes]]) -> None:
        try:
            extended = await self._client.extend_batch(
                Extend([id for (_, id, _), _ in due], [token for _, token in due])
            )
        except Error as error:
            if not isinstance(error, Unavailable):
                sys.stderr.write(f"tenure keeper: leases could not be renewed: {error}\n")
            for key, _ in due:  # tried again the next time
                self._renewed[key] = -math.inf
            return
        for at in extended.errors or {}:
            record, id, use = due[at][0]
            self._table.mark_lost(record, id, use)


async def keep(told: Told, parent: int) -> None:
    table = Table(told.descriptor, told.records)
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        loop.remove_reader(0)
        ended.set_result(None)

    loop.add_reader(0, end)
    async with connect(told.url, tenant=told.tenant, tenants=told.tenants, token=told.token) as client:
        keeper = Keeper(table, client)
        seen_at = loop.time()
        while not ended.done() and os.getppid() == parent:
            await keeper.round(loop.time())
            if loop.time() - seen_at > SIGN_OF_LIFE_S:
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
