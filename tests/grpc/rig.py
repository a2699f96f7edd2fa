"""A server on a real port, and callers of it with what is described by the service alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.door import SERVICE, GrpcDoor
from tenure.server.server import Server
from tenure.store.contract import Store
from tenure.store.embedded.memory import MemoryStore

PATIENCE_S = 20.0
UNBOUNDED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class Stub:
    """One attribute per method, as generated stubs have them."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        for method in SERVICE.methods:
            kind = "stream_" if method.client_streaming else "unary_"
            kind += "stream" if method.server_streaming else "unary"
            made = getattr(channel, kind)(
                f"/{SERVICE.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, made)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Rig:
    def __init__(self, server: Server, stub: Stub) -> None:
        self.server = server
        self.stub = stub
        self.port = server.grpc_port

    @property
    def door(self) -> GrpcDoor:
        [door] = [door for door in self.server.handler.doors if isinstance(door, GrpcDoor)]
        return door

    async def enqueue(self, *payloads: bytes, queue: str = "mail", **options: Any) -> list[int]:
        batch = pb.Batch(
            options=pb.JobOptions(queue=queue, **options), jobs=[pb.NewJob(payload=payload) for payload in payloads]
        )
        answers = await self.stub.Enqueue(pb.EnqueueRequest(batch=batch))
        return [outcome.id for outcome in answers.outcomes]

    async def claim(self, count: int = 1, wait_ms: int = 0, queue: str = "mail") -> list[pb.LeasedJob]:
        wish = pb.Wish(queues=[pb.QueuePick(name=queue)], worker="w")
        return list((await self.stub.Claim(pb.ClaimRequest(wish=wish, count=count, wait_ms=wait_ms))).jobs)

    async def job(self, id: int) -> pb.Job:
        answer: pb.GetResponse = await self.stub.Get(pb.GetRequest(ids=[id]))
        [found] = answer.jobs
        assert found.HasField("job")
        return found.job


@asynccontextmanager
async def channel(port: int, token: str = "", alone: bool = False) -> AsyncIterator[Stub]:
    """`alone`: on a connection of its own, which others do not share."""
    options = (*UNBOUNDED, ("grpc.use_local_subchannel_pool", int(alone)))
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{port}", options=options, interceptors=[Bearer(token)] if token else None
    ) as made:
        yield Stub(made)


class Bearer(grpc.aio.UnaryUnaryClientInterceptor):
    """The token with every unary call."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_unary_unary(self, continuation: Any, details: Any, message: Any) -> Any:
        metadata = grpc.aio.Metadata(("authorization", f"Bearer {self._token}"))
        changed = grpc.aio.ClientCallDetails(details.method, details.timeout, metadata, None, None)
        return await continuation(changed, message)


@asynccontextmanager
async def serving(store: Store | None = None, **tokens: Token) -> AsyncIterator[Rig]:
    server = Server(Settings(tcp=False, http=False, grpc_port=0, stop_s=5.0, tokens=tokens), store or MemoryStore())
    await server.start()
    try:
        async with channel(server.grpc_port) as stub:
            yield Rig(server, stub)
    finally:
        await server.stop()


def token(text: str, **more: Any) -> Token:
    return Token(hash_token(text), **more)


def error_of(raised: pytest.ExceptionInfo[grpc.aio.AioRpcError]) -> pb.Error:
    trailing = dict(raised.value.trailing_metadata())
    error = pb.Error.FromString(trailing["tenure-error-bin"])
    assert trailing["tenure-code"] == error.code
    return error


async def until(is_so: Any) -> None:
    """Gives way until it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0)
