"""Shares, watched from outside: the bound among tenants, and the weights among the queues of a claim.

Among tenants the contract promises: the i-th waiting job of a tenant of weight w is leased at the latest when ceil(i/w)
times the sum of all weights have been leased since it became claimable, by claims that could take it. So, while a queue
of a tenant has something to claim all along: of the leases that claims gave which could have taken from it, if the
tenant got s, there were fewer than ceil((s+1)/w) times the sum of weights. Where claims name different queues, tenants
or tasks, others may have a turn in each of their queues, and one round more (docs/decisions/0006-fair-turns.md).

Among queues served by weight: as long as two queues both have something for the same claims, their shares divided by
their weights stay within two rounds of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tenure.core.request import Claim
from tenure.core.tenant import Context
from tests.model.world import World

Scope = tuple[object, ...]  # what a claim asks for: queues, tenants, tasks


class Chosen(Protocol):
    tenant: str
    queue: str


@dataclass
class Wait:
    """The stay of a tenant's queue among the claimable: leases that it could have had, and those its tenant got."""

    tenant: str
    stay: int
    seen: int = 0
    served: int = 0
    weight: int = 1 << 60
    weights: dict[str, int] = field(default_factory=dict)  # of all tenants that were claimable meanwhile
    queues: dict[str, set[str]] = field(default_factory=dict)  # in which they were
    scopes: set[Scope] = field(default_factory=set)  # of all claims that leased something meanwhile

    def is_broken(self) -> bool:
        rounds = -(-(self.served + 1) // self.weight)
        if len(self.scopes) <= 1:
            return self.seen >= rounds * sum(self.weights.values())
        others = sum(
            weight * len(self.queues[tenant]) for tenant, weight in self.weights.items() if tenant != self.tenant
        )
        return self.seen >= rounds * (self.weights[self.tenant] + others) + others


class Fairness:
    def __init__(self) -> None:
        self.waits: dict[tuple[str, str], Wait] = {}
        self.shares: dict[tuple[str, str, str], tuple[int, int, int, int]] = {}
        self.problems: list[str] = []

    def lease(self, world: World, context: Context, wish: Claim, choices: Sequence[Chosen], chosen: Chosen) -> None:
        """A lease is about to be granted; `choices` is what the claim could have had instead."""
        self.see_weights(world)
        for pair in world.standing:
            self.wait_of(world, pair).scopes.add(scope_of(context, wish))
        for choice in choices:
            self.watch_tenant(world, choice, chosen.tenant)
        queues = [choice.queue for choice in choices if choice.tenant == chosen.tenant]
        if not wish.strict:
            self.watch_queues(wish, chosen, queues)

    def see_weights(self, world: World) -> None:
        """Who competes. Of a weight that changed meanwhile, the smaller is owed to its tenant, the larger to others."""
        weights = {tenant: weight_of(world, tenant) for tenant, _ in world.standing}
        for pair in world.standing:
            wait = self.wait_of(world, pair)
            wait.weight = min(wait.weight, weights[pair[0]])
            for other, weight in weights.items():
                wait.weights[other] = max(weight, wait.weights.get(other, 0))
            for other, queue in world.standing:
                wait.queues.setdefault(other, set()).add(queue)

    def wait_of(self, world: World, pair: tuple[str, str]) -> Wait:
        wait = self.waits.get(pair)
        stay = world.stays.get(pair, 0)
        if wait is None or wait.stay != stay:
            wait = self.waits[pair] = Wait(pair[0], stay)
        return wait

    def restart(self, world: World) -> None:
        """A weight is about to change. Shares are counted anew, but turns that have begun go on under the old one."""
        self.see_weights(world)
        for pair, wait in self.waits.items():
            self.waits[pair] = replace(wait, seen=0, served=0)

    def watch_tenant(self, world: World, choice: Chosen, served: str) -> None:
        wait = self.wait_of(world, (choice.tenant, choice.queue))
        wait.seen += 1
        wait.served += choice.tenant == served
        if choice.tenant != served and wait.is_broken():
            had = f"{wait.served} of {wait.seen} leases, weights {wait.weights}"
            self.problems.append(f"{choice.tenant}/{choice.queue} had {had}")

    def watch_queues(self, wish: Claim, chosen: Chosen, queues: list[str]) -> None:
        tenant = chosen.tenant
        for pair in [pair for pair in self.shares if pair[0] == tenant]:
            if pair[1] not in queues or pair[2] not in queues:
                del self.shares[pair]
        for first in queues:
            for second in queues:
                if first < second:
                    self.watch_pair(wish, chosen, first, second)

    def watch_pair(self, wish: Claim, chosen: Chosen, first: str, second: str) -> None:
        weights = (weight_in(wish, first), weight_in(wish, second))
        key = (chosen.tenant, first, second)
        a, b, *before = self.shares.get(key, (0, 0, *weights))
        if tuple(before) != weights:
            a, b = 0, 0
        a += chosen.queue == first
        b += chosen.queue == second
        self.shares[key] = (a, b, *weights)
        if abs(a * weights[1] - b * weights[0]) > 2 * weights[0] * weights[1]:
            self.problems.append(f"{chosen.tenant}: {first} had {a}, {second} {b}, weights {weights}")


def weight_of(world: World, tenant: str) -> int:
    weight = world.of_tenant(tenant, "weight")
    assert isinstance(weight, int)
    return weight


def scope_of(context: Context, wish: Claim) -> Scope:
    queues = tuple(sorted(pick.name for pick in wish.queues))
    return (queues, tuple(sorted(context.tenants or (context.tenant,))), wish.tasks)


def weight_in(wish: Claim, queue: str) -> int:
    for pick in wish.queues:
        if queue.startswith(pick.name[:-1]) if pick.name.endswith("*") else queue == pick.name:
            return pick.weight
    return 1
