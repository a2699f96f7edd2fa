"""A store behind a door of a server, for the conformance suite."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest

from tenure.client.remote import RemoteStore
from tenure.core.clock import Now
from tenure.core.tenant import ALL_ROLES, ROLE_NAMES, Context
from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.server import Server
from tenure.store.behaviour.rig import spin
from tenure.store.conformance import BEHAVIOURS, Behaviour, check
from tenure.store.contract import VERBS, Capabilities, Store
from tenure.store.embedded.memory import MemoryStore
from tenure.wire.format import Format

NO_CONNECTION = "a request has no connection: whoever settles names the token"
WITHOUT_CONNECTION = {
    "token_may_be_left_out_on_the_claiming_connection": NO_CONNECTION,
    "extension_without_a_token_needs_the_claiming_connection": NO_CONNECTION,
    "reports_may_leave_the_token_out_on_the_claiming_connection": NO_CONNECTION,
    "connection_that_lost_its_lease_must_name_the_token": NO_CONNECTION,
    "token_may_be_left_out_when_the_holder_settled_every_earlier_lease": NO_CONNECTION,
    "token_is_needed_once_an_earlier_lease_expired": NO_CONNECTION,
    "what_was_leased_to_a_lost_answer_is_released_at_once": "an answer that is written is the client's, read or not",
}  # what doors cannot show where each request stands alone

SAYS_HELLO = "Tenure's own client says HELLO and names the token; tests/server/test_flashq.py shows one that does not"
ALWAYS_WITH_TOKENS = {
    "client_without_tokens_settles_on_any_connection_of_its_principal": SAYS_HELLO,
    "client_without_tokens_renews_and_reports_on_any_connection_of_its_principal": SAYS_HELLO,
    "client_without_tokens_settles_nothing_that_others_claimed": SAYS_HELLO,
    "client_without_tokens_cannot_settle_once_a_lease_was_lost": SAYS_HELLO,
    "client_without_tokens_hears_that_its_job_was_cancelled": SAYS_HELLO,
    "empty_token_in_a_batch_is_none": SAYS_HELLO,
}

WITHOUT_SCANS = {
    behaviour.name: "bulk reads go over TCP and Unix sockets" for behaviour in BEHAVIOURS if "scans" in behaviour.needs
}

Connect = Callable[[Server, str], RemoteStore]


def token_of(roles: int) -> str:
    return f"roles-{roles}"


def tokens() -> dict[str, Token]:
    """One for every set of roles."""
    found: dict[str, Token] = {}
    for roles in range(1, ALL_ROLES + 1):
        names = tuple(name for name, role in ROLE_NAMES.items() if role & roles)
        found[token_of(roles)] = Token(hash_token(token_of(roles)), names)
    return found


class Served:
    """A server that is opened and closed with its clients, and takes its time from their calls. There is a client for
    every connection and every set of roles that a behaviour speaks of."""

    def __init__(self, settings: Settings, connect: Connect) -> None:
        settings.tokens = tokens()
        self._at = Now(0, 0)
        self._store = MemoryStore()
        self._server = Server(settings, self._store, lambda: self._at)
        self._connect = connect
        self._clients: dict[tuple[int, int], RemoteStore] = {}

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    async def open(self, now: Now) -> None:
        self._at = now
        await self._server.start()
        self._server.handler._arm = lambda: None
        await self._client(Context())

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        await self._server.stop()

    async def tick(self, now: Now) -> Now | None:
        self._at = now
        return await self._store.tick(now)

    async def _client(self, context: Context) -> RemoteStore:
        key = (context.connection, context.roles)
        found = self._clients.get(key)
        if found is None:
            found = self._clients[key] = self._connect(self._server, token_of(context.roles))
            found.overloaded_tries = 1  # pauses are real time
            await found.open(self._at)
        return found

    def clients(self) -> list[RemoteStore]:
        return list(self._clients.values())

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if name not in VERBS:
            raise AttributeError(name)

        async def call(context: Context, *arguments: Any) -> Any:
            self._at = arguments[-1]
            return await getattr(await self._client(context), name)(context, *arguments)

        return call


def check_behind(
    behaviour: Behaviour,
    form: Format,
    settings: Settings,
    connect: Connect,
    turns: int,
    cannot: dict[str, str],
    touch: Callable[[Any], Awaitable[None]] | None = None,
) -> None:
    """`turns` of the loop bring everything that is on its way; where others than the loop are at work, `touch` goes
    there and back with a client, behind what was said before. `cannot` says which behaviours the door cannot show, and
    why; after a name may stand the format."""
    cannot = {**ALWAYS_WITH_TOKENS, **cannot}
    for key in (behaviour.name, f"{behaviour.name}-{form.name}"):
        if key in cannot:
            pytest.skip(cannot[key])

    opened: list[Served] = []

    def serve() -> Store:
        opened.append(Served(settings, connect))
        return cast("Store", opened[-1])

    async def pause() -> None:
        for _ in range(turns):
            await spin()
            if touch is not None:
                for client in opened[-1].clients():
                    await touch(client)

    check(behaviour, serve, pause=pause, skips=False)
