"""A worker in a process of its own: `python -m tests.worker.work URL [CONCURRENCY]`."""

import asyncio
import logging
import sys

from tests.worker.handlers import app


async def work() -> None:
    logging.basicConfig()
    app.use(sys.argv[1])
    async with app.worker(concurrency=int((*sys.argv, "10")[2])):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work())
