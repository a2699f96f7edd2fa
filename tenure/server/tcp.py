"""TCP and Unix sockets: the public protocol on raw asyncio protocols.

The first byte of a connection decides: `{`, a newline or a carriage return begins JSON lines, anything else frames of a
length and a body. Commands with a `reqId` run side by side; the others one after another. What can be answered at once
is, without a task. Both ways are bounded: a connection that has too much in progress, or does not read its answers, is
not read from until it has caught up.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

from tenure.client.begun import begin
from tenure.core.answer import Answers, Claimed
from tenure.core.error import Error, Internal, InvalidRequest, PayloadTooLarge, Timeout, Unauthenticated
from tenure.core.record import JobRecord
from tenure.core.request import Batch, Claim
from tenure.core.state import STATE_NAMES
from tenure.core.tenant import PRODUCER, WORKER, Context
from tenure.server.auth import Gate
from tenure.server.caller import Caller
from tenure.server.entrance import Visit
from tenure.server.follow import Follows
from tenure.server.handler import Asked, Handler, stopping
from tenure.store.contract import Moved, Wait
from tenure.wire import command as c
from tenure.wire import limit, work
from tenure.wire.command import Command
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, NONSENSE, Format
from tenure.wire.frame import Lines, PublicFrames
from tenure.wire.option import in_wire_terms
from tenure.wire.quick import (
    HEAD,
    MISSES_MAX,
    PULL,
    PUSH,
    PlainPush,
    PulledPlain,
    PushedPlain,
    encode_quickly,
    read_plainly,
)
from tenure.wire.reader import Reader
from tenure.wire.speech import Call, Fields, Speech, error_fields
from tenure.wire.translate import TRANSLATORS

VERSION = 1
NAMES = {kind: name for commands in (c.COMMANDS, c.IN_FULL) for name, kind in commands.items()} | {
    c.PushColumn: "PUSHB"
}
WAITS = (c.Pull, c.WaitJob, c.ReadEvents, c.GetLogs)
IN_ONE_STEP = frozenset({"enqueue", "settle", "extend"})

Said = Fields | tuple[Fields, Claimed]  # an answer; with the jobs that it leases

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

    def protocol(self, visit: Visit | None = None) -> "Connection":
        return Connection(self, visit)

    def drop_revoked(self) -> None:
        """Connections whose token is accepted no more."""
        for connection in list(self.connections.values()):
            connection.drop_revoked()

    async def close(self, patience_s: float) -> None:
        """Refuse what is new, end waits, let the rest finish; whatever has not by then is cut off."""
        self.is_closing = True
        ending = [connection.finish(patience_s) for connection in list(self.connections.values())]
        await asyncio.gather(*ending)


class Connection(asyncio.Protocol):
    def __init__(self, door: Door, visit: Visit | None = None) -> None:
        self._door = door
        self._visit = visit
        self._handler = door.handler
        self.number = door.handler.number()
        self._caller: Caller | None = door.gate.stranger()
        self._transport: asyncio.Transport | None = None
        self._cut: Lines | PublicFrames | None = None
        self._is_lines = False
        self._speeches: dict[Format, Speech] = {}
        self._spoken: Speech | None = None  # the last one
        self._short: Speech | None = None  # in which plain commands go the short way, if they may
        self._greeted = False
        self._tenant = ""
        self._plain_context: Context | None = None
        self._own_name = f"{door.name}-{self.number}"  # of a worker that does not say its name
        self._backlog: deque[bytes] = deque()
        self._calls: dict[object, asyncio.Task[None] | _Later] = {}
        self._ordered = False  # a command without an id is under way
        self._reads = True
        self._is_full = False  # the peer does not read what it is sent
        self._has_room = asyncio.Event()  # for those who wait until it does
        self._has_room.set()
        self._is_idle: asyncio.Event | None = None
        self._follows = Follows(door.handler, self._answer, self._has_room)
        self._waits: set[object] = set()  # calls that wait for something to happen
        self._names: dict[str, Speech] = {}  # of workers, the last ones
        self._misses = {PUSH: 0, PULL: 0}  # how many in a row were not plain
        self._refused = 0  # commands that came when the server was stopping
        self._when_lost: asyncio.Event | None = None  # set by the end of the connection, while the server is stopping
        self.on_admitted: Callable[[], None] | None = None
        self._patience: asyncio.TimerHandle | None = None  # with a peer that has not authenticated

    @property
    def is_known(self) -> bool:
        return self._caller is not None

    def admit(self, caller: Caller) -> None:
        """Who calls; said by AUTH, or before the first command."""
        self._caller = caller
        self._forget_context()
        self._end_patience()
        if self._cut is not None:
            self._cut.size_max = limit.MESSAGE_BYTES_MAX
        if self._visit is not None:
            self._visit.recognise()
        if self.on_admitted is not None:
            self.on_admitted()

    def cut_by(self, cut: Lines | PublicFrames) -> None:
        """How commands are told apart, when it is known before the first byte."""
        self._cut = cut
        self._is_lines = isinstance(cut, Lines)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._door.is_closing:
            self._transport.abort()
            return
        self._door.connections[self.number] = self
        if self._caller is None:
            self._patience = asyncio.get_running_loop().call_later(limit.AUTH_S, self._end_unknown)

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        if self._when_lost is not None:
            self._when_lost.set()
        self._end_patience()
        if self._visit is not None:
            self._visit.leave()
        self._door.connections.pop(self.number, None)
        for name in list(self._names):
            self._forget_name(name)
        self._backlog.clear()
        self._follows.close()
        for call in list(self._calls.values()):
            call.cancel()
        self._cut = self.on_admitted = None  # and what has come of a message
        self._note_idle()

    def data_received(self, data: bytes) -> None:
        cut = self._cut
        if cut is None:
            size_max = limit.STRANGER_BYTES_MAX if self._caller is None else limit.MESSAGE_BYTES_MAX
            cut = Lines(size_max) if data[:1] in (b"{", b"\n", b"\r") else PublicFrames(size_max)
            self.cut_by(cut)
        try:
            bodies = cut.feed(data)
        except PayloadTooLarge as error:
            self.refuse(error)
            return
        if len(bodies) == 1 and not self._backlog and not self._calls and not self._is_full:
            self._take(bodies[0])
        elif bodies:
            self._backlog.extend(bodies)
            self._go_on()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_full = True
        self._has_room.clear()
        self._read(False)

    def resume_writing(self) -> None:
        self._is_full = False
        self._has_room.set()
        self._go_on()

    def _end_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _end_unknown(self) -> None:
        self._patience = None
        self.refuse(Unauthenticated(f"no AUTH with a token came within {limit.AUTH_S:g} s; connect again and say it"))

    def drop_revoked(self) -> None:
        try:
            if self._caller is not None:
                self._caller.check_revoked()
        except Unauthenticated as error:
            self.refuse(error)

    def refuse(self, error: Error) -> None:
        """Say why, and close. One that has not said a word is told in JSON."""
        if self._cut is None:
            self.cut_by(Lines())
        self._answer(self._plain_speech(), None, error_fields(error))
        self._drop()

    # Taking turns.

    def _go_on(self) -> None:
        backlog = self._backlog
        while backlog and self._may_take():
            self._take(backlog.popleft())
        self._read(not backlog and not self._is_full)

    def _may_take(self) -> bool:
        return not self._ordered and not self._is_full and len(self._calls) < limit.CALLS_PER_CONNECTION

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
        return self._speech(JSON_FORMAT if self._is_lines else MSGPACK_FORMAT)

    def _speech(self, form: Format) -> Speech:
        speech = self._speeches.get(form)
        if speech is None:
            speech = self._speeches[form] = Speech(self._door.readers[form], not self._greeted)
        return speech

    def _quickly(self, kind: bytes, body: bytes) -> bool:
        """Take a push that asks for nothing but a queue, or a pull that does not wait; answers whether it was one that
        can be answered at once. If not, nothing was done."""
        speech, context, caller = self._short, self._plain_context, self._caller
        if speech is None or context is None or caller is None or self._door.is_closing:
            return False
        try:
            message = read_plainly(body)
            if isinstance(message, PlainPush):
                role = PRODUCER
                asked: Batch | Claim = Batch(speech.plain(message.queue), [bytes(message.data)])
            else:
                role = 0 if message.timeout else WORKER
                asked = work.plain_claim(speech, message.queue, self._own_name)
        except (*NONSENSE, Error):
            self._misses[kind] += 1
            return False
        self._misses[kind] = 0
        if not caller.roles & role:
            return False
        if isinstance(asked, Batch):
            return self._push(speech, context, message.reqId, asked)
        return self._pull(speech, context, message.reqId, asked)

    def _push(self, speech: Speech, context: Context, id: str | int, batch: Batch) -> bool:
        """Whether it was answered."""
        try:
            answers: Answers | None = self._handler.quickly(context, batch)
            if answers is None:
                return False
            if not answers.other:
                state = speech.state(STATE_NAMES[answers.state])
                said = encode_quickly(PushedPlain(True, answers.ids[0], state, False, id))
                self._handler.note(self._door.name, "PUSH", "ok")
                self._send(said)
                return True
            fields = speech.one(answers)
        except Exception as error:
            fields = _failed("PUSH", error)
        self._say(speech, "PUSH", id, fields)
        return True

    def _pull(self, speech: Speech, context: Context, id: str | int, claim: Claim) -> bool:
        """As `_push`."""
        try:
            found: Claimed | None = self._handler.quickly(context, claim)
        except Exception as error:
            self._say(speech, "PULL", id, _failed("PULL", error))
            return True
        if found is None:
            return False
        self._note_name(self._own_name, speech)
        self._pulled(speech, id, found)
        return True

    def _pulled(self, speech: Speech, id: str | int, found: Claimed) -> None:
        """The job goes back when that cannot be said."""
        handler = self._handler
        try:
            job = work.leased(speech, found, 0) if found.ids else None
            said = encode_quickly(PulledPlain(True, job, id))
            if len(said) > limit.MESSAGE_BYTES_MAX:
                raise PayloadTooLarge(len(said), limit.MESSAGE_BYTES_MAX, "answer")
        except Exception as error:
            handler.give_back_soon(found)
            self._say(speech, "PULL", id, _failed("PULL", error))
            return
        handler.note(self._door.name, "PULL", "ok")
        if not self._send(said):
            handler.give_back_soon(found)

    def _take(self, body: bytes) -> None:
        kind = body[HEAD]
        if self._misses.get(kind, MISSES_MAX) < MISSES_MAX and self._quickly(kind, body):
            return
        form = JSON_FORMAT if self._is_lines or body[:1] == b"{" else MSGPACK_FORMAT
        speech = self._spoken
        if speech is None or speech.form is not form:
            speech = self._spoken = self._speech(form)
        reader = speech.reader
        try:
            message = reader.read(body, self._greeted)
        except Error as error:
            self._say(speech, "none", reader.req_id, error_fields(error))
            return
        warnings = reader.warnings
        try:
            begun = self._begin(speech, message, warnings)
        except Exception as error:
            self._reply(speech, message, warnings, _failed(NAMES[type(message)], error))
            return
        if isinstance(begun, dict):
            self._reply(speech, message, warnings, begun)
            return
        if isinstance(begun, tuple):
            self._reply(speech, message, warnings, *begun)
            return
        if isinstance(begun, _Later):
            if not begun.is_over:
                begun.key = self._keep(message.req_id, begun, isinstance(message, WAITS))
            return
        self._start(message.req_id, self._finish(speech, message, warnings, begun), isinstance(message, WAITS))

    def _start(self, id: object, call: Coroutine[Any, Any, None], is_wait: bool) -> None:
        """Begin it here; what is left of it goes on in a task."""
        task = begin(call)
        if task is None:
            return
        key = self._keep(id, task, is_wait)
        task.add_done_callback(lambda _: self._kept(key, id is None))

    def _keep(self, id: object, call: "asyncio.Task[None] | _Later", is_wait: bool) -> object:
        """Note that it waits for something; answers under which key."""
        if id is None:
            self._ordered = True
        key = object() if id is None or id in self._calls else id
        self._calls[key] = call
        if is_wait:
            self._waits.add(key)
        return key

    def _kept(self, key: object, was_ordered: bool) -> None:
        self._calls.pop(key, None)
        self._waits.discard(key)
        if was_ordered:
            self._ordered = False
        if self._transport is not None:
            self._go_on()
        self._note_idle()

    # One command.

    def _begin(
        self, speech: Speech, message: Command, warnings: list[str]
    ) -> "Said | Coroutine[Any, Any, Said] | _Later":
        """The answer, when that takes no wait."""
        translate = TRANSLATORS.get(type(message))
        if translate is None:
            return self._converse(speech, message)
        caller = self._caller
        if caller is None:
            raise Unauthenticated("say AUTH with a token first")
        if self._door.is_closing:
            self._refused += 1
            raise stopping()
        handler = self._handler
        now = handler.clock()
        speech.now_ms = now.wall_ms
        if not isinstance(message, c.Pull):
            call = translate(speech, message)
            handler.admit(caller, call)
            context = self._context_of(caller, message)
            if call.verb not in IN_ONE_STEP:
                return self._carry_out(caller, context, call)
            if handler.is_prompt:
                found = handler.at_once(caller, context, call, now)
                return self._carry_out(caller, context, call) if found is None else call.answer(found)
            later = _Later(self, speech, message, warnings, caller, context, call)
            return self._later(later, handler.soon(caller, context, call, now, later.told))
        if not message.worker:
            message.worker = self._own_name
        call = translate(speech, message)
        self._note_name(message.worker, speech)
        handler.admit(caller, call)
        context = self._context_of(caller, message)
        if handler.is_prompt and not message.timeout:
            found = handler.at_once(caller, context, call, now)
            return self._carry_out(caller, context, call) if found is None else self._leased(call, found)
        later = _Later(self, speech, message, warnings, caller, context, call)
        return self._later(later, handler.claim_or_wait(caller, context, call, now, later.told))

    def _later(self, later: "_Later", found: Claimed | Wait | None) -> "Said | Coroutine[Any, Any, Said] | _Later":
        if found is None:
            return self._carry_out(later.caller, later.context, later.call)
        if isinstance(found, Claimed):
            return self._leased(later.call, found)
        later.wait = found
        return later

    def _leased(self, call: Call, found: Claimed) -> tuple[Fields, Claimed]:
        try:
            return call.answer(found), found
        except Exception:
            self._handler.give_back_soon(found)
            raise

    def _context_of(self, caller: Caller, message: Command) -> Context:
        """The same one for all requests that ask for nothing special."""
        if message.tenant or message.tenants or message.op_id or message.durability:
            asked = Asked(
                message.tenant or self._tenant,
                message.tenants,
                message.op_id,
                message.durability,
                self.number,
                tokenless=not self._greeted,
            )
            return self._handler.context(caller, asked)
        if self._plain_context is None:
            asked = Asked(self._tenant, connection=self.number, tokenless=not self._greeted)
            self._plain_context = self._handler.context(caller, asked)
            if self._handler.is_prompt and caller.is_free and not caller.is_bounded and not self._is_lines:
                self._short = self._speech(MSGPACK_FORMAT)
        return self._plain_context

    def _forget_context(self) -> None:
        self._plain_context = self._short = None

    async def _carry_out(self, caller: Caller, context: Context, call: Call) -> Said:
        found = await self._handler.carry_out(caller, context, call)
        return self._leased(call, found) if isinstance(found, Claimed) else call.answer(found)

    async def _finish(
        self, speech: Speech, message: Command, warnings: list[str], begun: Coroutine[Any, Any, Said]
    ) -> None:
        leased = None
        try:
            said = await begun
            fields, leased = said if isinstance(said, tuple) else (said, None)
        except asyncio.CancelledError:
            self._reply(speech, message, warnings, error_fields(self._ended()))
            raise
        except Exception as error:
            fields = _failed(NAMES[type(message)], error)
        self._reply(speech, message, warnings, fields, leased)

    def _ended(self) -> Error:
        return stopping() if self._door.is_closing else Timeout("the request was ended")

    # Calls that wait for a job or for the disk, without a task.

    def end_later(self, later: "_Later") -> None:
        self._reply(later.speech, later.message, later.warnings, error_fields(self._ended()))
        self._forget(later)

    # The next two are said within a step of the store that another connection asked for: nothing new is begun there.

    def refuse_later(self, later: "_Later", error: Error) -> None:
        message = later.message
        if isinstance(message, c.Pull) or isinstance(error, Moved):
            later.is_over = False  # it stays among the calls, and goes the long way
            asyncio.get_running_loop().call_soon(self._call_again, later)
            return
        self._forget(later)
        self._reply(later.speech, message, later.warnings, _failed(NAMES[type(message)], error))

    def answer_later(self, later: "_Later", found: Any) -> None:
        self._forget(later)
        speech, message = later.speech, later.message
        id = message.req_id
        if type(message) is c.Pull and id is not None and speech.form is MSGPACK_FORMAT and not later.warnings:
            self._pulled(speech, id, found)
            return
        leased = None
        try:
            if isinstance(found, Claimed):
                fields, leased = self._leased(later.call, found)
            else:
                fields = later.call.answer(found)
        except Exception as failure:
            fields = _failed(NAMES[type(message)], failure)
        self._reply(speech, message, later.warnings, fields, leased)

    def _call_again(self, later: "_Later") -> None:
        if later.is_over:
            return  # it was ended meanwhile
        self._forget(later)
        message = later.message
        rest = self._carry_out(later.caller, later.context, later.call)
        finish = self._finish(later.speech, message, later.warnings, rest)
        self._start(message.req_id, finish, isinstance(message, WAITS))

    def _forget(self, later: "_Later") -> None:
        if later.key is None:
            return  # it was told before it was kept
        del self._calls[later.key]
        self._waits.discard(later.key)
        if later.message.req_id is None:
            self._ordered = False
        if self._backlog:
            asyncio.get_running_loop().call_soon(self._go_on)
        if self._is_idle is not None:
            self._note_idle()

    def _reply(
        self,
        speech: Speech,
        message: Command,
        warnings: list[str],
        fields: Fields,
        leased: Claimed | None = None,
    ) -> None:
        """What was `leased` goes back when that cannot be said."""
        if warnings:
            fields["warnings"] = warnings
        if not self._say(speech, NAMES[type(message)], message.req_id, fields) and leased is not None:
            self._handler.give_back_soon(leased)

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
        """A client of the older protocol takes whatever comes for the answer to what it asked last: it learns of the
        cancellation by its next heartbeat."""
        if not self._greeted:
            return
        speech = self._names.get(job.worker)
        if speech is not None and self._caller is not None and self._caller.reaches_job(job.tenant, job.queue):
            self._answer(speech, None, {"event": "cancelled", "id": job.id})

    async def _converse(self, speech: Speech, message: Command) -> Fields:
        """What is about the connection itself."""
        if isinstance(message, c.Hello):
            return self._hello(speech, message)
        if isinstance(message, c.Auth):
            gate = self._door.gate
            if self._greeted or not gate.is_open:  # flashQ takes any token where none is configured
                self.admit(gate.caller(message.token))
            assert self._caller is not None
            return {"principal": self._caller.name}
        if isinstance(message, c.Ping):
            return {}
        if isinstance(message, c.Abort):
            task = self._calls.get(message.id)
            if task is not None:
                task.cancel()
            return {"ended": task is not None}
        if isinstance(message, c.Subscribe):
            if self._caller is None:
                raise Unauthenticated("say AUTH with a token first")
            asked = Asked(message.tenant or self._tenant, message.tenants, connection=self.number)
            return await self._follows.begin(speech, message, self._caller, asked)
        if isinstance(message, c.Unsubscribe):
            return {"ended": self._follows.end(message.id)}
        raise Internal(f"nobody answers {type(message).__name__}")

    def _hello(self, speech: Speech, message: c.Hello) -> Fields:
        if message.version != VERSION:
            raise InvalidRequest("version", message.version, f"this server speaks version {VERSION}")
        self._greeted = True
        for known in self._speeches.values():
            known.is_old = False
        speech.is_old = False
        self._tenant = message.tenant
        self._forget_context()
        own = "" if self._caller is None else self._caller.tenant("")
        return {
            "version": VERSION,
            "server": "tenure",
            "formats": ["json", "msgpack"],
            "limits": {"message": limit.MESSAGE_BYTES_MAX, "calls": limit.CALLS_PER_CONNECTION},
            "capabilities": self._handler.store.capabilities,
            "connection": self.number,
            "tenant": self._tenant or own,
        }

    # Answers.

    def _say(self, speech: Speech, command: str, id: object, fields: Fields) -> bool:
        """What became of a command; as `_answer`."""
        self._handler.note(self._door.name, command, fields.get("code", "ok"))
        return self._answer(speech, id, fields)

    def _answer(self, speech: Speech, id: object, fields: Fields) -> bool:
        """Whether this was said, and nothing in its place."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        is_said = True
        if "ok" not in fields and "event" not in fields:
            fields["ok"] = True
        if id is not None:
            fields["reqId"] = id
        form = speech.form
        try:
            body = form.encode(fields)
        except Exception as error:
            log.exception("an answer could not be written")
            is_said = False
            fields = error_fields(Internal(f"the answer could not be written: {error!r}"))
            body = form.encode(fields if id is None else {**fields, "reqId": id})
        if len(body) > limit.MESSAGE_BYTES_MAX:
            is_said = False
            too_large = error_fields(PayloadTooLarge(len(body), limit.MESSAGE_BYTES_MAX, "answer"))
            body = form.encode({**too_large, **({} if id is None else {"reqId": id})})
        return self._send(body) and is_said

    def _send(self, body: bytes) -> bool:
        transport, cut = self._transport, self._cut
        if transport is None or cut is None or transport.is_closing():
            return False
        transport.write(cut.wrap(body))
        if self._is_full and transport.get_write_buffer_size() > limit.UNSENT_BYTES_MAX:
            log.warning("a connection does not read its answers and was ended")
            transport.abort()
            return False
        return True

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _note_idle(self) -> None:
        if self._is_idle is not None and not self._calls:
            self._is_idle.set()

    async def finish(self, patience_s: float) -> None:
        """What waits is ended; what works may finish."""
        self._follows.close()
        for key in list(self._waits):
            call = self._calls.get(key)  # one that gives up may let another be told
            if call is not None:
                call.cancel()
        if self._calls:
            self._is_idle = asyncio.Event()
            try:
                await asyncio.wait_for(self._is_idle.wait(), patience_s)
            except TimeoutError:
                log.warning("a connection was cut off with %d requests in progress", len(self._calls))
        await self._refuse_the_rest()
        self._drop()

    async def _refuse_the_rest(self) -> None:
        """Answer what the peer sent before it could know: closing with bytes unread would reset the connection, and
        answers that the peer has not read yet would be lost with it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit.LINGER_S
        lost = self._when_lost = asyncio.Event()
        seen = -1
        while seen != self._refused and self._transport is not None and loop.time() < until:
            seen = self._refused
            with suppress(TimeoutError):
                async with asyncio.timeout(limit.QUIET_S):
                    await lost.wait()


def refusal(error: Error) -> bytes:
    """What is said to a connection that is not let in."""
    return JSON_FORMAT.encode(error_fields(error)) + b"\n"


def _failed(command: str, error: Exception) -> Fields:
    if isinstance(error, Error):
        return error_fields(in_wire_terms(error, command))
    log.error("%s failed", command, exc_info=error)
    return error_fields(Internal(f"{command} failed: {error!r}; see the server's log"))


class _Later:
    """A call that waits for a job or for the disk, without a task to do so."""

    __slots__ = ("call", "caller", "connection", "context", "is_over", "key", "message", "speech", "wait", "warnings")

    def __init__(
        self,
        connection: Connection,
        speech: Speech,
        message: Command,
        warnings: list[str],
        caller: Caller,
        context: Context,
        call: Call,
    ) -> None:
        self.connection = connection
        self.speech = speech
        self.message = message
        self.warnings = warnings
        self.caller = caller
        self.context = context
        self.call = call
        self.key: object = None  # among the calls of its connection
        self.wait: Wait | None = None
        self.is_over = False  # it was told, or ended

    def told(self, found: Any, error: Error | None) -> None:
        self.is_over = True
        if error is None:
            self.connection.answer_later(self, found)
        else:
            self.connection.refuse_later(self, error)

    def cancel(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self.wait is not None:
            self.wait.give_up()
        self.connection.end_later(self)
