"""What a task and the process of its handler say to each other, and what that process does.

The task sends the jobs of a call; the process answers each as it ends, with what its handler said before. Handlers of
one job get theirs one after the other. How far they have got is in memory that both share: the process writes which job
it is about to begin and then looks how many it may; the task lowers that number and then looks which have begun. So
jobs that wait behind a slow one can be taken back at any time, and none of them begins after that.
"""

import mmap
import os
import signal
import socket
import struct
import threading
from types import FrameType
from typing import Any, Final

import msgspec

from tenure.core.answer import Claimed
from tenure.spark.handler import Calls
from tenure.task.outcome import CancelledByStore
from tenure.wire.value import WireClaimed, pack_claimed, unpack_claimed
from tenure.worker.attempt import Attempt
from tenure.worker.ended import Ended, failed
from tenure.worker.followup import packed_followups
from tenure.worker.joblog import TAP

HEAD: Final = struct.Struct("<I")
NUMBER: Final = struct.Struct("<q")
ALLOWED_AT: Final = 8


class Ask(msgspec.Struct, array_like=True):
    call: int  # its number: what is said of another one is not heard
    claimed: WireClaimed


class Said(msgspec.Struct, array_like=True, tag="said"):
    call: int
    at: int  # of the jobs of the call
    kind: int
    percent: int
    text: str
    data: bytes


class Done(msgspec.Struct, array_like=True, tag="done"):
    call: int
    at: int
    ended: Ended


class Over(msgspec.Struct, array_like=True, tag="over"):
    """The call has ended; jobs of which nothing was said did not begin."""

    call: int


Answer = Said | Done | Over
_encode = msgspec.msgpack.Encoder().encode
_read_ask = msgspec.msgpack.Decoder(Ask).decode
_read_answer = msgspec.msgpack.Decoder(Answer).decode


class Progress:
    """How many jobs of a call have begun, and how many may: shared with forks of the process that made it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)

    def reset(self, count: int) -> None:
        NUMBER.pack_into(self._memory, 0, 0)
        NUMBER.pack_into(self._memory, ALLOWED_AT, count)

    @property
    def begun(self) -> int:
        (found,) = NUMBER.unpack_from(self._memory, 0)
        return int(found)

    @property
    def allowed(self) -> int:
        (found,) = NUMBER.unpack_from(self._memory, ALLOWED_AT)
        return int(found)

    def begin(self, at: int) -> bool:
        """Whether it may."""
        NUMBER.pack_into(self._memory, 0, at + 1)
        if at < self.allowed:
            return True
        NUMBER.pack_into(self._memory, 0, at)
        return False

    def take_back(self, first: int) -> int:
        """Those from there on are not to begin; answers the first of which that is sure."""
        NUMBER.pack_into(self._memory, ALLOWED_AT, first)
        return max(self.begun, first)


class Frames:
    """Messages out of a stream of bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, more: bytes) -> list[bytes]:
        self._bytes += more
        found: list[bytes] = []
        start = 0
        while len(self._bytes) - start >= HEAD.size:
            (size,) = HEAD.unpack_from(self._bytes, start)
            end = start + HEAD.size + size
            if len(self._bytes) < end:
                break
            found.append(bytes(self._bytes[start + HEAD.size : end]))
            start = end
        del self._bytes[:start]
        return found


def ask(line: socket.socket, call: int, attempts: list[Attempt]) -> None:
    """Send the jobs of a call."""
    claimed = Claimed(attempts[0].token)
    for attempt in attempts:
        claimed.ids.append(attempt.id)
        claimed.payloads.append(attempt.payload)
        claimed.options.append(attempt.options)
        claimed.tenants.append(attempt.tenant)
        claimed.attempts.append(attempt.attempt)
        claimed.lease_until.append(0)
        claimed.lease_ms.append(attempt.lease_ms)
        claimed.extras.append(attempt.extras)
    body = _encode(Ask(call, pack_claimed(claimed)))
    line.sendall(HEAD.pack(len(body)) + body)


def read_answers(frames: Frames, more: bytes) -> list[Answer]:
    return [_read_answer(body) for body in frames.feed(more)]


# In the process of the handler.


class Job(Attempt):
    """An attempt there: what it says goes to the task."""

    __slots__ = ("at", "line")
    at: int
    line: "Line"

    def say(self, kind: int, percent: int, text: str, data: bytes) -> None:
        self.line.write(Said(self.line.call, self.at, kind, percent, text, data))


class Line:
    def __init__(self, line: socket.socket) -> None:
        self._socket = line
        self._frames = Frames()
        self._lock = threading.Lock()  # a handler may have threads
        self.call = 0

    def read(self) -> Claimed | None:
        """The jobs of the next call; None when there will be none."""
        while more := self._socket.recv(1 << 20):
            for body in self._frames.feed(more):
                asked = _read_ask(body)
                self.call = asked.call
                return unpack_claimed(asked.claimed)
        return None

    def write(self, *messages: Answer) -> None:
        bodies = [_encode(message) for message in messages]
        with self._lock:
            self._socket.sendall(b"".join(HEAD.pack(len(body)) + body for body in bodies))


class Stop:
    """What SIGUSR1 does: raises in a handler, and nowhere else."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []  # that the handler has

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.jobs:
            for job in self.jobs:
                job.context.cancelled = True
            self.jobs = []
            raise CancelledByStore


def serve(line: socket.socket, handler: Calls, progress: Progress) -> None:
    """One call after the other, until the line ends."""
    stop = Stop()
    signal.signal(signal.SIGUSR1, stop)
    process = os.getpid()
    said = Line(line)
    TAP.install()
    while (claimed := said.read()) is not None:
        jobs = _jobs(claimed, handler, said)
        if handler.is_single:
            for job in jobs:
                if not progress.begin(job.at):
                    break
                _answer([job], handler, stop, said, process)
        else:
            progress.begin(len(jobs) - 1)
            _answer(jobs, handler, stop, said, process)
        said.write(Over(said.call))


def _answer(jobs: list[Job], handler: Calls, stop: Stop, said: Line, process: int) -> None:
    attempts: list[Attempt] = list(jobs)
    try:
        stop.jobs = jobs
        try:
            ended = handler.run(attempts)
        finally:
            stop.jobs = []
    except CancelledByStore as error:
        ended = [failed(error)] * len(jobs)
    if os.getpid() != process:
        os._exit(0)  # a fork that came back from the handler: the line is its parent's
    done: list[Done] = []
    for job, how in zip(jobs, ended, strict=True):
        context = job.forget_context()
        if context is not None and context.followups:
            how = msgspec.structs.replace(how, followups=packed_followups(context))
        done.append(Done(said.call, job.at, how))
    said.write(*done)


def _jobs(claimed: Claimed, handler: Calls, line: Line) -> list[Job]:
    jobs: list[Job] = []
    nowhere: Any = None  # no loop and no speaker: what a job says goes over the line
    for at, id in enumerate(claimed.ids):
        options = claimed.options[at]
        job = Job(
            id,
            claimed.token,
            handler.task_of(options.task),
            claimed.payloads[at],
            options,
            claimed.tenants[at],
            claimed.attempts[at],
            claimed.extras[at],
            claimed.lease_ms[at],
            0.0,
            0.0,
            nowhere,
            nowhere,
        )
        job.at, job.line = at, line
        jobs.append(job)
    return jobs
