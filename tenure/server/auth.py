"""Who holds a token: the same check for every door.

Tokens are kept as their SHA-256. A token is looked up by that hash, so how long it takes says nothing about how much of
a guess was right.
"""

import hashlib
import secrets
from collections.abc import Callable

from tenure.core.error import Unauthenticated
from tenure.server.caller import Caller, Grant

TOKEN_BYTES = 32
TOKEN_CHARS_MAX = 8_192


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def make_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


class Gate:
    """`tokens` maps the hash of each to what it allows. Without any, `open_grant` is what everybody may."""

    def __init__(
        self, clock_ms: Callable[[], int], tokens: dict[str, Grant] | None = None, open_grant: Grant | None = None
    ) -> None:
        self._clock_ms = clock_ms
        self._callers = {hashed: Caller(grant, clock_ms) for hashed, grant in (tokens or {}).items()}
        self._open = None if open_grant is None else Caller(open_grant, clock_ms)

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def stranger(self) -> Caller | None:
        """Who calls without a token; None when that is not allowed."""
        return self._open

    def caller(self, token: str) -> Caller:
        if len(token) <= TOKEN_CHARS_MAX:
            found = self._callers.get(hash_token(token))
            if found is not None:
                return found
        raise Unauthenticated("this token is not known; ask the administrator for one")
