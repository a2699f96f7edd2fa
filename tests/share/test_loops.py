"""Processes on one file need not have the same kind of loop: `tenure worker` and `tenure serve` run on uvloop."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

import tenure

OTHER = """
import asyncio, sys
import tenure, uvloop

async def main():
    async with tenure.connect("sqlite:///jobs.db") as client:
        job = await client.enqueue(b"from uvloop", queue="q")
        print(job.id, flush=True)
        await asyncio.to_thread(sys.stdin.readline)

uvloop.run(main())
"""


@pytest.mark.parametrize("first", ["uvloop", "asyncio"])
async def test_owner_and_those_who_join_may_have_different_loops(
    tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    client = tenure.connect("sqlite:///jobs.db")
    if first == "asyncio":
        await client.__aenter__()
    other = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", OTHER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert other.stdout is not None
        async with asyncio.timeout(30):
            id = int(await other.stdout.readline())
            if first == "uvloop":
                await client.__aenter__()
            assert (await client.get(id)).payload == b"from uvloop"
            await client.enqueue(b"from asyncio", queue="q")
            assert (await client.count())["q"]["ready"] == 2
    finally:
        _, errors = await other.communicate(b"\n")
        await client.close()
    assert (other.returncode, errors) == (0, b"")
