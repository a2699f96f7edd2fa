"""The smallest program: a task, a worker and a result, in one process.

python examples/hello.py
"""

import asyncio

import tenure

app = tenure.App("memory://", name="hello")


@app.task
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def main() -> None:
    async with app.worker():
        job = await greet.enqueue("world")
        print(await job.result(timeout="10s"))


if __name__ == "__main__":
    asyncio.run(main())
