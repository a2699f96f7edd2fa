"""The event lake: how fast a backlog of events is exported, and what that takes of memory beside the store.

    make bench BENCH=lake ARGS=--quick

The backlog is made in a store on disk; a process of its own opens it and exports it to a folder. The reference writes
the same rows as one Parquet file from memory, with the same options, and nothing else. Memory is what the process had
over what it had before, the median of the last quarter of the backlog beside the second's: it is to stay. In the first
it takes what it keeps.
"""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.report import Report, arguments, percentile
from tenure.client.clock import read_clock
from tenure.core.bound import make_claim, make_options
from tenure.core.request import Batch, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.lake.export import Exporter
from tenure.lake.lake import Lake
from tenure.lake.place import open_place
from tenure.lake.segment import REPEATING
from tenure.lake.source import StoreSource
from tenure.lake.tidy import Rules
from tenure.store.embedded.sqlite import SqliteStore

PAGE_KB = os.sysconf("SC_PAGESIZE") // 1024
MANY = 10_000
EVENTS = 4_000_000
EVENTS_QUICK = 240_000
TENANTS = 20
EVENTS_PER_JOB = 3


async def fill(path: Path, events: int) -> None:
    """Jobs from their beginning to their end, of several tenants and queues. The loop has its turns, as in a server:
    else all of it would be one group, which a store on disk writes, and reads again, as a whole."""
    store = SqliteStore(path, "relaxed")
    await store.open(read_clock())
    for number in range(events // EVENTS_PER_JOB // MANY):
        context = Context(f"tenant-{number % TENANTS}")
        options = make_options(queue=f"queue-{number % 7}", task=f"task-{number % 5}", keep_completed_ms=0)
        await store.enqueue(context, Batch(options, [b"{}"] * MANY), read_clock())
        claim = make_claim((f"queue-{number % 7}",), MANY, 0, f"worker-{number % 3}")
        got = await store.claim(context, claim, read_clock())
        await store.settle(context, Settle(SETTLE_COMPLETE, got.ids, [got.token] * len(got.ids)), read_clock())
        await asyncio.sleep(0)
    await store.close()


def memory_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB


async def export(path: Path, lake: Path) -> dict[str, float]:
    store = SqliteStore(path)
    await store.open(read_clock())
    rules = Rules(is_compacted=False)
    source = StoreSource(store, read_clock)
    place = open_place(str(lake), create=True)
    exporter = Exporter(place, source, await store.identity(), rules, lambda: read_clock().wall_ms)
    await exporter.open()
    await source.read(exporter.state.upto, rules.page_rows)  # what is imported and allocated once is not of the export
    before = memory_kb()
    backlog = await source.newest()
    noting = asyncio.create_task(note(exporter, backlog))
    began = time.perf_counter()
    count = await exporter.cycle()
    spent = time.perf_counter() - began
    noting.cancel()
    found = {
        "events": count,
        "seconds": spent,
        "second_mb": (statistics.median(MEMORY[1]) - before) / 1024,
        "last_mb": (statistics.median(MEMORY[-1]) - before) / 1024,
        "most_mb": (max(map(max, MEMORY)) - before) / 1024,
        "pause_ms": 1000 * percentile(PAUSES, 0.99),
        "longest_ms": 1000 * max(PAUSES),
    }
    await store.close()
    return found


PAUSES = [0.0]  # how long the loop did not turn, in seconds
MEMORY: list[list[int]] = [[], [], [], []]  # in each quarter of the backlog


async def note(exporter: Exporter, backlog: int) -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        PAUSES.append(time.perf_counter() - began - 0.001)
        quarter = min(4 * exporter.state.upto // backlog, 3)
        MEMORY[quarter].append(memory_kb())


def measure(folder: Path, events: int) -> dict[str, float]:
    """In a process of its own."""
    asyncio.run(fill(folder / f"{events}.db", events))
    command = [sys.executable, "-m", "bench.lake", "--child", f"{folder / f'{events}.db'}|{folder / f'lake-{events}'}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def write_alone(lake: Path, path: Path) -> float:
    """Rows a second."""
    rows = pa.concat_tables([pq.read_table(file) for file in Lake.open(str(lake)).files()])
    began = time.perf_counter()
    pq.write_table(rows, path, compression="zstd", use_dictionary=REPEATING, write_page_index=True)
    return float(rows.num_rows / (time.perf_counter() - began))


def main() -> None:
    given = arguments(__doc__)
    if given.child:
        file, _, lake = given.child.partition("|")
        print(json.dumps(asyncio.run(export(Path(file), Path(lake)))))
        return
    report = Report(given.json)
    events = EVENTS_QUICK if given.quick else EVENTS
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        whole = measure(folder, events)
        reference = write_alone(folder / f"lake-{events}", folder / "alone.parquet")
        rate = whole["events"] / whole["seconds"]
        report.add("lake.export", rate, "events/s", reference, rate / reference)
        report.add("lake.memory", whole["last_mb"], "MB", whole["second_mb"], whole["last_mb"] / whole["second_mb"])
        report.note(
            f"{whole['events']:,.0f} events in {whole['seconds']:.1f} s; the loop came late by"
            f" {whole['pause_ms']:.0f} ms in 1 of 100 turns, by {whole['longest_ms']:.0f} ms once;"
            f" the most memory was {whole['most_mb']:.0f} MB"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
