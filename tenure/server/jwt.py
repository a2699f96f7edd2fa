"""JSON Web Tokens: from a signed token to what it allows.

The algorithms are pinned by the settings, never taken from the token; keys come from a file or an https address, by
their id. A token needs an expiry, and the audience that the settings name.
"""

import asyncio
import json
import logging
import ssl
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt as pyjwt
import msgspec

from tenure.core.bound import tenant_name
from tenure.core.error import Error, InvalidRequest, Unauthenticated, Unavailable
from tenure.core.tenant import ROLE_NAMES
from tenure.server.caller import ALL_QUEUES, Grant

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA")
LEEWAY_S = 30
REFRESH_S = 300.0
FETCH_S = 10.0
KEYS_BYTES_MAX = 1024 * 1024
KEYS_MAX = 100
CLAIM_ITEMS_MAX = 1_000

log = logging.getLogger("tenure.server")


class JwtSettings(msgspec.Struct, forbid_unknown_fields=True):
    """`keys` is a JWKS: a file, or an https:// address. Claims say the tenant, the roles and the queues."""

    keys: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    issuer: str = ""
    tenant_claim: str = "tenant"
    roles_claim: str = "roles"
    queues_claim: str = "queues"
    rate: int = 0


def check_settings(settings: JwtSettings) -> None:
    wrong = [name for name in settings.algorithms if name not in ALGORITHMS]
    if wrong or not settings.algorithms:
        given = wrong[0] if wrong else None
        raise InvalidRequest("jwt.algorithms", given, "they must be some of " + ", ".join(ALGORITHMS))
    if not settings.audience:
        raise InvalidRequest("jwt.audience", settings.audience, "a token for somebody else must not open this door")
    parts = urlsplit(settings.keys)
    if parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        raise InvalidRequest("jwt.keys", settings.keys, "keys come over https, or from a file")


class JwtGate:
    def __init__(self, settings: JwtSettings) -> None:
        check_settings(settings)
        self._settings = settings
        self._keys: dict[str, pyjwt.PyJWK] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()  # a token was signed by a key that is not known

    async def start(self) -> None:
        """The keys have to be there at the start; after that the old ones serve while new ones cannot be had."""
        await self._load()
        if self._is_remote:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def stop(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    @property
    def _is_remote(self) -> bool:
        return urlsplit(self._settings.keys).scheme in ("http", "https")

    async def _refresh(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), REFRESH_S)
            self._wanted.clear()
            try:
                await self._load()
            except Unavailable as error:
                log.warning("%s", error.message)
            await asyncio.sleep(LEEWAY_S)  # a flood of unknown keys is no reason to ask more often

    async def _load(self) -> None:
        where = self._settings.keys
        try:
            read = fetch if self._is_remote else read_file
            found = json.loads(await asyncio.to_thread(read, where))
            keys = [pyjwt.PyJWK(key) for key in found["keys"][:KEYS_MAX] if key.get("use", "sig") == "sig"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pyjwt.PyJWTError) as error:
            raise Unavailable(f"the keys for tokens cannot be read from {where}: {error}") from error
        self._keys = {key.key_id or "": key for key in keys if key.key_type != "oct"}
        if not self._keys:
            raise Unavailable(f"{where} has no public key for signatures")

    def grant(self, token: str) -> tuple[Grant, int]:
        """What it allows, and until when (milliseconds since 1970)."""
        try:
            claims = self._claims(token)
            return self._grant_of(claims), int(claims["exp"]) * 1_000
        except (pyjwt.PyJWTError, Error, ValueError, TypeError, KeyError, OverflowError) as error:
            raise Unauthenticated(f"this token is not accepted: {error}") from None

    def _claims(self, token: str) -> dict[str, Any]:
        settings = self._settings
        head = pyjwt.get_unverified_header(token)
        if head.get("alg") not in settings.algorithms:
            raise Unauthenticated(f"its algorithm is not one of {', '.join(settings.algorithms)}")
        key = self._keys.get(str(head.get("kid", "")))
        if key is None and "kid" not in head and len(self._keys) == 1:
            key = next(iter(self._keys.values()))
        if key is None:
            self._wanted.set()
            raise Unauthenticated("the key that signed it is not known")
        if key.algorithm_name != head["alg"]:
            raise Unauthenticated("its key is for another algorithm")
        claims: dict[str, Any] = pyjwt.decode(
            token,
            key.key,
            algorithms=[key.algorithm_name],
            audience=settings.audience,
            issuer=settings.issuer or None,
            leeway=LEEWAY_S,
            options={"require": ["exp", "aud"], "verify_iss": bool(settings.issuer)},
        )
        return claims

    def _grant_of(self, claims: dict[str, Any]) -> Grant:
        settings = self._settings
        tenants = texts(settings.tenant_claim, claims.get(settings.tenant_claim))
        roles = texts(settings.roles_claim, claims.get(settings.roles_claim))
        queues = claims.get(settings.queues_claim)
        for tenant in tenants:
            if tenant != "*":
                tenant_name(settings.tenant_claim, tenant)
        known = sum(ROLE_NAMES[role] for role in set(roles) if role in ROLE_NAMES)
        named = ALL_QUEUES if queues is None else texts(settings.queues_claim, queues)
        return Grant(str(claims.get("sub") or "somebody")[:200], known, tenants, named, settings.rate)


def texts(claim: str, value: object) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not 0 < len(found) <= CLAIM_ITEMS_MAX:
        raise InvalidRequest(claim, value, "the token must have this claim: a text, or a list of texts")
    if not all(isinstance(text, str) and text for text in found):
        raise InvalidRequest(claim, value, "it must be a text, or a list of texts")
    return tuple(found)


def read_file(path: str) -> bytes:
    return Path(path.removeprefix("file://")).read_bytes()[:KEYS_BYTES_MAX]


def fetch(url: str) -> bytes:
    context = ssl.create_default_context() if url.startswith("https:") else None
    with urllib.request.urlopen(url, timeout=FETCH_S, context=context) as answer:
        found: bytes = answer.read(KEYS_BYTES_MAX)
        return found
