"""`/v1`: one request becomes one command, goes through the one handler, and its answer becomes one response.

Plain ASGI: this is the path of every job that comes over HTTP. A request that waits is given up when its client goes,
and what was leased to it goes back; when the server stops, it is answered that it has to ask again.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, cast

from starlette.types import Receive, Scope, Send

from tenure.core.answer import Answers, Extended
from tenure.core.error import Error, Internal, PayloadTooLarge, Unavailable
from tenure.server.caller import Caller
from tenure.server.handler import PLAIN, Asked, Handler, may_wait
from tenure.server.http.guard import Guard
from tenure.server.http.metric import Metrics
from tenure.server.http.protocol import VISIT
from tenure.server.http.read import Leaf, leaves
from tenure.server.http.refusal import Answer, Refusal, answer, refuse, say_error
from tenure.server.http.route import ENDPOINTS, Node
from tenure.server.http.stream import Follower
from tenure.wire import command as c
from tenure.wire import limit
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tenure.wire.option import in_wire_terms
from tenure.wire.reader import Reader
from tenure.wire.speech import Call, Fields, Speech

STOPPING = "the server is stopping; ask again"
MSGPACK_TYPES = frozenset({b"application/msgpack", b"application/x-msgpack", b"application/vnd.msgpack"})
EVENT_STREAM = b"text/event-stream"

log = logging.getLogger("tenure.server")


class Gone(Exception):
    """The client does not wait any more."""


class Api:
    def __init__(self, handler: Handler, guard: Guard, metrics: Metrics) -> None:
        self._handler = handler
        self._guard = guard
        self._metrics = metrics
        self._speeches: dict[Format, Speech] = {
            form: Speech(Reader(form, takes_text=True)) for form in (JSON_FORMAT, MSGPACK_FORMAT)
        }
        self._root = Node()
        for endpoint, leaf in leaves(ENDPOINTS).items():
            self._root.add(endpoint, leaf)
        self._closing: asyncio.Future[None] | None = None

    def open(self) -> None:
        self._closing = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Whoever waits is answered; whoever comes is refused."""
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(None)

    @property
    def is_closing(self) -> bool:
        return self._closing is None or self._closing.done()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        form: Format = JSON_FORMAT
        label = "none"
        try:
            method = scope["method"]
            self._guard.check(method, headers)
            leaf, given = self._root.find(method, scope["raw_path"].decode("ascii"))
            label = leaf.label
            reads, form = forms_of(headers)
            caller = self._guard.caller(headers)
            scope["state"][VISIT].recognise()
            body = await read_body(receive, headers, reads) if leaf.has_body else b""
            if self.is_closing:
                raise Unavailable(STOPPING)
            message = leaf.read(reads or JSON_FORMAT, body, scope["query_string"], given)
            if leaf.command is c.ReadEvents and EVENT_STREAM in headers.get(b"accept", b""):
                follower = Follower(self._speeches[JSON_FORMAT], self.ask)
                await follower.follow(caller, message, headers, receive, send)
                self._metrics.note("SUBSCRIBE", "ok", time.perf_counter() - began)
                return
            made = await self._work(leaf, caller, message, headers, reads or JSON_FORMAT, form, receive)
        except Gone:
            self._metrics.note(label, "gone", time.perf_counter() - began)
            return
        except Refusal as refusal:
            made = refuse(refusal, form)
        except Error as error:
            made = say_error(in_wire_terms(error, label), form)
        except Exception as error:
            log.exception("%s failed", label)
            made = say_error(Internal(f"{label} failed: {type(error).__name__}; see the server's log"), form)
        self._metrics.note(label, made.outcome, time.perf_counter() - began)
        await send({"type": "http.response.start", "status": made.status, "headers": made.headers})
        await send({"type": "http.response.body", "body": made.body})

    async def _work(
        self,
        leaf: Leaf,
        caller: Caller,
        message: Any,
        headers: dict[bytes, bytes],
        reads: Format,
        form: Format,
        receive: Receive,
    ) -> Answer:
        speech = self._speeches[reads]
        speech.now_ms = self._handler.clock().wall_ms
        call = leaf.translate(speech, message)
        found = await self.ask(caller, message, headers, call, receive)
        try:
            fields = say(speech, form, call, found)
            status = 200
            if leaf.is_push:
                status = 200 if fields["duplicate"] else 201
            elif type(found) is Answers or type(found) is Extended:
                status = 207 if has_refused(found, fields) else 200
            made = answer(status, fields, form)
            if len(made.body) > limit.MESSAGE_BYTES_MAX:
                raise PayloadTooLarge(len(made.body), limit.MESSAGE_BYTES_MAX, "answer")
        except BaseException:
            await self._handler.give_back(found)
            raise
        return made

    async def ask(self, caller: Caller, message: Any, headers: dict[bytes, bytes], call: Call, receive: Receive) -> Any:
        trace = headers.get(b"traceparent")
        if trace or message.tenant or message.tenants or message.op_id or message.durability:
            said = "" if trace is None else trace.decode("latin-1")
            asked = Asked(message.tenant, message.tenants, message.op_id, message.durability, 0, said)
        else:
            asked = PLAIN
        asking = self._handler.execute(caller, asked, call)
        if may_wait(call):
            return await self._wait(caller, asking, receive)
        return await asking

    async def _wait(self, caller: Caller, asking: Coroutine[Any, Any, Any], receive: Receive) -> Any:
        """The answer, unless the client goes first, or the server, or the caller's token."""
        loop = asyncio.get_running_loop()
        work = loop.create_task(asking)
        gone = loop.create_task(_until_gone(receive))
        closing = cast("asyncio.Future[None]", self._closing)
        caller.waits.add(work)
        try:
            await asyncio.wait((work, gone, closing), return_when=asyncio.FIRST_COMPLETED)
            if work.cancelled():
                caller.check_revoked()
            if not gone.done() and (work.done() or not closing.done()):
                return work.result()
            work.cancel()
            found = (await asyncio.gather(work, return_exceptions=True))[0]
            await self._handler.give_back(found)
            if gone.done():
                raise Gone
            raise Unavailable(STOPPING)
        finally:
            caller.waits.discard(work)
            gone.cancel()
            work.cancel()


def say(speech: Speech, form: Format, call: Call, found: Any) -> Fields:
    """The answer in `form`, which need not be the one that the request was in."""
    reads, speech.form = speech.form, form
    try:
        return call.answer(found)
    finally:
        speech.form = reads


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def has_refused(found: Answers | Extended, fields: Fields) -> bool:
    """Whether an item of a batch was refused, by the store or before it came there."""
    if isinstance(found, Extended):
        return bool(found.errors) and "lease_until" not in fields
    if found.other is not None and any(outcome.error is not None for outcome in found.other.values()):
        return True
    packed = fields.get("answers")
    return 0 in (fields.get("ids", ()) if packed is None else packed.ids)


def forms_of(headers: dict[bytes, bytes]) -> tuple[Format | None, Format]:
    """In which format the body is, None when it does not say or says another, and in which to answer."""
    kind = headers.get(b"content-type")
    reads: Format | None = None
    if kind == b"application/json":
        reads = JSON_FORMAT
    elif kind is not None:
        plain = kind.partition(b";")[0].strip().lower()
        reads = JSON_FORMAT if plain == b"application/json" else MSGPACK_FORMAT if plain in MSGPACK_TYPES else None
    accept = headers.get(b"accept")
    if accept is None or accept == b"*/*":
        return reads, reads or JSON_FORMAT
    if b"json" in accept or b"msgpack" not in accept:
        return reads, (reads or JSON_FORMAT) if b"json" not in accept and b"*/*" in accept else JSON_FORMAT
    return reads, MSGPACK_FORMAT


async def read_body(receive: Receive, headers: dict[bytes, bytes], reads: Format | None) -> bytes:
    """All of it, or the refusal of one that is too large: by its length before it is read, else as soon as it is."""
    length = headers.get(b"content-length")
    if length is not None and int(length) > limit.MESSAGE_BYTES_MAX:
        raise PayloadTooLarge(int(length), limit.MESSAGE_BYTES_MAX, "body")
    if reads is None and (b"transfer-encoding" in headers or length not in (None, b"0")):
        kinds = "application/json or application/msgpack"
        raise Refusal(415, "UnsupportedMediaType", f"say what the body is: Content-Type: {kinds}")
    message = await receive()
    body: bytes = message.get("body", b"")
    parts: list[bytes] = []
    size = len(body)
    while message.get("more_body", False):
        parts.append(body)
        message = await receive()
        body = message.get("body", b"")
        size += len(body)
        if size > limit.MESSAGE_BYTES_MAX:
            raise PayloadTooLarge(size, limit.MESSAGE_BYTES_MAX, "body")
    if message["type"] == "http.disconnect":
        raise Gone
    return b"".join((*parts, body)) if parts else body
