"""A server that is stopped (SIGSTOP) and goes on: time in which it did not run ends no lease."""

import asyncio
import signal
from pathlib import Path

import pytest

import tenure
from tests.server.process import running

pytestmark = pytest.mark.slow

LEASE_S = 1
STOPPED_S = 2.5


async def test_server_that_was_stopped_for_longer_than_its_leases_has_them_all(tmp_path: Path) -> None:
    async with running(tmp_path) as server, tenure.connect(f"tenure://127.0.0.1:{server.port}") as client:
        for _ in range(20):
            await client.enqueue(b"x", queue="q")
        held = await client.claim("q", n=20, worker="w", lease=f"{LEASE_S}s")
        assert len(held) == 20
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(STOPPED_S)  # that the process does not run meanwhile is what this is about
        server.process.send_signal(signal.SIGCONT)
        for job in held:
            await client.complete(job)
        counts = await client.count("q")
        assert counts["q"]["completed"] == 20
