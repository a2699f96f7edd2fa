"""A short program to watch: three tenants, two workers, a crash, a retry, a cancel, on a store in memory.

python -m tenure.demo
"""

import asyncio
import time
from collections import Counter

import tenure

TENANTS = ("acme", "globex", "initech")
JOBS = {"acme": 300, "globex": 30, "initech": 30}


async def produce(client: tenure.Client) -> None:
    for tenant in TENANTS:
        payloads = [f"order {at}".encode() for at in range(JOBS[tenant])]
        await client.as_tenant(tenant).enqueue_many(payloads, queue="orders", task="ship")
        print(f"  {tenant:<8} enqueued {JOBS[tenant]:>3} jobs")


async def work(client: tenure.Client, name: str, served: Counter[str], first: list[str]) -> None:
    """Claim for all tenants, ten at a time, until nothing is left."""
    everyone = client.as_tenant("workers", tenants=("*",))
    while jobs := await everyone.claim("orders", n=10, worker=name):
        for job in jobs:
            served[job.tenant] += 1
            if len(first) < 60:
                first.append(job.tenant)
            await everyone.complete(job, b"shipped")
        await asyncio.sleep(0)


async def show_fairness(client: tenure.Client) -> None:
    print("\nfair claims: acme has ten times the backlog and gets no more than its turn")
    await produce(client)
    served: Counter[str] = Counter()
    first: list[str] = []
    began = time.perf_counter()
    await asyncio.gather(*(work(client, name, served, first) for name in ("worker-1", "worker-2")))
    took = time.perf_counter() - began
    shares = ", ".join(f"{tenant} {count}" for tenant, count in sorted(Counter(first).items()))
    print(f"  of the first 60 jobs served: {shares}")
    print(f"  {sum(served.values())} jobs claimed and completed one by one in {took * 1000:.0f} ms")


async def show_fencing(client: tenure.Client) -> None:
    print("\nleases: a worker stalls, its job is given to another, and its late word is refused")
    await client.enqueue(b"charge card", queue="billing", backoff=tenure.Backoff.fixed("1ms"))
    [stalled] = await client.claim("billing", worker="stalled", lease="1s")
    [again] = await client.claim("billing", worker="healthy", wait="5s")
    print(f"  attempt {again.attempt} went to another worker after the 1 s lease ran out")
    try:
        await client.complete(stalled)
    except tenure.LeaseLost as error:
        print(f"  the stalled worker hears: {error}")
    await client.complete(again)


async def show_cancel(client: tenure.Client) -> None:
    print("\ncancel wins: a running job is cancelled, its completion is not taken")
    job = await client.enqueue(b"long report", queue="reports")
    [held] = await client.claim("reports", worker="reporter")
    await client.cancel(job.id)
    try:
        await client.complete(held)
    except tenure.JobCancelled as error:
        print(f"  the worker hears: {error}")


async def show_explain(client: tenure.Client) -> None:
    print("\nexplain: why does this job not run?")
    await client.configure("key", "api:", concurrency=1)
    for at in range(2):
        await client.enqueue(b"call", queue="calls", limit_keys=["api:stripe"], metadata={"at": str(at)})
    await client.claim("calls")
    await client.claim("calls")
    jobs = (await client.find()).jobs
    waiting = next(job for job in jobs if job.queue == "calls" and job.state == "ready")
    found = await client.explain(waiting.id)
    print(f"  job {found.id} is {found.state}, held by {found.held_by}: {found.detail}")


async def show_history(client: tenure.Client) -> None:
    print("\nevents: every transition, in order")
    counts: Counter[str] = Counter()
    async for event in client.as_tenant("default", tenants=("*",)).events():
        counts[event.type] += 1
    print("  " + ", ".join(f"{kind} {count}" for kind, count in counts.most_common()))


async def main() -> None:
    print("Tenure on memory://")
    async with tenure.connect("memory://") as client:
        await show_fairness(client)
        await show_fencing(client)
        await show_cancel(client)
        await show_explain(client)
        await show_history(client)


if __name__ == "__main__":
    asyncio.run(main())
