"""Processes for handlers: forked from one that was set aside at the beginning, so that another is there at once when
one was killed or died.

The nursery is forked from the task before that has threads or connections, with the handler that it was given. It runs
nothing itself but the forks that the task asks for, and ends, with its children, when the task does. A child runs one
call after another; how it and the task speak is in `call.py`.
"""

import os
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tenure.core.error import Unavailable

ASK: Final = struct.Struct("<cq")  # what is asked, of which child
ANSWER: Final = struct.Struct("<q")
START: Final = b"s"
COLLECT: Final = b"c"
FAILED: Final = -(1 << 32)  # no process could be made
PLACES: Final = 8  # descriptors that come with one message, at most

Serve = Callable[[socket.socket], None]


class Nursery:
    """In the task."""

    def __init__(self, serve: Serve) -> None:
        """`serve` is what a child does with its end of a pair of sockets, until that ends."""
        self._line, theirs = socket.socketpair()
        self._process = _fork()
        if self._process == 0:
            self._line.close()
            _be_nursery(theirs, serve)
        theirs.close()

    def start(self) -> tuple[int, socket.socket]:
        """A new child, and how to speak to it."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._line, [ASK.pack(START, 0)], [theirs.fileno()])
        process = self._answer()
        if process == FAILED:
            ours.close()
            raise Unavailable("no process can be started for the handler; is the machine out of memory or processes?")
        return process, ours

    def collect(self, process: int) -> int:
        """How a child that has ended did: its exit code, or the negative number of a signal."""
        self._line.sendall(ASK.pack(COLLECT, process))
        return self._answer()

    def _answer(self) -> int:
        said = b""
        while len(said) < ANSWER.size:
            more = self._line.recv(ANSWER.size - len(said))
            if not more:
                raise Unavailable("the process that starts handlers is gone")
            said += more
        (number,) = ANSWER.unpack(said)
        return int(number)

    def close(self) -> None:
        """Ends the children, too."""
        self._line.close()
        os.waitpid(self._process, 0)


def _fork() -> int:
    """What other threads hold at that moment stays held in the child, which is why Python warns. The task has no
    threads of its own yet, the nursery never has; numerical libraries see to theirs, as under Spark's own forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _be_nursery(line: socket.socket, serve: Serve) -> None:
    """Never returns."""
    children: set[int] = set()
    try:
        for number in (signal.SIGINT, signal.SIGTERM):  # the task's affair
            signal.signal(number, signal.SIG_IGN)
        while True:
            said, descriptors, _, _ = socket.recv_fds(line, ASK.size, PLACES)
            if len(said) < ASK.size:
                break
            what, process = ASK.unpack(said)
            if what == START:
                line.sendall(ANSWER.pack(_make_child(line, descriptors[0], children, serve)))
            else:
                _, status = os.waitpid(process, 0)
                children.discard(process)
                line.sendall(ANSWER.pack(os.waitstatus_to_exitcode(status)))
    finally:
        for process in children:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
        os._exit(0)


def _make_child(line: socket.socket, descriptor: int, children: set[int], serve: Serve) -> int:
    try:
        process = _fork()
    except OSError:
        os.close(descriptor)
        return FAILED
    if process == 0:
        code = 1
        try:
            line.close()
            serve(socket.socket(fileno=descriptor))
            code = 0
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    os.close(descriptor)
    children.add(process)
    return process
