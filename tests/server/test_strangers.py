"""What a peer that has not authenticated, or says what nobody understands, may cost: little, and nothing afterwards."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from websockets.asyncio.client import connect as connect_socket
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode

from tenure.core.error import InvalidRequest
from tenure.server.http.protocol import FRAGMENTS_MAX, SocketProtocol
from tenure.wire import limit, reader
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tenure.wire.reader import Reader
from tests.server.house import House, serving, token
from tests.server.process import running
from tests.server.talk import FRAMES, LINES, MANNERS, Manner, connect

MIB: Final = 2**20
BOUND_S: Final = 20.0
GONE_S: Final = 5.0
TOKENS: Final = {"t": token("secret")}
AUTH: Final = '{"cmd":"AUTH","token":"secret"}'
OPEN: Final[dict[str, Any]] = {"tokens": TOKENS, "http": True, "http_port": 0}
each_format = pytest.mark.parametrize("form", [JSON_FORMAT, MSGPACK_FORMAT], ids=lambda form: form.name)


def open_socket(house: House, **more: Any) -> Any:
    return connect_socket(f"ws://127.0.0.1:{house.server.http_port}/v1/ws", proxy=None, max_size=None, **more)


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def gone(things: "list[weakref.ref[Any]]") -> None:
    async with asyncio.timeout(GONE_S):
        while any(thing() is not None for thing in things):
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("is_text", [True, False])
async def test_websocket_has_little_room_until_it_has_authenticated(is_text: bool) -> None:
    large: Any = '{"cmd":"PING","client":"' + "x" * limit.STRANGER_BYTES_MAX + '"}'
    large = large if is_text else large.encode()
    async with serving(**OPEN) as house, asyncio.timeout(BOUND_S):
        async with open_socket(house) as socket:
            await socket.send(large)
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 1009
        async with open_socket(house) as socket:
            await socket.send(AUTH)
            assert msgspec.json.decode(await socket.recv())["ok"]
            await socket.send(large)
            assert msgspec.json.decode(await socket.recv())["ok"]
        async with open_socket(house, additional_headers={"authorization": "Bearer secret"}) as socket:
            await socket.send(large)
            assert msgspec.json.decode(await socket.recv())["ok"]
    async with serving(http=True, http_port=0) as house, open_socket(house) as socket:
        await socket.send(large)  # without tokens there are no strangers
        assert msgspec.json.decode(await socket.recv())["ok"]


async def test_fragments_of_a_stranger_are_bounded_together() -> None:
    async with serving(**OPEN) as house, asyncio.timeout(BOUND_S), open_socket(house) as socket:
        frames = [Frame(Opcode.TEXT, b"{", fin=False)]
        frames += [Frame(Opcode.CONT, b"x" * 1_000, fin=False) for _ in range(100)]
        socket.transport.write(b"".join(frame.serialize(mask=True) for frame in frames))
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1009


async def test_empty_fragments_are_counted() -> None:
    async with serving(**OPEN) as house, asyncio.timeout(BOUND_S), open_socket(house) as socket:
        frames = [Frame(Opcode.TEXT, b"{", fin=False)]
        frames += [Frame(Opcode.CONT, b"", fin=False) for _ in range(FRAGMENTS_MAX + 10)]
        socket.transport.write(b"".join(frame.serialize(mask=True) for frame in frames))
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1009


async def test_messages_are_not_compressed() -> None:
    async with serving(**OPEN) as house, open_socket(house, compression="deflate") as socket:
        assert "Sec-WebSocket-Extensions" not in socket.response.headers


async def test_nothing_of_a_websocket_stays_after_it_is_closed() -> None:
    """Without any collection of garbage."""
    async with serving(**OPEN) as house, asyncio.timeout(BOUND_S):
        with no_collection():
            seen: list[weakref.ref[Any]] = []
            async with open_socket(house) as socket:
                await socket.send(AUTH)
                await socket.recv()
                [protocol] = [each for each in house.http._state.connections if isinstance(each, SocketProtocol)]
                [connection] = house.http.sockets.connections.values()
                seen += [weakref.ref(protocol), weakref.ref(connection), weakref.ref(protocol.conn)]
                begun = Frame(Opcode.TEXT, b"x" * MIB).serialize(mask=True)
                socket.transport.write(begun[:-10])
                socket.transport.abort()
                del protocol, connection
            await gone(seen)


@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
async def test_nothing_of_a_connection_stays_after_it_is_closed(manner: Manner) -> None:
    async with serving(tokens=TOKENS) as house:
        with no_collection():
            talk = await connect(house.address, manner)
            await talk.do("AUTH", token="secret")
            await talk.do("PUSH", queue="mail", data=1)
            await talk.do("PULL", queue="mail", timeout=0)
            [connection] = house.connections
            seen = [weakref.ref(connection)]
            del connection
            await talk.write(b"\x00\xff\xff\xff" + b"x" * MIB if manner.is_framed else b'{"' + b"x" * MIB)
            await talk.close()
            await gone(seen)


# Fields that nobody knows.


def many(count: int) -> dict[str, int]:
    return {f"f{number}": 1 for number in range(count)}


@pytest.mark.slow
@each_format
def test_command_with_very_many_fields_is_refused(form: Format) -> None:
    for is_strict in (False, True):
        with pytest.raises(InvalidRequest, match="600000 fields"):
            Reader(form).read(form.encode({"cmd": "PING", **many(600_000)}), is_strict)


@each_format
def test_unknown_fields_are_named_up_to_a_point_and_then_counted(form: Format) -> None:
    reads = Reader(form)
    reads.read(form.encode({"cmd": "PING", **many(100)}), False)
    assert reads.warnings[0] == "f0 is not known and was ignored"
    assert len(reads.warnings) == reader.NAMED_MAX + 1
    assert reads.warnings[-1] == "and 84 more fields that are not known were ignored"
    reads.read(form.encode({"cmd": "PING", "x" * MIB: 1}), False)
    [warning] = reads.warnings
    assert len(warning) < 200


@each_format
def test_unknown_fields_of_all_jobs_of_a_batch_are_bounded_together(form: Format) -> None:
    reads = Reader(form)
    jobs = [msgspec.Raw(form.encode(many(100)))] * 200
    found = [reads.item(job, False) for job in jobs]
    refused = [item for item in found if isinstance(item, InvalidRequest)]
    assert len(refused) == 200 - reader.UNKNOWN_MAX // 100
    assert "10,000 unknown fields" in refused[0].message
    assert len(reads.warnings) == reader.NAMED_MAX + 1


@pytest.mark.parametrize("name", ["x" * (15 * MIB), "xY" * (7 * MIB)], ids=["long", "camel"])
def test_name_of_any_length_is_refused_at_once(name: str) -> None:
    reads = Reader(JSON_FORMAT)
    for message in ({"cmd": "PING", name: 1}, {"cmd": name}):
        with pytest.raises(InvalidRequest) as refused:
            reads.read(JSON_FORMAT.encode(message), True)
        assert len(refused.value.message) < 3_000


async def test_client_of_the_older_protocol_is_answered_with_few_warnings() -> None:
    async with serving() as house:
        for manner in (LINES, FRAMES):
            talk = await house.talk(manner, hello=False)
            answer = await talk.do("PING", **many(150))
            assert len(answer["warnings"]) == reader.NAMED_MAX + 1


@pytest.mark.slow
async def test_memory_of_strangers_is_small_and_comes_back(tmp_path: Path) -> None:
    """Of a server that serves nobody else, which is when it has no reason to look."""
    settings = tmp_path / "tenure.toml"
    settings.write_text(f'[server.tokens.t]\nsha256 = "{TOKENS["t"].sha256}"\n')
    environment = {"TENURE_GRPC": "false"}
    async with running(tmp_path, "--config", str(settings), store="memory://", environment=environment) as server:
        assert server.process.stdout is not None
        line = (await server.process.stdout.readline()).decode()
        port = int(line.rsplit(":", 1)[1])
        before = server.memory_kb()
        for _ in range(3):
            sockets = [await connect_socket(f"ws://127.0.0.1:{port}/v1/ws", proxy=None) for _ in range(100)]
            begun = Frame(Opcode.TEXT, b"x" * 60_000).serialize(mask=True)[:-10]
            for socket in sockets:
                socket.transport.write(begun)
            assert server.memory_kb() - before < 100 * 200
            for socket in sockets:
                socket.transport.abort()
        async with asyncio.timeout(60):
            while server.memory_kb() - before > 12_000:
                await asyncio.sleep(0.05)
