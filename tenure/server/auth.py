"""Who holds a token: the same check for every door.

A token is looked up by its SHA-256, so how long it takes says nothing about how much of a guess was right. Tokens of
the settings are kept as that hash; one that is signed is verified once and then known until it expires, or until the
key that signed it is gone.
"""

import hashlib
import secrets
from collections.abc import Callable

from tenure.core.clock import Now
from tenure.core.error import Unauthenticated
from tenure.server.caller import Caller, Grant
from tenure.server.jwt import JwtGate, SigningKey

TOKEN_BYTES = 32
TOKEN_CHARS_MAX = 8_192
VERIFIED_MAX = 10_000


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def make_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


class Gate:
    """`tokens` maps the hash of each to what it allows. Without any, `open_grant` is what everybody may."""

    def __init__(
        self,
        clock: Callable[[], Now],
        tokens: dict[str, Grant] | None = None,
        open_grant: Grant | None = None,
        signed: JwtGate | None = None,
    ) -> None:
        self._clock = clock
        self._callers = {hashed: Caller(grant, clock) for hashed, grant in (tokens or {}).items()}
        self._open = None if open_grant is None else Caller(open_grant, clock)
        self._signed = signed
        self._verified: dict[str, tuple[Caller, SigningKey]] = {}  # by hash, the oldest first
        if signed is not None:
            signed.on_change = self._forget_keys
        self.on_revoked: Callable[[], None] = lambda: None  # connections of those callers have to be closed

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def stranger(self) -> Caller | None:
        """Who calls without a token; None when that is not allowed."""
        return self._open

    def bearer(self, said: str | None) -> Caller:
        """Who calls, by what stands in `Authorization`: for doors where that is said with every request."""
        if said is None:
            if self._open is None:
                raise Unauthenticated("say who you are: Authorization: Bearer and a token")
            return self._open
        scheme, _, token = said.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("only Authorization: Bearer and a token is understood")
        return self.caller(token.strip())

    def caller(self, token: str) -> Caller:
        if len(token) <= TOKEN_CHARS_MAX:
            hashed = hash_token(token)
            found = self._callers.get(hashed)
            if found is None and hashed in self._verified:
                found = self._verified[hashed][0]
            if found is not None and not found.has_expired():
                return found
            if self._signed is not None and token.count(".") == 2:
                return self._verify(token, hashed)
        raise Unauthenticated("this token is not known; ask the administrator for one")

    def _verify(self, token: str, hashed: str) -> Caller:
        assert self._signed is not None
        grant, until_ms, key = self._signed.grant(token)
        if len(self._verified) >= VERIFIED_MAX:
            del self._verified[next(iter(self._verified))]
        found = Caller(grant, self._clock, until_ms)
        self._verified[hashed] = found, key
        return found

    def replace(self, tokens: dict[str, Grant]) -> int:
        """Other tokens of the settings; how many of the old ones are accepted no more. One that allows what it did
        stays as it was, with all its connections."""
        callers = {}
        revoked = []
        for hashed, caller in self._callers.items():
            if tokens.get(hashed) == caller.grant:
                callers[hashed] = caller
            else:
                revoked.append(caller)
        for hashed, grant in tokens.items():
            if hashed not in callers:
                callers[hashed] = Caller(grant, self._clock)
        if tokens and self._open is not None:
            revoked.append(self._open)
            self._open = None
        self._callers = callers
        self._revoke(revoked)
        return len(revoked)

    def _forget_keys(self) -> None:
        """The keys are others now."""
        assert self._signed is not None
        gone = [hashed for hashed, (_, key) in self._verified.items() if not self._signed.has(key)]
        self._revoke([self._verified.pop(hashed)[0] for hashed in gone])

    def _revoke(self, callers: list[Caller]) -> None:
        for caller in callers:
            caller.revoke()
        if callers:
            self.on_revoked()
