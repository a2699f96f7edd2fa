"""Loads by themselves, without Spark: 500,000 rows with keys into a server that is a process of its own.

    make bench BENCH=load ARGS=--quick

A load is staged in chunks of 10,000 rows, four on their way, then published and waited for. Its columns are in one
piece, as the writers on Spark send them; beside it, as the reference, they are lists of payloads and keys, in a server
of its own. Medians of several loads, after one that does not count.

- load.stage, load.let_in: seconds from the first chunk to the last answer, and from the publication until it is done.
- load.memory: what the server has more in memory, a job of a load that nobody has claimed, after the checkpoint.
"""

import asyncio
import os
import secrets
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import uvloop

import tenure
from bench.report import Report, arguments
from bench.server import served
from tenure.core.job import Options
from tenure.core.packed import pack, pack_texts
from tenure.core.request import PUBLISH, READ, STAGE, Batch, Load

CHUNK_ROWS = 10_000
IN_FLIGHT = 4
POLL_S = 0.002
REST_S = 2.0  # for the checkpoint
OPTIONS = Options(queue="orders", task="pay")


class Found(NamedTuple):
    stage_s: float
    let_in_s: float
    job_bytes: float


def batch(first: int, in_one_piece: bool) -> Batch:
    """As the orders of bench/spark.py: 80 bytes of JSON a row."""
    numbers = range(first, first + CHUNK_ROWS)
    kind = "some kind of order"
    payloads = [
        f'{{"order_id":"order-{at}","amount":{at * 1.25},"customer":{at},"kind":"{kind}"}}'.encode() for at in numbers
    ]
    keys = [f"order-{at}" for at in numbers]
    if in_one_piece:
        return Batch(OPTIONS, pack(payloads), keys=pack_texts(keys))
    return Batch(OPTIONS, payloads, keys=keys)


async def measure(client: tenure.Client, first: int, rows: int, in_one_piece: bool) -> tuple[float, float]:
    name = secrets.token_hex(4)
    chunks = [
        Load(STAGE, name, 0, "w", number, batch(first + number * CHUNK_ROWS, in_one_piece))
        for number in range(rows // CHUNK_ROWS)
    ]
    room = asyncio.Semaphore(IN_FLIGHT)

    async def stage(chunk: Load) -> None:
        async with room:
            await client.load(chunk)

    began = time.perf_counter()
    await asyncio.gather(*map(stage, chunks))
    staged = time.perf_counter()
    report = await client.load(Load(PUBLISH, name, parts={0: "w"}))
    while not report.done:
        await asyncio.sleep(POLL_S)
        report = await client.load(Load(READ, name))
    assert report.new == rows
    return staged - began, time.perf_counter() - staged


def server_bytes() -> int:
    """Of the one process that was started here."""
    (pid,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def loads(port: int, rows: int, rounds: int, in_one_piece: bool) -> Found:
    spent: list[tuple[float, float]] = []
    sizes: list[int] = []
    async with tenure.connect(f"tenure://127.0.0.1:{port}") as client:
        for number in range(rounds + 1):
            spent.append(await measure(client, number * rows, rows, in_one_piece))
            await asyncio.sleep(REST_S)
            sizes.append(server_bytes())
    stage_s, let_in_s = (statistics.median(column) for column in zip(*spent[1:], strict=True))
    return Found(stage_s, let_in_s, (sizes[-1] - sizes[0]) / (rows * rounds))


def main() -> None:
    chosen = arguments(__doc__)
    report = Report(chosen.json)
    rows, rounds = (100_000, 1) if chosen.quick else (500_000, 4)
    found: list[Found] = []
    for in_one_piece in (True, False):
        with served("write") as port:
            found.append(uvloop.run(loads(port, rows, rounds, in_one_piece)))
    own, lists = found
    report.add("load.stage", own.stage_s, "s", lists.stage_s, own.stage_s / lists.stage_s)
    report.add("load.let_in", own.let_in_s, "s", lists.let_in_s, own.let_in_s / lists.let_in_s)
    report.add("load.memory", own.job_bytes, "bytes/job", lists.job_bytes, own.job_bytes / lists.job_bytes)


if __name__ == "__main__":
    main()
