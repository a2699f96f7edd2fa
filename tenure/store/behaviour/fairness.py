"""Section 10: fairness between tenants, as a bound that every claim keeps.

Among tenants with claimable jobs and weights w, the i-th waiting job of a tenant is leased at the latest when
ceil(i / w) * sum(w) jobs have been leased since it became claimable.
"""

from tenure.core.request import CANCEL
from tenure.store.behaviour.registry import OWNED, behaviour
from tenure.store.behaviour.rig import Rig

NEEDS = ("fairness",)


async def fill(rig: Rig, jobs: dict[str, int]) -> None:
    for tenant, count in jobs.items():
        await rig.enqueue_ids([b"%d" % at for at in range(1, count + 1)], tenant=tenant)


async def check_bound(rig: Rig, weights: dict[str, int], n: int, leases: int, first: dict[str, int]) -> dict[str, int]:
    """Claims until `leases` jobs are leased, and checks the bound for each; answers how many each tenant got.

    `first` is the payload of each tenant's first waiting job: jobs are numbered in the order of the line.
    """
    total = sum(weights.values())
    leased = 0
    got = dict.fromkeys(weights, 0)
    while leased < leases:
        claimed = await rig.claim(n, tenants=tuple(weights))
        assert claimed, "there were jobs, and none was leased"
        for one in claimed:
            place = int(one.payload) - first.get(one.tenant, 1) + 1
            latest = -(-place // weights[one.tenant]) * total
            assert leased + 1 <= latest, f"job {place} of {one.tenant} was leased after {leased}, the bound is {latest}"
            got[one.tenant] += 1
        leased += len(claimed)
        for tenant, weight in weights.items():
            assert got[tenant] >= leased // total * weight, f"{tenant} got {got[tenant]} of {leased}"
    return got


@behaviour(10, needs=NEEDS)
async def equal_tenants_take_turns(rig: Rig) -> None:
    await fill(rig, {"big": 100, "small": 20})
    await check_bound(rig, {"big": 1, "small": 1}, 1, 40, {})


@behaviour(10, needs=NEEDS)
async def batch_claims_keep_the_bound(rig: Rig) -> None:
    await fill(rig, {"a": 60, "b": 60, "c": 60})
    await check_bound(rig, {"a": 1, "b": 1, "c": 1}, 7, 140, {})


@behaviour(10, needs=NEEDS)
async def tenants_are_served_by_weight(rig: Rig) -> None:
    for tenant, weight in (("a", 5), ("b", 2), ("c", 1)):
        await rig.set_tenant(tenant, weight=weight)
    await fill(rig, {"a": 100, "b": 100, "c": 100})
    got = await check_bound(rig, {"a": 5, "b": 2, "c": 1}, 1, 80, {})
    assert got == {"a": 50, "b": 20, "c": 10}


@behaviour(10, needs=NEEDS)
async def batch_claims_keep_the_weights(rig: Rig) -> None:
    await rig.set_tenant("a", weight=3)
    await fill(rig, {"a": 100, "b": 100})
    await check_bound(rig, {"a": 3, "b": 1}, 10, 80, {})


@behaviour(10, needs=NEEDS)
async def one_large_claim_is_fair_in_itself(rig: Rig) -> None:
    await rig.set_tenant("a", weight=3)
    await fill(rig, {"a": 200, "b": 200})
    got = await check_bound(rig, {"a": 3, "b": 1}, 120, 120, {})
    assert got == {"a": 90, "b": 30}


@behaviour(10, needs=NEEDS)
async def idle_tenant_gathers_no_credit(rig: Rig) -> None:
    await fill(rig, {"busy": 200})
    await rig.enqueue(b"0", tenant="idle")
    while any(one.tenant == "idle" for one in await rig.claim(tenants=("busy", "idle"))) is False:
        pass
    for _ in range(50):
        await rig.claim(tenants=("busy", "idle"))
    await fill(rig, {"idle": 100})
    left = await rig.claim(tenants=("busy",))
    await check_bound(rig, {"busy": 1, "idle": 1}, 1, 60, {"busy": int(left[0].payload) + 1})


@behaviour(10, needs=(*NEEDS, OWNED))
async def tenant_that_comes_back_stands_behind_those_who_wait(rig: Rig) -> None:
    """What was left of its turn when it had nothing more is gone."""
    await rig.set_tenant("back", weight=3)
    await fill(rig, {"back": 1, "waits": 9})
    both = ("back", "waits")
    assert [one.tenant for one in await rig.claim(tenants=both)] == ["back"]
    await fill(rig, {"back": 9})
    got = [(await rig.claim(tenants=both))[0].tenant for _ in range(5)]
    assert got == ["waits", "back", "back", "back", "waits"]


@behaviour(10, needs=NEEDS)
async def newcomer_is_served_within_the_bound(rig: Rig) -> None:
    await fill(rig, {"old": 300})
    for _ in range(10):
        await rig.claim(10, tenants=("old", "new"))
    await fill(rig, {"new": 20})
    await check_bound(rig, {"old": 1, "new": 1}, 1, 40, {"old": 101})


@behaviour(10, needs=NEEDS)
async def tenant_that_is_held_costs_the_others_nothing(rig: Rig) -> None:
    await rig.set_queue(tenant="held", paused=True)
    await rig.set_tenant("held", weight=1_000)
    await fill(rig, {"held": 50, "a": 20, "b": 20})
    got = dict.fromkeys(("a", "b"), 0)
    for _ in range(20):
        for one in await rig.claim(tenants=("*",)):
            got[one.tenant] += 1
    assert got == {"a": 10, "b": 10}


@behaviour(10, needs=NEEDS)
async def tenants_out_of_scope_play_no_part(rig: Rig) -> None:
    await rig.set_tenant("other", weight=1_000)
    await fill(rig, {"other": 50, "a": 20, "b": 20})
    await check_bound(rig, {"a": 1, "b": 1}, 1, 30, {})
    assert await rig.count(tenant="other") == {"ready": 50}


@behaviour(10, needs=NEEDS)
async def changed_weight_takes_effect(rig: Rig) -> None:
    await fill(rig, {"a": 100, "b": 100})
    await check_bound(rig, {"a": 1, "b": 1}, 1, 20, {})
    await rig.set_tenant("b", weight=4)
    got = dict.fromkeys(("a", "b"), 0)
    for _ in range(50):
        for one in await rig.claim(tenants=("a", "b")):
            got[one.tenant] += 1
    assert abs(got["b"] - 40) <= 4


@behaviour(10, needs=NEEDS)
async def cancelled_jobs_do_not_use_up_a_turn(rig: Rig) -> None:
    await fill(rig, {"a": 40})
    ids = await rig.enqueue_ids([b"gone"] * 20, tenant="b")
    await fill(rig, {"b": 20})
    await rig.change(CANCEL, *ids, tenant="b")
    await check_bound(rig, {"a": 1, "b": 1}, 1, 40, {})


@behaviour(10, needs=NEEDS)
async def many_tenants_each_get_a_turn(rig: Rig) -> None:
    tenants = [f"t{at}" for at in range(50)]
    await fill(rig, dict.fromkeys(tenants, 3))
    await check_bound(rig, dict.fromkeys(tenants, 1), 1, 150, {})


@behaviour(10, needs=NEEDS)
async def turns_in_one_queue_cost_nothing_in_another(rig: Rig) -> None:
    """A tenant that is busy in one queue is still served in its turn in another."""
    await rig.enqueue_ids([b"x"] * 40, queue="b", tenant="other")
    await rig.enqueue_ids([b"x"] * 40, queue="a", tenant="busy")
    [id] = await rig.enqueue_ids([b"x"], queue="b", tenant="busy")
    leased: list[int] = []
    for _ in range(2):
        await rig.claim(1, queues=["a"], tenants=("*",))
        leased += [one.id for one in await rig.claim(1, queues=["b"], tenants=("*",))]
    assert id in leased


@behaviour(10, needs=NEEDS)
async def claim_of_one_tenant_spends_no_turn(rig: Rig) -> None:
    """What a tenant's own workers take does not shorten its turn with the shared ones."""
    for tenant, weight in (("j", 1), ("k", 1), ("t", 3)):
        await rig.set_tenant(name=tenant, weight=weight)
    await fill(rig, {"j": 9, "k": 9, "t": 7})
    assert len(await rig.claim(5, tenant="t")) == 5
    await rig.enqueue_ids([b"8"], tenant="t")
    order = [(await rig.claim(1, tenants=("*",)))[0].tenant for _ in range(5)]
    assert sorted(order) == ["j", "k", "t", "t", "t"]


@behaviour(10, needs=NEEDS)
async def tenant_at_its_limit_does_not_hide_the_others(rig: Rig) -> None:
    """Claims of several queues pass over a tenant that may run no more."""
    await rig.set_tenant(name="full", running_max=1)
    await rig.enqueue_ids([b"x"] * 3, queue="a", tenant="full")
    await rig.enqueue_ids([b"x"] * 3, queue="b", tenant="full")
    await rig.enqueue_ids([b"x"] * 2, queue="b", tenant="free")
    leased = await rig.claim(9, queues=["a", "b"], tenants=("*",))
    assert sorted(one.tenant for one in leased) == ["free", "free", "full"]
    assert await rig.claim(9, queues=["a", "b"], tenants=("*",)) == []
    await rig.enqueue_ids([b"x"], queue="b", tenant="free")
    assert [one.tenant for one in await rig.claim(9, queues=["a", "b"], tenants=("*",))] == ["free"]


@behaviour(10, needs=NEEDS)
async def turns_given_to_workers_that_do_not_know_a_task_cost_its_jobs_nothing(rig: Rig) -> None:
    tenants = ("a", "b", "c")
    await rig.enqueue_ids([b"x"] * 100, tenant="a", queue="plain", task="plain")
    for tenant in tenants:
        await rig.enqueue_ids([b"x"] * 20, tenant=tenant, queue="rare", task="rare")
    got = dict.fromkeys(tenants, 0)
    for _ in range(15):
        for _ in range(3):
            assert await rig.claim(1, tenants=tenants, queues=("plain", "rare"), tasks=("plain",))
        [one] = await rig.claim(1, tenants=tenants, queues=("plain", "rare"), tasks=("rare",))
        got[one.tenant] += 1
    assert got == {"a": 5, "b": 5, "c": 5}
