"""Memory that was freed goes back to the operating system."""

import subprocess
import sys

import pytest

# What was freed lies below something that stays: the C library alone returns nothing of it.
PROGRAM = """
import asyncio, sys
from pathlib import Path
from tenure.server import heap

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

async def main(trims):
    heap.LOOK_S = 0.01
    task = asyncio.create_task(heap.keep_trimmed()) if trims else None
    await asyncio.sleep(0)
    held = [bytes(1000) for _ in range(150_000)]
    kept = bytes(1000)
    most = resident_mb()
    await asyncio.sleep(0.05)
    held.clear()
    for _ in range(500):
        await asyncio.sleep(0.01)
        if resident_mb() < most - 100:
            break
    print(most - resident_mb())

asyncio.run(main(sys.argv[1] == "trims"))
"""


def returned_mb(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout)


@pytest.mark.slow
def test_memory_of_jobs_that_went_is_returned() -> None:
    assert returned_mb("alone") < 100
    assert returned_mb("trims") > 100
