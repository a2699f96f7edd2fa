"""The event lake: how fast a backlog of events is exported, and what that takes of memory beside the store.

    make bench BENCH=lake ARGS=--quick

The backlog is made in a store on disk; a process of its own opens it and exports it to a folder. The reference writes
the same rows as one Parquet file from memory, with the same options, and nothing else. Memory is the highest that the
process ever had during the export over what it had before, for the backlog and for a quarter of it: it is to stay.
"""

import asyncio
import json
import shutil
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

MANY = 10_000
EVENTS = 2_000_000
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


def memory_kb(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))


async def export(path: Path, lake: Path) -> dict[str, float]:
    store = SqliteStore(path)
    await store.open(read_clock())
    rules = Rules(is_compacted=False)
    source = StoreSource(store, read_clock)
    place = open_place(str(lake), create=True)
    exporter = Exporter(place, source, await store.identity(), rules, lambda: read_clock().wall_ms)
    await exporter.open()
    await source.read(exporter.state.upto, rules.page_rows)  # what is imported and allocated once is not of the export
    before = memory_kb("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins anew
    noting = asyncio.create_task(note_pauses())
    began = time.perf_counter()
    count = await exporter.cycle()
    spent = time.perf_counter() - began
    noting.cancel()
    found = {
        "events": count,
        "seconds": spent,
        "extra_mb": (memory_kb("VmHWM") - before) / 1024,
        "pause_ms": 1000 * percentile(PAUSES, 0.99),
        "longest_ms": 1000 * max(PAUSES),
    }
    await store.close()
    return found


PAUSES = [0.0]  # how long the loop did not turn, in seconds


async def note_pauses() -> None:
    while True:
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        PAUSES.append(time.perf_counter() - began - 0.001)


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
        quarter, whole = measure(folder, events // 4), measure(folder, events)
        reference = write_alone(folder / f"lake-{events // 4}", folder / "alone.parquet")
        rate = whole["events"] / whole["seconds"]
        report.add("lake.export", rate, "events/s", reference, rate / reference)
        report.add("lake.memory", whole["extra_mb"], "MB", quarter["extra_mb"], whole["extra_mb"] / quarter["extra_mb"])
        report.note(
            f"{whole['events']:,.0f} events in {whole['seconds']:.1f} s; the reference of lake.memory is the export of"
            f" {quarter['events']:,.0f}; the loop came late by {whole['pause_ms']:.0f} ms in 1 of 100 turns,"
            f" by {whole['longest_ms']:.0f} ms once"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
