"""Section 5: workers say who they are, and are gone when they said so or fell silent for a minute."""

from tenure.core.error import InvalidRequest, Overloaded
from tenure.core.request import STORE, TASK, WORKER, Configure
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, GLOBEX, MINUTE, Rig


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
async def reading_of_a_worker_is_no_sign_of_life(rig: Rig) -> None:
    assert await rig.configure(WORKER, "w1") == {}
    assert await workers(rig) == []
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    await rig.advance(MINUTE - 1)
    assert (await rig.configure(WORKER, "w1"))["version"] == "1"
    await rig.advance(1)
    assert await workers(rig) == []


@behaviour(5)
async def worker_that_says_it_is_alive_stays(rig: Rig) -> None:
    await rig.configure(WORKER, "w1", version="1", tasks=["a"])
    for _ in range(3):
        await rig.advance(MINUTE - 1)
        assert (await rig.configure(WORKER, "w1", alive=True))["version"] == "1"
    assert await workers(rig) == ["w1"]


@behaviour(2)
async def worker_belongs_to_the_tenant_under_which_it_registered(rig: Rig) -> None:
    for tenant in (ACME, GLOBEX):
        await rig.configure(WORKER, "w1", tenant=tenant, version=tenant)
    assert (await rig.configure(WORKER, "w1", tenant=ACME))["version"] == ACME
    await rig.configure(WORKER, "w1", tenant=GLOBEX, leaving=True)
    assert await rig.configure(WORKER, "w1", tenant=GLOBEX) == {}
    assert (await rig.configure(WORKER, "w1", tenant=ACME))["version"] == ACME
    found = await rig.store.configure(rig.context(tenants=("*",)), Configure(WORKER, "*", {}), rig.now())
    assert list(found) == [f"{ACME}/w1"]
    events = [event for event in await rig.events(tenants=("*",)) if event.type.startswith("worker_")]
    assert [(event.type, event.tenant) for event in events] == [
        ("worker_joined", ACME),
        ("worker_joined", GLOBEX),
        ("worker_left", GLOBEX),
    ]


@behaviour(20)
async def workers_of_a_tenant_are_bounded_in_number_and_bytes(rig: Rig) -> None:
    """What several publish alike counts once; a claim is not refused, its worker is not listed."""
    await rig.set_tenant(workers_max=3, worker_bytes_max=1_000)
    for n in range(3):
        await rig.configure(WORKER, f"w{n}", tasks=["a"], published="p" * 900)
    error = await refused(Overloaded, rig.configure(WORKER, "w3", version="1"))
    assert "workers_max" in str(error)
    error = await refused(Overloaded, rig.configure(WORKER, "w0", published="q" * 900))
    assert "worker_bytes_max" in str(error)
    await rig.claim(worker="w3")
    assert await workers(rig) == ["w0", "w1", "w2"]
    for n in range(3):
        await rig.configure(WORKER, f"w{n}", leaving=True)
    await rig.configure(WORKER, "w3", tasks=["a"], published="q" * 900)
    await rig.configure(WORKER, "w3", tasks=["a"], published="r" * 900)
    await rig.advance(MINUTE)
    await rig.configure(WORKER, "w4", tasks=["a"], published="s" * 900)
    assert await workers(rig) == ["w4"]


@behaviour(20)
async def workers_of_a_store_are_bounded_too(rig: Rig) -> None:
    await rig.configure(STORE, "", workers_max=2, worker_bytes_max=500)
    await rig.configure(WORKER, "w1", published="p" * 300)
    await refused(Overloaded, rig.configure(WORKER, "w1", tenant=GLOBEX, published="p" * 300))
    await rig.configure(WORKER, "w2", tenant=GLOBEX, version="1")
    await refused(Overloaded, rig.configure(WORKER, "w3", version="1"))


@behaviour(5)
async def published_options_are_read_by_task(rig: Rig) -> None:
    """Of the tenant's own workers, the one that joined last first; else of those that serve it besides their own."""
    await rig.configure(WORKER, "w1", tasks=["a"], published="one")
    await rig.advance(1)
    await rig.configure(WORKER, "w2", tasks=["a", "b"], published="two")
    serving = rig.context(tenant=GLOBEX, tenants=(ACME, GLOBEX))
    said: dict[str, object] = {"tasks": ["a", "c"], "published": "other"}
    await rig.store.configure(serving, Configure(WORKER, "w3", said), rig.now())
    for task, expected in (("a", ["two", "one"]), ("b", ["two"]), ("c", ["other"]), ("d", [])):
        assert await rig.configure(TASK, task) == {"published": expected}, task
    assert await rig.configure(TASK, "c", tenant="third") == {"published": []}


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
