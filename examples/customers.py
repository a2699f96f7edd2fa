"""Calls of an API that allows each customer so many per second: one queue, one limit per customer, no customer waits
for another.

    python examples/customers.py
"""

import asyncio
from collections import Counter

import tenure

app = tenure.App("memory://", name="customers")


class Api:
    """Stands for somebody else's service, which counts."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def sync(self, customer: str, order: int) -> str:
        self.calls[customer] += 1
        return f"{customer} has order {order}"


api = Api()


def get_api() -> Api:
    return api


@app.task(queue="sync", limit_keys=lambda customer, **_: [f"api:{customer}"])
async def sync_order(customer: str, order: int, api: Api = tenure.Depends(get_api)) -> str:
    return await api.sync(customer, order)


async def set_rates(client: tenure.Client, rates: dict[str, int]) -> None:
    """Calls per second, by customer. Kept in the store; workers need not know."""
    for customer, calls in rates.items():
        await client.configure("key", f"api:{customer}", rate=tenure.Rate(calls, period_ms=1_000))


async def main() -> None:
    async with app.worker(concurrency=20):
        await set_rates(app.client, {"acme": 2, "globex": 100})
        calls = [sync_order.bind(customer, order) for order in range(5) for customer in ("acme", "globex")]
        jobs = [job async for job in app.enqueue_many(calls)]
        for job in jobs:
            print(await job.result(timeout="30s"))


if __name__ == "__main__":
    asyncio.run(main())
