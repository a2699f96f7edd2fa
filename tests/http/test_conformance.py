"""A store behind the HTTP API shows every behaviour: all calls are requests to a real port."""

from collections.abc import Callable
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
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tests.http.store import HttpStore

TOKENS = {f"roles-{roles}": roles for roles in range(1, ALL_ROLES + 1)}


class ServedStore(HttpStore):
    """A server that is opened and closed with its clients, one for every set of roles, and takes its time from them."""

    def __init__(self, form: Format) -> None:
        self._at = Now(0, 0)
        self._served = MemoryStore()
        super().__init__(lambda: self._server.http_port, f"roles-{ALL_ROLES}", form, self._served.capabilities)
        names = {roles: tuple(name for name, role in ROLE_NAMES.items() if role & roles) for roles in TOKENS.values()}
        tokens = {text: Token(hash_token(text), names[roles]) for text, roles in TOKENS.items()}
        self._server = Server(Settings(tcp=False, http_port=0, tokens=tokens), self._served, lambda: self._at)
        self._others: dict[int, HttpStore] = {}

    @property
    def capabilities(self) -> Capabilities:
        return self._served.capabilities

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
        if context.roles == ALL_ROLES:
            return await super()._call(verb, context, arguments, wait_ms)
        other = self._others.get(context.roles)
        if other is None:
            token = f"roles-{context.roles}"
            other = self._others[context.roles] = HttpStore(self._port, token, self._form, self.capabilities)
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
    for _ in range(12):
        await spin()


# A request has no connection: whoever settles names the token. An answer that is written is the client's, read or not.
# In JSON any text may be bytes.
BOTH = (
    "token_may_be_left_out_on_the_claiming_connection",
    "extension_without_a_token_needs_the_claiming_connection",
    "reports_may_leave_the_token_out_on_the_claiming_connection",
    "connection_that_lost_its_lease_must_name_the_token",
    "what_was_leased_to_a_lost_answer_is_released_at_once",
)
ELSEWHERE = {
    *((name, form) for name in BOTH for form in ("msgpack", "json")),
    ("wrong_field_of_a_record_is_refused_by_name", "json"),
}


@pytest.mark.parametrize("form", [MSGPACK_FORMAT, JSON_FORMAT], ids=["msgpack", "json"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour, form: Format) -> None:
    if (behaviour.name, form.name) in ELSEWHERE:
        return
    make: Callable[[], ServedStore] = lambda: ServedStore(form)  # noqa: E731
    check(behaviour, make, pause=pause, skips=False)
