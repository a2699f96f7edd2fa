"""The WebSocket speaks the commands of the sockets: side by side, with subscriptions, and with the same check."""

import asyncio
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tenure.server.config import Token
from tests.http.conftest import Served, serving


def open_socket(served: Served, path: str = "/v1/ws", **more: Any) -> Any:
    return connect(f"ws://127.0.0.1:{served.port}{path}", proxy=None, **more)


async def say(socket: ClientConnection, **fields: Any) -> Any:
    await socket.send(msgspec.json.encode(fields).decode())
    return msgspec.json.decode(await socket.recv())


async def test_commands_in_text(served: Served) -> None:
    async with open_socket(served) as socket:
        hello = await say(socket, cmd="HELLO", version=1)
        assert hello["ok"]
        assert (await say(socket, cmd="PUSH", queue="mail", data={"a": 1}))["id"] == 1
        job = (await say(socket, cmd="PULL", queue="mail"))["job"]
        assert job["data"] == {"a": 1}
        assert (await say(socket, cmd="ACK", id=1))["state"] == "completed"
        assert (await say(socket, cmd="NONSENSE"))["code"] == "InvalidRequest"


async def test_commands_in_binary(served: Served) -> None:
    async with open_socket(served) as socket:
        await socket.send(msgspec.msgpack.encode({"cmd": "PUSH", "queue": "mail", "data": b"\x00"}))
        assert msgspec.msgpack.decode(await socket.recv())["id"] == 1
        await socket.send(msgspec.msgpack.encode({"cmd": "PULL", "queue": "mail"}))
        assert msgspec.msgpack.decode(await socket.recv())["job"]["data"] == b"\x00"


async def test_plain_commands_in_binary_are_answered_as_messages_every_time(served: Served) -> None:
    async with open_socket(served) as socket:
        for at in range(1, 4):
            await socket.send(msgspec.msgpack.encode({"cmd": "PUSH", "queue": "mail", "data": at, "reqId": at}))
            assert msgspec.msgpack.decode(await socket.recv())["reqId"] == at
        for at, timeout in ((1, 0), (2, 0), (3, 60_000), (4, 60_000)):
            pull = {"cmd": "PULL", "queue": "mail", "timeout": timeout, "reqId": at}
            await socket.send(msgspec.msgpack.encode(pull))
            if at == 4:
                await served.push(data=4)
            found = msgspec.msgpack.decode(await socket.recv())
            assert (found["job"]["data"], found["reqId"]) == (at, at)


async def test_waiting_command_blocks_no_other(served: Served) -> None:
    async with open_socket(served) as socket:
        await socket.send('{"cmd":"PULL","queue":"mail","reqId":"w"}')
        assert (await say(socket, cmd="PING", reqId="p"))["reqId"] == "p"
        await socket.send('{"cmd":"PUSH","queue":"mail","data":1,"reqId":"x"}')
        both = [msgspec.json.decode(await socket.recv()) for _ in range(2)]
        assert {found["reqId"] for found in both} == {"w", "x"}


async def test_subscription(served: Served) -> None:
    async with open_socket(served) as socket:
        await say(socket, cmd="HELLO", version=1)
        assert (await say(socket, cmd="SUBSCRIBE", after=0, reqId="s"))["subscribed"]
        id = await served.push(data=1)
        found = msgspec.json.decode(await socket.recv())
        assert (found["event"]["job"], found["reqId"]) == (id, "s")


async def test_worker_is_told_that_its_job_was_cancelled(served: Served) -> None:
    id = await served.push(data=1)
    async with open_socket(served) as socket:
        await say(socket, cmd="HELLO", version=1)
        assert (await say(socket, cmd="PULL", queue="mail"))["job"]["id"] == id
        await served.say("POST", f"/v1/jobs/{id}/cancel", {})
        assert msgspec.json.decode(await socket.recv()) == {"event": "cancelled", "id": id}


async def test_lease_of_one_connection_is_not_that_of_another(served: Served) -> None:
    id = await served.push(data=1)
    async with open_socket(served) as one, open_socket(served) as other:
        for socket in (one, other):
            await say(socket, cmd="HELLO", version=1)
        await say(one, cmd="PULL", queue="mail")
        assert (await say(other, cmd="ACK", id=id))["code"] == "InvalidRequest"
        assert (await say(one, cmd="ACK", id=id))["ok"]


async def test_token_in_the_header_or_by_command() -> None:
    async with serving(tokens={"acme": Token("", tenants=("acme",))}) as served:
        async with open_socket(served, additional_headers={"Authorization": "Bearer acme"}) as socket:
            assert (await say(socket, cmd="PUSH", queue="mail", data=1))["ok"]
        async with open_socket(served) as socket:
            assert (await say(socket, cmd="PUSH", queue="mail", data=1))["code"] == "Unauthenticated"
            assert (await say(socket, cmd="AUTH", token="acme"))["ok"]
            assert (await say(socket, cmd="COUNT", queue="mail"))["count"] == 1
        with pytest.raises(InvalidStatus) as refused:
            async with open_socket(served, additional_headers={"Authorization": "Bearer wrong"}):
                pass
    assert refused.value.response.status_code == 401


async def test_page_of_another_origin_is_refused(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with open_socket(served, origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403
    assert msgspec.json.decode(refused.value.response.body)["code"] == "Forbidden"


async def test_other_path_is_refused(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with open_socket(served, "/v1/other"):
            pass
    assert refused.value.response.status_code == 404


async def test_message_that_is_too_large_ends_the_connection(served: Served) -> None:
    async with open_socket(served) as socket:
        try:
            await socket.send("{" + " " * (17 << 20))
        except ConnectionClosed:
            return
        with pytest.raises(ConnectionClosed):
            await socket.recv()


async def test_stop_closes_the_socket(served: Served) -> None:
    async with open_socket(served) as socket:
        await socket.send('{"cmd":"PULL","queue":"mail","reqId":"w"}')
        assert (await say(socket, cmd="PING", reqId="p"))["reqId"] == "p"
        stopping = asyncio.create_task(served.stop())
        assert msgspec.json.decode(await socket.recv())["code"] == "Unavailable"
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        await stopping


async def test_claim_of_a_socket_that_went_is_given_up(served: Served) -> None:
    async with open_socket(served) as socket:
        await socket.send('{"cmd":"PULL","queue":"mail","reqId":"w"}')
        await say(socket, cmd="PING", reqId="p")
    id = await served.push(data=1)
    assert (await served.say("GET", f"/v1/jobs/{id}/state"))[1] == {"state": "ready"}
