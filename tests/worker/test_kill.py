"""A worker that is killed in the middle of its work: nothing is lost, and only what it held runs twice."""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.server.process import running
from tests.worker.handlers import app, count

JOBS = 10_000
CONCURRENCY = 50
WAIT_S = 120.0


async def started(url: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.worker.work", url, str(CONCURRENCY)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def runs(file: Path) -> Counter[int]:
    return Counter(int(line) for line in file.read_text().split()) if file.exists() else Counter()


@pytest.mark.slow
async def test_killed_worker_loses_nothing_and_doubles_only_what_it_held(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    async with running(tmp_path) as server, asyncio.timeout(WAIT_S):
        url = f"tenure://127.0.0.1:{server.port}"
        app.use(url)
        async with app:
            async for job in app.enqueue_many(count.bind(number, str(file)) for number in range(JOBS)):
                assert job.error is None
            client = app.home.here
            assert client is not None
            held = 0
            for part in (0.2, 0.5, 0.8):
                worker = await started(url)
                while len(runs(file)) < part * JOBS:
                    await asyncio.sleep(0.005)
                os.kill(worker.pid, signal.SIGKILL)
                await worker.wait()
                held += (await client.count("count"))["count"]["running"]
            last = await started(url)
            while sum((await client.count("count")).get("count", {}).values()):
                await asyncio.sleep(0.05)
            last.send_signal(signal.SIGKILL)
            await last.wait()
    found = runs(file)
    assert sorted(found) == list(range(JOBS))
    assert sum(found.values()) - JOBS <= held
