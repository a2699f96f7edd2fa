"""The health service under callers that mean no good: nobody else notices them."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tenure.server import health
from tenure.server.grpc import health as grpc_health
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.door import SERVICE
from tenure.wire import limit
from tests.grpc.raw import HEADERS, call_raw
from tests.grpc.rig import PATIENCE_S, Rig, channel, error_of, serving, token, until
from tests.grpc.test_method import Ill

Code = grpc.StatusCode
REQUEST = health_pb2.HealthCheckRequest()
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
BEARER = (("authorization", "Bearer secret"),)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "FRESH_S", 0.01)
    monkeypatch.setattr(grpc_health, "FRESH_S", 0.01)


def health_of(rig: Rig) -> Any:
    make: Any = health_pb2_grpc.HealthStub
    return make(rig.stub.channel)


async def code_of(call: Any) -> grpc.StatusCode:
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return Code.OK


@pytest.mark.usefixtures("soon")
async def test_watcher_that_does_not_read_holds_up_nobody() -> None:
    store = Ill()
    store.is_ill = False
    async with serving(store) as rig, asyncio.timeout(PATIENCE_S):
        raw = await call_raw(rig.port)
        for _ in range(20):
            raw.call("/grpc.health.v1.Health/Watch")
        await until(lambda: rig.door._health._watches.count == 20)
        stub = health_of(rig)
        watching = stub.Watch(REQUEST)
        assert (await watching.read()).status == SERVING
        for is_ill, status in ((True, NOT_SERVING), (False, SERVING)):
            store.is_ill = is_ill
            assert (await watching.read()).status == status
            assert (await stub.Check(REQUEST)).status == status
        watching.cancel()
        raw.close()
        await until(lambda: rig.door._health._watches.count == 0)
        assert rig.door._health._looking is None


@pytest.mark.usefixtures("soon")
async def test_one_task_looks_for_all_watchers() -> None:
    async with serving() as rig, asyncio.timeout(PATIENCE_S):
        stub = health_of(rig)
        watching = [stub.Watch(REQUEST) for _ in range(30)]
        for call in watching:
            await call.read()
        names = [str(task.get_coro()) for task in asyncio.all_tasks()]
        assert len([name for name in names if "_look_on" in name]) == 1
        for call in watching:
            call.cancel()


async def test_watchers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "HEALTH_CALLS_PER_ADDRESS", 5)
    async with serving() as rig, asyncio.timeout(PATIENCE_S):
        stub = health_of(rig)
        watching = [stub.Watch(REQUEST) for _ in range(5)]
        for call in watching:
            await call.read()
        assert await code_of(stub.Watch(REQUEST)) == Code.RESOURCE_EXHAUSTED
        assert (await stub.Check(REQUEST)).status == SERVING
        watching[0].cancel()
        await until(lambda: rig.door._health._watches.count == 4)
        again = stub.Watch(REQUEST)
        assert (await again.read()).status == SERVING
        for call in (*watching, again):
            call.cancel()


async def test_watch_and_reflection_need_a_token_and_check_does_not() -> None:
    async with serving(shop=token("secret")) as rig, asyncio.timeout(PATIENCE_S):
        stub = health_of(rig)
        assert (await stub.Check(REQUEST)).status == SERVING
        assert await code_of(stub.Watch(REQUEST)) == Code.UNAUTHENTICATED
        watching = stub.Watch(REQUEST, metadata=BEARER)
        assert (await watching.read()).status == SERVING
        watching.cancel()
        make: Any = reflection_pb2_grpc.ServerReflectionStub
        for metadata, code in ((None, Code.UNAUTHENTICATED), (BEARER, Code.OK)):
            asking = make(rig.stub.channel).ServerReflectionInfo(metadata=metadata)
            try:
                await asking.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                pass  # it was refused before
            assert await code_of(asking) == code
            asking.cancel()


async def test_check_that_does_not_ask_or_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit, "HEALTH_CALL_S", 0.3)
    monkeypatch.setattr(limit, "HEALTH_CALLS_PER_ADDRESS", 10)
    async with serving(shop=token("secret")) as rig, asyncio.timeout(PATIENCE_S):
        raw = await call_raw(rig.port)
        silent = [raw.call("/grpc.health.v1.Health/Check", None) for _ in range(5)]
        deaf = [raw.call("/grpc.health.v1.Health/Check") for _ in range(5)]
        checks = rig.door._health._checks
        await until(lambda: checks.count == 10)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await health_of(rig).Check(REQUEST)
        assert raised.value.code() == Code.RESOURCE_EXHAUSTED
        await raw.frames_until(HEADERS, silent[-1])
        await until(lambda: checks.count == 0)
        assert (await health_of(rig).Check(REQUEST)).status == SERVING
        assert deaf
        raw.close()


async def test_other_service_is_unknown_and_nonsense_is_refused() -> None:
    async with serving() as rig, asyncio.timeout(PATIENCE_S):
        stub = health_of(rig)
        other = health_pb2.HealthCheckRequest(service="nobody")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.Check(other)
        assert raised.value.code() == Code.NOT_FOUND
        watching = stub.Watch(other)
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watching.cancel()
        nonsense: Any = rig.stub.channel.unary_unary("/grpc.health.v1.Health/Check")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await nonsense(b"\xff\xff\xff")
        assert raised.value.code() == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("method", list(SERVICE.methods), ids=lambda method: method.name)
async def test_bytes_that_are_no_message_are_a_fault_of_the_caller(method: Any) -> None:
    async with serving() as rig, asyncio.timeout(PATIENCE_S):
        call: Any = rig.stub.channel.stream_stream(f"/{SERVICE.full_name}/{method.name}")()
        await call.write(b"\xff\xff\xff")
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        assert raised.value.code() == Code.INVALID_ARGUMENT
        assert error_of(raised).code == "InvalidRequest"


async def test_nonsense_ends_the_stream_of_a_worker_and_gives_its_jobs_back() -> None:
    async with serving() as rig, asyncio.timeout(PATIENCE_S):
        [id] = await rig.enqueue(b"1")
        call: Any = rig.stub.channel.stream_stream(f"/{SERVICE.full_name}/Work")()
        opening = pb.WorkRequest(open=pb.Open(wish=pb.Wish(queues=[pb.QueuePick(name="mail")]), credits=1))
        await call.write(opening.SerializeToString())
        assert pb.WorkResponse.FromString(await call.read()).HasField("opened")
        assert pb.WorkResponse.FromString(await call.read()).job.id == id
        await call.write(b"\xff\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call.read()
        assert raised.value.code() == Code.INVALID_ARGUMENT
        async with channel(rig.port) as other:
            answer = await other.Get(pb.GetRequest(ids=[id]))
            assert answer.jobs[0].job.state == "ready"


@pytest.mark.parametrize(
    ("peer", "host"), [("ipv4:127.0.0.1:5", "127.0.0.1"), ("ipv6:%5B::1%5D:5", "::1"), ("unix:", "")]
)
def test_host_of_a_peer(peer: str, host: str) -> None:
    assert grpc_health.peer_host(peer) == host
