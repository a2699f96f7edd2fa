"""gRPC in the server's own loop: every method becomes a call of the handler, as behind the other doors.

Who calls is known before the first message is read: a stranger's is not. Everything is bounded: messages, connections,
calls on one, calls at once. A connection whose other side is gone is noticed by pings, so that what its worker held is
released.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, cast

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection, reflection_pb2

from tenure.core.error import Error, Internal, InvalidRequest, Unauthenticated, Unavailable
from tenure.core.record import JobRecord
from tenure.server.auth import Gate
from tenure.server.caller import REVOKED, Caller
from tenure.server.config import Certificate
from tenure.server.grpc import response
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.health import NAME as HEALTH
from tenure.server.grpc.health import HealthService, refusing
from tenure.server.grpc.request import UNARY, Translator
from tenure.server.grpc.request import events as events_call
from tenure.server.grpc.status import Context, refuse
from tenure.server.grpc.work import WorkStream
from tenure.server.handler import STOPPING, Asked, Handler, may_wait
from tenure.wire import limit
from tenure.wire.format import MSGPACK_FORMAT
from tenure.wire.option import in_core_terms
from tenure.wire.query import wanted
from tenure.wire.reader import Reader
from tenure.wire.speech import Call, Speech

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Tenure"]
REFLECTION: Final = f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"
EVENTS_WAIT_MS: Final = 60_000
OPTIONS: Final = (
    ("grpc.max_receive_message_length", limit.MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", limit.MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", limit.GRPC_METADATA_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", limit.GRPC_METADATA_BYTES_MAX),
    ("grpc.max_concurrent_streams", limit.CALLS_PER_CONNECTION),
    ("grpc.max_allowed_incoming_connections", limit.CONNECTIONS_MAX),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)

log = logging.getLogger("tenure.server")


class Calling(NamedTuple):
    """What is said of a call before its first message."""

    caller: Caller
    trace: str


Serve = Callable[[Calling, Any, Context], Awaitable[Any]]
Method = Callable[[Calling], "grpc.RpcMethodHandler[Any, Any]"]


class GrpcDoor(grpc.GenericRpcHandler):
    def __init__(self, handler: Handler, gate: Gate) -> None:
        self.handler = handler
        self.gate = gate
        self.is_closing = False
        self.streams: dict[str, set[WorkStream]] = {}  # by the name of their worker
        self._speech = Speech(Reader(MSGPACK_FORMAT))
        self._methods = {f"/{SERVICE.full_name}/{method.name}": self._method(method) for method in SERVICE.methods}
        self._waiting: set[asyncio.Task[Any]] = set()
        self._health = HealthService(handler, SERVICE.full_name, self._calling)
        self._reflection: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
            reflection.aio.ReflectionServicer(
                (SERVICE.full_name, HEALTH, reflection.SERVICE_NAME)
            ).ServerReflectionInfo,
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        self._server: grpc.aio.Server | None = None

    async def open(self, host: str, port: int, credentials: grpc.ServerCredentials | None = None) -> int:
        """The port it listens on."""
        server = grpc.aio.server(options=OPTIONS, maximum_concurrent_rpcs=limit.CONNECTIONS_MAX)
        server.add_generic_rpc_handlers((self, self._health))
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                chosen = server.add_insecure_port(where)
            else:
                chosen = server.add_secure_port(where, credentials)
        except RuntimeError as error:
            raise Unavailable(f"cannot listen on {where}: {error}; choose another --grpc-port") from error
        await server.start()
        self._server = server
        return chosen

    async def close(self, patience_s: float) -> None:
        """Refuse what is new, end waits and streams, let the rest finish; whatever has not by then is cut off."""
        self.is_closing = True
        if self._server is None:
            return
        self._health.end()
        for task in list(self._waiting):
            task.cancel()
        for streams in list(self.streams.values()):
            for stream in list(streams):
                stream.stop()
        await self._server.stop(patience_s)

    def drop_revoked(self) -> None:
        """Streams of workers; other calls that wait are ended by their caller."""
        for streams in list(self.streams.values()):
            for stream in list(streams):
                stream.drop_revoked()

    # Workers that can be told.

    @property
    def has_workers(self) -> bool:
        return bool(self.streams)

    def tell_worker(self, job: JobRecord) -> None:
        """Names are anybody's, so only the stream that holds the job is told."""
        for stream in self.streams.get(job.worker, ()):
            stream.tell_cancelled(job.id)

    # Methods.

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        name = handler_call_details.method
        method = self._methods.get(name)
        if method is None and name != REFLECTION:
            return None
        try:
            calling = self._calling(handler_call_details.invocation_metadata)
            return self._reflection if method is None else method(calling)
        except Error as error:
            return refusing(error)

    def _calling(self, metadata: Any) -> Calling:
        if self.is_closing:
            raise Unavailable(STOPPING)
        said = dict(metadata)
        return Calling(self.gate.bearer(said.get("authorization")), said.get("traceparent", ""))

    def _method(self, method: Any) -> Method:
        """How a call is served, given who calls. What has to be known to be sent, or not to be, is written by the
        method itself: to a caller a stream of one message is the same as the message."""
        name = method.name
        streaming: dict[str, Serve] = {"Work": self._work, "Events": self._events, "Claim": self._claim}
        serve = streaming.get(name) or self._unary(UNARY[name])
        make: Callable[..., grpc.RpcMethodHandler[Any, Any]] = grpc.unary_unary_rpc_method_handler
        if name in streaming:
            make = grpc.stream_stream_rpc_method_handler if name == "Work" else grpc.unary_stream_rpc_method_handler
        reads = reader_of(GetMessageClass(method.input_type))
        writes = GetMessageClass(method.output_type).SerializeToString

        def of(calling: Calling) -> "grpc.RpcMethodHandler[Any, Any]":
            async def guarded(message: Any, context: Context) -> Any:
                serving = _raise(message) if isinstance(message, Error) else serve(calling, message, context)
                return await self._guard(name, calling.caller, serving, context)

            return make(guarded, request_deserializer=reads, response_serializer=writes)

        return of

    async def _guard(self, name: str, caller: Caller, serving: Awaitable[Any], context: Context) -> Any:
        """Whatever goes wrong becomes a status."""
        refused: Error
        try:
            found = await serving
            self.handler.note("grpc", name, "ok")
            return found
        except InvalidRequest as error:
            refused = in_core_terms(error, name.lower())
        except Error as error:
            refused = error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not (self.is_closing or caller.is_revoked) or context.cancelled() or task is None:
                raise
            task.uncancel()
            refused = Unavailable(STOPPING) if self.is_closing else Unauthenticated(REVOKED)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            log.exception("%s failed", name)
            refused = Internal(f"{name} failed: {error!r}; see the server's log")
        self.handler.note("grpc", name, refused.code)
        return await refuse(context, refused)

    def speech(self) -> Speech:
        self._speech.now_ms = self.handler.clock().wall_ms
        return self._speech

    def _unary(self, translate: Translator) -> Serve:
        async def serve(calling: Calling, message: Any, context: Context) -> Message:
            asking = translate(self.speech(), message, left_ms(context))
            return response.bounded(
                asking.answer(await self.execute(calling, asked_of(message.header, calling), asking.call))
            )

        return serve

    async def _claim(self, calling: Calling, message: pb.ClaimRequest, context: Context) -> None:
        """What is leased to a caller that cannot be told goes back."""
        asking = UNARY["Claim"](self.speech(), message, left_ms(context))
        found = await self.execute(calling, asked_of(message.header, calling), asking.call)
        try:
            await context.write(response.bounded(asking.answer(found)))
        except BaseException:
            await asyncio.shield(self.handler.see_to(self.handler.give_back(found)))
            raise

    async def execute(self, calling: Calling, asked: Asked, call: Call) -> Any:
        """What may take long is ended when the server stops."""
        task = asyncio.current_task()
        if task is None or not may_wait(call):
            return await self.handler.execute(calling.caller, asked, call)
        if self.is_closing:
            raise Unavailable(STOPPING)
        self._waiting.add(task)
        calling.caller.waits.add(task)
        try:
            return await self.handler.execute(calling.caller, asked, call)
        finally:
            self._waiting.discard(task)
            calling.caller.waits.discard(task)

    # Streams.

    async def _events(self, calling: Calling, message: pb.EventsRequest, context: Context) -> None:
        asked = asked_of(message.header, calling)
        types = list(message.types) or None
        cursor, wait_ms = message.after, message.wait_ms
        while True:
            call = events_call(self.speech(), message, cursor, EVENTS_WAIT_MS if message.follow else wait_ms)
            page = await self.execute(calling, asked, call)
            moved = page.cursor != cursor
            cursor, wait_ms = page.cursor, 0
            events = [event for event in page.events if wanted(event, message.queue, types)]
            if events or moved:
                await context.write(response.events(page, events))
            if not message.follow and not moved:
                return

    async def _work(self, calling: Calling, _: Any, context: Context) -> None:
        await WorkStream(self, context, calling.caller, calling.trace).run()


def reader_of(kind: type[Message]) -> Callable[[bytes], Message | InvalidRequest]:
    """Bytes that are no such message become the error that says so: gRPC would call them a fault of the server."""

    def read(data: bytes) -> Message | InvalidRequest:
        try:
            return kind.FromString(data)
        except DecodeError as error:
            rule = f"it must be a {kind.DESCRIPTOR.name}: {error}"
            return InvalidRequest("message", f"{len(data)} bytes", rule)

    return read


async def _raise(error: Error) -> None:
    raise error


def asked_of(header: pb.Header, calling: Calling) -> Asked:
    return Asked(header.tenant, list(header.tenants) or None, header.op_id, header.durability, 0, calling.trace)


def left_ms(context: Context) -> int | None:
    """Of the call's deadline."""
    left_s = cast("float | None", context.time_remaining())
    return None if left_s is None else int(left_s * 1_000)


def credentials_of(read: Callable[[], Certificate | None]) -> grpc.ServerCredentials | None:
    """Of the certificate of the other doors, asked for at each handshake: it may be another one by then. TLS 1.2 is the
    oldest that gRPC speaks."""
    first = read()
    if first is None:
        return None
    shown = first

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        found = read()
        if found is None or found is shown:
            return None
        shown = found
        return _configuration(found)

    # None says that nothing has changed, which the types of grpc do not know.
    fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", changed)
    return grpc.dynamic_ssl_server_credentials(_configuration(first), fetch, first.client_ca is not None)


def _configuration(certificate: Certificate) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(certificate.key, certificate.chain)], certificate.client_ca)
