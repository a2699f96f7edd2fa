"""TCP and Unix sockets: the public protocol on raw asyncio protocols.

The first byte of a connection decides: `{`, a newline or a carriage return begins JSON lines, anything else frames of a
length and a body. Commands with a `reqId` run side by side; the others one after another. What can be answered at once
is, without a task. Both ways are bounded: a connection that has too much in progress, or does not read its answers, is
not read from until it has caught up.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Generator
from typing import Any, cast

from tenure.core.error import Error, Internal, InvalidRequest, PayloadTooLarge, Timeout, Unauthenticated, Unavailable
from tenure.core.record import EventPage, JobRecord
from tenure.server.auth import Gate
from tenure.server.caller import Caller
from tenure.server.handler import STOPPING, Asked, Handler
from tenure.wire import command as c
from tenure.wire import limit
from tenure.wire.command import Command
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tenure.wire.frame import Lines, PublicFrames
from tenure.wire.query import cursor_of, wanted
from tenure.wire.reader import Reader
from tenure.wire.speech import Fields, Speech, error_fields
from tenure.wire.translate import TRANSLATORS

VERSION = 1
EVENTS_PAGE = 1_000
EVENTS_WAIT_MS = 60_000
WAITS = (c.Pull, c.WaitJob, c.ReadEvents, c.GetLogs)

log = logging.getLogger("tenure.server")


class Door:
    """What the connections of a listener share."""

    def __init__(self, handler: Handler, gate: Gate, name: str) -> None:
        self.handler = handler
        self.gate = gate
        self.name = name
        self.connections: dict[int, Connection] = {}
        self.workers: dict[str, dict[int, Connection]] = {}  # who claims under that name
        self.readers: dict[Format, Reader] = {form: Reader(form) for form in (JSON_FORMAT, MSGPACK_FORMAT)}
        self.is_closing = False

    @property
    def has_workers(self) -> bool:
        return bool(self.workers)

    def tell_worker(self, job: JobRecord) -> None:
        """Its job was cancelled: the answer to the next heartbeat would say so too, later. Names are anybody's, so only
        those are told who reach the job."""
        for connection in list(self.workers.get(job.worker, {}).values()):
            connection.tell(job)

    def protocol(self) -> "Connection":
        return Connection(self)

    async def close(self, patience_s: float) -> None:
        """Refuse what is new, end waits, let the rest finish; whatever has not by then is cut off."""
        self.is_closing = True
        ending = [connection.finish(patience_s) for connection in list(self.connections.values())]
        await asyncio.gather(*ending)


class Connection(asyncio.Protocol):
    def __init__(self, door: Door) -> None:
        self._door = door
        self._handler = door.handler
        self.number = door.handler.number()
        self._caller: Caller | None = door.gate.stranger()
        self._transport: asyncio.Transport | None = None
        self._cut: Lines | PublicFrames | None = None
        self._speeches: dict[Format, Speech] = {}
        self._spoken: Speech | None = None  # the last one
        self._greeted = False
        self._tenant = ""
        self._backlog: deque[bytes] = deque()
        self._calls: dict[object, asyncio.Task[None]] = {}
        self._ordered = False  # a command without an id is under way
        self._unnamed = 0
        self._reads = True
        self._may_write = asyncio.Event()  # the peer reads what it is sent
        self._may_write.set()
        self._is_idle: asyncio.Event | None = None
        self._follows: dict[object, asyncio.Task[None]] = {}
        self._waits: set[object] = set()  # calls that wait for something to happen
        self._names: dict[str, Speech] = {}  # of workers, the last ones

    def admit(self, caller: Caller) -> None:
        """Who calls, when that was said before the first command."""
        self._caller = caller

    def cut_by(self, cut: Lines | PublicFrames) -> None:
        """How commands are told apart, when it is known before the first byte."""
        self._cut = cut

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._door.is_closing or len(self._door.connections) >= limit.CONNECTIONS_MAX:
            self._transport.abort()
            return
        self._door.connections[self.number] = self

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._door.connections.pop(self.number, None)
        for name in list(self._names):
            self._forget_name(name)
        self._backlog.clear()
        for task in (*self._calls.values(), *self._follows.values()):
            task.cancel()
        self._note_idle()

    def data_received(self, data: bytes) -> None:
        if self._cut is None:
            size_max = limit.STRANGER_BYTES_MAX if self._caller is None else limit.MESSAGE_BYTES_MAX
            self._cut = Lines(size_max) if data[:1] in (b"{", b"\n", b"\r") else PublicFrames(size_max)
        try:
            self._backlog.extend(self._cut.feed(data))
        except PayloadTooLarge as error:
            self._answer(self._plain_speech(), None, error_fields(error))
            self._drop()
            return
        self._go_on()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._may_write.clear()
        self._read(False)

    def resume_writing(self) -> None:
        self._may_write.set()
        self._go_on()

    # Taking turns.

    def _go_on(self) -> None:
        backlog = self._backlog
        while backlog and not self._ordered and self._may_write.is_set():
            if len(self._calls) >= limit.CALLS_PER_CONNECTION:
                break
            self._take(backlog.popleft())
        self._read(not backlog and self._may_write.is_set())

    def _read(self, wanted: bool) -> None:
        transport = self._transport
        if transport is not None and wanted != self._reads and not transport.is_closing():
            self._reads = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _plain_speech(self) -> Speech:
        if self._spoken is not None:
            return self._spoken
        return self._speech(JSON_FORMAT if isinstance(self._cut, Lines) else MSGPACK_FORMAT)

    def _speech(self, form: Format) -> Speech:
        speech = self._speeches.get(form)
        if speech is None:
            speech = self._speeches[form] = Speech(self._door.readers[form], not self._greeted)
        return speech

    def _take(self, body: bytes) -> None:
        is_json = body[:1] == b"{" or isinstance(self._cut, Lines)
        speech = self._speech(JSON_FORMAT if is_json else MSGPACK_FORMAT)
        self._spoken = speech
        reader = speech.reader
        try:
            message = reader.read(body, self._greeted)
        except Error as error:
            self._answer(speech, reader.req_id, error_fields(error))
            return
        work = self._work(speech, message, reader.warnings)
        try:
            first = work.send(None)
        except StopIteration:
            return
        self._keep(message.req_id, _Rest(work, first), isinstance(message, WAITS))

    def _keep(self, id: object, rest: Coroutine[Any, Any, None], is_wait: bool) -> None:
        """Go on with it in a task: it waits for something."""
        key = id
        if id is None:
            self._ordered = True
            self._unnamed += 1
            key = ("unnamed", self._unnamed)
        elif id in self._calls:
            key = (id, self._unnamed)
            self._unnamed += 1
        task = asyncio.get_running_loop().create_task(rest)
        self._calls[key] = task
        if is_wait:
            self._waits.add(key)
        task.add_done_callback(lambda _: self._kept(key, id is None))

    def _kept(self, key: object, was_ordered: bool) -> None:
        self._calls.pop(key, None)
        self._waits.discard(key)
        if was_ordered:
            self._ordered = False
        if self._transport is not None:
            self._go_on()
        self._note_idle()

    # One command.

    async def _work(self, speech: Speech, message: Command, warnings: list[str]) -> None:
        try:
            fields = await self._execute(speech, message)
        except asyncio.CancelledError:
            ended = Unavailable(STOPPING) if self._door.is_closing else Timeout("the request was ended")
            self._answer(speech, message.req_id, error_fields(ended))
            raise
        except Error as error:
            fields = error_fields(error)
        except Exception as error:
            log.exception("%s failed", type(message).__name__)
            fields = error_fields(Internal(f"{type(message).__name__} failed: {error!r}; see the server's log"))
        if warnings:
            fields["warnings"] = warnings
        self._answer(speech, message.req_id, fields)

    async def _execute(self, speech: Speech, message: Command) -> Fields:
        translate = TRANSLATORS.get(type(message))
        if translate is None:
            return await self._converse(speech, message)
        caller = self._caller
        if caller is None:
            raise Unauthenticated("say AUTH with a token first")
        if self._door.is_closing:
            raise Unavailable(STOPPING)
        handler = self._handler
        if isinstance(message, c.Pull) and not message.worker:
            message.worker = f"{self._door.name}-{self.number}"
        speech.now_ms = handler.clock().wall_ms
        call = translate(speech, message)
        if isinstance(message, c.Pull):
            self._note_name(message.worker, speech)
        asked = Asked(message.tenant or self._tenant, message.tenants, message.op_id, message.durability, self.number)
        found = await handler.execute(caller, asked, call)
        try:
            fields = call.answer(found)
        except Error:
            raise
        except BaseException:
            await handler.give_back(found)
            raise
        if self._transport is None or self._transport.is_closing():
            await handler.give_back(found)
        return fields

    def _note_name(self, name: str, speech: Speech) -> None:
        if name not in self._names and len(self._names) >= limit.WORKERS_PER_CONNECTION:
            self._forget_name(next(iter(self._names)))
        self._names[name] = speech
        self._door.workers.setdefault(name, {})[self.number] = self

    def _forget_name(self, name: str) -> None:
        del self._names[name]
        held = self._door.workers[name]
        del held[self.number]
        if not held:
            del self._door.workers[name]

    def tell(self, job: JobRecord) -> None:
        speech = self._names.get(job.worker)
        if speech is not None and self._caller is not None and self._caller.reaches_job(job.tenant, job.queue):
            self._answer(speech, None, {"event": "cancelled", "id": job.id})

    async def _converse(self, speech: Speech, message: Command) -> Fields:
        """What is about the connection itself."""
        if isinstance(message, c.Hello):
            return self._hello(speech, message)
        if isinstance(message, c.Auth):
            self._caller = self._door.gate.caller(message.token)
            if self._cut is not None:
                self._cut.size_max = limit.MESSAGE_BYTES_MAX
            return {"principal": self._caller.name}
        if isinstance(message, c.Ping):
            return {}
        if isinstance(message, c.Abort):
            task = self._calls.get(message.id)
            if task is not None:
                task.cancel()
            return {"ended": task is not None}
        if isinstance(message, c.Subscribe):
            return await self._subscribe(speech, message)
        if isinstance(message, c.Unsubscribe):
            return {"ended": self._unsubscribe(message.id)}
        raise Internal(f"nobody answers {type(message).__name__}")

    def _hello(self, speech: Speech, message: c.Hello) -> Fields:
        if message.version != VERSION:
            raise InvalidRequest("version", message.version, f"this server speaks version {VERSION}")
        self._greeted = True
        for known in self._speeches.values():
            known.is_old = False
        speech.is_old = False
        self._tenant = message.tenant
        return {
            "version": VERSION,
            "server": "tenure",
            "formats": ["json", "msgpack"],
            "limits": {"message": limit.MESSAGE_BYTES_MAX, "calls": limit.CALLS_PER_CONNECTION},
            "capabilities": self._handler.store.capabilities,
            "connection": self.number,
        }

    # Events as they happen.

    async def _subscribe(self, speech: Speech, message: c.Subscribe) -> Fields:
        if self._caller is None:
            raise Unauthenticated("say AUTH with a token first")
        id = message.req_id
        if id in self._follows:
            raise InvalidRequest("reqId", id, "it follows events already")
        if len(self._follows) >= limit.SUBSCRIPTIONS_MAX:
            raise InvalidRequest("reqId", id, f"a connection follows events {limit.SUBSCRIPTIONS_MAX} times at most")
        page = await self._events(speech, message, self._caller, cursor_of(message.after), 0)
        if id in self._follows or self._transport is None:
            raise InvalidRequest("reqId", id, "it follows events already")
        task = asyncio.get_running_loop().create_task(self._follow(speech, message, self._caller, page))
        self._follows[id] = task
        task.add_done_callback(lambda _: self._follows.pop(id, None))
        return {"subscribed": True, "cursor": page.cursor}

    def _unsubscribe(self, id: object) -> bool:
        ended = [task for key, task in self._follows.items() if id is None or key == id]
        for task in ended:
            task.cancel()
        return bool(ended)

    async def _events(
        self, speech: Speech, message: c.Subscribe, caller: Caller, cursor: str, wait_ms: int
    ) -> EventPage:
        asked = Asked(message.tenant or self._tenant, message.tenants, connection=self.number)
        read = c.ReadEvents(after=cursor, limit=EVENTS_PAGE, timeout=wait_ms)
        page: EventPage = await self._handler.execute(caller, asked, TRANSLATORS[c.ReadEvents](speech, read))
        return page

    async def _follow(self, speech: Speech, message: c.Subscribe, caller: Caller, page: EventPage) -> None:
        while self._transport is not None and not self._door.is_closing:
            for event in page.events:
                if wanted(event, message.queue, message.events):
                    self._answer(speech, message.req_id, {"event": event})
            await asyncio.sleep(0)  # others have their turn between two pages
            await self._may_write.wait()
            try:
                page = await self._events(speech, message, caller, page.cursor, EVENTS_WAIT_MS)
            except Error as error:
                self._answer(speech, message.req_id, {"event": "ended", **error_fields(error)})
                return

    # Answers.

    def _answer(self, speech: Speech, id: object, fields: Fields) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if "ok" not in fields and "event" not in fields:
            fields["ok"] = True
        if id is not None:
            fields["reqId"] = id
        form = speech.form
        try:
            body = form.encode(fields)
        except Exception as error:
            log.exception("an answer could not be written")
            fields = error_fields(Internal(f"the answer could not be written: {error!r}"))
            body = form.encode(fields if id is None else {**fields, "reqId": id})
        if len(body) > limit.MESSAGE_BYTES_MAX:
            too_large = error_fields(PayloadTooLarge(len(body), limit.MESSAGE_BYTES_MAX, "answer"))
            body = form.encode({**too_large, **({} if id is None else {"reqId": id})})
        transport.write(self._cut.wrap(body) if self._cut is not None else body)
        if transport.get_write_buffer_size() > limit.UNSENT_BYTES_MAX:
            log.warning("a connection does not read its answers and was ended")
            transport.abort()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _note_idle(self) -> None:
        if self._is_idle is not None and not self._calls:
            self._is_idle.set()

    async def finish(self, patience_s: float) -> None:
        """What waits is ended; what works may finish."""
        for task in self._follows.values():
            task.cancel()
        for key in list(self._waits):
            self._calls[key].cancel()
        if self._calls:
            self._is_idle = asyncio.Event()
            try:
                await asyncio.wait_for(self._is_idle.wait(), patience_s)
            except TimeoutError:
                log.warning("a connection was cut off with %d requests in progress", len(self._calls))
        self._drop()


class _Rest(Coroutine[Any, Any, None]):
    """The rest of a coroutine that was begun outside of a task, and waits for `first`. It can be ended before the task
    has had its first turn."""

    def __init__(self, work: Coroutine[Any, Any, None], first: Any) -> None:
        self._work = work
        self._first = first

    def send(self, value: Any) -> Any:
        if self._first is None:
            return self._work.send(value)
        first, self._first = self._first, None
        return first

    def throw(self, *thrown: Any) -> Any:
        self._first = None
        return self._work.throw(*thrown)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise NotImplementedError  # for a task only
