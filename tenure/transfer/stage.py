"""A load of whole records, step by step: begun anew, staged in chunks, published, and what became of each row."""

import asyncio
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from tenure.client.client import Client
from tenure.core.error import Conflict, InvalidRequest, Overloaded, PayloadTooLarge, Timeout
from tenure.core.record import LoadReport
from tenure.core.request import ABORT, PUBLISH, READ, STAGE, Load
from tenure.transfer.ids import Ids
from tenure.transfer.read import chunks_of
from tenure.transfer.row import Knows, Loader, Row

WRITING: Final = "copy"
IN_FLIGHT: Final = 2
POLL_FIRST_S: Final = 0.002
POLL_MOST_S: Final = 0.25
STILL_S: Final = 60.0  # without a row let in, after which a published load is not waited for any more
ROOM_TRIES: Final = 5
ROOM_MOST_S: Final = 5.0
PLACE: Final = re.compile(r"pasts\[(\d+)\]\.?")  # how a store names a row of a chunk


class Stage:
    """One part of one tenant's load."""

    def __init__(self, client: Client, tenant: str, load_id: str, part: int = 0, writing: str = WRITING) -> None:
        self.client = client.as_tenant(tenant)
        self.tenant = tenant
        self.load_id = load_id
        self.part = part
        self.writing = writing
        self.rows = 0
        self.chunks = 0
        self.is_published = False  # by an earlier run
        self._loader = Loader()
        self._flying: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """What an earlier run has staged is dropped. What it has published stays, and nothing is added to it."""
        try:
            await self.client.load(Load(ABORT, self.load_id))
        except Conflict:
            self.is_published = True

    async def add(self, rows: list[Row], knows: Knows) -> None:
        """Stages them; two chunks are under way while the next is made."""
        for chunk in chunks_of(rows):
            load = Load(STAGE, self.load_id, self.part, self.writing, self.chunks, self._loader.batch(chunk, knows))
            self.chunks += 1
            self.rows += len(chunk)
            while len(self._flying) >= IN_FLIGHT:
                await self._flying.pop(0)
            self._flying.append(asyncio.create_task(self._stage(load, [row["id"] for row in chunk])))

    async def _stage(self, load: Load, ids: list[int]) -> None:
        tries = ROOM_TRIES
        while True:
            try:
                await self.client.load(load)
                return
            except Overloaded as error:
                tries -= 1
                if not tries:
                    raise
                await asyncio.sleep(min(error.retry_after_ms / 1_000, ROOM_MOST_S))
            except InvalidRequest as error:
                found = PLACE.match(error.field)
                if found is None:
                    raise
                field = f"job {ids[int(found[1])]}: {error.field[found.end() :]}"
                raise InvalidRequest(field, error.value, error.rule) from None
            except PayloadTooLarge as error:
                raise InvalidRequest(
                    f"payload of one of the jobs {ids[0]} to {ids[-1]}",
                    error.size,
                    f"the store it goes to takes at most {error.max} bytes; give it a blob store (?blobs=), or raise"
                    " its payload_bytes_max",
                ) from None

    async def flush(self) -> None:
        flying, self._flying = self._flying, []
        for task in flying:
            await task

    async def drop(self) -> None:
        """Leaves nothing behind, as far as the store can be reached; what is staged goes by itself after a day."""
        flying, self._flying = self._flying, []
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
        if not self.is_published:
            await self.client.load(Load(ABORT, self.load_id))


async def publish(client: Client, load_id: str, parts: dict[int, str]) -> LoadReport:
    """Waits until every row has been let in, which the store does by the thousand."""
    pause_s = POLL_FIRST_S
    let_in = -1
    loop = asyncio.get_running_loop()
    until = loop.time() + STILL_S
    while True:
        report = await client.load(Load(PUBLISH, load_id, parts=parts))
        if report.done:
            return report
        now = report.new + report.duplicates + report.refused
        if now != let_in:
            let_in, until = now, loop.time() + STILL_S
        elif loop.time() >= until:
            raise Timeout(
                f"load {load_id} is published, but only {now} of {report.rows} rows are in; the store goes on by"
                " itself: run the same again to wait for it"
            )
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, POLL_MOST_S)


async def read_outcomes(client: Client, load_id: str, part: int, writing: str, chunks: int, ids: Ids) -> None:
    for chunk in range(chunks):
        ids.add((await client.load(Load(READ, load_id, part, writing, chunk))).outcomes)


class Published(msgspec.Struct, frozen=True):
    """A load that an earlier run has published, and the names of what is in it: part, writing, number of chunks."""

    report: LoadReport
    parts: tuple[tuple[int, str, int], ...]


async def read_published(client: Client, load_id: str, names: Iterator[tuple[int, str]], ids: Ids) -> Published:
    """Nobody remembers what was staged: chunks are asked for by all names they may have until every row was seen."""
    rows = 0
    parts: list[tuple[int, str, int]] = []
    for part, writing in names:
        chunk = 0
        while True:
            try:
                report = await client.load(Load(READ, load_id, part, writing, chunk))
            except InvalidRequest as error:
                if error.field != "chunk":
                    raise
                break
            if not report.done:
                await asyncio.sleep(POLL_FIRST_S)
                continue
            rows += ids.add(report.outcomes)
            chunk += 1
            if rows >= report.rows:
                return Published(report, (*parts, (part, writing, chunk)))
        if chunk:
            parts.append((part, writing, chunk))
    raise Conflict(f"load {load_id} was published by something else; choose another load id", 0)
