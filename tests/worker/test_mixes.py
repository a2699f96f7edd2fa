"""What docs/workers.md promises of one handler holds whatever its neighbours in the worker do."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.worker.worker import CLAIMERS_FROM
from tests.server.process import running
from tests.worker.mixed import app, blocks, in_process, in_thread, many, short, yields

WAIT = 60
LEASE_S = 1.0
OPTIONS: dict[str, Any] = {"queue": "mixed", "lease": "1s", "max_attempts": 1}


async def until_kept(worker: Any) -> None:
    async with asyncio.timeout(WAIT):
        while not worker.is_kept:
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_handlers_that_block_the_loop_one_after_the_other_are_all_settled(tmp_path: Path) -> None:
    """The first one's settlement cannot leave before the second lets go of the loop, which is longer than the lease.
    Each has one attempt: a lost lease would be a dead letter."""
    async with running(tmp_path) as server:
        app.use(f"tenure://127.0.0.1:{server.port}")
        async with app.worker(concurrency=2, queues=["mixed"]) as worker:
            await until_kept(worker)
            client = app.home.here
            assert client is not None
            made = await client.enqueue_many([b'{"seconds": 1.6}'] * 2, task="blocks", **OPTIONS)
            assert [(await client.watch(job.id, WAIT)).state for job in made] == ["completed"] * 2
            assert [(await client.get(job.id)).delivery for job in made] == [1, 1]


@pytest.mark.slow
async def test_job_given_to_a_claim_of_a_blocked_worker_is_given_back_unspent(tmp_path: Path) -> None:
    """One of its jobs blocks the loop, while a claim for its other places waits in the server. What that is given goes
    to a worker that can take it, soon and with no attempt spent."""
    async with running(tmp_path) as server:
        app.use(f"tenure://127.0.0.1:{server.port}")
        async with app.worker(concurrency=CLAIMERS_FROM, queues=["mixed"]) as worker:
            await until_kept(worker)
            beside = asyncio.get_running_loop().run_in_executor(None, _beside, app.url, 4 * LEASE_S)
            attempt, delivery, took_s = await beside
            assert (attempt, delivery) == (1, 2)
            assert took_s < 3 * LEASE_S


def _beside(url: str, seconds: float) -> tuple[int, int, float]:
    """In a thread with a loop of its own: what another program sees of the blocked worker."""

    async def look() -> tuple[int, int, float]:
        async with tenure.connect(url) as client:
            await client.enqueue(b'{"seconds": %f}' % seconds, task="blocks", **OPTIONS)
            async with asyncio.timeout(WAIT):
                while (await client.count("mixed"))["mixed"]["running"] != 1:
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            id = (await client.enqueue(b"{}", task="short", **OPTIONS)).id
            [leased] = await client.claim("mixed", wait="10s", tasks=["short"])
            took_s = time.monotonic() - began
            found = await client.get(id)
            await client.complete(leased)
            return leased.attempt, found.delivery, took_s

    return asyncio.run(look())


@pytest.mark.slow
async def test_any_mix_of_handlers_ends_without_a_lost_lease(tmp_path: Path) -> None:
    """Coroutines that block the loop beside ones that wait, threads, processes and batches; one attempt each, and more
    jobs than there is room for."""
    made: Counter[str] = Counter()
    async with running(tmp_path) as server:
        app.use(f"tenure://127.0.0.1:{server.port}")
        async with app.worker(concurrency=4, processes=1, queues=["mixed"]) as worker:
            await until_kept(worker)
            jobs: list[tenure.Job[Any]] = []
            for task in (blocks, yields, in_thread, in_process, blocks, many, short):
                made[task.name] += 3
                jobs += [await task.enqueue(1.3 * LEASE_S) for _ in range(3)]
            for job in jobs:
                assert await job.result(WAIT) == "done"
            found = [await job.info() for job in jobs]
            assert {job.attempt for job in found} == {1}
    assert sum(made.values()) == len(jobs) == 21
