"""gRPC in the server's own loop: every method becomes a call of the handler, as behind the other doors.

Everything is bounded: messages, calls at once, calls on a connection. A connection whose other side is gone is noticed
by pings, so that what its worker held is released.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from tenure.core.answer import Claimed
from tenure.core.error import Error, Internal, PayloadTooLarge, Unauthenticated, Unavailable
from tenure.core.request import Settle
from tenure.core.state import SETTLE_RELEASE
from tenure.core.tenant import ANY_TENANT
from tenure.core.tenant import Context as StoreContext
from tenure.server.auth import Gate
from tenure.server.caller import Caller
from tenure.server.grpc import response
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.request import UNARY, Asking, Translator, call_of
from tenure.server.grpc.status import Context, refuse
from tenure.server.grpc.work import WorkStream
from tenure.server.handler import Asked, Handler
from tenure.wire import command as c
from tenure.wire import limit
from tenure.wire.command import Reader
from tenure.wire.format import MSGPACK_FORMAT
from tenure.wire.query import wanted
from tenure.wire.speech import Speech

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Tenure"]
BEARER: Final = "bearer "
METADATA_BYTES_MAX: Final = 16 * 1024
EVENTS_PAGE: Final = 1_000
EVENTS_WAIT_MS: Final = 60_000
FIRST_CONNECTION: Final = 1 << 40  # numbers that no connection of another door has
WAITS: Final = frozenset({"claim", "watch", "stream", "events"})  # verbs that may take long
OPTIONS: Final = (
    ("grpc.max_receive_message_length", limit.MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", limit.MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", METADATA_BYTES_MAX),
    ("grpc.max_concurrent_streams", limit.CALLS_PER_CONNECTION),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)

log = logging.getLogger("tenure.server")

Serve = Callable[[Any, Context], Awaitable[Any]]


class GrpcDoor:
    def __init__(self, handler: Handler, gate: Gate) -> None:
        self.handler = handler
        self.gate = gate
        self.is_closing = False
        self.streams: dict[str, set[WorkStream]] = {}  # by the name of their worker
        self._speech = Speech(Reader(MSGPACK_FORMAT))
        self._waiting: set[asyncio.Task[Any]] = set()
        self._duties: set[asyncio.Task[None]] = set()
        self._last = FIRST_CONNECTION
        self._health = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """The port it listens on."""
        server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=limit.CONNECTIONS_MAX)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE.full_name, self._methods()),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE.full_name, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            chosen = server.add_insecure_port(where)
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {where}: {error}; choose another --grpc-port") from error
        await server.start()
        for name in ("", SERVICE.full_name):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        self._server = server
        return chosen

    async def close(self, patience_s: float) -> None:
        """Refuse what is new, end waits and streams, let the rest finish; whatever has not by then is cut off."""
        self.is_closing = True
        if self._server is None:
            return
        await self._health.enter_graceful_shutdown()
        for task in list(self._waiting):
            task.cancel()
        for streams in list(self.streams.values()):
            for stream in list(streams):
                stream.stop()
        await self._server.stop(patience_s)
        while self._duties:
            await asyncio.gather(*self._duties)

    def number(self) -> int:
        self._last += 1
        return self._last

    def see_to(self, duty: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Done to its end, whoever goes away meanwhile, and before the store is closed."""
        task = asyncio.get_running_loop().create_task(duty)
        self._duties.add(task)
        task.add_done_callback(self._duties.discard)
        return task

    # Workers that can be told.

    @property
    def has_workers(self) -> bool:
        return bool(self.streams)

    def tell_worker(self, worker: str, job: int) -> None:
        for stream in self.streams.get(worker, ()):
            stream.tell_cancelled(job)

    # Methods.

    def _methods(self) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        return {method.name: self._method(method) for method in SERVICE.methods}

    def _method(self, method: Any) -> "grpc.RpcMethodHandler[Any, Any]":
        codec: dict[str, Any] = {
            "request_deserializer": GetMessageClass(method.input_type).FromString,
            "response_serializer": GetMessageClass(method.output_type).SerializeToString,
        }
        if method.name == "Work":
            return grpc.stream_stream_rpc_method_handler(self._guarded(self._work, "Work"), **codec)
        if method.name == "Events":
            return grpc.unary_stream_rpc_method_handler(self._guarded(self._events, "Events"), **codec)
        return grpc.unary_unary_rpc_method_handler(self._guarded(self._unary(UNARY[method.name]), method.name), **codec)

    def _guarded(self, serve: Serve, name: str) -> Serve:
        """Whatever goes wrong becomes a status."""

        async def guarded(message: Any, context: Context) -> Any:
            try:
                return await serve(message, context)
            except Error as error:
                refused = error
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self.is_closing or context.cancelled() or task is None:
                    raise
                task.uncancel()
                refused = Unavailable("the server is stopping; connect again")
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                log.exception("%s failed", name)
                refused = Internal(f"{name} failed: {error!r}; see the server's log")
            return await refuse(context, refused)

        return guarded

    def caller(self, context: Context) -> Caller:
        if self.is_closing:
            raise Unavailable("the server is stopping; connect again")
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                text = value if isinstance(value, str) else value.decode("utf-8", "replace")
                if text[: len(BEARER)].lower() != BEARER:
                    raise Unauthenticated("the metadata authorization must be Bearer and a token")
                return self.gate.caller(text[len(BEARER) :])
        stranger = self.gate.stranger()
        if stranger is None:
            raise Unauthenticated("say who calls: the metadata authorization is Bearer and a token")
        return stranger

    def speech(self) -> Speech:
        self._speech.now_ms = self.handler.clock().wall_ms
        return self._speech

    def _unary(self, translate: Translator) -> Serve:
        async def serve(message: Any, context: Context) -> Message:
            caller = self.caller(context)
            asking = translate(self.speech(), message, left_ms(context))
            found = await self.execute(caller, asked_of(message.header), asking)
            try:
                answer = asking.answer(found)
                size = answer.ByteSize()
                if size > limit.MESSAGE_BYTES_MAX:
                    raise PayloadTooLarge(size, limit.MESSAGE_BYTES_MAX, "answer")
            except BaseException:
                self._give_back(found)
                raise
            if context.cancelled():
                self._give_back(found)
            return answer

        return serve

    async def execute(self, caller: Caller, asked: Asked, asking: Asking) -> Any:
        """What may take long is ended when the server stops."""
        task = asyncio.current_task()
        if asking.call.verb not in WAITS or task is None:
            return await self.handler.execute(caller, asked, asking.call)
        if self.is_closing:
            raise Unavailable("the server is stopping; connect again")
        self._waiting.add(task)
        try:
            return await self.handler.execute(caller, asked, asking.call)
        finally:
            self._waiting.discard(task)

    def _give_back(self, found: object) -> None:
        """What was leased to a caller that cannot be told."""
        if isinstance(found, Claimed) and found.ids:
            _ = self.see_to(self.release(found.ids, [found.token] * len(found.ids)))

    async def release(self, ids: list[int], tokens: list[bytes]) -> None:
        release = Settle(SETTLE_RELEASE, ids, tokens)
        try:
            await self.handler.store.settle(StoreContext(tenants=(ANY_TENANT,)), release, self.handler.clock())
        except Error as error:
            log.warning("%d leases could not be released and will expire: %s", len(ids), error)

    # Streams.

    async def _events(self, message: pb.EventsRequest, context: Context) -> None:
        caller = self.caller(context)
        asked = asked_of(message.header)
        types = list(message.types) or None
        cursor = message.after
        while True:
            wait_ms = EVENTS_WAIT_MS if message.follow else 0
            command = c.ReadEvents(after=cursor, limit=EVENTS_PAGE, timeout=wait_ms)
            page = await self.execute(caller, asked, Asking(call_of(self.speech(), command), pb.EventPage))
            moved = page.cursor != cursor
            cursor = page.cursor
            events = [event for event in page.events if wanted(event, message.queue, types)]
            if events or moved:
                await context.write(response.events(page, events))
            if not message.follow and not moved:
                return

    async def _work(self, _: Any, context: Context) -> None:
        caller = self.caller(context)
        await WorkStream(self, context, caller).run()


def asked_of(header: pb.Header, connection: int = 0) -> Asked:
    return Asked(header.tenant, list(header.tenants) or None, header.op_id, header.durability, connection)


def left_ms(context: Context) -> int | None:
    """Of the call's deadline."""
    left_s = cast("float | None", context.time_remaining())
    return None if left_s is None else int(left_s * 1_000)
