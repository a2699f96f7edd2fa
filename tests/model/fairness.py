"""Shares, watched from outside: the bound among tenants, and the weights among the queues of a claim.

Among tenants the contract promises: the i-th waiting job of a tenant of weight w is leased at the latest when ceil(i/w)
times the sum of all weights have been leased since it became claimable, by claims that could take it. So a tenant that
has been served s times while it was claimable all along, and still waits, has seen fewer than ceil((s+1)/w) times the
sum of weights.

Among queues served by weight: as long as two queues both have something for the same claims, their shares divided by
their weights stay within two rounds of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tenure.core.request import Claim
from tests.model.world import World


class Chosen(Protocol):
    tenant: str
    queue: str


@dataclass
class Wait:
    """A tenant's stay among the claimable: leases that it could have had, and those it got."""

    stay: int
    seen: int = 0
    served: int = 0
    weight: int = 1
    weights: dict[str, int] = field(default_factory=dict)  # of all tenants that were claimable meanwhile

    def is_broken(self) -> bool:
        rounds = -(-(self.served + 1) // self.weight)
        return self.seen >= rounds * sum(self.weights.values())


class Fairness:
    def __init__(self) -> None:
        self.waits: dict[str, Wait] = {}
        self.shares: dict[tuple[str, str, str], tuple[int, int, int, int]] = {}
        self.problems: list[str] = []

    def lease(self, world: World, wish: Claim, choices: Sequence[Chosen], chosen: Chosen) -> None:
        """A lease is about to be granted; `choices` is what the claim could have had instead."""
        self.watch_tenants(world, {choice.tenant for choice in choices}, chosen.tenant)
        queues = [choice.queue for choice in choices if choice.tenant == chosen.tenant]
        if not wish.strict:
            self.watch_queues(wish, chosen, queues)

    def restart(self, world: World) -> None:
        """A weight changes: turns that have begun go on under the old one, so the smaller of both is owed."""
        for tenant in world.turns:
            wait = self.wait_of(tenant, world.stays.get(tenant, 0), weight_of(world, tenant))
            self.waits[tenant] = Wait(wait.stay, weight=wait.weight, weights=wait.weights)
            self.waits[tenant].weights[tenant] = max(wait.weights.get(tenant, 0), weight_of(world, tenant))

    def watch_tenants(self, world: World, able: set[str], served: str) -> None:
        claimable = set(world.turns)
        weights = {tenant: weight_of(world, tenant) for tenant in claimable | able}
        for tenant in claimable:
            wait = self.wait_of(tenant, world.stays.get(tenant, 0), weights[tenant])
            wait.weight = min(wait.weight, weights[tenant])
            for other, weight in weights.items():
                wait.weights[other] = max(weight, wait.weights.get(other, 0))
            if tenant in able:
                wait.seen += 1
                wait.served += tenant == served
                if tenant != served and wait.is_broken():
                    self.problems.append(f"{tenant} had {wait.served} of {wait.seen} leases, {wait.weights}")

    def wait_of(self, tenant: str, stay: int, weight: int) -> Wait:
        wait = self.waits.get(tenant)
        if wait is None or wait.stay != stay:
            wait = self.waits[tenant] = Wait(stay, weight=weight)
        return wait

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


def weight_in(wish: Claim, queue: str) -> int:
    for pick in wish.queues:
        if queue.startswith(pick.name[:-1]) if pick.name.endswith("*") else queue == pick.name:
            return pick.weight
    return 1
