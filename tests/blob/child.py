"""`python -m tests.blob.child FILE BLOBS MODE SEED`: works on a store with blobs until it is killed.

It writes a line to its output for every large job that was answered, and removes some; a removal is told before it is
asked for.
"""

import asyncio
import sys
from random import Random

from tenure.client.client import Client, connect
from tenure.core.error import Error
from tests.blob.shop import CAP

CALLERS = 4


def content_of(number: int) -> bytes:
    """Some contents are shared by several jobs."""
    return b"%d " % (number // 2) * CAP


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def work(client: Client, random: Random, caller: int) -> None:
    number = caller * 1_000_000
    while True:
        number += 1
        job = await client.enqueue(content_of(number), keep_completed="0s" if random.random() < 0.3 else "1h")
        tell("stored", job.id, number)
        what = random.random()
        try:
            if what < 0.3:
                tell("removing", job.id)
                await client.remove(job.id)
            elif what < 0.6:
                for held in await client.claim():
                    tell("removing", held.id)
                    await client.complete(held, content_of(number + 7))
        except Error:
            pass  # another caller has it


async def run(file: str, blobs: str, mode: str, seed: int) -> None:
    async with connect(f"sqlite:///{file}?durability={mode}&blobs={blobs}") as client:
        await client.configure("store", "", payload_bytes_max=CAP)
        tell("open")
        random = Random(seed)
        await asyncio.gather(*(work(client, random, caller) for caller in range(CALLERS)))


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
