"""A worker in a process of its own: `python -m tests.worker.work URL`."""

import asyncio
import sys

from tests.worker.handlers import app


async def work() -> None:
    app.use(sys.argv[1])
    async with app.worker():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work())
