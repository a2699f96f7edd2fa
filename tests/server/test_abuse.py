"""What a hostile or careless client can send, and not read: it is bounded, and the others do not notice."""

import asyncio
import resource
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tenure.wire import limit
from tests.server.house import House, serving, token
from tests.server.process import Process, running
from tests.server.talk import (
    FRAMES,
    JSON_FRAMES,
    LINES,
    MANNERS,
    PATIENCE_S,
    Manner,
    Message,
    connect,
    encode,
    talking,
    wrap,
)

MIB: Final = 2**20
IDLE: Final = 5_000
FILES_BESIDES: Final = 500
each_manner = pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as made:
        yield made


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Process]:
    """In a process of its own, whose memory can be looked at."""
    async with running(tmp_path, store="memory://") as made:
        yield made


# Sizes.


@pytest.mark.parametrize("head", [b"\xff\xff\xff\xff", b"\x01\x00\x00\x01", b"\x7f\xff\xff\xff"], ids=bytes.hex)
async def test_forged_length_is_refused_before_its_body(head: bytes, house: House) -> None:
    talk = await house.talk(FRAMES)
    await talk.write(head)
    assert (await talk.receive())["code"] == "PayloadTooLarge"
    assert await talk.ended() == b""
    assert await (await house.talk(FRAMES)).do("PING") == {"ok": True}


async def test_line_without_an_end_is_refused_at_the_bound(house: House) -> None:
    talk = await house.talk(LINES)
    talk.writer.write(b'{"cmd":"' + b"x" * (limit.MESSAGE_BYTES_MAX + 300_000))
    assert (await talk.receive())["code"] == "PayloadTooLarge"
    await talk.ended()


@each_manner
async def test_message_of_the_largest_size_is_read(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    around = len(encode({"cmd": "PING", "client": ""}, manner)) + 8
    message = encode({"cmd": "PING", "client": "x" * (limit.MESSAGE_BYTES_MAX - around)}, manner)
    assert len(message) > limit.MESSAGE_BYTES_MAX - 16
    await talk.write(message)
    assert (await talk.receive())["code"] == "InvalidRequest"
    assert await talk.do("PING") == {"ok": True}


@each_manner
async def test_payload_over_its_bound_ends_no_connection(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    assert await talk.refused("PUSH", queue="mail", data="x" * (2 * MIB)) == "PayloadTooLarge"
    assert await talk.do("PING") == {"ok": True}


@each_manner
async def test_strangers_have_little_room(manner: Manner) -> None:
    async with serving(tokens={"t": token("secret")}) as house:
        talk = await house.talk(manner)
        await talk.write(encode({"cmd": "PUSH", "queue": "mail", "data": "x" * limit.STRANGER_BYTES_MAX}, manner))
        assert (await talk.receive())["code"] == "PayloadTooLarge"
        await talk.ended()
        friend = await house.talk(manner, "secret")
        await friend.do("PUSH", queue="mail", data="x" * limit.STRANGER_BYTES_MAX)


async def test_answer_over_the_bound_is_refused_and_the_connection_goes_on(house: House) -> None:
    talk = await house.talk(FRAMES)
    ids = [(await talk.do("PUSH", queue="mail", data="x" * 1_000_000))["id"] for _ in range(18)]
    assert await talk.refused("GETJOBSBATCH", ids=ids, reqId=1) == "PayloadTooLarge"
    assert len((await talk.do("GETJOBSBATCH", ids=ids[:10]))["jobs"]) == 10


# Depth and counts.


TOO_DEEP = 1_100 if sys.version_info < (3, 12) else 20_000  # Python's bound for recursion in C


def nested(depth: int, manner: Manner) -> bytes:
    return b"[" * depth + b"]" * depth if manner.is_json else b"\x91" * depth + b"\x90"


@each_manner
@pytest.mark.parametrize("depth", [TOO_DEEP, 100_000, 4_000_000])
async def test_deep_nesting_is_refused_and_the_connection_lives(depth: int, manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    for field in ("data", "queue", "reqId", "tags", "nothing"):
        message = {"cmd": "PUSH", "queue": "mail", field: msgspec.Raw(nested(depth, manner))}
        body = msgspec.json.encode(message) if manner.is_json else msgspec.msgpack.encode(message)
        await talk.write(wrap(body, manner))
        assert (await talk.receive())["code"] == "InvalidRequest"
    assert await talk.do("PING") == {"ok": True}


@pytest.mark.parametrize("depth", [100, 400, 900, 960, 990])
async def test_depth_that_is_taken_can_be_read_again(depth: int, house: House) -> None:
    """Whatever the readers' own bounds are, the server's answer is a message."""
    talks = [await house.talk(manner) for manner in MANNERS]
    for writer in talks:
        for field in ("data", "queue"):
            message = {"cmd": "PUSH", "queue": "mail", field: msgspec.Raw(nested(depth, writer.manner))}
            body = msgspec.json.encode(message) if writer.manner.is_json else msgspec.msgpack.encode(message)
            await writer.write(wrap(body, writer.manner))
            answer = await writer.receive()
            if answer["ok"]:
                for reader in talks:
                    reader.send("GETJOB", id=answer["id"])
                    assert b"Internal" not in await reader._body()
            else:
                assert answer["code"] == "InvalidRequest"
    for talk in talks:
        assert await talk.do("PING") == {"ok": True}


@pytest.mark.parametrize(
    "count", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xdc\xff\xff"]
)
async def test_count_that_is_not_there_takes_no_memory(count: bytes, server: Process) -> None:
    async with talking(server.address, FRAMES) as talk:
        await talk.do("HELLO", version=1)
        before = server.memory_kb()
        for _ in range(200):
            for field in (b"\xa4jobs", b"\xa3ids", b"\xa4data", b"\xa7changes"):
                for command in (b"\xa5PUSHB", b"\xacGETJOBSBATCH", b"\xa4PUSH", b"\xa5QUEUE"):
                    talk.writer.write(wrap(b"\x82\xa3cmd" + command + field + count, FRAMES))
            for _ in range(16):
                assert (await talk.receive())["code"] == "InvalidRequest"
        assert server.memory_kb() - before < 20_000


@pytest.mark.slow
async def test_huge_batches_are_refused_and_forgotten(server: Process) -> None:
    async with talking(server.address, FRAMES) as talk:
        await talk.do("HELLO", version=1)
        messages: list[Message] = [
            {"cmd": "PUSHB", "queue": "mail", "jobs": [{"data": 1}] * 1_000_000},
            {"cmd": "PUSHB", "queue": "mail", "jobs": [{}] * 2_000_000},
            {"cmd": "GETJOBSBATCH", "ids": [1] * 8_000_000},
            {"cmd": "CANCEL", "ids": [1] * 8_000_000},
            {"cmd": "ACKB", "ids": [1] * 8_000_000},
            {"cmd": "HEARTBEATB", "items": [{"id": 1}] * 2_000_000},
            {"cmd": "FAILB", "items": [{"id": 1}] * 2_000_000},
            {"cmd": "ACKB", "items": [{"id": 1, "result": 1}] * 1_000_000},
            {
                "cmd": "SETTLE",
                "verb": "fail",
                "ids": [1] * 1_000_000,
                "failures": [["", "", "", True, False, 0]] * 1_000_000,
            },
            {"cmd": "SETTLE", "verb": "complete", "ids": [1], "followups": [{"jobs": [{}] * 8_000_000}]},
            {"cmd": "SETTLE", "verb": "complete", "ids": [1] * 9_000, "followups": [{"jobs": [{}] * 900}] * 9_000},
            {"cmd": "PUSH", "queue": "mail", "tags": ["a"] * 4_000_000},
            {"cmd": "PUSH", "queue": "mail", "depends_on": [1] * 8_000_000},
            {"cmd": "PULL", "queues": ["a"] * 4_000_000},
            {"cmd": "QUEUE", "queue": "mail", "changes": {str(n): n for n in range(500_000)}},
        ]
        peak = 0
        sent = [(message["cmd"], encode(message, FRAMES)) for message in messages]
        for _ in range(2):
            for command, data in sent:
                await talk.write(data)
                answer = await talk.receive()
                assert answer.get("code") == "InvalidRequest", (command, answer)
            peak = peak or server.memory_kb()
        assert server.memory_kb() < peak * 1.3
        assert (await talk.do("STATS"))["queues"] == 0


# Slow and greedy ones.


@pytest.mark.slow
async def test_reader_that_does_not_read_is_not_written_for(server: Process) -> None:
    async with talking(server.address, FRAMES) as talk:
        id = (await talk.do("PUSH", queue="mail", data="x" * 500_000))["id"]
        before = server.memory_kb()
        slow = socket.create_connection(server.address)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        slow.sendall(b"".join(encode({"cmd": "GETJOB", "id": id, "reqId": n}, FRAMES) for n in range(500)))
        for n in range(100):
            assert (await talk.do("PUSH", queue="image", data=n))["ok"] is True
        assert server.memory_kb() - before < 20_000
        reader, writer = await asyncio.open_connection(sock=slow)
        for n in range(500):
            size = int.from_bytes(await reader.readexactly(4))
            async with asyncio.timeout(PATIENCE_S):
                assert msgspec.msgpack.decode(await reader.readexactly(size))["reqId"] == n
        writer.close()
        await writer.wait_closed()


@pytest.mark.slow
async def test_follower_that_does_not_read_piles_up_nothing(server: Process) -> None:
    async with talking(server.address, FRAMES) as talk:
        slow = socket.create_connection(server.address)
        slow.sendall(b"".join(encode({"cmd": "SUBSCRIBE", "reqId": n}, FRAMES) for n in range(16)))
        await talk.do("PUSHB", queue="mail", jobs=[{"data": 1}] * 10_000)
        await talk.do("PUSHB", queue="mail", jobs=[{"data": 1}] * 10_000)
        before = server.memory_kb()
        for _ in range(10):
            found = (await talk.do("PULLB", queue="mail", count=1_000, timeout=0))["jobs"]
            await talk.do("ACKB", items=[{"id": job["id"]} for job in found])
        assert server.memory_kb() - before < 40_000
        slow.close()


async def test_begun_messages_take_what_has_come_of_them(server: Process) -> None:
    """A length is not a reason to make room."""
    before = server.memory_kb()
    slow = [await connect(server.address, manner) for manner in (FRAMES, LINES) for _ in range(300)]
    for talk in slow:
        begun = b"\x00\xff\xff\xff\x81" if talk.manner == FRAMES else b'{"cmd":'
        await talk.write(begun + b"x" * 1_000)
    async with talking(server.address) as other:
        for n in range(50):
            await other.do("PUSH", queue="mail", data=n)
    assert server.memory_kb() - before < 20_000
    for talk in slow:
        await talk.close()


@each_manner
async def test_flood_on_one_connection_leaves_room_for_others(manner: Manner, house: House) -> None:
    flood, other = await house.talk(manner), await house.talk(LINES)
    floods = b"".join(encode({"cmd": "PUSH", "queue": "mail", "data": n, "reqId": n}, manner) for n in range(20_000))
    flood.writer.write(floods)
    for n in range(20):
        assert await other.do("PING", reqId=n) == {"ok": True, "reqId": n}
    assert len({(await flood.receive())["reqId"] for _ in range(20_000)}) == 20_000


async def test_requests_in_progress_are_bounded_and_the_rest_is_not_read(house: House) -> None:
    talk, other = await house.talk(LINES), await house.talk(LINES)
    pulls = [encode({"cmd": "PULL", "queue": "mail", "timeout": 1_000, "reqId": n}, LINES) for n in range(30_000)]
    talk.writer.write(b"".join(pulls))
    await house.until_calls(limit.CALLS_PER_CONNECTION)
    await other.do("PING")
    [greedy] = [each for each in house.connections if each._calls]
    assert len(greedy._calls) == limit.CALLS_PER_CONNECTION
    assert sum(len(body) for body in greedy._backlog) < MIB
    assert not greedy._reads
    talk.writer.transport.abort()
    while greedy in house.connections:
        await house.advance(1_000)
        await asyncio.sleep(0)
    assert (await other.do("PUSH", queue="mail", data=1))["state"] == "ready"


@each_manner
async def test_nonsense_is_answered_and_costs_nothing_that_stays(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    for n in range(200):
        body = (b"{" if manner == JSON_FRAMES else b"!") + bytes([n % 250 + 1]) * 50
        await talk.write(wrap(body.replace(b"\n", b"?"), manner))
        assert (await talk.receive())["code"] == "InvalidRequest"


def room_for_files(wanted: int) -> int:
    """How many of them may be open, after asking for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + FILES_BESIDES if hard == resource.RLIM_INFINITY else min(hard, wanted + FILES_BESIDES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return min(wanted, most - FILES_BESIDES)


@pytest.mark.slow
async def test_five_thousand_idle_connections(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = room_for_files(IDLE)
    if count < IDLE:
        with capsys.disabled():
            print(f"\nNOTICE: {count} idle connections instead of {IDLE}: the limit of open files is too low")
    assert count > 100
    async with running(tmp_path, store="memory://") as server, talking(server.address) as talk:
        before = server.memory_kb()
        idle = []
        for n in range(count):
            idle.append(socket.create_connection(server.address))
            if n % 100 == 0:
                await talk.do("PING")
        await talk.do("PUSH", queue="mail", data=1)
        assert (await talk.do("PULL", queue="mail"))["job"]["data"] == 1
        idle[-1].sendall(b'{"cmd":"PING"}\n')
        assert idle[-1].recv(100) == b'{"ok":true}\n'
        assert (server.memory_kb() - before) / count < 16
        for each in idle:
            each.close()
        assert await server.stop() == 0
