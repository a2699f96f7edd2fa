"""Workers: what it takes to run handlers, from the claim over the decoded arguments to the settlement.

    make bench BENCH=worker ARGS=--quick

The server is a process of its own, the worker is this one. Round trips stand beside those of a bare echo server, work
in processes beside `multiprocessing` on the same work, in the same run.
"""

import asyncio
import hashlib
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

import tenure
from bench.report import Report, arguments
from bench.server import DATA, connect, packed, process, served
from tenure.engine import engine
from tenure.worker.worker import Worker

CONCURRENCY = 500
THREADS = 64
IDLE_S = 0.02
BLOCK = bytes(1024 * 1024)
SHA_TIMES = 10

app = tenure.App("memory://")
started: list[float] = []
running = asyncio.Event()
ended = asyncio.Event()


@app.task(queue="async", remove_on_complete=True)
async def noop(order: int, name: str, total: float) -> None:
    """Three arguments, decoded and checked."""


@app.task(queue="thread", remove_on_complete=True)
def noop_thread(order: int, name: str, total: float) -> None:
    """The same in a thread."""


@app.task(queue="latency", remove_on_complete=True)
async def note_start() -> None:
    started.append(time.perf_counter())


@app.task(queue="startup", remove_on_complete=True)
async def note_time(file: str) -> None:
    Path(file).write_text(str(time.time()))


@app.task(queue="cancel", remove_on_complete=True)
async def run_until_cancelled() -> None:
    running.set()
    try:
        await asyncio.sleep(60)
    finally:
        ended.set()


@app.task(queue="sha", run="process", remove_on_complete=True)
def hash_often(number: int) -> None:
    hash_block(number)


def hash_block(_number: int) -> None:
    for _ in range(SHA_TIMES):
        hashlib.sha256(BLOCK).digest()


def app_of(url: str) -> tenure.App:
    """The same tasks on another store."""
    app.use(url)
    return app


async def filled(task: tenure.Task[[int, str, float], None], jobs: int) -> None:
    async for job in app.enqueue_many(task.bind(number, "Ada", 12.5) for number in range(jobs)):
        assert job.error is None


async def until_ended(worker: Worker, jobs: int) -> None:
    while worker.ended < jobs:
        await asyncio.sleep(0.001)
    await worker.settled()


async def rate_of(url: str, task: tenure.Task[[int, str, float], None], jobs: int, concurrency: int) -> float:
    async with app_of(url):
        await filled(task, jobs)
        began = time.perf_counter()
        async with app.worker(queues=[task.shared[0].queue], concurrency=concurrency) as worker:
            await until_ended(worker, jobs)
            return jobs / (time.perf_counter() - began)


async def round_trips(port: int, url: str, rounds: int) -> tuple[float, float]:
    """From a call to the start of its handler, and an echo, in turns; each after a moment in which nothing ran."""
    line = await connect(port)
    request = packed(cmd="PUSH", queue="q", data=DATA)
    own: list[float] = []
    bare: list[float] = []
    async with app_of(url), app.worker(queues=["latency"]):
        for number in range(rounds):
            await asyncio.sleep(IDLE_S)
            began = time.perf_counter()
            await line.ask(request)
            bare.append(time.perf_counter() - began)
            await asyncio.sleep(IDLE_S)
            began = time.perf_counter()
            await note_start.enqueue()
            while len(started) <= number:
                await asyncio.sleep(0)
            own.append(started[number] - began)
    started.clear()
    line.transport.close()
    return statistics.median(own), statistics.median(bare)


async def cancel_s(url: str, rounds: int) -> float:
    """From the call that cancels a job to the end of its handler."""
    spent: list[float] = []
    async with app_of(url), app.worker(queues=["cancel"]):
        for _ in range(rounds):
            running.clear()
            job = await run_until_cancelled.enqueue()
            await running.wait()
            await asyncio.sleep(IDLE_S)
            began = time.perf_counter()
            await job.cancel()
            await ended.wait()
            spent.append(time.perf_counter() - began)
            ended.clear()
    return max(spent)


async def sha_rate(url: str, jobs: int) -> float:
    async with app_of(url):
        async for _ in app.enqueue_many(hash_often.bind(number) for number in range(jobs)):
            pass
        async with app.worker(queues=["sha"], concurrency=2) as worker:
            while worker.ended < 4:  # the processes have started
                await asyncio.sleep(0.01)
            began, before = time.perf_counter(), worker.ended
            await until_ended(worker, jobs)
            return (jobs - before) / (time.perf_counter() - began)


def pool_rate(jobs: int) -> float:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for _ in pool.imap_unordered(hash_block, range(4), chunksize=1):
            pass
        began = time.perf_counter()
        for _ in pool.imap_unordered(hash_block, range(jobs), chunksize=1):
            pass
        return jobs / (time.perf_counter() - began)


def startup_ms(url: str, folder: Path) -> float:
    """From the start of `tenure worker` to the start of its first job; its byte code is there, as after a first run."""
    file = folder / "started"
    app_of(url).enqueue_sync("note_time", {"file": str(file)})
    app.close_sync()
    names = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.time()
    command = [sys.executable, "-m", "tenure", "worker", "bench.worker:app", "--queues", "startup", "--burst"]
    environment = {**names, "TENURE_URL": url, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return (float(file.read_text()) - began) * 1000


@contextmanager
def temporary() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


async def main() -> None:
    chosen = arguments(__doc__)
    report = Report(chosen.json)
    build = "compiled" if engine.__file__.endswith(".so") else "interpreted"
    report.note(f"# worker: {build} build")
    jobs = 30_000 if chosen.quick else 200_000
    rounds = 3 if chosen.quick else 5
    with served("relaxed") as port:
        url = f"tenure://127.0.0.1:{port}"
        rate = statistics.median([await rate_of(url, noop, jobs, CONCURRENCY) for _ in range(rounds)])
        report.add("worker.async.noop", rate, "jobs/s", 60_000, rate / 60_000)
        rate = statistics.median([await rate_of(url, noop_thread, jobs, THREADS) for _ in range(rounds)])
        report.add("worker.thread.noop", rate, "jobs/s", 20_000, rate / 20_000)
        with process("-m", "bench.echo") as echo:
            latency, bare = await round_trips(echo, url, 100 if chosen.quick else 500)
        report.add("worker.latency.p50", latency * 1e6, "us", bare * 1e6, latency / bare)
        longest = await cancel_s(url, 20 if chosen.quick else 100)
        report.add("worker.cancel.max", longest * 1e3, "ms", 50, longest / 0.05)
        with temporary() as folder:
            await asyncio.to_thread(startup_ms, url, folder)
            spent = [await asyncio.to_thread(startup_ms, url, folder) for _ in range(5)]
        report.add("worker.startup", statistics.median(spent), "ms", 400, statistics.median(spent) / 400)
        hashes = 60 if chosen.quick else 300
        pairs = [(await sha_rate(url, hashes), pool_rate(hashes)) for _ in range(rounds)]
        own, pool = (statistics.median(each) for each in zip(*pairs, strict=True))
        report.add("worker.process.sha", own, "jobs/s", pool, statistics.median(a / b for a, b in pairs))
    with temporary() as folder:
        url = f"sqlite:///{folder}/jobs.db?durability=relaxed"
        rate = statistics.median([await rate_of(url, noop, jobs, CONCURRENCY) for _ in range(rounds)])
        report.add("worker.embedded.noop", rate, "jobs/s", 100_000, rate / 100_000)


if __name__ == "__main__":
    uvloop.run(main())
