"""One file, several processes: a call goes on with the next owner of the file until its own deadline."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import tenure
from tenure.core.error import Timeout
from tenure.core.request import CANCEL, LOG, Append, Change, Filter
from tenure.store.embedded.file import Owner
from tests.server.process import QUIET
from tests.share.test_share import client_of, two

PATIENCE_S = 60.0
WAIT = "50s"
TASKS = """
import tenure

app = tenure.App("sqlite:///jobs.db")


@app.task(queue="email")
async def send(to: str) -> str:
    return f"sent to {to}"
"""


async def until_owned_by(folder: Path, pid: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                owner = msgspec.json.decode((folder / "jobs.db-owner").read_bytes(), type=Owner)
            except (FileNotFoundError, msgspec.MsgspecError):
                owner = Owner(0)
            if owner.pid == pid and owner.serving:
                return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def worker_that_owns(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker as people start it, which was the first to open the file."""
    (folder / "tasks.py").write_text(TASKS)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tenure", "worker", "tasks:app"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={**QUIET, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        await until_owned_by(folder, process.pid)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_every_wait_goes_on_when_the_worker_that_owns_the_file_ends(
    number: signal.Signals, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE_S), worker_that_owns(tmp_path) as worker:
        client, store = client_of(tmp_path / "jobs.db")
        async with client:
            assert not store.is_owner()
            id = (await client.enqueue(b"x", queue="nobody")).id
            cursor = (await client.event_page()).cursor
            result = asyncio.create_task(client.wait(id, timeout=WAIT))
            items = asyncio.create_task(client.stream(id, wait=WAIT))
            events = asyncio.create_task(client.event_page(cursor, wait=WAIT))
            claim = asyncio.create_task(client.claim("later", wait=WAIT))
            await client.count()
            worker.send_signal(number)
            await worker.wait()
            [job] = await client.claim("nobody")
            assert store.is_owner()
            # A worker that is ended in order says goodbye, which is an event of its tenant.
            assert (await events).events[0].job == (id if number == signal.SIGKILL else 0)
            await client.emit(job, b"item")
            assert [item.data for item in await items] == [b"item"]
            await client.complete(job, b"done")
            assert await result == b"done"
            later = await client.enqueue(b"y", queue="later")
            assert [job.id for job in await claim] == [later.id]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_the_result_of_a_task_is_waited_for_over_a_change_of_owners(
    number: signal.Signals, tmp_path: Path
) -> None:
    """As people meet it: `result(timeout=30)`, the worker is restarted, the job runs on the next one."""
    app = tenure.App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(queue="email")
    async def send(to: str) -> str:
        raise AssertionError

    async with asyncio.timeout(PATIENCE_S), worker_that_owns(tmp_path) as worker, app:
        job = await send.options(delay="2s").enqueue("ann")
        result = asyncio.create_task(job.result(timeout=30))
        await job.state()
        worker.send_signal(number)
        await worker.wait()
        second = asyncio.create_task(_work(tmp_path))
        assert await result == "sent to ann"
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)


async def _work(folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tenure", "worker", "tasks:app"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=folder,
        env={**QUIET, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        await process.wait()
    finally:
        process.terminate()
        await process.wait()


async def test_waits_go_on_when_the_owner_closes(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    first, _ = client_of(path)
    second, store = client_of(path)
    async with asyncio.timeout(PATIENCE_S):
        await first.__aenter__()
        async with second:
            id = (await second.enqueue(b"x")).id
            waits = [
                asyncio.create_task(second.wait(id, timeout=WAIT)),
                asyncio.create_task(second.wait(id, timeout=WAIT)),
            ]
            claim = asyncio.create_task(second.claim("later", wait=WAIT))
            await second.count()
            await first.close()
            [job] = await second.claim()
            assert store.is_owner()
            await second.complete(job, b"done")
            assert await asyncio.gather(*waits) == [b"done", b"done"]
            await second.enqueue(b"y", queue="later")
            assert len(await claim) == 1


async def test_time_that_was_waited_at_the_first_owner_counts(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    first, _ = client_of(path)
    second, _ = client_of(path)
    async with asyncio.timeout(PATIENCE_S):
        await first.__aenter__()
        async with second:
            id = (await second.enqueue(b"x")).id
            cursor = (await second.event_page()).cursor
            began = time.monotonic()
            wait = asyncio.create_task(second.wait(id, timeout=0.9))
            events = asyncio.create_task(second.event_page(cursor, wait=0.9))
            with pytest.raises(Timeout):
                await second.wait(id, timeout=0.4)
            await first.close()
            assert (await events).events == ()
            assert 0.85 < time.monotonic() - began < 1.25
            with pytest.raises(Timeout, match="900 ms"):
                await wait
            assert time.monotonic() - began < 1.25


async def test_a_change_by_filter_goes_on_at_the_next_owner_and_counts_all(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    first, _ = client_of(path)
    second, store = client_of(path)
    async with asyncio.timeout(PATIENCE_S):
        await first.__aenter__()
        async with second:
            for _ in range(3):
                await first.enqueue_many([b"x"] * 5_000, queue="many")
            sweep = asyncio.create_task(second.change_batch(Change(CANCEL, None, Filter(queue="many"))))
            await second.count()
            assert not sweep.done()
            await first.close()
            assert (await sweep).count == 15_000
            assert store.is_owner()
            assert (await second.count("many"))["many"]["cancelled"] == 15_000


async def test_what_cannot_be_repeated_is_finished_before_the_owner_goes(tmp_path: Path) -> None:
    """A line of a job's log has no operation id: the owner answers it before it closes."""
    path = tmp_path / "jobs.db"
    first, _ = client_of(path)
    second, _ = client_of(path)
    async with asyncio.timeout(PATIENCE_S):
        await first.__aenter__()
        async with second:
            await second.enqueue(b"x")
            [job] = await second.claim()
            lines = [
                asyncio.create_task(second.append(Append(LOG, job.id, job.token, 0, f"line {n}"))) for n in range(50)
            ]
            await asyncio.sleep(0)
            await first.close()
            await asyncio.gather(*lines)
            assert [item.data for item in await second.logs(job.id)] == [f"line {n}".encode() for n in range(50)]


async def test_who_was_passed_over_sends_its_callers_to_the_next_owner(tmp_path: Path) -> None:
    async with two(tmp_path / "jobs.db") as (_, owner, second, joined):
        id = (await second.enqueue(b"x")).id
        result = asyncio.create_task(second.wait(id, timeout=WAIT))
        await second.count()
        service = owner._service
        assert service is not None
        owner._leave(service)
        [job] = await second.claim()
        await second.complete(job, b"done")
        assert await result == b"done"
        assert owner.is_owner() != joined.is_owner()
