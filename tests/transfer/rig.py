"""A store with a job in every state and something in every field, and copies of it."""

import time
from typing import Any, Final

import tenure
from tenure.client.client import Client
from tenure.core.request import PRIORITY, Change
from tenure.core.tenant import ANY_TENANT
from tenure.transfer.copy import Copied, Copy
from tenure.transfer.read import as_reader, read_jobs
from tenure.transfer.row import Row
from tenure.transfer.verify import Verified

FULL: Final[dict[str, object]] = {
    "task": "send",
    "priority": -3,
    "max_attempts": 4,
    "backoff": tenure.Backoff.listed("1s", "2h"),
    "timeout": "5m",
    "lease": "10m",
    "idempotency_ttl": "7d",
    "dependency_policy": "all_done",
    "limit_keys": ("api:", "db:1"),
    "keep_completed": "2d",
    "keep_completed_count": 100_000,
    "keep_failed": "9d",
    "keep_failed_count": 200_000,
    "codec": "raw",
    "schema_version": 4,
    "tags": ("red", "blue"),
    "metadata": {"who": "me", "what": "ü"},
    "trace": "00-trace",
}


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def furnish(client: Client) -> dict[str, int]:
    """Jobs by a name that says what is special about them."""
    ids: dict[str, int] = {}

    async def add(name: str, **fields: object) -> int:
        given = {**FULL, "queue": "mail", "custom_id": f"custom {name}", "unique_key": f"unique {name}", **fields}
        ids[name] = (await client.enqueue(f"bytes of {name}".encode(), **given)).id
        return ids[name]

    await client.configure("queue", "mail", concurrency=50, slo_wait_ms=5_000, rate=tenure.Rate(1000, 1_000))
    await client.configure("queue", "quiet", paused=True)
    await client.configure("key", "api:", concurrency=40)
    for name in ("completed", "failed", "retrying", "running", "released"):
        await add(name, group=f"group of {name}", idempotency_key=f"idem {name}")
    for job in await client.claim("mail", n=5, worker="old worker"):
        name = next(key for key, id in ids.items() if id == job.id)
        await client.progress(job, 40, "half")
        if name == "completed":
            await client.complete(job, b"the result")
        elif name == "failed":
            await client.fail(job, "ValueError", "bad 17", "line 1", retryable=False)
        elif name == "retrying":
            await client.fail(job, "OSError", "gone", retry_after="1h")
        elif name == "released":
            await client.release(job, "2h")
    await add("scheduled", delay="3h", ttl="9d", on_conflict="replace")
    await add("ready", lifo=True, expires_at=wall_ms() / 1_000 + 10**5)
    await add("behind", group="group of retrying", queue="mail")
    await add("cancelled")
    await client.cancel(ids["cancelled"])
    await add("blocked", depends_on=[ids["scheduled"], ids["completed"]], queue="other")
    await add("after failed", depends_on=[ids["failed"]], dependency_policy="all_done", queue="quiet")
    ids["replayed"] = (await client.enqueue(b"r", queue="twice", max_attempts=1, limit_keys=())).id
    for _ in range(2):
        [job] = await client.claim("twice", worker="w")
        await client.fail(job, "ValueError", "bad again")
        if not (await client.get(job.id)).replays:
            await client.replay(job.id)
    ids["plain"] = (await client.enqueue(b"plain")).id
    ids["raised"] = (await client.enqueue(b"raised")).id
    await client.change_batch(Change(PRIORITY, [ids["raised"]], priority=9))
    ids["unlimited"] = (await client.enqueue(b"", max_attempts=None, remove_on_complete=True)).id
    return ids


async def rows_of(client: Client, tenant: str = ANY_TENANT) -> dict[int, Row]:
    found: dict[int, Row] = {}
    reader = as_reader(client, tenant)
    bounds = await reader.scan_bounds("jobs")
    async for _, rows in read_jobs(reader, bounds.first - 1, bounds.last):
        found.update((row["id"], row) for row in rows)
    return found


async def copied(source: Client, target: Client, **given: Any) -> tuple[Copied, Verified]:
    copy = Copy(source, target, given.pop("load_id", "copy-1"), wall_ms, **given)
    done = await copy.run()
    return done, await copy.verify()
