"""Leases are kept whatever a handler does, and lost when the worker dies."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import tenure
from tenure.worker.table import Table
from tests.server.process import running
from tests.worker import handlers
from tests.worker.handlers import app

WAIT = 60


@pytest.mark.slow
@pytest.mark.parametrize("task", [handlers.blocks_the_loop, handlers.holds_the_interpreter], ids=lambda task: task.name)
async def test_lease_outlives_a_handler_that_blocks_everything(
    task: "tenure.Task[[float], str]", tmp_path: Path
) -> None:
    """The lease is one second, the handler takes three of which nothing else runs here."""
    async with running(tmp_path) as server:
        app.use(f"tenure://127.0.0.1:{server.port}")
        async with app.worker(concurrency=2) as worker:
            async with asyncio.timeout(WAIT):
                while not worker.is_kept:
                    await asyncio.sleep(0.01)
            job = await task.enqueue(3.0)
            assert await job.result(WAIT) == "done"
            found = await job.info()
            assert (found.attempt, found.delivery) == (1, 1)


@pytest.mark.slow
async def test_worker_that_dies_loses_its_leases(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        url = f"tenure://127.0.0.1:{server.port}"
        app.use(url)
        async with app:
            job = await handlers.blocks_the_loop.enqueue(3600.0)
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.worker.work", url),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            async with asyncio.timeout(WAIT):
                while await job.state() != "running":
                    await asyncio.sleep(0.02)
                os.kill(worker.pid, signal.SIGKILL)
                await worker.wait()
                while await job.state() == "running":
                    await asyncio.sleep(0.05)
            assert await job.state() in ("retrying", "ready")


def test_table_shows_what_was_taken_and_marks_only_the_same_use() -> None:
    table = Table.make(4)
    try:
        table.take(2, 77, 30_000, 5, b"token")
        assert list(table.taken()) == [(2, 77, 30_000, 5, b"token")]
        table.mark_lost(2, 77, 4)
        assert not table.is_lost(2)
        table.mark_lost(2, 77, 5)
        assert table.is_lost(2)
        assert list(table.taken()) == []
        table.take(2, 78, 30_000, 6, b"other")
        assert not table.is_lost(2)
        table.leave(2)
        assert list(table.taken()) == []
    finally:
        table.close()


@pytest.mark.slow
@pytest.mark.parametrize("task", [handlers.blocks_the_loop, handlers.holds_the_interpreter], ids=lambda task: task.name)
async def test_lease_of_an_embedded_store_does_not_run_while_everything_is_blocked(
    task: "tenure.Task[[float], str]", tmp_path: Path
) -> None:
    app.use(f"sqlite:///{tmp_path}/jobs.db")
    async with app.worker(concurrency=2):
        job = await task.enqueue(2.5)
        assert await job.result(WAIT) == "done"
        found = await job.info()
        assert (found.attempt, found.delivery) == (1, 1)
