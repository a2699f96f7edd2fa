"""Tokens, keys and certificates are replaced while the server runs; what cannot be used leaves the old ones."""

import asyncio
import logging
import shutil
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import httpx
import msgspec
import pytest
from websockets.asyncio.client import connect as connect_socket

import tenure
from tenure.core.error import InvalidRequest
from tenure.server import reload
from tenure.server.auth import hash_token
from tenure.server.config import Settings, check, choose
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.reload import Reloader
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore
from tests.grpc.rig import Stub
from tests.http.store import PLAIN
from tests.security.test_jwt import OTHER, RSA, jwks, signed
from tests.security.test_tls import Authority, trusting
from tests.server.process import Process, running
from tests.server.talk import FRAMES, LINES, Talk, connect, talking

BOUND_S: Final = 20.0
ANYWHERE: Final = {"tcp_port": 0, "http_port": 0, "grpc_port": 0}


def write_tokens(path: Path, **roles: str) -> None:
    """Each token is its own name."""
    lines = [
        f'[server.tokens.{name}]\nsha256 = "{hash_token(name)}"\nroles = ["{role}"]' for name, role in roles.items()
    ]
    replace(path, "\n".join(lines).encode())


def replace(path: Path, content: bytes) -> None:
    """Whole, as an editor does it."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


class House:
    def __init__(self, server: Server, reloader: Reloader, unix: str) -> None:
        self.server = server
        self.reloader = reloader
        self.unix = unix

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.http_port}"

    async def talk(self, token: str, unix: bool = False) -> Talk:
        talk = await connect(self.unix if unix else ("127.0.0.1", self.server.tcp_port), LINES)
        await talk.do("AUTH", token=token)
        return talk

    async def status(self, token: str) -> int:
        async with httpx.AsyncClient(trust_env=False, verify=PLAIN) as client:
            answer = await client.get(f"{self.url}/v1/queues", headers={"authorization": f"Bearer {token}"})
            return answer.status_code


@asynccontextmanager
async def serving(config: Path, **flags: Any) -> AsyncIterator[House]:
    unix = str(config.parent / "s")
    given = {**ANYWHERE, "unix": unix, **flags}
    chosen = choose(given, {}, str(config)).settings
    server = Server(chosen, MemoryStore())
    reloader = Reloader(server, chosen, lambda: choose(given, {}, str(config)).settings, str(config))
    await server.start()
    await reloader.start()
    try:
        yield House(server, reloader, unix)
    finally:
        await reloader.stop()
        await server.stop()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "LOOK_S", 0.02)


async def until_said(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(BOUND_S):
        while text not in caplog.text:
            await asyncio.sleep(0.005)


@pytest.fixture
def config(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    caplog.set_level(logging.INFO, "tenure.server")
    return tmp_path / "tenure.toml"


async def test_new_token_is_accepted_and_one_that_is_gone_is_not(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_tokens(config, old="operator", same="operator")
    async with serving(config) as house:
        assert [await house.status(name) for name in ("old", "same", "new")] == [200, 200, 401]
        write_tokens(config, new="operator", same="operator")
        await until_said(caplog, "reloaded the tokens: 2 are known, 1 of the old ones")
        assert [await house.status(name) for name in ("old", "same", "new")] == [401, 200, 200]


async def test_connections_of_a_token_that_is_gone_are_closed_and_others_stay(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_tokens(config, old="worker", same="worker")
    async with serving(config) as house, asyncio.timeout(BOUND_S):
        gone = [await house.talk("old"), await house.talk("old", unix=True)]
        stays = await house.talk("same")
        gone[0].send("PULL", queue="mail", timeout=60_000, reqId=1)  # it waits
        headers = {"authorization": "Bearer old"}
        url = f"ws://127.0.0.1:{house.server.http_port}/v1/ws"
        async with (
            connect_socket(url, proxy=None, additional_headers=headers) as socket,
            httpx.AsyncClient(trust_env=False, verify=PLAIN) as client,
            grpc.aio.insecure_channel(f"127.0.0.1:{house.server.grpc_port}") as channel,
        ):
            body = {"queue": "mail", "timeout": 60_000}
            waiting = asyncio.ensure_future(
                client.post(f"{house.url}/v1/claims", json=body, headers=headers, timeout=60)
            )
            stub: Any = Stub(channel)
            metadata = (("authorization", "Bearer old"),)
            wish = pb.Wish(queues=[pb.QueuePick(name="mail")], worker="w")
            claim = stub.Claim(pb.ClaimRequest(wish=wish, count=1, wait_ms=60_000), metadata=metadata)
            claiming = asyncio.ensure_future(claim)
            work = stub.Work(metadata=metadata)
            await work.write(pb.WorkRequest(open=pb.Open(wish=wish, credits=1)))
            assert (await work.read()).HasField("opened")
            callers = [caller for caller in house.server.gate._callers.values() if caller.name == "old"]
            while len(callers[0].waits) < 2:
                await asyncio.sleep(0.005)
            write_tokens(config, same="worker")
            for talk in gone:
                first = (await talk.ended()).splitlines()[0]
                assert msgspec.json.decode(first)["code"] == "Unauthenticated"
            assert msgspec.json.decode(await socket.recv())["code"] == "Unauthenticated"
            await socket.wait_closed()
            assert (await waiting).status_code == 401
            for call in (claiming, work.read()):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await call
                assert raised.value.code() == grpc.StatusCode.UNAUTHENTICATED
        assert await stays.do("PING") == {"ok": True}
        for talk in (*gone, stays):
            await talk.close()


async def test_token_that_allows_less_now_is_held_to_it(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_tokens(config, shop="operator")
    async with serving(config) as house:
        talk = await house.talk("shop")
        write_tokens(config, shop="producer")
        assert b"Unauthenticated" in await talk.ended()
        await talk.close()
        again = await house.talk("shop")
        assert await again.refused("PAUSE", queue="mail") == "Forbidden"
        await again.close()


BAD = {
    "no TOML": b"[server",
    "a hash that is none": b'[server.tokens.old]\nsha256 = "x"\n',
    "an unknown setting": b"[server]\nnonsense = 1\n",
    "nobody": b"",
    "a port that is none": b"[server]\ntcp_port = 99999\n",
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
async def test_bad_settings_leave_the_old_tokens(
    content: bytes, config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_tokens(config, old="operator")
    async with serving(config) as house:
        talk = await house.talk("old")
        replace(config, content)
        await until_said(caplog, "the tokens were not reloaded and the old ones are kept")
        assert await house.status("old") == 200
        assert await talk.do("PING") == {"ok": True}
        await talk.close()
        config.unlink()
        house.reloader.ask()
        write_tokens(config, new="operator")
        await until_said(caplog, "reloaded the tokens: 1 are known")
        assert [await house.status(name) for name in ("old", "new")] == [401, 200]


async def test_server_without_tokens_gets_some(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    config.write_text("[server]\n")
    async with serving(config) as house:
        talk = await connect(("127.0.0.1", house.server.tcp_port), LINES)
        await talk.do("STATS")
        write_tokens(config, shop="operator")
        assert b"Unauthenticated" in await talk.ended()
        await talk.close()
        assert [await house.status(name) for name in ("shop", "nobody")] == [200, 401]


async def test_other_settings_are_said_to_need_a_restart(config: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_tokens(config, shop="operator")
    async with serving(config):
        before = config.read_bytes()
        replace(config, b'[server]\nlog_level = "debug"\nstop_s = 3\n' + before)
        await until_said(caplog, "changed, and needs a restart: stop_s, log_level")
        await until_said(caplog, "reloaded the tokens: nothing has changed")


# Certificates.


async def serial_of(port: int, tls: ssl.SSLContext) -> str:
    """Of the certificate that the server shows."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        shown = writer.get_extra_info("peercert")
        return str(shown["serialNumber"])
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def count_over_grpc(port: int, authority: Authority) -> grpc.StatusCode:
    options = (("grpc.use_local_subchannel_pool", 1),)
    credentials = grpc.ssl_channel_credentials(authority.path.read_bytes())
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options) as channel:
        try:
            await Stub(channel).Count(pb.CountRequest(), timeout=10)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


async def test_new_certificate_is_shown_to_new_connections_of_every_door(
    config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config.write_text("[server]\n")
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")
    cert, key = ours.issue("server")
    async with serving(config, tls_cert=cert, tls_key=key) as house, asyncio.timeout(BOUND_S):
        server = house.server
        ports = (server.tcp_port, server.http_port)
        first = [await serial_of(port, trusting(ours)) for port in ports]
        assert await count_over_grpc(server.grpc_port, ours) == grpc.StatusCode.OK
        reader, writer = await asyncio.open_connection("127.0.0.1", server.tcp_port, ssl=trusting(ours))
        new_cert, new_key = others.issue("renewed")
        shutil.copy(new_cert, cert)  # a moment in which they do not fit
        house.reloader.ask()
        await until_said(caplog, "the certificates were not reloaded and the old ones are kept")
        assert [await serial_of(port, trusting(ours)) for port in ports] == first
        shutil.copy(new_key, key)
        await until_said(caplog, "reloaded the certificates")
        second = [await serial_of(port, trusting(others)) for port in ports]
        assert set(first).isdisjoint(second)
        assert await count_over_grpc(server.grpc_port, others) == grpc.StatusCode.OK
        assert await count_over_grpc(server.grpc_port, ours) == grpc.StatusCode.UNAVAILABLE
        writer.write(b'{"cmd":"PING"}\n')
        assert msgspec.json.decode(await reader.readline()) == {"ok": True}  # it goes on with the old one
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


# As people run it.


async def until_line(server: Process, text: str) -> None:
    assert server.process.stdout is not None
    async with asyncio.timeout(60):
        while text not in server.output:
            line = (await server.process.stdout.readline()).decode()
            assert line, server.output
            server.said.append(line.rstrip())


@pytest.mark.slow
async def test_sighup_reloads_and_the_server_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tenure.toml"
    write_tokens(path, old="operator")
    ours = Authority(tmp_path, "ours")
    cert, key = ours.issue("server")
    async with running(tmp_path, "--tls-cert", cert, "--tls-key", key, store="memory://") as server:
        await until_line(server, "for gRPC")
        server.process.send_signal(signal.SIGHUP)
        await until_line(server, "reloaded the tokens: nothing has changed")
        await until_line(server, "reloaded the certificates")
        first = await serial_of(server.port, trusting(ours))
        write_tokens(path, new="operator")
        ours.issue("server")
        await until_line(server, "reloaded the tokens: 1 are known, 1 of the old ones")
        await until_line(server, "reloaded the certificates: new")
        async with asyncio.timeout(BOUND_S):
            while await serial_of(server.port, trusting(ours)) == first:
                await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting(ours))
        writer.write(b'{"cmd":"AUTH","token":"old"}\n{"cmd":"AUTH","token":"new"}\n{"cmd":"STATS"}\n')
        said = [msgspec.json.decode(await reader.readline())["ok"] for _ in range(3)]
        assert said == [False, True, True]
        writer.close()
        assert await server.stop() == 0


@pytest.mark.slow
async def test_sighup_ends_no_server_without_tokens(tmp_path: Path) -> None:
    async with running(tmp_path, store="memory://") as server, talking(server.address, FRAMES) as talk:
        server.process.send_signal(signal.SIGHUP)
        await until_line(server, "reloaded the tokens: nothing has changed")
        await talk.do("PUSH", queue="mail", data=1)


# Ports.


PORTS = ("tcp_port", "http_port", "grpc_port")


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
@pytest.mark.parametrize("name", PORTS)
def test_port_that_is_none_is_refused_with_its_source(name: str, port: int, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"[server]\n{name} = {port}\n")
    with pytest.raises(InvalidRequest, match=rf"{name}.*settings\.toml"):
        choose({}, {}, str(file))
    with pytest.raises(InvalidRequest, match=rf"{name}.*environment"):
        choose({}, {f"TENURE_{name.upper()}": str(port)})
    with pytest.raises(InvalidRequest, match=rf"{name}.*flag"):
        choose({name: port}, {})
    given: dict[str, Any] = {name: port}
    with pytest.raises(InvalidRequest, match=name):
        check(Settings(**given))
    with pytest.raises(InvalidRequest, match=name):
        Server(Settings(**given), MemoryStore())


@pytest.mark.parametrize("port", [0, 1, 65_535])
def test_any_other_port_is_accepted(port: int) -> None:
    for name in PORTS:
        assert getattr(choose({name: port}, {}).settings, name) == port


# Keys of signed tokens.


async def test_key_file_is_read_again_when_it_changes(
    config: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys.json"
    replace(keys, msgspec.json.encode(jwks(("a", RSA, "RS256"))))
    config.write_text(f'[server.jwt]\nkeys = "{keys}"\naudience = "tenure"\n')
    old, new = signed(roles=["operator"]), signed(OTHER, kid="b", roles=["operator"])
    async with serving(config) as house:
        talk = await house.talk(old)
        assert [await house.status(token) for token in (old, new)] == [200, 401]
        replace(keys, b"nonsense")
        await until_said(caplog, "the keys of signed tokens were not reloaded and the old ones are kept")
        assert await talk.do("PING") == {"ok": True}
        replace(keys, msgspec.json.encode(jwks(("b", OTHER, "RS256"))))
        await until_said(caplog, "reloaded the keys of signed tokens: there are others now")
        assert [await house.status(token) for token in (old, new)] == [401, 200]
        assert b"Unauthenticated" in await talk.ended()
        await talk.close()


@pytest.mark.parametrize("port", ["99999", "-1", "x"])
def test_port_of_an_address_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(InvalidRequest, match="port"):
        tenure.connect(f"tenure://127.0.0.1:{port}")
