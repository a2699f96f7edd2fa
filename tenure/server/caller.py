"""Who calls: a name, roles, and how far they reach. One check for every door."""

import asyncio
import hashlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tenure.core.clock import Now
from tenure.core.error import Forbidden, RateLimited, Unauthenticated
from tenure.core.tenant import ALL_ROLES, ANY_TENANT, DEFAULT_TENANT, ROLE_NAMES, Context, reaches_queue

ALL_QUEUES = ("*",)
REVOKED = "this token is not accepted any more; get a new one"


class Grant(NamedTuple):
    """What a token allows. `rate` is requests a second, 0 is no bound; queues are names or prefixes ending in `*`."""

    name: str
    roles: int = ALL_ROLES
    tenants: tuple[str, ...] = (ANY_TENANT,)
    queues: tuple[str, ...] = ALL_QUEUES
    rate: int = 0


class Caller:
    def __init__(self, grant: Grant, clock: Callable[[], Now], until_ms: int = 0) -> None:
        """`until_ms` is when the token expires, in milliseconds since 1970; 0 is never."""
        self.grant = grant
        self.name = grant.name
        self.key = hashlib.sha256(grant.name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self.roles = grant.roles
        self.tenants = grant.tenants
        self.queues = grant.queues
        self.reaches_all_tenants = ANY_TENANT in grant.tenants
        self.is_free = grant.queues == ALL_QUEUES  # of any bound on queues
        self.is_bounded = bool(grant.rate or until_ms)  # in how often, or how long
        self.plain: Context | None = None  # of requests that say nothing but what they ask for, once there was one
        self.is_revoked = False
        self.waits: set[asyncio.Task[Any]] = set()  # requests that wait for something to happen
        self._rate = grant.rate
        self._clock = clock
        self._until_ms = until_ms
        self._left = float(grant.rate)
        self._filled_ms = clock().elapsed_ms if grant.rate else 0

    def has_expired(self) -> bool:
        return self._until_ms > 0 and self._clock().wall_ms >= self._until_ms

    def revoke(self) -> None:
        """Its token is accepted no more: requests that wait end, and there are no others."""
        self.is_revoked = self.is_bounded = True
        for task in list(self.waits):
            task.cancel()

    def check_revoked(self) -> None:
        if self.is_revoked:
            raise Unauthenticated(REVOKED)

    def spend(self) -> None:
        """One request, at the rate of the token."""
        self.check_revoked()
        if self._until_ms and self.has_expired():
            raise Unauthenticated("this token has expired; get a new one")
        if not self._rate:
            return
        now = self._clock().elapsed_ms
        self._left = min(self._left + (now - self._filled_ms) * self._rate / 1_000, float(self._rate))
        self._filled_ms = now
        if self._left < 1.0:
            after_ms = math.ceil((1.0 - self._left) * 1_000 / self._rate)
            raise RateLimited(f"the token {self.name!r}", retry_after_ms=after_ms)
        self._left -= 1.0

    def need_all_tenants(self, what: str) -> None:
        if not self.reaches_all_tenants:
            raise Forbidden(f"{what} is for all tenants, which the token {self.name!r} does not reach")

    def tenant(self, asked: str) -> str:
        """The tenant of a request; one out of reach is refused alike, whether it exists or not."""
        if not asked:
            first = self.tenants[0]
            return DEFAULT_TENANT if first == ANY_TENANT else first
        if not self.reaches_all_tenants and asked not in self.tenants:
            raise Forbidden(f"the token {self.name!r} does not reach the tenant {asked!r}")
        return asked

    def several(self, asked: tuple[str, ...]) -> tuple[str, ...]:
        """The tenants that a claim may take from."""
        if self.reaches_all_tenants:
            return asked
        if ANY_TENANT in asked:
            return self.tenants
        for tenant in asked:
            self.tenant(tenant)
        return asked

    def need(self, roles: int, what: str) -> None:
        if not self.roles & roles:
            names = " or ".join(name for name, role in ROLE_NAMES.items() if role & roles)
            raise Forbidden(f"{what} needs the role {names}, which the token {self.name!r} does not have")

    def reaches(self, queue: str) -> bool:
        """A queue, or all queues of a prefix that ends in `*`."""
        if self.is_free:
            return True
        return reaches_queue(self.queues, queue)

    def reaches_job(self, tenant: str, queue: str) -> bool:
        return (self.reaches_all_tenants or tenant in self.tenants) and self.reaches(queue)

    def need_queue(self, queue: str) -> None:
        if not self.reaches(queue):
            raise Forbidden(f"the token {self.name!r} does not reach the queue {queue!r}")
