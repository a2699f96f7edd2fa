"""`python -m tests.lake.child FILE LAKE SEED`: works on a store and exports it until it is killed.

It writes a line before and after everything that it does to the lake, so that whoever kills it can choose when.
"""

import asyncio
import sys
from random import Random

from tenure.client.client import Client, connect
from tenure.client.clock import read_clock
from tenure.core.error import Error
from tenure.lake.export import Exporter
from tenure.lake.place import Draft, open_place
from tenure.lake.source import StoreSource
from tenure.lake.tidy import Rules
from tenure.store.contract import Identified
from tests.lake.rig import Faulty

RULES = Rules(rows=60, page_rows=25, group_rows=32, grace_ms=0, checkpoint_entries=4)


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Told(Faulty):
    """A place whose changes are told."""

    def create(self, name: str, data: bytes) -> bool:
        tell("create", name)
        made = super().create(name, data)
        tell("created", name)
        return made

    def put(self, name: str, data: bytes) -> None:
        tell("put", name)
        super().put(name, data)
        tell("was put", name)

    def keep(self, draft: Draft, name: str) -> None:
        tell("keep", name)
        super().keep(draft, name)
        tell("kept", name)

    def delete(self, names: list[str]) -> None:
        tell("delete", len(names))
        super().delete(names)
        tell("deleted", len(names))


async def work(client: Client, random: Random, turns: asyncio.Semaphore) -> None:
    """As fast as the export, or that would never be level."""
    while True:
        await turns.acquire()
        await client.enqueue_many([b"{}"] * random.randint(1, 20), queue="mail", task="send")
        for job in await client.claim("mail", n=random.randint(1, 20), worker="w"):
            try:
                if random.random() < 0.8:
                    await client.complete(job, b"1")
                else:
                    await client.fail(job, "ValueError", "no such mailbox")
            except Error:
                continue


async def export(client: Client, url: str, turns: asyncio.Semaphore) -> None:
    store = client._store
    assert isinstance(store, Identified)
    place = Told(open_place(url, create=True), sys.maxsize, False)
    source = StoreSource(store, read_clock)
    exporter = Exporter(place, source, await store.identity(), RULES, lambda: read_clock().wall_ms)
    await exporter.open()
    while True:
        for _ in range(3):
            turns.release()
        await exporter.cycle()
        await exporter.tidy(True)


async def run(file: str, url: str, seed: int) -> None:
    async with connect(f"sqlite:///{file}?durability=relaxed") as client:
        tell("open")
        turns = asyncio.Semaphore(3)
        await asyncio.gather(work(client, Random(seed), turns), export(client, url, turns))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
