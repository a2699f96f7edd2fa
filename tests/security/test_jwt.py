"""Signed tokens: what is accepted, and every way in which one is not."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tenure.core.clock import Now
from tenure.core.error import InvalidRequest, Unauthenticated, Unavailable
from tenure.core.tenant import OPERATOR, WORKER
from tenure.server import jwt
from tenure.server.auth import Gate
from tenure.server.handler import Handler
from tenure.server.jwt import JwtGate, JwtSettings
from tenure.store.embedded.memory import MemoryStore
from tenure.wire.speech import Call

RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
OTHER = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
CURVE = ec.generate_private_key(ec.SECP256R1())


def jwks(*keys: tuple[str, Any, str]) -> dict[str, Any]:
    found = []
    for name, key, algorithm in keys:
        kind = pyjwt.algorithms.RSAAlgorithm if algorithm.startswith("RS") else pyjwt.algorithms.ECAlgorithm
        found.append({**json.loads(kind.to_jwk(key.public_key())), "kid": name, "alg": algorithm, "use": "sig"})
    return {"keys": found}


def claims(**changed: Any) -> dict[str, Any]:
    found = {"sub": "shop", "aud": "tenure", "exp": int(time.time()) + 600, "tenant": "acme", "roles": ["worker"]}
    return {name: value for name, value in {**found, **changed}.items() if value is not None}


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "a", **changed: Any) -> str:
    return pyjwt.encode(claims(**changed), key, algorithm, headers={"kid": kid} if kid else None)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(jwks(("a", RSA, "RS256"), ("c", CURVE, "ES256"))))
    return path


async def gate(keys: Path, **settings: Any) -> JwtGate:
    found = JwtGate(JwtSettings(str(keys), "tenure", **settings))
    await found.start()
    return found


async def test_a_token_says_who_calls_and_how_far_they_reach(keys: Path) -> None:
    check = await gate(keys)
    grant, until, _ = check.grant(
        signed(roles=["worker", "operator", "unknown"], tenant=["acme", "two"], queues="mail*")
    )
    assert (grant.name, grant.tenants, grant.queues) == ("shop", ("acme", "two"), ("mail*",))
    assert grant.roles == WORKER | OPERATOR
    assert until > time.time() * 1_000
    assert check.grant(signed(CURVE, "ES256", "c"))[0].tenants == ("acme",)


PEM = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def confused() -> str:
    """The public key as the secret of a symmetric signature."""
    import hashlib
    import hmac

    head = f"{part({'alg': 'HS256', 'kid': 'a'})}.{part(claims())}"
    mac = hmac.new(PEM, head.encode(), hashlib.sha256).digest()
    return f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


WRONG = {
    "none": f"{part({'alg': 'none', 'kid': 'a'})}.{part(claims())}.",
    "no algorithm": f"{part({'kid': 'a'})}.{part(claims())}.x",
    "confusion": confused(),
    "another key": signed(OTHER),
    "unknown key": signed(kid="b"),
    "no key among several": signed(kid=None),
    "key of another algorithm": signed(RSA, "RS512"),
    "key of another kind": signed(RSA, "RS256", "c"),
    "expired": signed(exp=int(time.time()) - 60),
    "no expiry": signed(exp=None),
    "not yet": signed(nbf=int(time.time()) + 600),
    "wrong audience": signed(aud="shop"),
    "no audience": signed(aud=None),
    "wrong issuer": signed(iss="somebody"),
    "no issuer": signed(),
    "no tenant": signed(iss="me", tenant=None),
    "bad tenant": signed(iss="me", tenant="a b"),
    "tenants that are no texts": signed(iss="me", tenant=[1]),
    "no roles": signed(iss="me", roles=None),
    "a pattern of queues": signed(iss="me", queues=["mail?"]),
    "queues that begin and end so": signed(iss="me", queues="mail*.eu"),
    "claims that are no map": f"{part({'alg': 'RS256', 'kid': 'a'})}.{part([])}.x",
    "nonsense": "a.b.c",
    "changed": signed(iss="me")[:-4] + "AAAA",
}


@pytest.mark.parametrize("token", WRONG.values(), ids=WRONG)
async def test_any_other_token_is_refused(token: str, keys: Path) -> None:
    check = await gate(keys, issuer="me", algorithms=("RS256", "ES256"))
    with pytest.raises(Unauthenticated):
        check.grant(token)
    check.grant(signed(iss="me"))


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithms": ("HS256",)},
        {"algorithms": ("none",)},
        {"algorithms": ()},
        {"audience": ""},
        {"keys": "http://login.example.com/keys"},
    ],
    ids=str,
)
def test_settings_that_would_open_the_door_to_all_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        JwtGate(JwtSettings(**{"keys": "keys.json", "audience": "tenure", **settings}))


@pytest.mark.parametrize("content", [b"", b"{}", b'{"keys": []}', b"[]", b'{"keys": [{"kty": "oct", "k": "AAAA"}]}'])
async def test_keys_that_cannot_be_used_are_said_at_the_start(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    with pytest.raises(Unavailable, match=r"keys\.json"):
        await gate(path)


async def test_a_caller_is_verified_once_and_expires(keys: Path) -> None:
    now = Now(int(time.time() * 1_000), 0)
    door = Gate(lambda: now, signed=await gate(keys))
    token = signed()
    caller = door.caller(token)
    assert door.caller(token) is caller
    caller.spend()
    now = Now(now.wall_ms + 700_000, 700_000)
    with pytest.raises(Unauthenticated, match="expired"):
        caller.spend()
    with pytest.raises(Unauthenticated, match="expired"):
        Handler(MemoryStore(), lambda: now, lambda: None).admit(caller, Call("count", ("",), dict))
    assert door.stranger() is None
    with pytest.raises(Unauthenticated):
        door.caller("no token")


@pytest.fixture
def served() -> Iterator[tuple[str, dict[str, Any]]]:
    """Keys over HTTP, from this machine."""
    state: dict[str, Any] = {"keys": jwks(("a", RSA, "RS256")), "asked": threading.Semaphore(0), "paths": []}
    over = threading.Event()

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state["paths"].append(self.path)
            if "redirect" in state:
                status, where = state["redirect"]
                self.send_response(status)
                self.send_header("Location", where)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if "drips" in state:
                self._drip()
                return
            body = state["keys"] if isinstance(state["keys"], bytes) else json.dumps(state["keys"]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            state["asked"].release()

        def _drip(self) -> None:
            self.send_response(200)
            self.end_headers()
            while not over.wait(0.05):
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keys)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys", state
    over.set()
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_key_that_is_not_known_is_asked_for(served: tuple[str, dict[str, Any]]) -> None:
    url, state = served
    check = JwtGate(JwtSettings(url, "tenure"))
    await check.start()
    assert state["asked"].acquire(timeout=5)
    check.grant(signed())
    state["keys"] = jwks(("a", RSA, "RS256"), ("new", OTHER, "RS256"))
    token = signed(OTHER, kid="new")
    with pytest.raises(Unauthenticated):
        check.grant(token)
    assert await asyncio.to_thread(state["asked"].acquire, timeout=5)
    async with asyncio.timeout(5):
        while "new" not in check._keys:
            await asyncio.sleep(0)
    check.grant(token)
    await check.stop()


# Keys that change, and those who serve them.


def write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))


async def test_token_is_refused_when_its_key_is_gone(keys: Path) -> None:
    signed_by = await gate(keys)
    door = Gate(lambda: Now(int(time.time() * 1_000), 0), signed=signed_by)
    dropped: list[int] = []
    door.on_revoked = lambda: dropped.append(1)
    token, other = signed(), signed(CURVE, "ES256", "c")
    caller, kept = door.caller(token), door.caller(other)
    assert not await signed_by.load()
    assert door.caller(token) is caller
    write(keys, jwks(("c", CURVE, "ES256"), ("new", OTHER, "RS256")))
    assert await signed_by.load()
    with pytest.raises(Unauthenticated, match="not known"):
        door.caller(token)
    with pytest.raises(Unauthenticated, match="any more"):
        caller.spend()
    assert door.caller(other) is kept  # its key is still there
    kept.spend()
    assert dropped == [1]


async def test_token_is_refused_when_its_key_was_replaced_under_the_same_id(keys: Path) -> None:
    signed_by = await gate(keys)
    door = Gate(lambda: Now(int(time.time() * 1_000), 0), signed=signed_by)
    token = signed()
    door.caller(token)
    write(keys, jwks(("a", OTHER, "RS256")))
    await signed_by.load()
    with pytest.raises(Unauthenticated):
        door.caller(token)
    door.caller(signed(OTHER))


BAD_KEYS = {
    "deep": b'{"keys":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep in a key": b'{"keys":[{"kty":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}]}",
    "large": b'{"keys":[' + b" " * (1 << 20) + b"]}",
    "no JSON": b"<html>",
    "no keys": b'{"keys":[]}',
    "keys of another kind": b'{"keys":[1]}',
}


@pytest.mark.parametrize("content", BAD_KEYS.values(), ids=BAD_KEYS)
async def test_keys_that_cannot_be_read_leave_the_old_ones(content: bytes, keys: Path) -> None:
    signed_by = await gate(keys)
    keys.write_bytes(content)
    with pytest.raises(Unavailable, match=r"keys\.json"):
        await signed_by.load()
    signed_by.grant(signed())


@pytest.mark.parametrize("content", [BAD_KEYS["deep"], BAD_KEYS["large"]], ids=["deep", "large"])
async def test_refresh_goes_on_after_keys_that_cannot_be_read(
    content: bytes,
    served: tuple[str, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(jwt, "REFRESH_S", 0.01)
    monkeypatch.setattr(jwt, "LEEWAY_S", 0)
    url, state = served
    check = JwtGate(JwtSettings(url, "tenure"))
    await check.start()
    try:
        state["keys"] = content
        for _ in range(4):
            assert await asyncio.to_thread(state["asked"].acquire, timeout=5)
        assert "the old ones are kept" in caplog.text
        check.grant(signed())
        state["keys"] = jwks(("new", OTHER, "RS256"))
        async with asyncio.timeout(5):
            while "new" not in check._keys:
                await asyncio.sleep(0.01)
        with pytest.raises(Unauthenticated):
            check.grant(signed())
    finally:
        await check.stop()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(status: int, served: tuple[str, dict[str, Any]]) -> None:
    url, state = served
    state["redirect"] = status, url + "/elsewhere"
    check = JwtGate(JwtSettings(url, "tenure"))
    with pytest.raises(Unavailable, match=str(status)):
        await check.start()
    assert state["paths"] == ["/keys"]


async def test_keys_that_come_slowly_are_given_up(
    served: tuple[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwt, "FETCH_S", 0.3)
    url, state = served
    state["drips"] = True
    with pytest.raises(Unavailable, match="longer than"):
        await JwtGate(JwtSettings(url, "tenure")).start()
