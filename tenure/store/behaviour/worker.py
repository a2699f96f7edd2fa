"""Section 5: workers say who they are, and are gone when they said so or fell silent for a minute."""

from tenure.core.error import InvalidRequest
from tenure.core.request import WORKER, Configure
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import MINUTE, Rig


async def workers(rig: Rig) -> list[str]:
    return sorted(await rig.store.configure(rig.context(), Configure(WORKER, "*", {}), rig.now()))


async def seen(rig: Rig) -> list[tuple[str, str]]:
    events = await rig.events(tenants=("*",))
    return [(event.type, event.worker) for event in events if event.type.startswith("worker_")]


@behaviour(5)
async def worker_joins_once(rig: Rig) -> None:
    await rig.configure(WORKER, "w1", version="1", tasks=["a", "b"])
    await rig.configure(WORKER, "w1", version="1", tasks=["a", "b"])
    await rig.configure(WORKER, "w2", version="1", tasks=[])
    assert await workers(rig) == ["w1", "w2"]
    assert await seen(rig) == [("worker_joined", "w1"), ("worker_joined", "w2")]


@behaviour(5)
async def worker_that_says_goodbye_leaves(rig: Rig) -> None:
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    await rig.configure(WORKER, "w1", leaving=True)
    assert await workers(rig) == []
    assert await seen(rig) == [("worker_joined", "w1"), ("worker_left", "w1")]


@behaviour(5)
async def worker_is_told_that_it_was_asked_to_stop(rig: Rig) -> None:
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    assert (await rig.configure(WORKER, "w1"))["stop"] is False
    await rig.configure(WORKER, "w1", stop=True)
    assert (await rig.configure(WORKER, "w1", version="2"))["stop"] is True
    await rig.configure(WORKER, "w1", leaving=True)
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    assert (await rig.configure(WORKER, "w1"))["stop"] is False
    await refused(InvalidRequest, rig.configure(WORKER, "w2", stop=True))
    assert await workers(rig) == ["w1"]


@behaviour(5)
async def silent_worker_leaves_after_a_minute(rig: Rig) -> None:
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    await rig.advance(MINUTE - 1)
    assert await workers(rig) == ["w1"]
    await rig.advance(1)
    assert await workers(rig) == []
    assert await seen(rig) == [("worker_joined", "w1"), ("worker_left", "w1")]


@behaviour(5)
async def claims_keep_a_worker_present(rig: Rig) -> None:
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    for _ in range(5):
        await rig.advance(MINUTE - 1)
        await rig.claim(worker="w1")
    assert await workers(rig) == ["w1"]
    await rig.advance(MINUTE)
    assert await workers(rig) == []


@behaviour(7)
async def leases_outlive_a_worker_that_fell_silent(rig: Rig) -> None:
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    id = await rig.enqueue(lease_ms=5 * MINUTE)
    leased = await rig.claim_one(worker="w1")
    await rig.advance(2 * MINUTE)
    assert await rig.state(id) == "running"
    await rig.complete(leased)
