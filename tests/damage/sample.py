"""Files with something of everything in them, and what is read out of a file."""

import asyncio
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import apsw
import msgspec

from tenure.core import request
from tenure.core.clock import Now
from tenure.core.job import Extras, Options
from tenure.core.limit import Rate
from tenure.core.record import JobRecord
from tenure.core.request import Append, Batch, Change, Claim, Configure, Failure, Load, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL
from tenure.core.tenant import Context, OpId
from tenure.store.embedded import mark, writer
from tenure.store.embedded.file import StoreFile
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.workload import journal_kept

PATIENCE_S = 30.0
START = Now(1_700_000_000_000, 5_000)
LATER = Now(START.wall_ms + 60_000, START.elapsed_ms + 60_000)
EVERYBODY = Context("operator", ("*",))
OPENINGS = frozenset({"epoch", "closed_cleanly"})  # in meta, and changed by every opening


@dataclass(frozen=True)
class Reading:
    """All that Tenure reads of a file; two files of which the same is read are the same store."""

    meta: dict[str, object]
    rows: tuple[tuple[object, ...], ...]
    events: tuple[object, ...]
    jobs: tuple[JobRecord | None, ...]
    problems: tuple[str, ...]


def read(path: Path) -> Reading:
    """Open the file and read everything. Raises what opening or reading raises."""
    file = StoreFile(path)
    file.open()
    try:
        engine = file.restore(LATER)
        now = Now(LATER.wall_ms, LATER.elapsed_ms + file.elapsed_from)
        jobs = engine.get(EVERYBODY, list(range(1, 2_000)), [], now)
        with file._judging(file.connect), file.reading() as content:
            meta = {key: value for key, value in content.meta().items() if key not in OPENINGS}
            checkpoint = meta["checkpoint"]
            assert isinstance(checkpoint, int)
            rows = (
                tuple(content.pages()),
                tuple(content.outcomes()),
                tuple(content.output()),
                tuple(content.entities()),
                tuple(content.records(checkpoint, file.position)),
            )
            events = tuple(content.events(content.oldest_event(0) - 1))
        return Reading(meta, rows, events, tuple(jobs), tuple(engine.verify()))
    finally:
        file.release()


class Sample:
    """A store on which a bit of everything is done, with checkpoints in between."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore(path)
        self.now = START
        self._ops = 0

    async def make(self, backfilled: bool = False) -> None:
        """In pages, in the journal, and in tables that few jobs reach; then the store is left open."""
        await self.store.open(START)
        for _ in range(3):
            await self._settings()
            await self._jobs()
            await self._work()
            await self._loads()
            await self._checkpoint()
        if backfilled:
            self._backfill()
        await self._jobs()
        await self._work()

    def _backfill(self) -> None:
        """Move the log into the file, so that it begins anew: as the thread does when it is long."""
        with closing(self.store._file.connect()) as db:
            db.execute("PRAGMA journal_mode=WAL")  # only now does the connection look for a log
            pages, moved = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            assert pages == moved > 0

    def _context(self) -> Context:
        self._ops += 1
        return Context("acme", op=OpId("producer", self._ops))

    async def _settings(self) -> None:
        for subject, name, changes in (
            (request.QUEUE, "mail", {"concurrency": 50, "rate": Rate(100, 1_000)}),
            (request.KEY, "api:", {"concurrency": 40, "rate": Rate(100, 1_000)}),
            (request.TENANT, "acme", {"weight": 3}),
            (request.QUEUE, "gone", {"keep_completed_count": 0}),
        ):
            await self.store.configure(Context("acme"), Configure(subject, name, dict(changes)), self.now)

    async def _jobs(self) -> None:
        plain = Batch(Options("mail"), [b"payload %d" % at for at in range(90)])
        await self.store.enqueue(self._context(), plain, self.now)
        await self.store.enqueue(Context("other"), Batch(Options("gone"), [b"x" * 300] * 20), self.now)
        answers = await self.store.enqueue(self._context(), Batch(Options("gone"), [b"short"] * 60), self.now)
        extras = Extras(
            custom_id=f"c{self._ops}",
            unique_key=f"u{self._ops}",
            idempotency_key=f"i{self._ops}",
            depends_on=(answers.ids[0],),
            tags=("red",),
            metadata={"colour": "blue"},
        )
        options = Options("mail", limit_keys=("api:a",), timeout_ms=600_000)
        await self.store.enqueue(self._context(), Batch(options, [b"keyed"], [extras]), self.now)
        grouped = Batch(Options("mail"), [b"one", b"two"], [Extras(group="g"), Extras(group="g")])
        await self.store.enqueue(Context("acme"), grouped, self.now)
        large = Batch(Options("large"), [bytes(range(256)) * 80])
        await self.store.enqueue(Context("acme"), large, self.now)

    async def _work(self) -> None:
        worker = Context("acme", op=OpId("worker", self._ops))
        claim = Claim((Pick("gone"), Pick("mail")), 75, lease_ms=3_600_000, worker="w")
        claimed = await self.store.claim(worker, claim, self.now)
        tokens = [claimed.token] * len(claimed.ids)
        for at, id in enumerate(claimed.ids[:10]):
            for kind in (request.LOG, request.EMIT, request.PROGRESS):
                append = Append(kind, id, claimed.token, at, f"line {at}", b"data" * at)
                await self.store.append(Context("acme"), append, self.now)
        done = Settle(SETTLE_COMPLETE, claimed.ids[4:60], tokens[4:60], [b"result"] * len(claimed.ids[4:60]))
        await self.store.settle(self._context(), done, self.now)
        failed = Settle(SETTLE_FAIL, claimed.ids[60:64], tokens[60:64])
        failed.failures = [Failure("Broken", f"it broke {at}", "trace") for at in range(len(failed.ids))]
        await self.store.settle(Context("acme"), failed, self.now)
        await self.store.change(Context("acme"), Change(request.CANCEL, claimed.ids[64:66]), self.now)

    async def _loads(self) -> None:
        batch = Batch(Options("loaded"), [b"staged"] * 30)
        name = f"load{self._ops}"
        await self.store.load(Context("acme"), Load(request.STAGE, name, 0, "first", 0, batch), self.now)

    async def _checkpoint(self) -> None:
        """Events are in their table afterwards."""
        self.now = Now(self.now.wall_ms + 600, self.now.elapsed_ms + 600)
        await self.store.tick(self.now)
        checkpoint = self.store._checkpoint
        assert checkpoint is not None
        assert checkpoint._task is not None
        await checkpoint._task


async def make_closed(path: Path) -> None:
    sample = Sample(path)
    await sample.make()
    with journal_kept():
        await sample.store.close()


async def make_killed(path: Path, backfilled: bool) -> dict[str, bytes]:
    """The files as a killed process leaves them: with a log, of which a part may be in the file already, and not all:
    it is moved before the last groups and not after them."""
    with (
        mock.patch.object(writer, "WAL_BYTES", 1 << 30),
        mock.patch.object(writer, "ROOM_BYTES", 0),
    ):
        sample = Sample(path)
        await sample.make(backfilled)
        await asyncio.to_thread(wait_for_mark, sample.store._file, sample.store._synced)
        names = [f"{path.name}{ending}" for ending in ("", "-wal", "-mark")]
        files = {name: path.with_name(name).read_bytes() for name in names}
        await sample.store.close()
    return files


def wait_for_mark(file: StoreFile, position: int) -> None:
    """It is written a moment after the answer."""
    until = time.monotonic() + PATIENCE_S
    while mark.reached(file._mark, mark.identity(file.path, file.secret))[1] < position:
        assert time.monotonic() < until
        time.sleep(0)


def tables_filled(reading: Reading) -> list[int]:
    return [len(rows) for rows in (*reading.rows, reading.events)]


def same(one: Reading, other: Reading) -> bool:
    return msgspec.json.encode(one.jobs) == msgspec.json.encode(other.jobs) and one == other
