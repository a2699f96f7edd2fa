"""`python -m tests.kill.child PATH MODE SEED ACCOUNT`: works on a store until it is killed, and keeps an account.

On its output it writes a byte before it opens the store, one when the store is open, and one for every answer.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from tenure.client.clock import read_clock
from tenure.client.driver import Driver
from tenure.core.error import Error
from tenure.core.tenant import Context
from tenure.store.embedded import sqlite, writer
from tests.kill.line import LEASE_MS, Ask, Life, Line, Pen, Seen, Tell, perform, read_lines

REPEATS = 10
BACKLOG = 2_000


class Child:
    def __init__(self, path: Path, mode: str, seed: int, account: Path) -> None:
        self._random = Random(seed)
        self._pen = Pen(account)
        self._name = account.stem
        self._before = account_before(account)
        self._mode = mode
        self._driver = Driver(sqlite.SqliteStore(path, mode), read_clock)
        self._asked = 0
        self._sent = 0
        self._counters: dict[str, int] = {}
        self._known: list[int] = []  # ids that were answered
        self._waiting = 0  # about how many jobs wait to be claimed

    async def run(self) -> None:
        self._pen.write(Life(self._mode))
        beat()
        await self._driver.open()
        beat()
        await self._repeat_the_last_life()
        callers = [self._produce] * 3 + [self._work] * 3 + [self._cancel]
        if self._mode == "relaxed":
            callers.append(self._sync)
        tasks = [self._go_on(caller, f"{self._name}-{at}") for at, caller in enumerate(callers)]
        await asyncio.gather(self._watch(), *tasks)

    async def _go_on(self, caller: Callable[[str], Awaitable[None]], session: str) -> None:
        while True:
            await caller(session)
            await asyncio.sleep(0)

    async def _ask(self, session: str, ask: Ask) -> Tell:
        """Half of the requests have an operation id."""
        if self._random.random() < 0.5:
            self._counters[session] = self._counters.get(session, 0) + 1
            ask.session, ask.counter = session, self._counters[session]
        return await self._ask_as_it_is(ask)

    async def _ask_as_it_is(self, ask: Ask) -> Tell:
        self._asked += 1
        ask.n = self._asked
        self._pen.write(ask)
        self._driver.arm()
        told = await perform(self._driver.store, ask, self._driver.now())
        self._pen.write(told)
        beat()
        return told

    async def _repeat_the_last_life(self) -> None:
        """As a client does that found its connection broken: what was not answered, and some of what was."""
        for ask in to_repeat(self._before):
            await self._ask_as_it_is(ask)

    def _payloads(self, count: int) -> list[str]:
        first = self._sent + 1
        self._sent += count
        return [f"{self._name}/{number}" for number in range(first, self._sent + 1)]

    async def _produce(self, session: str) -> None:
        if self._waiting > BACKLOG:
            await asyncio.sleep(0.01)
            return
        random = self._random
        count = random.choice((1, 1, random.randint(2, 20), random.randint(50, 200)))
        ask = Ask(0, "enqueue", payloads=self._payloads(count))
        kind = random.random()
        if kind < 0.2:
            ask.custom_ids = [f"custom-{random.randint(1, 100_000)}" for _ in range(count)]
        elif kind < 0.4:
            ask.unique_keys = [f"unique-{random.randint(1, 500)}" for _ in range(count)]
        told = await self._ask(session, ask)
        self._waiting += count
        self._known += [item.id for item in told.items if item.id]

    async def _work(self, session: str) -> None:
        random = self._random
        lease_ms = random.choice((LEASE_MS, LEASE_MS, 1_000))
        count = random.choice((1, random.randint(2, 10), random.randint(50, 200)))
        ask = Ask(0, "claim", count=count, wait_ms=random.choice((0, 20, 200)), lease_ms=lease_ms)
        claimed = await self._ask(session, ask)
        self._waiting = max(self._waiting - len(claimed.items), 0)
        ids = [item.id for item in claimed.items]
        while ids and random.random() < 0.95:
            size = random.choice((1, random.randint(1, len(ids)), len(ids)))
            part, ids = ids[:size], ids[size:]
            await self._settle(session, part, claimed.token)

    async def _settle(self, session: str, ids: list[int], token: str) -> None:
        [verb] = self._random.choices(("complete", "fail", "refuse", "release"), (6, 2, 1, 2))
        ask = Ask(0, verb, ids=ids, tokens=[token] * len(ids))
        if verb == "complete" and self._random.random() < 0.3:
            ask.followups = self._payloads(self._random.randint(1, 100))
        await self._ask(session, ask)

    async def _cancel(self, session: str) -> None:
        if self._known:
            ids = {self._random.choice(self._known) for _ in range(self._random.randint(1, 5))}
            await self._ask(session, Ask(0, "cancel", ids=sorted(ids)))
        await asyncio.sleep(self._random.random() * 0.02)

    async def _sync(self, session: str) -> None:
        """What was answered before it is asked is on disk when it is answered."""
        await self._ask(session, Ask(0, "enqueue", payloads=self._payloads(1), on_disk=True))
        await asyncio.sleep(self._random.random() * 0.1)

    async def _watch(self) -> None:
        cursor = "end"
        while True:
            now = self._driver.now()
            try:
                page = await self._driver.store.events(Context(), cursor, 1_000, 1_000, now)
            except Error:
                cursor = "end"
                continue
            for event in page.events:
                if event.type in ("enqueued", "completed"):
                    self._pen.write(Seen(event.seq, event.job, event.type))
            cursor = page.cursor
            await asyncio.sleep(0)


def account_before(account: Path) -> list[Line]:
    earlier = [path for path in sorted(account.parent.glob("account-*")) if path.name < account.name]
    return read_lines(earlier[-1]) if earlier else []


def to_repeat(lines: list[Line]) -> list[Ask]:
    """Operations that were not answered, in the order they were begun, and the last ones that were."""
    told = {line.n for line in lines if isinstance(line, Tell)}
    operations = [line for line in lines if isinstance(line, Ask) and line.counter and line.verb != "claim"]
    answered = [ask for ask in operations if ask.n in told]
    return [ask for ask in operations if ask.n not in told] + answered[-REPEATS:]


def beat() -> None:
    os.write(1, b".")


def hurry(seed: int) -> None:
    """In most lives checkpoints follow one another, so that kills meet them."""
    if seed % 4:
        sqlite.CHECKPOINT_MS = 10
        writer.WAL_BYTES = writer.ROOM_BYTES = 256 * 1024


def main() -> None:
    path, mode, seed, account = sys.argv[1:]
    hurry(int(seed))
    asyncio.run(Child(Path(path), mode, int(seed), Path(account)).run())


if __name__ == "__main__":
    main()
