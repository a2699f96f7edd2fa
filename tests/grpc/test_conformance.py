"""A store behind gRPC shows every behaviour that can be said over it: all calls go to a real port."""

from typing import Any

import pytest

from tenure.core.clock import Now
from tenure.core.tenant import ALL_ROLES, ROLE_NAMES, Context
from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.server import Server
from tenure.store.behaviour.rig import spin
from tenure.store.conformance import BEHAVIOURS, Behaviour, check, name_of
from tenure.store.contract import VERBS, Capabilities
from tenure.store.embedded.memory import MemoryStore
from tests.grpc.store import GrpcStore

TOKENS = {f"roles-{roles}": roles for roles in range(1, ALL_ROLES + 1)}


class ServedStore(GrpcStore):
    """A server that is opened and closed with its clients, one for every set of roles, and takes its time from them."""

    def __init__(self) -> None:
        self._at = Now(0, 0)
        self._served = MemoryStore()
        super().__init__(lambda: self._server.grpc_port, f"roles-{ALL_ROLES}", self._served.capabilities)
        names = {roles: tuple(name for name, role in ROLE_NAMES.items() if role & roles) for roles in TOKENS.values()}
        tokens = {text: Token(hash_token(text), names[roles]) for text, roles in TOKENS.items()}
        self._server = Server(Settings(tcp=False, grpc_port=0, tokens=tokens), self._served, lambda: self._at)
        self._others: dict[int, GrpcStore] = {}

    @property
    def capabilities(self) -> Capabilities:
        return self._served.capabilities

    async def open(self, now: Now) -> None:
        self._at = now
        await self._server.start()
        self._server.handler._arm = lambda: None
        await super().open(now)
        OPENED.append(self)

    async def close(self) -> None:
        if self in OPENED:
            OPENED.remove(self)
        for other in self._others.values():
            await other.close()
        await super().close()
        await self._server.stop()

    async def tick(self, now: Now) -> Now | None:
        self._at = now
        return await self._served.tick(now)

    async def _call(self, verb: str, context: Context, arguments: tuple[object, ...], wait_ms: int = 0) -> object:
        if context.roles == ALL_ROLES:
            return await super()._call(verb, context, arguments, wait_ms)
        other = self._others.get(context.roles)
        if other is None:
            other = GrpcStore(self._port, f"roles-{context.roles}", self.capabilities)
            self._others[context.roles] = other
            await other.open(self._at)
        return await other._call(verb, context, arguments, wait_ms)

    async def touch(self) -> None:
        """There and back: what was said before has arrived, and so has what was answered before."""
        for store in (self, *self._others.values()):
            await GrpcStore._call(store, "get", Context("nobody"), ([1], []))

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in VERBS:
            return found

        def call(*arguments: Any) -> Any:
            self._at = arguments[-1]
            return found(*arguments)

        return call


OPENED: list[ServedStore] = []


async def pause() -> None:
    for _ in range(2):
        await spin()
        for store in OPENED:
            await store.touch()


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour) -> None:
    check(behaviour, ServedStore, pause=pause, skips=False)
