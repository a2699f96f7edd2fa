"""What a burst leaves in a server's memory: many jobs in and out, a minute of quiet, and the same file opened again."""

import asyncio
import re
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import tenure
from bench.report import Report, arguments
from tenure.core.request import Claim, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE

BATCH = 1_000
PAYLOAD = b"x" * 100
QUIET_S = 70.0  # jobs that ended stay for a minute; then memory is returned within seconds
REST_S = 3.0


async def start(store: str) -> tuple[Process, str]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.served", store, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    return process, f"tenure://127.0.0.1:{int(await process.stdout.readline())}"


async def stop(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


def megabytes(process: Process) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1_024


async def burst(url: str, jobs: int) -> None:
    async with tenure.connect(url) as client:

        async def put() -> None:
            for _ in range(jobs // BATCH):
                await client.enqueue_many([PAYLOAD] * BATCH, queue="burst")

        async def take() -> None:
            left = jobs
            while left:
                found = await client.claim_batch(Claim((Pick("burst"),), BATCH, wait_ms=5_000))
                await client.settle_batch(Settle(SETTLE_COMPLETE, found.ids, [found.token] * len(found.ids)))
                left -= len(found.ids)

        await asyncio.gather(put(), take())


async def main() -> None:
    given = arguments(__doc__)
    report = Report(given.json)
    jobs = 100_000 if given.quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/jobs.db"
        process, url = await start(store)
        await asyncio.sleep(REST_S)
        before = megabytes(process)
        report.add("memory.before", before, "MB", before, 1.0)
        await burst(url, jobs)
        report.add("memory.full", megabytes(process), "MB", before, megabytes(process) / before)
        await asyncio.sleep(QUIET_S)
        report.add("memory.quiet", megabytes(process), "MB", before, megabytes(process) / before)
        await stop(process)
        process, _ = await start(store)
        await asyncio.sleep(REST_S)
        report.add("memory.restarted", megabytes(process), "MB", before, megabytes(process) / before)
        await stop(process)


if __name__ == "__main__":
    asyncio.run(main())
