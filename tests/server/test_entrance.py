"""Who may stay connected: strangers for ten seconds, a bounded number of them, and so many from one address."""

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import uvloop
from websockets.asyncio.client import connect as connect_socket

from tenure.core.error import InvalidRequest, Overloaded
from tenure.server.config import Settings, check
from tenure.server.entrance import Entrance, address_of
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore
from tenure.wire import limit
from tests.http.raw import exchange, request, status_of
from tests.security.test_tls import Authority, trusting
from tests.server.house import serving, token
from tests.server.process import ALONE, QUIET, Process
from tests.server.talk import FRAMES, LINES, MANNERS, Manner, connect

SHORT_S: Final = 0.2
BOUND_S: Final = 20.0
OTHER: Final = "127.0.0.2"
TOKENS: Final = {"t": token("secret")}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "AUTH_S", SHORT_S)


async def call_from(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))


async def said_from(address: str, port: int, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """What a connection from that address is answered until it is closed, or has all its answers."""
    reader, writer = await call_from(address, port)
    found = []
    try:
        async with asyncio.timeout(BOUND_S):
            for message in messages:
                writer.write(msgspec.json.encode(message) + b"\n")
                line = await reader.readline()
                if not line:
                    break
                found.append(msgspec.json.decode(line))
                if not found[-1]["ok"]:
                    break
    except ConnectionError:
        pass
    finally:
        writer.close()
    return found


AUTH: Final = {"cmd": "AUTH", "token": "secret"}
PING: Final = {"cmd": "PING"}


async def until(is_so: Any) -> None:
    async with asyncio.timeout(BOUND_S):
        while not is_so():
            await asyncio.sleep(0)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("where", ["tcp", "unix"])
async def test_silent_connection_is_closed_with_a_named_error(where: str, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(tokens=TOKENS, unix=path) as house:
        talk = await connect(house.address if where == "tcp" else path, LINES)
        answer = msgspec.json.decode(await talk.ended())
        assert (answer["ok"], answer["code"]) == (False, "Unauthenticated")
        assert "AUTH" in answer["error"]
        await talk.close()
        await until(lambda: not house.connections)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
async def test_connection_that_talks_and_does_not_authenticate_is_closed_too(manner: Manner) -> None:
    async with serving(tokens=TOKENS) as house:
        talk = await connect(house.address, manner)
        await talk.do("PING")
        assert (await talk.receive())["code"] == "Unauthenticated"
        assert await talk.ended() == b""
        await talk.close()


@pytest.mark.usefixtures("soon")
async def test_websocket_that_does_not_authenticate_is_closed() -> None:
    async with serving(tokens=TOKENS, http=True, http_port=0) as house:
        url = f"ws://127.0.0.1:{house.server.http_port}/v1/ws"
        async with asyncio.timeout(BOUND_S), connect_socket(url, proxy=None) as talk:
            assert msgspec.json.decode(await talk.recv())["code"] == "Unauthenticated"
            await talk.wait_closed()


@pytest.mark.usefixtures("soon")
async def test_whoever_authenticated_stays(tmp_path: Path) -> None:
    async with serving(tokens=TOKENS, http=True, http_port=0, unix=str(tmp_path / "s")) as house:
        friend = await house.talk(FRAMES, "secret")
        local = await house.talk(LINES, "secret", address=str(tmp_path / "s"))
        url = f"ws://127.0.0.1:{house.server.http_port}/v1/ws"
        headers = {"authorization": "Bearer secret"}
        async with connect_socket(url, proxy=None, additional_headers=headers) as socket_:
            stranger = await connect(house.address, LINES)
            await stranger.ended()  # its time was up, and that of those before it
            await stranger.close()
            assert await friend.do("PING") == {"ok": True}
            assert await local.do("PING") == {"ok": True}
            await socket_.send('{"cmd":"PING"}')
            assert msgspec.json.decode(await socket_.recv()) == {"ok": True}


@pytest.mark.usefixtures("soon")
async def test_server_without_tokens_has_no_strangers() -> None:
    async with serving() as house:
        talk = await house.talk(LINES, hello=False)
        async with serving(tokens=TOKENS) as other:
            stranger = await connect(other.address, LINES)
            await stranger.ended()
            await stranger.close()
        assert await talk.do("PING") == {"ok": True}


async def test_strangers_leave_a_reserve_for_known_peers() -> None:
    """The peer has authenticated before; its address lets it in when strangers have taken their share."""
    async with serving(tokens=TOKENS, connections_max=40) as house:
        port = house.server.tcp_port
        assert [answer["ok"] for answer in await said_from(OTHER, port, AUTH, PING)] == [True, True]
        silent = [await call_from("127.0.0.1", port) for _ in range(60)]
        await until(lambda: len(house.connections) == 10)
        assert [answer["code"] for answer in await said_from("127.0.0.3", port, AUTH)] == ["Overloaded"]
        assert [answer["ok"] for answer in await said_from(OTHER, port, AUTH, PING)] == [True, True]
        for _, writer in silent:
            writer.close()
        await until(lambda: not house.connections)
        assert [answer["ok"] for answer in await said_from("127.0.0.3", port, AUTH, PING)] == [True, True]


async def test_one_address_has_a_bounded_number_of_connections(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(tokens=TOKENS, connections_max=40, connections_per_address=5, unix=path) as house:
        talks = [await house.talk(LINES, "secret") for _ in range(5)]
        refused = await connect(house.address, LINES)
        answer = msgspec.json.decode(await refused.ended())
        assert answer["code"] == "Overloaded"
        assert "127.0.0.1" in answer["error"]
        assert "connections_per_address" in answer["error"]
        await refused.close()
        port = house.server.tcp_port
        assert [answer["ok"] for answer in await said_from(OTHER, port, AUTH, PING)] == [True, True]
        for _ in range(10):  # a Unix socket has no address, and is guarded by its file
            await house.talk(LINES, "secret", address=path)
        await talks[0].close()
        await until(lambda: len(house.connections) == 14)
        await house.talk(LINES, "secret")


async def test_connections_over_the_maximum_are_refused_on_every_door(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"http": True, "http_port": 0, "unix": str(tmp_path / "s")}
    async with serving(connections_max=8, **settings) as house:
        talks = [await house.talk(LINES) for _ in range(8)]
        for address in (house.address, str(tmp_path / "s")):
            refused = await connect(address, LINES)
            assert msgspec.json.decode(await refused.ended())["code"] == "Overloaded"
            await refused.close()
        answer = await exchange(house.server.http_port, request("GET", "/livez"))
        assert status_of(answer) == 503
        assert b'"Overloaded"' in answer
        await talks[0].close()
        await until(lambda: len(house.connections) == 7)
        answer = await exchange(house.server.http_port, request("GET", "/livez", "connection: close"))
        assert status_of(answer) == 200
        await until(lambda: house.server.entrance.count == 7)


async def test_connections_over_http_are_counted_until_they_are_lost() -> None:
    async with serving(tokens=TOKENS, http=True, http_port=0, connections_max=40) as house:
        entrance = house.server.entrance
        port = house.server.http_port
        url = f"ws://127.0.0.1:{port}/v1/ws"
        async with connect_socket(url, proxy=None) as talk:
            assert (entrance.count, entrance.strangers) == (1, 1)
            await talk.send(msgspec.json.encode(AUTH).decode())
            assert msgspec.json.decode(await talk.recv())["ok"]
            assert (entrance.count, entrance.strangers) == (1, 0)
        await until(lambda: entrance.count == 0)
        assert entrance._known.keys() == {"127.0.0.1"}
        entrance._known.clear()
        assert status_of(await exchange(port, request("GET", "/v1/queues"))) == 401
        assert not entrance._known
        bearer = "authorization: Bearer secret"
        assert status_of(await exchange(port, request("GET", "/v1/queues", bearer))) == 200
        await until(lambda: entrance.count == 0)
        assert entrance._known.keys() == {"127.0.0.1"}


@asynccontextmanager
async def encrypted(folder: Path, **settings: Any) -> AsyncIterator[tuple[Server, Authority]]:
    authority = Authority(folder, "ours")
    cert, key = authority.issue("server")
    given: dict[str, Any] = {"tcp_port": 0, "http_port": 0, "grpc": False, "tokens": TOKENS, **settings}
    server = Server(Settings(tls_cert=cert, tls_key=key, **given), MemoryStore())
    await server.start()
    try:
        yield server, authority
    finally:
        await server.stop()


@pytest.mark.usefixtures("soon")
async def test_handshake_counts_and_has_the_same_deadline(tmp_path: Path) -> None:
    async with encrypted(tmp_path, connections_max=40) as (server, authority):
        for port in (server.tcp_port, server.http_port):
            silent = [await call_from("127.0.0.1", port) for _ in range(15)]
            await until(lambda: server.entrance.count == 10)
            await until(lambda: server.entrance.count == 0)
            for reader, writer in silent:
                async with asyncio.timeout(BOUND_S):
                    await reader.read()
                writer.close()
        tls = trusting(authority)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.tcp_port, ssl=tls)
        writer.write(msgspec.json.encode(AUTH) + b"\n" + msgspec.json.encode(PING) + b"\n")
        async with asyncio.timeout(BOUND_S):
            assert msgspec.json.decode(await reader.readline())["ok"]
            assert msgspec.json.decode(await reader.readline())["ok"]
        assert server.entrance.count == 1
        writer.close()
        await until(lambda: server.entrance.count == 0)


def test_addresses_of_one_network_count_together() -> None:
    assert address_of(("192.0.2.7", 1)) == "192.0.2.7"
    assert address_of(("2001:db8:1:2:3::1", 1, 0, 0)) == address_of(("2001:db8:1:2:ffff::9", 7, 0, 0))
    assert address_of(("2001:db8:1:3::1", 1, 0, 0)) != address_of(("2001:db8:1:2::1", 1, 0, 0))
    assert address_of(("::ffff:192.0.2.7", 1, 0, 0)) == "192.0.2.7"
    assert address_of("") == address_of(None) == ""


def test_known_addresses_are_bounded_and_the_counts_return_to_nought() -> None:
    entrance = Entrance(lambda: False, 100_000, 100_000)
    for number in range(limit.KNOWN_ADDRESSES_MAX + 500):
        visit = entrance.enter(f"a{number}")
        visit.recognise()
        visit.recognise()
        visit.leave()
        visit.leave()
    assert len(entrance._known) == limit.KNOWN_ADDRESSES_MAX
    assert (entrance.count, entrance.strangers, entrance._addresses) == (0, 0, {})


def test_refusal_names_what_is_full() -> None:
    entrance = Entrance(lambda: False, 4, 4)
    entrance.enter("a")
    with pytest.raises(Overloaded, match="not authenticated"):
        entrance.enter("b")


@pytest.mark.parametrize("given", [{"connections_max": 0}, {"connections_per_address": -1}], ids=str)
def test_bounds_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(given))):
        check(Settings(**given))


@pytest.mark.slow
async def test_fewer_open_files_mean_fewer_connections(tmp_path: Path) -> None:
    command = f"ulimit -n 520; exec {sys.executable} -m tenure serve --store memory:// --tcp-port 0"
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=tmp_path,
        env={**QUIET, **ALONE, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    server = Process(process)
    try:
        await server.until_listening()
        assert "room for 20 connections, not 10000" in server.output
        talks = [await connect(server.address, LINES) for _ in range(20)]
        for talk in talks:
            await talk.do("PING")
        refused = await connect(server.address, LINES)
        assert msgspec.json.decode(await refused.ended())["code"] == "Overloaded"
        for talk in (*talks, refused):
            await talk.close()
    finally:
        await server.stop()


async def test_house_closes_with_strangers_inside(tmp_path: Path) -> None:
    async with encrypted(tmp_path) as (server, _):
        half_open = socket.create_connection(("127.0.0.1", server.tcp_port))
        await until(lambda: server.entrance.count == 1)
    half_open.close()
    assert server.entrance.count == 0


@pytest.mark.slow
def test_every_handshake_succeeds_on_the_loop_that_servers_run_on(tmp_path: Path) -> None:
    """The first bytes of a client may come with the connection itself."""

    async def ask(port: int, tls: ssl.SSLContext) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(msgspec.json.encode(AUTH) + b"\n" + msgspec.json.encode(PING) + b"\n")
        await reader.readline()
        answer = await reader.readline()
        writer.close()
        return answer

    async def run() -> None:
        async with encrypted(tmp_path) as (server, authority), asyncio.timeout(60):
            tls = trusting(authority)
            for _ in range(10):
                answers = await asyncio.gather(*(ask(server.tcp_port, tls) for _ in range(50)))
                assert set(answers) == {b'{"ok":true}\n'}
            await until(lambda: server.entrance.count == 0)

    uvloop.run(run())
