"""Leases are kept whatever a handler does, and lost when the worker dies."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tenure
from tenure.worker.parent import asked_state, is_stopped, state_of
from tenure.worker.table import EXPIRED, Table
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
        table.take(2, 77, 30_000, 5, 12.5, b"token")
        assert list(table.taken()) == [(2, 77, 30_000, 5, 12.5, b"token")]
        table.mark_lost(2, 77, 4, EXPIRED)
        assert not table.lost(2)
        table.mark_lost(2, 77, 5, EXPIRED)
        assert table.lost(2) == EXPIRED
        assert list(table.taken()) == []
        table.take(2, 78, 30_000, 6, 12.5, b"other")
        assert not table.lost(2)
        table.leave(2)
        assert list(table.taken()) == []
    finally:
        table.close()


def test_claim_is_taken_or_withdrawn_and_never_both_unseen() -> None:
    table = Table.make(1, 2)
    try:
        table.begin_claim(1, 5)
        assert table.claiming() == [(1, 5)]
        assert not table.end_claim(1, 5)
        assert table.claiming() == []
        assert not table.withdraw(1, 5)  # too late
        table.begin_claim(1, 6)
        assert table.withdraw(1, 6)
        assert table.end_claim(1, 6)
    finally:
        table.close()


@pytest.mark.slow
async def test_worker_that_is_stopped_loses_its_leases_and_hears_of_it(tmp_path: Path) -> None:
    """Its keeper is not stopped with it. When the worker goes on, what its handler had done is refused, and the next
    attempt is made."""
    async with running(tmp_path) as server:
        url = f"tenure://127.0.0.1:{server.port}"
        app.use(url)
        async with app:
            job = await handlers.sleeps_in_a_thread.enqueue(4.0)
            worker = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.worker.work", url),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                async with asyncio.timeout(WAIT):
                    while await job.state() != "running":
                        await asyncio.sleep(0.02)
                    until = (await job.info()).lease_until
                    while (await job.info()).lease_until == until:
                        await asyncio.sleep(0.05)
                    os.kill(worker.pid, signal.SIGSTOP)
                    while await job.state() == "running":
                        await asyncio.sleep(0.05)
                    os.kill(worker.pid, signal.SIGCONT)
                    assert await job.result(WAIT) == "done"
                found = await job.info()
                assert (found.attempt, found.delivery) == (2, 2)
                assert [ended.error.type for ended in found.history if ended.error is not None] == ["LeaseExpired"]
            finally:
                worker.kill()
                _, said = await worker.communicate()
            assert f"job {job.id} " in said.decode()
            assert "lease" in said.decode()


@pytest.mark.parametrize("state", [state_of, asked_state])
def test_process_that_is_stopped_is_seen_to_be(state: Callable[[int], bytes]) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        try:
            assert state(process.pid) in (b"R", b"S", b"D")
            os.kill(process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            assert state(process.pid) == b"T"
            assert is_stopped(process.pid)
        finally:
            process.kill()


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
