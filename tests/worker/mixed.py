"""Tasks of every kind, with a lease of a second and one attempt each: whoever loses a lease is a dead letter."""

import asyncio
import time

import tenure

app = tenure.App("memory://")


@app.task(queue="mixed", lease="1s", max_attempts=1)
async def blocks(seconds: float) -> str:
    """Nothing else runs in this loop meanwhile."""
    time.sleep(seconds)
    return "done"


@app.task(queue="mixed", lease="1s", max_attempts=1)
async def yields(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@app.task(queue="mixed", lease="1s", max_attempts=1)
async def short(seconds: float = 0.0) -> str:
    return "done"


@app.task(queue="mixed", lease="1s", max_attempts=1)
def in_thread(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


@app.task(queue="mixed", lease="1s", max_attempts=1, run="process")
def in_process(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


@app.batch(3, queue="mixed", lease="1s", max_attempts=1)
async def many(items: list[float]) -> list[str]:
    await asyncio.sleep(max(items))
    return ["done"] * len(items)
