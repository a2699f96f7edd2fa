"""A store behind a server shows every behaviour: all calls go over a real connection, as public commands."""

import functools
from pathlib import Path
from typing import Any

import pytest

from tenure.client.remote import RemoteStore
from tenure.core.clock import Now
from tenure.core.tenant import ALL_ROLES, ROLE_NAMES, Context
from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.server import Server
from tenure.store.behaviour.rig import spin
from tenure.store.conformance import BEHAVIOURS, Behaviour, check, name_of
from tenure.store.contract import VERBS, Capabilities
from tenure.store.embedded.memory import MemoryStore
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format

TOKENS = {f"roles-{roles}": roles for roles in range(1, ALL_ROLES + 1)}


class ServedStore(RemoteStore):
    """Clients of a server that is opened and closed with them, and takes its time from the calls: one for every
    connection and every set of roles that a behaviour speaks of."""

    def __init__(self, path: Path, form: Format) -> None:
        super().__init__(str(path), f"roles-{ALL_ROLES}", form)
        self._at = Now(0, 0)
        self._served = MemoryStore()
        names = {roles: tuple(name for name, role in ROLE_NAMES.items() if role & roles) for roles in TOKENS.values()}
        tokens = {text: Token(hash_token(text), names[roles]) for text, roles in TOKENS.items()}
        self._server = Server(
            Settings(tcp=False, grpc=False, unix=str(path), tokens=tokens), self._served, lambda: self._at
        )
        self._others: dict[tuple[int, int], RemoteStore] = {}

    @property
    def capabilities(self) -> Capabilities:
        return self._served.capabilities  # also before it is opened

    async def open(self, now: Now) -> None:
        self._at = now
        await self._server.start()
        self._server.handler._arm = lambda: None
        await super().open(now)

    async def close(self) -> None:
        for other in self._others.values():
            await other.close()
        await super().close()
        await self._server.stop()

    async def tick(self, now: Now) -> Now | None:
        self._at = now
        return await self._served.tick(now)

    async def _call(self, verb: str, context: Context, arguments: tuple[object, ...], wait_ms: int = 0) -> object:
        key = (context.connection, context.roles)
        if key == (0, ALL_ROLES):
            return await super()._call(verb, context, arguments, wait_ms)
        other = self._others.get(key)
        if other is None:
            other = self._others[key] = RemoteStore(str(self._address), f"roles-{context.roles}", self._form)
            await other.open(self._at)
        return await other._call(verb, context, arguments, wait_ms)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in VERBS:
            return found

        def call(*arguments: Any) -> Any:
            self._at = arguments[-1]
            return found(*arguments)

        return call


async def pause() -> None:
    for _ in range(4):
        await spin()


# On a socket there is always a connection; and in JSON any text may be bytes.
ELSEWHERE = {
    ("token_may_not_be_left_out_without_a_connection", "msgpack"),
    ("token_may_not_be_left_out_without_a_connection", "json"),
    ("wrong_field_of_a_record_is_refused_by_name", "json"),
}


@pytest.mark.parametrize("form", [MSGPACK_FORMAT, JSON_FORMAT], ids=["msgpack", "json"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour, form: Format, tmp_path: Path) -> None:
    if (behaviour.name, form.name) in ELSEWHERE:
        return
    check(behaviour, functools.partial(ServedStore, tmp_path / "socket", form), pause=pause, skips=False)
