"""gRPC's health service: it serves while a claim works.

`Check` needs no token, for load balancers; `Watch` does where there are tokens. A call that waits holds nothing that
another one needs: a watcher that does not read waits alone. One task looks at the store for all watchers, every second.
Both methods are bounded in number, together and for one address, and a check also in time.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc import StatusCode
from grpc_health.v1 import health_pb2

from tenure.core.error import Error
from tenure.server.entrance import address_of
from tenure.server.grpc.status import Context, refuse
from tenure.server.handler import Handler
from tenure.server.health import FRESH_S, Health
from tenure.wire import limit

NAME: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
Response = health_pb2.HealthCheckResponse

Admit = Callable[[Any], object]


class Places:
    """How many calls are in progress, together and of one address."""

    def __init__(self, most: int, per_address: int) -> None:
        self._most = most
        self._per_address = per_address
        self._addresses: dict[str, int] = {}
        self.count = 0

    @contextmanager
    def taken(self, peer: str) -> Iterator[bool]:
        """Whether there was one."""
        address = address_of((peer_host(peer), 0))
        held = self._addresses.get(address, 0)
        if self.count >= self._most or held >= self._per_address:
            yield False
            return
        self.count += 1
        self._addresses[address] = held + 1
        try:
            yield True
        finally:
            self.count -= 1
            self._addresses[address] -= 1
            if not self._addresses[address]:
                del self._addresses[address]


class HealthService(grpc.GenericRpcHandler):
    def __init__(self, handler: Handler, service: str, admit: Admit) -> None:
        """`admit` raises for metadata without a known token, where one is needed."""
        self._names = ("", service)
        self._store = Health(handler)
        self._admit = admit
        self._status: int = Response.SERVING
        self._is_over = False
        self._changed = asyncio.Event()  # another one after each change
        self._checks = Places(limit.HEALTH_CALLS_MAX, limit.HEALTH_CALLS_PER_ADDRESS)
        self._watches = Places(limit.HEALTH_CALLS_MAX, limit.HEALTH_CALLS_PER_ADDRESS)
        self._looking: asyncio.Task[None] | None = None  # while somebody watches

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Both are served as streams, so that the request is read here, and not for longer than a check may take."""
        serve = {f"/{NAME}/Check": self._check, f"/{NAME}/Watch": self._watch}.get(handler_call_details.method)
        if serve is None:
            return None
        if serve == self._watch:
            try:
                self._admit(handler_call_details.invocation_metadata)
            except Error as error:
                return refusing(error)
        return grpc.stream_stream_rpc_method_handler(serve)

    def end(self) -> None:
        """The server stops: it serves no more, whatever the store says."""
        self._is_over = True
        self._tell(Response.NOT_SERVING)
        if self._looking is not None:
            self._looking.cancel()

    async def _check(self, _: Any, context: Context) -> None:
        with self._checks.taken(context.peer()) as is_taken:
            if not is_taken:
                await context.abort(StatusCode.RESOURCE_EXHAUSTED, "too many checks at once")
            try:
                async with asyncio.timeout(limit.HEALTH_CALL_S):
                    name = await self._read(context)
                    if name not in self._names:
                        await context.abort(StatusCode.NOT_FOUND, "there is no such service")
                    await self._look()
                    await context.write(self._said(name))
            except TimeoutError:
                await context.abort(StatusCode.DEADLINE_EXCEEDED, f"it took longer than {limit.HEALTH_CALL_S:g} s")

    async def _watch(self, _: Any, context: Context) -> None:
        with self._watches.taken(context.peer()) as is_taken:
            if not is_taken:
                await context.abort(StatusCode.RESOURCE_EXHAUSTED, "too many watchers")
            try:
                async with asyncio.timeout(limit.HEALTH_CALL_S):
                    name = await self._read(context)
                    await self._look()
            except TimeoutError:
                await context.abort(StatusCode.DEADLINE_EXCEEDED, "no request came")
            if self._looking is None:
                self._looking = asyncio.get_running_loop().create_task(self._look_on())
            try:
                await self._follow(name, context)
            finally:
                if self._watches.count == 1 and self._looking is not None:  # this one
                    self._looking.cancel()
                    self._looking = None

    async def _follow(self, name: str, context: Context) -> None:
        last = b""
        while True:
            changed = self._changed
            said = self._said(name)
            if said != last:
                await context.write(said)
                last = said
            if changed is self._changed:
                await changed.wait()

    async def _read(self, context: Context) -> str:
        data = await context.read()
        try:
            return str(health_pb2.HealthCheckRequest.FromString(b"" if data is grpc.aio.EOF else data).service)
        except DecodeError:
            await context.abort(StatusCode.INVALID_ARGUMENT, "this is no HealthCheckRequest")
            raise

    def _said(self, name: str) -> bytes:
        status = self._status if name in self._names else Response.SERVICE_UNKNOWN
        found: bytes = Response(status=status).SerializeToString()
        return found

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(FRESH_S)
            await self._look()

    async def _look(self) -> None:
        try:
            await self._store.claims.get()
        except Error:
            self._tell(Response.NOT_SERVING)
        else:
            self._tell(Response.SERVING)

    def _tell(self, status: int) -> None:
        status = Response.NOT_SERVING if self._is_over else status
        if status != self._status:
            self._status = status
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()


def refusing(error: Error) -> "grpc.RpcMethodHandler[Any, Any]":
    """A method that reads nothing."""

    async def serve(_: Any, context: Context) -> None:
        await refuse(context, error)

    return grpc.stream_stream_rpc_method_handler(serve)


def peer_host(peer: str) -> str:
    """From `ipv4:127.0.0.1:1234`, or `ipv6:%5B::1%5D:1234`."""
    host = peer.partition(":")[2].rpartition(":")[0]
    return host.removeprefix("%5B").removesuffix("%5D").strip("[]")
