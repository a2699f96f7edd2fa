"""The stream of a worker: jobs for credits, and everything that is said of them.

Three tasks share a stream. The reader takes what the worker says and answers it, many at a time. The claimer waits for
credits, then for jobs; a job that it takes is held from that moment on. The writer sends. When one of them ends the
stream does, and what is held then is released.

What waits to be sent is bounded: jobs by credits, cancellations by jobs held, answers by the places of the reader; and
while there are many bytes of it nothing is claimed or read, so that no lease runs in a buffer.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import grpc

from tenure.core.error import (
    AlreadySettled,
    Error,
    Internal,
    InvalidRequest,
    JobCancelled,
    JobNotFound,
    LeaseLost,
    Unavailable,
)
from tenure.server.caller import Caller
from tenure.server.grpc import request, response
from tenure.server.grpc import tenure_pb2 as pb
from tenure.server.grpc.status import Context
from tenure.server.handler import STOPPING, Asked
from tenure.wire.limit import CALLS_PER_CONNECTION, GRPC_CREDITS_MAX, GRPC_HELD_MAX, GRPC_UNSENT_BYTES_MAX
from tenure.wire.speech import Call

if TYPE_CHECKING:
    from tenure.server.grpc.door import GrpcDoor

CLAIM_JOBS: Final = 1_000
CLAIM_WAIT_MS: Final = 60_000
AGAIN_MS: Final = 1_000  # after an error that passes, where it does not say when
OVER: Final = (AlreadySettled, JobCancelled, JobNotFound, LeaseLost)  # nothing is held any more

TRANSLATORS: Final[dict[str, request.Translator]] = {
    "settle": request.settle,
    "extend": request.extend,
    "append": request.append,
}
log = logging.getLogger("tenure.server")

ANSWERS: Final = {"settle": "settled", "extend": "extended", "append": "appended"}


class HeldJob:
    __slots__ = ("is_told", "lease_until", "token")

    def __init__(self, token: bytes, lease_until: int) -> None:
        self.token = token
        self.lease_until = lease_until
        self.is_told = False  # that it was cancelled


class WorkStream:
    def __init__(self, door: "GrpcDoor", context: Context, caller: Caller, trace: str) -> None:
        self._door = door
        self._handler = door.handler
        self._context = context
        self._caller = caller
        self._trace = trace
        self._number = door.handler.number()
        self._open = pb.Open()
        self._worker = ""
        self._credits = 0
        self._changed = asyncio.Event()  # more credits, or fewer jobs held
        self._held: dict[int, HeldJob] = {}
        self._out: asyncio.Queue[tuple[pb.WorkResponse, int, bool] | None] = asyncio.Queue()
        self._unsent = 0  # bytes
        self._may_go_on = asyncio.Event()  # the worker reads what it is sent
        self._may_go_on.set()
        self._places = asyncio.Semaphore(CALLS_PER_CONNECTION)
        self._answering: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._writer: asyncio.Task[None] | None = None
        self._is_stopped = asyncio.Event()

    def stop(self) -> None:
        self._is_stopped.set()

    async def run(self) -> None:
        first = await self._next()
        if first is None:
            return
        self._begin(first)
        self._door.streams.setdefault(self._worker, set()).add(self)
        try:
            await self._run()
        finally:
            await asyncio.shield(self._handler.see_to(self._end()))

    async def _next(self) -> pb.WorkRequest | None:
        """What the worker says; None at the end."""
        message = await self._context.read()
        if isinstance(message, Error):
            raise message
        return None if message is grpc.aio.EOF else message

    def _begin(self, first: pb.WorkRequest) -> None:
        if first.WhichOneof("what") != "open":
            raise InvalidRequest("what", first.WhichOneof("what"), "the first message of a stream is open")
        self._open = first.open
        self._worker = first.open.wish.worker or f"grpc-{self._number}"
        self._claim(1)  # whatever is wrong with it is said at once
        self._grant(first.open.credits)
        self._send(pb.WorkResponse(ref=first.ref, opened=pb.Opened(worker=self._worker)))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        reader = loop.create_task(self._read())
        claimer = loop.create_task(self._take())
        writer = self._writer = loop.create_task(self._write())
        stopped = loop.create_task(self._stopped())
        self._tasks += [reader, claimer, writer, stopped]
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        claimer.cancel()  # the worker has said everything; what it asked is answered
        self._out.put_nowait(None)
        await writer

    def drop_revoked(self) -> None:
        if self._caller.is_revoked:
            self.stop()

    async def _stopped(self) -> None:
        await self._is_stopped.wait()
        self._caller.check_revoked()
        raise Unavailable(STOPPING)

    async def _end(self) -> None:
        """Nothing that it leased stays with it."""
        streams = self._door.streams.get(self._worker, set())
        streams.discard(self)
        if not streams:
            self._door.streams.pop(self._worker, None)
        tasks = [*(task for task in self._tasks if task is not self._writer), *self._answering]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._held:
            await self._handler.release(list(self._held), [held.token for held in self._held.values()])
        if self._writer is not None:
            await self._finish_writing(self._writer)

    async def _finish_writing(self, writer: asyncio.Task[None]) -> None:
        """What is being sent is sent to its end: the status of a call cannot be said before. Jobs that nobody will
        work on are left out."""
        rest = [self._out.get_nowait() for _ in range(self._out.qsize())]
        for sent in rest:
            if sent is not None and sent[0].WhichOneof("what") != "job":
                self._out.put_nowait(sent)
        self._out.put_nowait(None)
        await asyncio.gather(writer, return_exceptions=True)

    # Jobs for credits.

    def _grant(self, credits: int) -> None:
        if credits < 0 or self._credits + credits > GRPC_CREDITS_MAX:
            raise InvalidRequest("credits", credits, f"from 0 to {GRPC_CREDITS_MAX} may be granted and not used")
        self._credits += credits
        self._changed.set()

    def _claim(self, count: int) -> Call:
        return request.claim_of(self._door.speech(), self._open.wish, count, CLAIM_WAIT_MS, self._worker)

    async def _take(self) -> None:
        header = self._open.header
        asked = Asked(header.tenant, list(header.tenants) or None, "", header.durability, self._number, self._trace)
        while True:
            await self._may_go_on.wait()
            count = min(self._credits, CLAIM_JOBS, self._room())
            if count < 1:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                found = await self._handler.execute(self._caller, asked, self._claim(count))
            except Error as error:
                if not error.retryable or self._door.is_closing:
                    raise
                after = error.fields.get("retry_after_ms")
                await asyncio.sleep((after if isinstance(after, int) else AGAIN_MS) / 1_000)
                continue
            for at, id in enumerate(found.ids):
                self._held[id] = HeldJob(found.token, found.lease_until[at])
                self._credits -= 1
                self._send(pb.WorkResponse(job=response.leased(found, at)))

    def _room(self) -> int:
        """How many more may be held. Leases that ran out are forgotten where it matters."""
        if len(self._held) >= GRPC_HELD_MAX:
            now = self._handler.clock().wall_ms
            for id in [id for id, held in self._held.items() if held.lease_until < now]:
                del self._held[id]
        return GRPC_HELD_MAX - len(self._held)

    def tell_cancelled(self, job: int) -> None:
        held = self._held.get(job)
        if held is not None and not held.is_told:
            held.is_told = True
            self._send(pb.WorkResponse(cancelled=pb.Cancelled(id=job)))

    # What the worker says.

    async def _read(self) -> None:
        while True:
            await self._may_go_on.wait()
            message = await self._next()
            if message is None:
                break
            what = message.WhichOneof("what")
            if what == "credits":
                self._grant(message.credits)
                continue
            await self._places.acquire()
            task = asyncio.get_running_loop().create_task(self._answer(message, what))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        if self._answering:
            await asyncio.gather(*self._answering)

    async def _answer(self, message: pb.WorkRequest, what: str | None) -> None:
        try:
            answer = await self._execute(message, what)
        except Error as error:
            answer = pb.WorkResponse(error=response.error(error))
        except Exception as error:
            log.exception("%s failed", what)
            failed = Internal(f"{what} failed: {error!r}; see the server's log")
            answer = pb.WorkResponse(error=response.error(failed))
        answer.ref = message.ref
        self._send(answer, True)

    async def _execute(self, message: pb.WorkRequest, what: str | None) -> pb.WorkResponse:
        if what not in TRANSLATORS:
            raise InvalidRequest("what", what, "it must be credits, settle, extend or append")
        asked_for = getattr(message, what)
        asking = TRANSLATORS[what](self._door.speech(), asked_for, None)
        found = await self._handler.execute(self._caller, self._asked(asked_for.header), asking.call)
        if what == "settle":
            self._note_settled(asked_for, found)
        elif what == "extend":
            self._note_extended(asked_for, found)
        answer: dict[str, Any] = {ANSWERS[what]: asking.answer(found)}
        return response.bounded(pb.WorkResponse(**answer))

    def _asked(self, header: pb.Header) -> Asked:
        """For the tenants of the stream, unless it says others."""
        opened = self._open.header
        whose = header if header.tenant or header.tenants else opened
        tenants = list(whose.tenants) or None
        durability = header.durability or opened.durability
        return Asked(whose.tenant, tenants, header.op_id, durability, self._number, self._trace)

    def _note_settled(self, message: pb.SettleRequest, found: Any) -> None:
        errors = found.errors()
        tokens = request.tokens_of(message.items)
        for at, item in enumerate(message.items):
            error = errors.get(at)
            if error is None or isinstance(error, OVER):
                self._let_go(item.id, None if tokens is None else tokens[at])

    def _note_extended(self, message: pb.ExtendRequest, found: Any) -> None:
        errors = found.errors or {}
        tokens = request.tokens_of(message.jobs)
        for at, job in enumerate(message.jobs):
            held = self._held.get(job.id)
            if isinstance(errors.get(at), LeaseLost):
                self._let_go(job.id, None if tokens is None else tokens[at])
            elif at not in errors and held is not None:
                held.lease_until = found.lease_until[at]

    def _let_go(self, id: int, token: bytes | None) -> None:
        """Unless what was said is of an earlier lease."""
        held = self._held.get(id)
        if held is not None and (token is None or token == held.token):
            del self._held[id]
            self._changed.set()

    # What is sent.

    def _send(self, message: pb.WorkResponse, takes_place: bool = False) -> None:
        size = message.ByteSize()
        self._out.put_nowait((message, size, takes_place))
        self._unsent += size
        if self._unsent > GRPC_UNSENT_BYTES_MAX:
            self._may_go_on.clear()

    async def _write(self) -> None:
        while (sent := await self._out.get()) is not None:
            message, size, takes_place = sent
            await self._context.write(message)
            self._unsent -= size
            if self._unsent <= GRPC_UNSENT_BYTES_MAX:
                self._may_go_on.set()
            if takes_place:
                self._places.release()
