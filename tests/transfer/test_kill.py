"""A copy whose process is killed is run again, and the store is as if nothing had happened."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

import tenure
from tenure.client.client import Client
from tenure.core.error import InvalidRequest
from tenure.core.request import READ, Load
from tests.server.process import QUIET, running
from tests.transfer.rig import furnish, rows_of

JOBS = 12_000
START_S = 60.0


async def start_copy(source: str, target: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tenure", "copy", source, target, "--load-id", "killed", "--json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**QUIET, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


async def is_staged(client: Client, tenant: str) -> bool:
    try:
        await client.as_tenant(tenant).load(Load(READ, "killed", 0, "copy", 0))
    except InvalidRequest:
        return False
    return True


async def is_published(client: Client, tenant: str) -> bool:
    return bool(await client.as_tenant(tenant).count())


@pytest.mark.parametrize("moment", [is_staged, is_published])
async def test_copy_that_was_killed_is_completed_by_the_next(moment: object, tmp_path: Path) -> None:
    assert callable(moment)
    source = f"sqlite:///{tmp_path}/old.db"
    async with tenure.connect(source) as client:
        made = len(await furnish(client))
        for tenant in ("first", "second"):
            await client.as_tenant(tenant).enqueue_many([b"x" * 100] * (JOBS // 2), queue="bulk")
        before = await rows_of(client)
    async with running(tmp_path) as server:
        target = f"tenure://127.0.0.1:{server.port}"
        async with tenure.connect(target) as client:
            copy = await start_copy(source, target)
            async with asyncio.timeout(START_S):
                while not await moment(client, "default"):
                    assert copy.returncode is None
            copy.send_signal(signal.SIGKILL)
            await copy.wait()
            if moment is is_staged:
                assert await rows_of(client) == {}
            again = await start_copy(source, target)
            out, err = await again.communicate()
            assert again.returncode == 0, (out, err)
            rows = await rows_of(client)
            assert len(rows) == len(before) == JOBS + made
            assert sorted(row["payload"] for row in rows.values()) == sorted(row["payload"] for row in before.values())
