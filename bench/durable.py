"""The durable store: what it takes to keep jobs in a SQLite file, beside what the disk and bare SQLite do.

    make bench BENCH=durable ARGS=--quick

References are measured in the same run, on the same disk, with the same bytes: SQLite with a row per job, one blob per
transaction, and an append with fdatasync. Short measurements are taken several times and the median is told. Each
begins when the disk has taken what the one before left behind: a sync would wait for that too.
"""

import asyncio
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from bench.report import Report, arguments, percentile
from tenure.client.clock import read_clock
from tenure.client.driver import Driver
from tenure.core.bound import make_options
from tenure.core.request import Batch, Claim, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.engine import engine
from tenure.store.embedded.sqlite import SqliteStore

PAYLOAD = bytes(64)
MANY = 10_000
CONTEXT = Context("bench")
OPTIONS = make_options(queue="q", task="t")
BRIEF = make_options(queue="q", task="t", keep_completed_ms=0)
CLAIM = Claim((Pick("q"),), n=MANY)


@contextmanager
def folder() -> Iterator[Path]:
    os.sync()
    path = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Store:
    """A store with its timers running, that notes when answers became safe."""

    def __init__(self, path: Path, mode: str) -> None:
        self.store = Watched(path, mode)
        self.driver = Driver(self.store, read_clock)

    async def __aenter__(self) -> "Watched":
        await self.driver.open()
        self.driver.arm()
        return self.store

    async def __aexit__(self, *_: object) -> None:
        await self.driver.close()


class Watched(SqliteStore):
    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self.answered: list[tuple[int, float]] = []  # position, when
        self.lags: list[float] = []

    def note_answer(self) -> None:
        self.answered.append((self._taken + (0 if self._engine.is_taken() else 1), time.perf_counter()))

    def _let_out(self) -> None:
        now = time.perf_counter()
        while self.answered and self.answered[0][0] <= self._synced:
            self.lags.append(now - self.answered.pop(0)[1])
        super()._let_out()


async def enqueue(store: SqliteStore, batch: Batch) -> None:
    await store.enqueue(CONTEXT, batch, read_clock())


async def cycle(store: SqliteStore, batch: Batch) -> int:
    await enqueue(store, batch)
    got = await store.claim(CONTEXT, CLAIM, read_clock())
    await store.settle(CONTEXT, Settle(SETTLE_COMPLETE, got.ids, [got.token] * len(got.ids)), read_clock())
    return len(got.ids)


# References.


def rows_per_second(path: Path) -> float:
    """SQLite, a row per job, 10,000 rows a transaction."""
    db = sqlite3.connect(path / "rows.db")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state INTEGER, queue TEXT, payload BLOB)")
    rows = [(2, "q", PAYLOAD)] * MANY
    began = time.perf_counter()
    for _ in range(20):
        with db:
            db.executemany("INSERT INTO jobs (state, queue, payload) VALUES (?, ?, ?)", rows)
    spent = time.perf_counter() - began
    db.close()
    return 20 * MANY / spent


def blobs_per_second(path: Path, size: int, rounds: int) -> float:
    """SQLite in WAL mode with FULL: transactions of one blob."""
    db = sqlite3.connect(path / "blobs.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE blobs (n INTEGER PRIMARY KEY, data BLOB)")
    blob = os.urandom(size)
    began = time.perf_counter()
    for _ in range(rounds):
        db.execute("INSERT INTO blobs (data) VALUES (?)", (blob,))
    spent = time.perf_counter() - began
    db.close()
    return rounds / spent


def append_seconds(path: Path, size: int, rounds: int) -> list[float]:
    """An append and fdatasync, each timed."""
    file = os.open(path / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    data = os.urandom(size)
    spent: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        os.write(file, data)
        os.fdatasync(file)
        spent.append(time.perf_counter() - began)
    os.close(file)
    return spent


# Figures.


async def measure_relaxed(report: Report, seconds: float) -> float:
    batch = Batch(OPTIONS, [PAYLOAD] * MANY)
    with folder() as path:
        reference = rows_per_second(path)
        async with Store(path / "jobs.db", "relaxed") as store:
            began = time.perf_counter()
            count = 0
            while time.perf_counter() - began < min(seconds, 6.0):
                await enqueue(store, batch)
                count += MANY
                await asyncio.sleep(0)
            rate = count / (time.perf_counter() - began)
    report.add("durable.enqueue.relaxed", rate, "jobs/s", reference, rate / reference)
    return reference


async def measure_cycle(report: Report, seconds: float, reference: float) -> None:
    batch = Batch(BRIEF, [PAYLOAD] * MANY)
    with folder() as path:
        async with Store(path / "jobs.db", "relaxed") as store:
            rate = await cycles_per_second(store, batch, seconds)
            size = sum(file.stat().st_size for file in path.iterdir())
            report.note(f"# durable.cycle.relaxed: {seconds:.0f} s, {size / 1e6:.0f} MB of files at the end")
    report.add("durable.cycle.relaxed", rate, "cycles/s", reference, rate / reference)
    lags: list[float] = []
    raws: list[float] = []
    for _ in range(3):
        with folder() as path:
            async with Store(path / "jobs.db", "relaxed") as store:
                await half_rate(store, batch, rate / 2, min(seconds, 10.0))
                lags.append(percentile(store.lags, 0.99) * 1e3)
            raws.append(percentile(append_seconds(path, 64 * 1024, 200), 0.99) * 1e3)
    lag, raw = statistics.median(lags), statistics.median(raws)
    report.add("durable.relaxed.lag", lag, "ms", raw, lag / raw)


async def cycles_per_second(store: Watched, batch: Batch, seconds: float) -> float:
    began = time.perf_counter()
    done = 0
    while time.perf_counter() - began < seconds:
        done += await cycle(store, batch)
        await asyncio.sleep(0)
    return done / (time.perf_counter() - began)


async def half_rate(store: Watched, batch: Batch, rate: float, seconds: float) -> None:
    began = time.perf_counter()
    done = 0
    while time.perf_counter() - began < seconds:
        done += await cycle(store, batch)
        store.note_answer()
        await asyncio.sleep(max(began + done / rate - time.perf_counter(), 0))


async def measure_fsync(report: Report, rounds: int) -> None:
    rates: list[float] = []
    references: list[float] = []
    for _ in range(5):
        with folder() as path:
            references.append(blobs_per_second(path, 6_400 * 64, rounds) * 6_400)
        with folder() as path:
            rates.append(await synced_per_second(path / "jobs.db", rounds))
    rate, reference = statistics.median(rates), statistics.median(references)
    report.add("durable.enqueue.fsync", rate, "jobs/s", reference, rate / reference)


async def synced_per_second(path: Path, rounds: int) -> float:
    batch = Batch(OPTIONS, [PAYLOAD] * 100)
    async with Store(path, "fsync") as store:

        async def caller() -> None:
            for _ in range(rounds):
                await enqueue(store, batch)

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(64)))
        return rounds * 6_400 / (time.perf_counter() - began)


async def measure_single(report: Report, rounds: int) -> None:
    batch = Batch(OPTIONS, [PAYLOAD])
    with folder() as path:
        async with Store(path / "jobs.db", "fsync") as store:
            spent: list[float] = []
            raw: list[float] = []
            for _ in range(rounds // 50):
                raw += append_seconds(path, 160, 50)
                for _ in range(50):
                    began = time.perf_counter()
                    await enqueue(store, batch)
                    spent.append(time.perf_counter() - began)
    middle, reference = statistics.median(spent) * 1e3, statistics.median(raw) * 1e3
    report.add("durable.single.fsync", middle, "ms", reference, middle / reference)
    late, reference = percentile(spent, 0.99) * 1e3, percentile(raw, 0.99) * 1e3
    report.add("durable.single.p99", late, "ms", reference, late / reference)


async def measure_recovery(report: Report, jobs: int) -> None:
    batch = Batch(BRIEF, [PAYLOAD] * MANY)
    with folder() as path:
        file = path / "jobs.db"
        async with Store(file, "relaxed") as store:
            for _ in range(jobs // MANY):
                await enqueue(store, batch)
        began = time.perf_counter()
        opened = Store(file, "relaxed")
        await opened.driver.open()
        spent = time.perf_counter() - began
        full = file.stat().st_size
        report.add("durable.recovery", jobs / spent, "jobs/s", 1_000_000, jobs / spent / 1_000_000)
        report.add("durable.open", spent, "s", 2.0, spent / 2.0)
        opened.driver.arm()
        for _ in range(jobs // MANY):
            got = await opened.store.claim(CONTEXT, CLAIM, read_clock())
            done = Settle(SETTLE_COMPLETE, got.ids, [got.token] * len(got.ids))
            await opened.store.settle(CONTEXT, done, read_clock())
        for _ in range(100):
            await asyncio.sleep(0.1)
            if file.stat().st_size < full / 4:
                break
        await opened.driver.close()
        left = file.stat().st_size
    report.add("durable.file.left", left / 1e6, "MB", full / 1e6, left / full)


async def main() -> None:
    chosen = arguments(__doc__)
    report = Report(chosen.json)
    build = "compiled" if engine.__file__.endswith(".so") else "interpreted"
    report.note(f"# durable: {build} build")
    seconds = 4.0 if chosen.quick else 60.0
    reference = await measure_relaxed(report, seconds)
    await measure_cycle(report, seconds, reference)
    await measure_fsync(report, 60 if chosen.quick else 200)
    await measure_single(report, 400 if chosen.quick else 2_000)
    await measure_recovery(report, 300_000 if chosen.quick else 1_000_000)


if __name__ == "__main__":
    uvloop.run(main())
