"""`tenure serve --lake`: the real server, real kills, a bucket that goes away, and what is seen of it."""

import asyncio
import os
import re
import signal
import urllib.request
from pathlib import Path
from random import Random

import pytest

import tenure
from tenure.client.clock import read_clock
from tenure.lake.lake import Lake
from tenure.lake.place import open_place
from tenure.store.embedded.sqlite import SqliteStore
from tests.blob.conftest import BUCKET, Server
from tests.cli.rig import run_process
from tests.lake.rig import assert_holds, events_of
from tests.server.process import Process, running

pytestmark = pytest.mark.slow

FAST = ("--lake-every", "100ms", "--lake-rows", "100")
KILLS = 4


async def enqueue(server: Process, count: int) -> None:
    async with tenure.connect(f"tenure://127.0.0.1:{server.port}") as client:
        for _ in range(count):
            await client.enqueue_many([b"{}"] * 7, queue="mail", task="send")


async def check(folder: Path, url: str) -> Lake:
    """That the lake has all that the store of a server that has stopped has."""
    store = SqliteStore(folder / "jobs.db")
    await store.open(read_clock())
    events = await events_of(store, read_clock())
    await store.close()
    return await asyncio.to_thread(assert_holds, open_place(url), events)


async def test_killed_server_exports_every_event_once(tmp_path: Path) -> None:
    url = str(tmp_path / "lake")
    random = Random(7)
    for _ in range(KILLS):
        async with running(tmp_path, "--lake", url, *FAST) as server:
            await enqueue(server, random.randint(5, 60))
            await server.stop(signal.SIGKILL)
    async with running(tmp_path, "--lake", url, *FAST) as server:
        await enqueue(server, 3)
        assert await server.stop() == 0, server.output
    lake = await check(tmp_path, url)
    assert lake.state.rows > KILLS * 35
    assert len(lake.state.lives) == 1


async def test_server_shows_its_lake_and_serves_while_it_is_away(tmp_path: Path) -> None:
    """The way to the lake is blocked by a file. Jobs go on; the figures and the log tell; then everything is there."""
    blocked = tmp_path / "lake"
    blocked.write_text("")
    async with running(tmp_path, "--lake", str(blocked), *FAST, "--log-format", "json") as server:
        http = await http_port(server)
        await enqueue(server, 3)
        ready = await asyncio.to_thread(read, f"http://127.0.0.1:{http}/readyz")
        assert "ok" in ready
        async with asyncio.timeout(30):
            figures = ""
            while "tenure_lake_exporting 0.0" not in figures:
                figures = await asyncio.to_thread(read, f"http://127.0.0.1:{http}/metrics")
        assert "tenure_lake_failures_total" in figures
        blocked.unlink()
        assert await server.stop() == 0, server.output
    assert "the lake was not brought up to date" in server.output
    await check(tmp_path, str(blocked))


async def http_port(server: Process) -> int:
    assert server.process.stdout is not None
    async with asyncio.timeout(30):
        while line := (await server.process.stdout.readline()).decode():
            server.said.append(line.rstrip())
            if found := re.search(r"listening on http://\S+:(\d+)", line):
                return int(found[1])
    raise AssertionError(server.output)


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


async def test_bucket_that_is_down_at_first_gets_everything_later(tmp_path: Path, s3: Server) -> None:
    url = f"s3://{BUCKET}/{tmp_path.name}"
    environment = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    nowhere = {**environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    async with running(tmp_path, "--lake", url, *FAST, "--stop-s", "1", environment=nowhere) as server:
        await enqueue(server, 20)
        assert await server.stop() == 0, server.output
    async with running(tmp_path, "--lake", url, *FAST, environment=environment) as server:
        await enqueue(server, 3)
        assert await server.stop() == 0, server.output
    await check(tmp_path, url)


async def test_lake_goes_on_after_a_restore_and_refuses_the_old_store(tmp_path: Path) -> None:
    """A restored store has the name of the old one and a life of its own; its numbers begin beyond."""
    url = str(tmp_path / "lake")
    async with running(tmp_path, "--lake", url, *FAST) as server:
        await enqueue(server, 5)
        assert await server.stop() == 0
    assert run_process("backup", "jobs.db", "backups", folder=tmp_path).code == 0
    (tmp_path / "jobs.db").rename(tmp_path / "old.db")
    assert run_process("restore", "backups", "jobs.db", folder=tmp_path).code == 0
    async with running(tmp_path, "--lake", url, *FAST) as server:
        await enqueue(server, 5)
        assert await server.stop() == 0
    lake = await check(tmp_path, url)
    assert len(lake.state.lives) == 2
    assert lake.gaps() == []
    async with running(tmp_path, "--lake", url, *FAST, store="sqlite:///old.db") as server:
        await enqueue(server, 5)
        assert await server.stop() == 0
    assert "nothing is exported to the lake any more" in server.output
    assert Lake.open(url).state == lake.state
