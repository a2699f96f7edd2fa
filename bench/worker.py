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
from pathlib import Path

import uvloop

import tenure
from bench.report import Report, arguments
from bench.server import DATA, connect, packed, process, served
from tenure.engine import engine
from tenure.worker.worker import Worker

CONCURRENCY = 500
THREADS = 16
BLOCK = bytes(1024 * 1024)
SHA_TIMES = 10

app = tenure.App("memory://")
started: list[float] = []


@app.task(queue="async", remove_on_complete=True)
async def noop(order: int, name: str, total: float) -> None:
    """Three arguments, decoded and checked."""


@app.task(queue="thread", remove_on_complete=True)
def noop_thread(order: int, name: str, total: float) -> None:
    """The same in a thread."""


@app.task(queue="latency", remove_on_complete=True)
async def note_start() -> None:
    started.append(time.perf_counter())


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


async def round_trip_s(port: int, rounds: int) -> float:
    line = await connect(port)
    request = packed(cmd="PUSH", queue="q", data=DATA)
    spent: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        await line.ask(request)
        spent.append(time.perf_counter() - began)
    line.transport.close()
    return statistics.median(spent)


async def latency_s(url: str, rounds: int) -> float:
    async with app_of(url), app.worker(queues=["latency"]):
        spent: list[float] = []
        for number in range(rounds):
            began = time.perf_counter()
            await note_start.enqueue()
            while len(started) <= number:
                await asyncio.sleep(0)
            spent.append(started[number] - began)
            await asyncio.sleep(0.002)
        started.clear()
        return statistics.median(spent)


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


def startup_ms(url: str) -> float:
    """From the start of `tenure worker` to the first job that it has taken."""
    app_of(url).enqueue_sync("note_start")
    began = time.perf_counter()
    command = [sys.executable, "-m", "tenure", "worker", "bench.worker:app", "--queues", "latency", "--burst"]
    subprocess.run(command, env={**os.environ, "TENURE_URL": url, "BENCH_SAY_START": "1"}, check=True)
    return (time.perf_counter() - began) * 1000


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
            bare = await round_trip_s(echo, 2_000)
        latency = await latency_s(url, 200 if chosen.quick else 1_000)
        report.add("worker.latency.p50", latency * 1e6, "us", bare * 1e6, latency / bare)
        hashes = 60 if chosen.quick else 300
        own = statistics.median([await sha_rate(url, hashes) for _ in range(rounds)])
        pool = statistics.median([pool_rate(hashes) for _ in range(rounds)])
        report.add("worker.process.sha", own, "jobs/s", pool, own / pool)
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        url = f"sqlite:///{folder}/jobs.db?durability=relaxed"
        rate = statistics.median([await rate_of(url, noop, jobs, CONCURRENCY) for _ in range(rounds)])
        report.add("worker.embedded.noop", rate, "jobs/s", 100_000, rate / 100_000)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    uvloop.run(main())
