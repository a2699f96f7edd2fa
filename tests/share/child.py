"""`python -m tests.share.child PATH MODE NAME ACCOUNT`: works on a file that others work on too, and keeps an account.

On its output it writes a byte for every answer.
"""

import asyncio
import os
import sys
from pathlib import Path
from random import Random

import msgspec

from tenure.client.client import Client, Leased
from tenure.client.clock import read_clock
from tenure.client.driver import Driver
from tenure.core.error import Error
from tenure.core.tenant import Context
from tenure.store.embedded.shared import SharedStore

SILENCE = 2
PRODUCERS = 3
WORKERS = 3


class Line(msgspec.Struct, omit_defaults=True):
    """`sent` before a request, `told` after it with the ids; `done` for every completion that was answered."""

    kind: str
    n: int = 0
    payloads: list[str] = []
    ids: list[int] = []
    error: str = ""


class Child:
    def __init__(self, path: Path, mode: str, name: str, account: Path) -> None:
        self._account = os.open(account, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._client = Client(Driver(SharedStore(path, mode, SILENCE), read_clock), Context())
        self._name = name
        self._random = Random(name)
        self._sent = 0
        self._asked = 0

    async def run(self) -> None:
        async with self._client:
            beat()
            producers = [self._produce() for _ in range(PRODUCERS)]
            await asyncio.gather(*producers, *(self._work() for _ in range(WORKERS)))

    def _write(self, line: Line) -> None:
        os.write(self._account, msgspec.json.encode(line) + b"\n")

    async def _produce(self) -> None:
        while True:
            count = self._random.choice((1, 1, 5, 50))
            payloads = [f"{self._name}/{self._sent + at}" for at in range(count)]
            self._sent += count
            self._asked += 1
            n = self._asked
            self._write(Line("sent", n, payloads))
            try:
                answered = await self._client.enqueue_many([payload.encode() for payload in payloads], queue="work")
            except Error as error:
                self._write(Line("told", n, error=error.code))
            else:
                self._write(Line("told", n, ids=[one.id for one in answered]))
            beat()
            await asyncio.sleep(self._random.random() * 0.005)

    async def _work(self) -> None:
        while True:
            try:
                for job in await self._client.claim("work", n=self._random.choice((1, 5, 50)), wait="1s"):
                    await self._complete(job)
            except Error as error:
                self._write(Line("claim", error=error.code))
            beat()

    async def _complete(self, job: Leased) -> None:
        try:
            await self._client.complete(job, job.payload)
        except Error as error:
            self._write(Line("refused", ids=[job.id], error=error.code))
        else:
            self._write(Line("done", ids=[job.id]))


def beat() -> None:
    os.write(1, b".")


def main() -> None:
    path, mode, name, account = sys.argv[1:]
    asyncio.run(Child(Path(path), mode, name, Path(account)).run())


if __name__ == "__main__":
    main()
