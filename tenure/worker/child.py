"""The process of handlers with `run="process"`: it runs one job after another, until its socket ends.

It finds a task where its function is defined: the module is imported, or, when it was the program itself, run under
another name. SIGUSR1 means that the job it runs has to stop.
"""

import asyncio
import importlib
import os
import resource
import runpy
import signal
import socket
import sys
from functools import partial
from types import FrameType
from typing import Any

import msgspec

from tenure.core.error import InvalidRequest
from tenure.task.context import Context, Held, Running, running
from tenure.task.outcome import CancelledByStore
from tenure.task.task import Task
from tenure.task.trace import below
from tenure.worker.call import call_sync, ended_with, read_call
from tenure.worker.ended import Ended, ended_by, failed
from tenure.worker.followup import packed_followups
from tenure.worker.joblog import TAP
from tenure.worker.message import HEAD, MAIN, Ask, Finished, Said, read_ask, write_message
from tenure.worker.parent import end_with_parent


class Tasks:
    """Those that were asked for, by place."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Task[..., Any]] = {}

    def find(self, module: str, file: str, name: str) -> Task[..., Any]:
        key = (file or module, name)
        found = self._known.get(key)
        if found is None:
            space = _program(file) if file else vars(importlib.import_module(module))
            value: Any = space.get(name.split(".")[0])
            for part in name.split(".")[1:]:
                value = getattr(value, part)
            if not isinstance(value, Task):
                raise InvalidRequest("task", name, f"{file or module} has no task of that name")
            found = self._known[key] = value
        return found


_programs: dict[str, dict[str, Any]] = {}


def _program(file: str) -> dict[str, Any]:
    if file not in _programs:
        _programs[file] = runpy.run_path(file, run_name=MAIN)
    return _programs[file]


class Line:
    """The socket to the worker, in blocking calls."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._file = self._socket.makefile("rb")
        self.number = 0  # of the exchange

    def read(self) -> Ask | None:
        head = self._file.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        (size,) = HEAD.unpack(head)
        body = self._file.read(size)
        return read_ask(body) if len(body) == size else None

    def write(self, message: msgspec.Struct) -> None:
        write_message(self._socket.sendall, message)

    def say(self, kind: int, percent: int, text: str, data: bytes) -> None:
        self.write(Said(self.number, kind, percent, text, data))


class Stop:
    """What the signal does: raises in a handler, and nowhere else."""

    def __init__(self) -> None:
        self.context: Context | None = None

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.context is not None:
            self.context.cancelled = True
            raise CancelledByStore


def handle(ask: Ask, tasks: Tasks, line: Line, stop: Stop) -> Ended:
    task = tasks.find(ask.module, ask.file, ask.name)
    job = Running(
        ask.id,
        ask.task,
        ask.queue,
        ask.tenant,
        ask.attempt,
        ask.max_attempts,
        ask.custom_id,
        tuple(ask.tags),
        ask.metadata,
        ask.trace,
    )
    context = Context(job, line, partial(task.write, ask.codec))
    try:
        args, named = read_call(task, ask.payload, ask.codec, ask.version)
        stop.context = context
        try:
            with running(context), below(ask.span), asyncio.Runner() as runner:
                value = call_sync(task, Held(context), args, named, runner.run)
        finally:
            stop.context = None
        ended = ended_with(task, value, ask.codec)
        if context.followups:
            ended = msgspec.structs.replace(ended, followups=packed_followups(context))
        return ended
    except BaseException as error:
        return ended_by(error, task.settings)


def resident_bytes() -> int:
    """What this process has in memory. Not the most it ever had: that is inherited from the worker that started it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    end_with_parent(signal.SIGKILL)
    line = Line(int(sys.argv[1]))
    stop = Stop()
    signal.signal(signal.SIGUSR1, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the worker's affair
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    process = os.getpid()
    tasks = Tasks()
    TAP.install()
    while (ask := line.read()) is not None:
        line.number = ask.number
        try:
            ended = handle(ask, tasks, line, stop)
        except BaseException as error:  # the task could not be found or loaded
            ended = failed(error)
        if os.getpid() != process:
            os._exit(0)  # a fork that came back from the handler: the line is its parent's
        line.write(Finished(ask.number, ended, resident_bytes()))


if __name__ == "__main__":
    main()
