"""A store on a server: `tenure://host:6789` or `tenure+unix:///run/tenure.sock`.

The verbs go over one connection as commands. When it is lost, or its server stops, it is made again, with growing
pauses; what was asked and not answered is asked again with the same operation id, so that nothing is done twice. Every
call has a deadline, and goes on until then (`tenure.store.repeat`).
"""

import asyncio
import random
import secrets
import ssl
from collections.abc import Callable, Container
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from tenure.client.connection import Connection, Lost, Unsent
from tenure.core import bound
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Error, InvalidRequest, Overloaded, PayloadTooLarge, Timeout, Unavailable
from tenure.core.record import (
    DeadLetterGroup,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadReport,
    Scanned,
    StreamItem,
)
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Filter, Load, Scan, Settle
from tenure.core.state import SETTLE_RELEASE
from tenure.core.tenant import DEFAULT_TENANT, Context, OpId
from tenure.store.contract import Capabilities
from tenure.store.repeat import (
    CALL_S,
    LATE_S,
    STOPPING,
    WAITS,
    WITH_OP_ID,
    deadline_s,
    has_own_deadline,
    is_repeatable,
    is_sweep,
)
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tenure.wire.limit import MESSAGE_BYTES_MAX
from tenure.wire.option import in_core_terms
from tenure.wire.speech import merged
from tenure.wire.verb import VERBS, header

CONNECT_S = 5.0
BACKOFF_FIRST_S = 0.05
BACKOFF_MOST_S = 2.0
OVERLOADED_TRIES = 5
OVERLOADED_S = 5.0  # at most, between two of them
HELLO = {"cmd": "HELLO", "version": 1, "client": "tenure-python"}
PATIENT = frozenset({"watch", "stream", "events"})

Told = Callable[[dict[str, Any]], None]


class RemoteStore:
    def __init__(
        self,
        address: tuple[str, int] | str,
        token: str = "",
        form: Format = MSGPACK_FORMAT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`address` is a host and port, or the path of a Unix socket."""
        self._address = address
        self._tls = tls
        self._token = token
        self._form = form
        self.listeners: list[Told] = []  # to what the server says of itself: events and cancellations
        self._connection: Connection | None = None
        self._patient: RemoteStore | None = None
        self._connecting: asyncio.Task[Connection] | None = None
        self._attempt: asyncio.Future[None] | None = None  # done when the attempt that is being made has ended
        self._wanted_until = 0.0  # the latest deadline of those who wait for a connection
        self._left: list[Connection] = []  # to servers that stop, until all that was asked there is answered
        self._closed = True
        self.overloaded_tries = OVERLOADED_TRIES
        self._session = secrets.token_hex(8)
        self._last_op = 0
        self._capabilities: Capabilities | None = None
        self.tenant = DEFAULT_TENANT  # of requests that name none, as the server said when it was greeted
        self._readers = {name: form.decoder(verb.kind) for name, verb in VERBS.items()}
        self._read_hello = form.decoder(dict[str, Any])
        self._releasing: set[asyncio.Task[None]] = set()

    @property
    def capabilities(self) -> Capabilities:
        if self._capabilities is None:
            raise Unavailable("the client is not open; open it first")
        return self._capabilities

    async def open(self, now: Now) -> None:
        self._closed = False
        await self._connected(asyncio.get_running_loop().time() + CONNECT_S)

    async def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        for connection in (self._connection, *self._left):
            if connection is not None:
                connection.close()
        self._connection = None
        self._left.clear()
        if self._patient is not None:
            patient, self._patient = self._patient, None
            await patient.close()

    async def tick(self, now: Now) -> Now | None:
        return None  # the server's affair

    def _tell(self, message: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener(message)

    # The connection.

    async def _connected(self, until: float) -> Connection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if self._closed:
            raise Unavailable("the client is not open; open it first")
        if self._connecting is None or self._connecting.done():
            self._wanted_until = until
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._wanted_until = max(self._wanted_until, until)
        connecting = self._connecting
        await asyncio.wait([connecting], timeout=max(until - asyncio.get_running_loop().time(), 0))
        if not connecting.done() and self._attempt is not None:  # it may be there in a moment, as for a short wait
            either: list[asyncio.Future[Any]] = [connecting, self._attempt]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done():
            raise Unavailable(f"no server answers at {self._shown()}; is it running?")
        return connecting.result()

    def _shown(self) -> str:
        return self._address if isinstance(self._address, str) else "{}:{}".format(*self._address)

    async def _connect(self) -> Connection:
        """Again and again until nobody wants it any more, each time after a longer pause, of a length that clients do
        not share."""
        loop = asyncio.get_running_loop()
        pause_s = BACKOFF_FIRST_S
        while True:
            self._attempt = loop.create_future()
            try:
                self._connection = await self._greet()
                return self._connection
            except (OSError, Lost, TimeoutError) as error:
                refused: Exception = error
            except Unavailable as error:
                if not is_stopping(error):
                    raise
                refused = error
            finally:
                attempt, self._attempt = self._attempt, None
                attempt.set_result(None)
            left_s = self._wanted_until - loop.time()
            if left_s <= 0:
                raise Unavailable(f"no server answers at {self._shown()} ({refused}); is it running?") from refused
            await asyncio.sleep(min(jittered(pause_s), left_s))
            pause_s = min(2 * pause_s, BACKOFF_MOST_S)

    async def _greet(self) -> Connection:
        loop = asyncio.get_running_loop()
        make = lambda: Connection(self._form, self._tell)  # noqa: E731
        async with asyncio.timeout(CONNECT_S):
            if isinstance(self._address, str):
                _, connection = await loop.create_unix_connection(make, self._address)
            else:
                _, connection = await loop.create_connection(make, *self._address, ssl=self._tls)
            try:
                if self._token:
                    await connection.ask({"cmd": "AUTH", "token": self._token})
                hello = self._read_hello(await connection.ask(HELLO))
            except BaseException:
                connection.close()
                raise
        known = {**hello["capabilities"]}
        known["durability"] = tuple(known["durability"])
        self._capabilities = Capabilities(**known)
        self.tenant = hello.get("tenant") or DEFAULT_TENANT
        return connection

    # Calls.

    async def _call(self, verb: str, context: Context, arguments: tuple[Any, ...], wait_ms: int = 0) -> Any:
        if wait_ms and verb in PATIENT and type(self) is RemoteStore:
            return await self._waiting_room()._ask(verb, context, arguments, wait_ms)
        return await self._ask(verb, context, arguments, wait_ms)

    def _waiting_room(self) -> "RemoteStore":
        """A connection for those who wait long. A connection has so many calls under way and no more: behind hundreds
        that wait for results, the calls that bring the results would wait too."""
        if self._patient is None:
            self._patient = RemoteStore(self._address, self._token, self._form, self._tls)
            self._patient._closed = self._closed
        return self._patient

    async def _ask(self, verb: str, context: Context, arguments: tuple[Any, ...], wait_ms: int) -> Any:
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + deadline_s(verb, wait_ms, CALL_S)
        late_s = LATE_S if has_own_deadline(verb, wait_ms) else 0.0
        if context.op is None and verb in WITH_OP_ID:
            self._last_op += 1
            context = Context(
                context.tenant,
                context.tenants,
                op=OpId(self._session, self._last_op),
                durability=context.durability,
            )
        fields = {**header(context), **VERBS[verb].ask(self._form, *arguments)}
        late = (lambda body: self._give_back(context, body)) if verb == "claim" else None
        pause_s = 0.0  # the first repeat is made at once
        while True:
            connection = self._connection
            try:
                if connection is None or not connection.is_open:
                    connection = await self._connected(until)
                body = await connection.ask(fields, late, until + late_s)
                return VERBS[verb].read(self._readers[verb](body))
            except Lost as error:
                if not isinstance(error, Unsent) and not is_repeatable(verb, arguments):
                    raise unknown() from None
            except Unavailable as error:
                if connection is not None and is_stopping(error):
                    self._leave(connection)
                elif late_s and loop.time() >= until:
                    raise timed_out(verb, arguments, wait_ms, error) from None
                else:
                    raise
            except Timeout as error:
                if late_s:
                    raise timed_out(verb, arguments, wait_ms, error) from None
                raise
            except PayloadTooLarge as error:
                if verb == "load" and error.max == MESSAGE_BYTES_MAX:
                    rule = f"a chunk has at most {bound.BATCH_BYTES_MAX} bytes; stage several"
                    raise InvalidRequest("batch", error.size, rule) from None
                raise
            except InvalidRequest as error:
                if pause_s and error.field in ("op_id", "opId"):  # the first one is not remembered any more
                    raise unknown() from None
                raise in_core_terms(error, verb) from None
            left_s = until - loop.time()
            if left_s <= 0:
                raise timed_out(verb, arguments, wait_ms)
            if pause_s:
                await asyncio.sleep(min(jittered(pause_s), left_s))
            pause_s = min(2 * pause_s, BACKOFF_MOST_S) or BACKOFF_FIRST_S
            if wait_ms > 0 and verb in WAITS:
                fields["timeout"] = max(wait_ms - int((loop.time() - began) * 1_000), 0)

    def _leave(self, connection: Connection) -> None:
        """Its server stops. What was asked before is answered there, or the connection is lost."""
        connection.leave()
        self._left = [left for left in self._left if left.is_connected]
        if connection.is_connected and connection not in self._left:
            self._left.append(connection)

    def _give_back(self, context: Context, body: bytes) -> None:
        """What a claim was given when its caller did not wait any more."""
        found = VERBS["claim"].read(self._readers["claim"](body))
        if found.ids and not self._closed:
            release = Settle(SETTLE_RELEASE, found.ids, [found.token] * len(found.ids))
            task = asyncio.get_running_loop().create_task(self._release(context, release))
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def _release(self, context: Context, release: Settle) -> None:
        try:
            await self._call("settle", Context(context.tenant, context.tenants), (release,))
        except Error:
            pass  # the leases expire

    # The verbs.

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        size = size_of(batch)
        if size > bound.BATCH_BYTES_MAX:
            raise InvalidRequest("payloads", size, f"a batch has at most {bound.BATCH_BYTES_MAX} bytes")
        wrong: dict[int, Error] = {
            at: InvalidRequest("payload", payload, "it must be bytes")
            for at, payload in enumerate(batch.payloads)
            if not isinstance(payload, bytes)
        }
        if not wrong:
            if size <= PART_BYTES:
                return await self._enqueue_when_there_is_room(context, batch)
            return await self._enqueue(context, batch, size)
        if batch.atomic:
            raise next(iter(wrong.values()))
        answers = await self._enqueue(context, without(batch, wrong), size)
        return merged(answers, wrong, len(batch.payloads))

    async def _enqueue(self, context: Context, batch: Batch, size: int) -> Answers:
        """In parts when it could be too large for a message, unless it has to be done whole."""
        count = len(batch.payloads)
        if size <= PART_BYTES or batch.atomic or count < 2 or context.op is not None:
            return await self._enqueue_when_there_is_room(context, batch)
        middle = count // 2
        places = range(count)
        parts = [without(batch, set(places[middle:])), without(batch, set(places[:middle]))]
        first, second = [await self._enqueue(context, part, size_of(part)) for part in parts]
        other = {**(first.other or {}), **{at + middle: outcome for at, outcome in (second.other or {}).items()}}
        for at in range(middle, count):
            if second.state != first.state and at not in other:
                other[at] = second.item(at - middle)
        return Answers(first.ids + second.ids, first.state, other or None, first.count + second.count)

    async def _enqueue_when_there_is_room(self, context: Context, batch: Batch) -> Answers:
        """A batch of which nothing fits is tried again after the pause that the server asks for, a few times."""
        tries = 1 if context.op is not None else self.overloaded_tries
        while True:
            answers = cast("Answers", await self._call("enqueue", context, (batch,)))
            full = [error for error in answers.errors().values() if isinstance(error, Overloaded)]
            tries -= 1
            if tries <= 0 or not full or len(full) < len(batch.payloads):
                return answers
            await asyncio.sleep(min(max(error.retry_after_ms for error in full) / 1_000, OVERLOADED_S))

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        return cast("Claimed", await self._call("claim", context, (claim,), claim.wait_ms))

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        return cast("Answers", await self._call("settle", context, (settle,)))

    async def extend(self, context: Context, extend: Extend, now: Now) -> Extended:
        return cast("Extended", await self._call("extend", context, (extend,)))

    async def change(self, context: Context, change: Change, now: Now) -> Answers:
        return cast("Answers", await self._call("change", context, (change,), SWEEP_MS if is_sweep((change,)) else 0))

    async def get(self, context: Context, ids: list[int], custom_ids: list[str], now: Now) -> list[JobRecord | None]:
        try:
            return cast("list[JobRecord | None]", await self._call("get", context, (ids, custom_ids)))
        except PayloadTooLarge:
            if len(ids) + len(custom_ids) < 2:
                raise
        found = [await self.get(context, [id], [], now) for id in ids]
        found += [await self.get(context, [], [name], now) for name in custom_ids]
        return [job for [job] in found]

    async def find(self, context: Context, filter: Filter, limit: int, cursor: str, now: Now) -> JobPage:
        """A page whose payloads are too large for a message is made shorter."""
        while True:
            try:
                return cast("JobPage", await self._call("find", context, (filter, limit, cursor)))
            except PayloadTooLarge:
                if limit < 2:
                    raise
                limit //= 2

    async def count(self, context: Context, queue: str, now: Now) -> dict[str, dict[str, int]]:
        return cast("dict[str, dict[str, int]]", await self._call("count", context, (queue,)))

    async def groups(self, context: Context, queue: str, now: Now) -> list[DeadLetterGroup]:
        return cast("list[DeadLetterGroup]", await self._call("groups", context, (queue,)))

    async def explain(self, context: Context, id: int, now: Now) -> Explanation:
        return cast("Explanation", await self._call("explain", context, (id,)))

    async def configure(self, context: Context, configure: Configure, now: Now) -> dict[str, object]:
        return cast("dict[str, object]", await self._call("configure", context, (configure,)))

    async def watch(self, context: Context, id: int, wait_ms: int, now: Now) -> JobRecord:
        return cast("JobRecord", await self._call("watch", context, (id, wait_ms), wait_ms))

    async def events(self, context: Context, cursor: str, limit: int, wait_ms: int, now: Now) -> EventPage:
        return cast("EventPage", await self._call("events", context, (cursor, limit, wait_ms), wait_ms))

    async def append(self, context: Context, append: Append, now: Now) -> int:
        return cast("int", await self._call("append", context, (append,)))

    async def stream(
        self, context: Context, id: int, kind: int, offset: int, limit: int, wait_ms: int, now: Now
    ) -> list[StreamItem]:
        found = await self._call("stream", context, (id, kind, offset, limit, wait_ms), wait_ms)
        return cast("list[StreamItem]", found)

    async def load(self, context: Context, load: Load, now: Now) -> LoadReport:
        return cast("LoadReport", await self._call("load", context, (load,)))

    async def scan(self, context: Context, scan: Scan, now: Now) -> Scanned:
        """As `find`: a page that is too large for a message is made shorter."""
        while True:
            try:
                return cast("Scanned", await self._call("scan", context, (scan,)))
            except PayloadTooLarge:
                if scan.limit < 2:
                    raise
                scan = Scan(
                    scan.table,
                    scan.after,
                    scan.upto,
                    scan.limit // 2,
                    scan.queue,
                    scan.states,
                    scan.types,
                    scan.columns,
                )


SWEEP_MS = 600_000
PART_BYTES = 8 * 1024 * 1024  # of payloads in one message; in JSON they take a third more


def size_of(batch: Batch) -> int:
    return sum(len(payload) for payload in batch.payloads if isinstance(payload, bytes))


def without(batch: Batch, places: Container[int]) -> Batch:
    def kept(column: Any) -> Any:
        return None if column is None else [item for at, item in enumerate(column) if at not in places]

    return Batch(batch.options, kept(batch.payloads), kept(batch.extras), kept(batch.each), keys=kept(batch.keys))


def is_stopping(error: Unavailable) -> bool:
    return error.fields.get(STOPPING) is True


def jittered(pause_s: float) -> float:
    return pause_s * (0.5 + random.random() / 2)


def unknown() -> Unavailable:
    return Unavailable("the connection was lost during the call; it may have been done: look")


def timed_out(verb: str, arguments: tuple[Any, ...], wait_ms: int, error: Error | None = None) -> Timeout:
    because = f" ({error})" if isinstance(error, Unavailable) else ""
    if has_own_deadline(verb, wait_ms):
        return Timeout(f"job {arguments[0]} did not end within {wait_ms} ms; it goes on{because}")
    return Timeout(f"{verb} was not answered in time{because}")


REMOTE = ("tenure", "tenure+tls", "tenure+unix")
FORMATS = {"msgpack": MSGPACK_FORMAT, "json": JSON_FORMAT}
PORT = 6789


def remote_store(url: str, token: str, format: str, tls: ssl.SSLContext | None) -> RemoteStore:
    parts = urlsplit(url)
    if format not in FORMATS:
        raise InvalidRequest("format", format, "it must be msgpack or json")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise InvalidRequest("url", url, "it has an address and no more; a token is an argument of its own")
    if parts.scheme == "tenure+unix":
        if parts.netloc or not parts.path:
            raise InvalidRequest(
                "url", url, "it must be tenure+unix:// and a path, as in tenure+unix:///run/tenure.sock"
            )
        return RemoteStore(unquote(parts.path), token, FORMATS[format])
    if not parts.hostname or parts.path not in ("", "/"):
        raise InvalidRequest("url", url, "it must be tenure:// and a host, as in tenure://127.0.0.1:6789")
    if parts.scheme == "tenure+tls":
        tls = tls or ssl.create_default_context()
    elif tls is not None:
        raise InvalidRequest("url", url, "with TLS it must be tenure+tls:// and a host")
    try:
        port = parts.port or PORT
    except ValueError as error:
        raise InvalidRequest("url", url, f"its port cannot be used: {error}") from error
    return RemoteStore((parts.hostname, port), token, FORMATS[format], tls=tls)
