"""JSON Web Tokens: from a signed token to what it allows.

The algorithms are pinned by the settings, never taken from the token; keys come from a file or an https address, by
their id. A token needs an expiry, and the audience that the settings name.
"""

import asyncio
import json
import logging
import ssl
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jwt as pyjwt
import msgspec

from tenure.core.bound import queue_or_prefix, tenant_name
from tenure.core.error import Error, InvalidRequest, Unauthenticated, Unavailable
from tenure.core.tenant import ROLE_NAMES
from tenure.server.caller import ALL_QUEUES, Grant

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA")
LEEWAY_S = 30
REFRESH_S = 300.0
FETCH_S = 10.0
KEYS_BYTES_MAX = 1024 * 1024
KEYS_MAX = 100
PART_BYTES = 64 * 1024
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


class SigningKey(NamedTuple):
    """A public key, and the text that it was read from."""

    id: str
    text: str
    key: pyjwt.PyJWK


class Signed(NamedTuple):
    """What a token allows, until when (milliseconds since 1970), and who says so."""

    grant: Grant
    until_ms: int
    key: SigningKey


class JwtGate:
    def __init__(self, settings: JwtSettings) -> None:
        check_settings(settings)
        self._settings = settings
        self._keys: dict[str, SigningKey] = {}
        self._loading = asyncio.Lock()
        self.on_change: Callable[[], None] = lambda: None  # the keys are others now
        self._refreshing: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()  # a token was signed by a key that is not known

    async def start(self) -> None:
        """The keys have to be there at the start; after that the old ones serve while new ones cannot be had."""
        await self.load()
        if self.is_remote:
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def stop(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    @property
    def is_remote(self) -> bool:
        return urlsplit(self._settings.keys).scheme in ("http", "https")

    @property
    def path(self) -> str:
        """Of the file with the keys; nothing if they come from elsewhere."""
        return "" if self.is_remote else self._settings.keys.removeprefix("file://")

    def has(self, key: SigningKey) -> bool:
        found = self._keys.get(key.id)
        return found is not None and found.text == key.text

    async def _refresh(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_S):  # `wait_for` may lose the end of this task in Python 3.11
                    await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.load()
            except Unavailable as error:
                log.warning("%s; the old ones are kept", error.message)
            except Exception:
                log.exception("the keys for tokens could not be read anew; the old ones are kept")
            await asyncio.sleep(LEEWAY_S)  # a flood of unknown keys is no reason to ask more often

    async def load(self) -> bool:
        """Read the keys; if that fails the old ones stay. Answers whether they are others now."""
        async with self._loading:
            read = fetch if self.is_remote else read_file
            keys = await asyncio.to_thread(_read_keys, read, self._settings.keys)
            has_changed = {key.text for key in keys.values()} != {key.text for key in self._keys.values()}
            self._keys = keys
        if has_changed:
            self.on_change()
        return has_changed

    def grant(self, token: str) -> Signed:
        try:
            claims, key = self._claims(token)
            return Signed(self._grant_of(claims), int(claims["exp"]) * 1_000, key)
        except (pyjwt.PyJWTError, Error, ValueError, TypeError, KeyError, OverflowError) as error:
            raise Unauthenticated(f"this token is not accepted: {error}") from None

    def _claims(self, token: str) -> tuple[dict[str, Any], SigningKey]:
        settings = self._settings
        head = pyjwt.get_unverified_header(token)
        if head.get("alg") not in settings.algorithms:
            raise Unauthenticated(f"its algorithm is not one of {', '.join(settings.algorithms)}")
        signer = self._keys.get(str(head.get("kid", "")))
        if signer is None and "kid" not in head and len(self._keys) == 1:
            signer = next(iter(self._keys.values()))
        if signer is None:
            self._wanted.set()
            raise Unauthenticated("the key that signed it is not known")
        key = signer.key
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
        return claims, signer

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
        for queue in named:
            queue_or_prefix(settings.queues_claim, queue)
        return Grant(str(claims.get("sub") or "somebody")[:200], known, tenants, named, settings.rate)


def texts(claim: str, value: object) -> tuple[str, ...]:
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not 0 < len(found) <= CLAIM_ITEMS_MAX:
        raise InvalidRequest(claim, value, "the token must have this claim: a text, or a list of texts")
    if not all(isinstance(text, str) and text for text in found):
        raise InvalidRequest(claim, value, "it must be a text, or a list of texts")
    return tuple(found)


def _read_keys(read: Callable[[str], bytes], where: str) -> dict[str, SigningKey]:
    """Also from a file or an answer that means no good: its size is bounded, and whatever is wrong with it is said."""
    try:
        data = read(where)
        if len(data) > KEYS_BYTES_MAX:
            raise ValueError(f"there are more than {KEYS_BYTES_MAX:,} bytes")
        found = msgspec.json.decode(data, type=_Jwks).keys[:KEYS_MAX]
        keys = [(pyjwt.PyJWK(jwk), jwk) for jwk in found if jwk.get("use", "sig") == "sig"]
        known = {
            key.key_id or "": SigningKey(key.key_id or "", json.dumps(jwk, sort_keys=True), key)
            for key, jwk in keys
            if key.key_type != "oct"
        }
    except RecursionError as error:
        raise Unavailable(f"the keys for tokens cannot be read from {where}: they are nested too deeply") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, HTTPException, pyjwt.PyJWTError) as error:
        raise Unavailable(f"the keys for tokens cannot be read from {where}: {error}") from error
    if not known:
        raise Unavailable(f"{where} has no public key for signatures")
    return known


class _Jwks(msgspec.Struct):
    keys: list[dict[str, Any]]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An address that points elsewhere is not the one that was configured; the answer is an error then."""

    def redirect_request(self, *_: Any) -> None:
        return None


def read_file(path: str) -> bytes:
    with Path(path.removeprefix("file://")).open("rb") as file:
        return file.read(KEYS_BYTES_MAX + 1)


def fetch(url: str) -> bytes:
    """Within `FETCH_S` for the whole, however slowly it comes."""
    until = time.monotonic() + FETCH_S
    context = ssl.create_default_context() if url.startswith("https:") else None
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
    parts: list[bytes] = []
    size = 0
    with opener.open(url, timeout=FETCH_S) as answer:
        while size <= KEYS_BYTES_MAX and (part := answer.read1(PART_BYTES)):
            parts.append(part)
            size += len(part)
            if time.monotonic() > until:
                raise TimeoutError(f"it took longer than {FETCH_S:g} s")
    return b"".join(parts)
