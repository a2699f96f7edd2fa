"""Handlers in processes: what they say, how they die, and that nobody else is harmed."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import tenure
from tenure.core.error import InvalidRequest, JobCancelled, JobFailed
from tenure.core.request import Filter
from tenure.worker import processes
from tenure.worker.worker import Worker
from tests.worker import handlers
from tests.worker.handlers import app

WAIT = 60


@pytest.fixture
async def worker(url: str) -> AsyncIterator[Worker]:
    app.use(url)
    async with app.worker(concurrency=2) as found:
        yield found


async def until(file: Path, text: str) -> None:
    async with asyncio.timeout(WAIT):
        while not file.exists() or file.read_text() != text:
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("worker")
async def test_results_outcomes_and_words_come_back() -> None:
    assert await (await handlers.square.enqueue(3)).result(WAIT) == 9
    assert await (await handlers.square_later.enqueue(4)).result(WAIT) == 16
    job = await handlers.speak.options(tags=["a"]).enqueue()
    id, tags, attempt, process = await job.result(WAIT)
    assert (id, tags, attempt) == (job.id, ["a"], 1)
    assert process != os.getpid()
    assert await job.logs() == ["from a process", "WARNING mine: too"]
    assert [item async for item in job.stream()] == [1]
    db, process = await (await handlers.depends.enqueue()).result(WAIT)
    assert db == f"session of {process}"
    client = app.home.here
    assert client is not None
    [follow_up] = [found for found in (await client.find(Filter(task="square"))).jobs if found.id > job.id]
    assert await client.wait(follow_up.id, WAIT) == b"9"


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(
    ("kind", "type", "reason"),
    [
        ("value", "ValueError", "attempts_exhausted"),
        ("exit", "SystemExit", "attempts_exhausted"),
        ("permanent", "Permanent", "permanent"),
    ],
)
async def test_exceptions_come_back_with_their_trace(kind: str, type: str, reason: str) -> None:
    with pytest.raises(JobFailed, match="said") as raised:
        await (await handlers.raises.enqueue(kind)).result(WAIT)
    assert raised.value.fields["type"] == type
    assert raised.value.fields["reason"] == reason
    assert "in raises" in str(raised.value.fields["trace"])


async def test_process_that_dies_fails_its_job_and_is_replaced() -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        for how, message in (("exit", "with 7"), ("kill", "SIGKILL"), ("segfault", "SIGSEGV")):
            with pytest.raises(JobFailed, match=message) as raised:
                await (await handlers.dies.enqueue(how)).result(WAIT)
            assert raised.value.fields["type"] == "tenure.worker.processes.ProcessDied"
        assert await (await handlers.square.enqueue(5)).result(WAIT) == 25


async def test_handler_that_forks_harms_nobody() -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        assert await (await handlers.forks.enqueue()).result(WAIT) == 1
        assert await (await handlers.square.enqueue(5)).result(WAIT) == 25


async def test_result_that_cannot_be_written_fails_at_once() -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        with pytest.raises(JobFailed, match="cannot be written"):
            await (await handlers.odd_result.enqueue()).result(WAIT)


@pytest.mark.usefixtures("worker")
async def test_cancelled_job_stops_its_process(tmp_path: Path) -> None:
    job = await handlers.runs_long.enqueue(str(tmp_path / "file"))
    await until(tmp_path / "file", "started")
    await job.cancel()
    await until(tmp_path / "file", "stopped")
    with pytest.raises(JobCancelled):
        await job.result(WAIT)


async def test_handler_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "STOP_S", 0.1)
    app.use("memory://")
    async with app.worker(concurrency=1):
        job = await handlers.stubborn.enqueue(str(tmp_path / "file"))
        await until(tmp_path / "file", "started")
        await job.cancel()
        assert await (await handlers.square.enqueue(6)).result(WAIT) == 36


async def test_process_over_its_memory_is_replaced() -> None:
    app.use("memory://")
    large = b"x" * 300 * 1024 * 1024  # what the worker itself has, or had, is not counted
    assert large
    async with app.worker(concurrency=1, memory_bytes=200 * 1024 * 1024):
        small = [await (await handlers.leaks.enqueue(1)).result(WAIT) for _ in range(2)]
        assert small[0] == small[1]
        assert await (await handlers.leaks.enqueue(300)).result(WAIT) == small[0]
        assert await (await handlers.leaks.enqueue(1)).result(WAIT) != small[0]


async def test_task_that_no_other_process_can_find_is_refused() -> None:
    local = tenure.App("memory://")

    @local.task(run="process")
    def inner() -> None: ...

    with pytest.raises(InvalidRequest, match="at the top of a module"):
        async with local.worker():
            pass


async def test_process_that_died_while_it_had_nothing_to_do_costs_no_attempt() -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        first = await (await handlers.leaks.enqueue(1)).result(WAIT)
        os.kill(first, signal.SIGKILL)
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        job = await handlers.square.enqueue(5)
        assert await job.result(WAIT) == 25
        assert (await job.info()).attempt == 1


@pytest.mark.parametrize("task", [handlers.odd_progress, handlers.forks_and_returns], ids=lambda task: task.name)
async def test_answer_of_one_job_is_never_anothers(task: "tenure.Task[[], str]") -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        with contextlib.suppress(JobFailed):
            await (await task.enqueue()).result(WAIT)
        assert [await (await handlers.square.enqueue(n)).result(WAIT) for n in (2, 3, 4)] == [4, 9, 16]


async def test_process_that_dies_and_leaves_a_child_gives_its_place_back() -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        with pytest.raises(JobFailed, match="SIGKILL"):
            await (await handlers.dies_and_leaves_a_child.enqueue()).result(WAIT)
        assert await (await handlers.square.enqueue(5)).result(WAIT) == 25


async def test_asynchronous_dependency_is_open_while_the_handler_runs() -> None:
    app.use("memory://")
    async with app.worker(concurrency=1):
        assert await (await handlers.depends_on_generator.enqueue()).result(WAIT) == ["open"]


async def test_task_under_another_name_than_its_function_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="under the name of its function"):
        async with handlers.misnamed.worker():
            pass
