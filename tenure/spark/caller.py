"""Calls a handler in a process of its own, and ends the call when nobody wants it any more: when its jobs timed out,
were cancelled, or the worker's time is over. A process that was killed or died is replaced; its task goes on.
"""

import math
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tenure.spark.call import Answer, Done, Frames, Over, Progress, Said, ask, read_answers, serve
from tenure.spark.handler import Calls
from tenure.spark.nursery import Nursery
from tenure.task.outcome import CancelledByStore
from tenure.worker.attempt import CANCELLED, STOPPING, TIMED_OUT, Attempt
from tenure.worker.ended import RELEASED, Ended, failed
from tenure.worker.processes import STOP_S, ProcessDied, how_it_died

HOLD_S: Final = 2.0  # no job is held for longer than about this before it begins
TIMEOUT_PARTS: Final = 50  # nor for more than such a part of its timeout, which runs from the claim on
LOOK_S: Final = 60.0  # at least so often it is looked whether a call is wanted
TIMEOUT_GRACE_S: Final = 0.25  # the store ends the attempt first

Tell = Callable[[Attempt, Ended], None]


class Died(Exception):
    """The process of the handler has ended; how."""


class Caller:
    def __init__(self, handler: Calls) -> None:
        """To be made before the process has threads: it forks."""
        self.is_single = handler.is_single
        self.progress = Progress()
        self._nursery = Nursery(lambda line: serve(line, handler, self.progress))
        self._process = 0
        self._line: socket.socket | None = None
        self._frames = Frames()
        self._call = 0
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._is_rung = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ)

    def ring(self) -> None:
        """From any thread: somebody has to look again."""
        with suppress(OSError):
            self._ringer.send(b"!", socket.MSG_DONTWAIT)

    def was_rung(self) -> bool:
        """Since somebody last asked."""
        was_rung, self._is_rung = self._is_rung, False
        return was_rung

    def begin(self, attempts: list[Attempt]) -> None:
        if self._line is None:
            self._process, self._line = self._nursery.start()
            self._frames = Frames()
            self._selector.register(self._line, selectors.EVENT_READ)
        self._call += 1
        self.progress.reset(len(attempts))
        try:
            ask(self._line, self._call, attempts)
        except OSError:
            self._bury()

    def hear(self, seconds: float) -> list[Answer]:
        """What comes within that time. Raises `Died`."""
        assert self._line is not None
        answers: list[Answer] = []
        for key, _ in self._selector.select(max(seconds, 0)):
            if key.fileobj is self._bell:
                self._bell.recv(4_096)
                self._is_rung = True
                continue
            try:
                more = self._line.recv(1 << 20)
            except OSError:
                more = b""
            if not more:
                self._bury()
            answers += [each for each in read_answers(self._frames, more) if each.call == self._call]
        return answers

    def _bury(self) -> None:
        raise Died(how_it_died(self._end()))

    def _end(self) -> int:
        """The exit code of the child, which is no more afterwards."""
        assert self._line is not None
        self._selector.unregister(self._line)
        self._line.close()
        self._line = None
        return self._nursery.collect(self._process)

    def interrupt(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGUSR1)

    def kill(self) -> None:
        """Heard of as `Died`."""
        with suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def give_up(self) -> None:
        """The call is of no use any more, whatever comes of it."""
        if self._line is not None:
            self.kill()
            self._end()

    def close(self) -> None:
        if self._line is not None:
            self._line.shutdown(socket.SHUT_WR)  # it ends by itself; what it still prints is printed
            self._line.settimeout(STOP_S)
            with suppress(OSError):
                self._line.recv(1)
            self.kill()
            self._end()
        self._nursery.close()
        self._selector.close()
        self._bell.close()
        self._ringer.close()


class Calling:
    """One call: what is told of each of its jobs goes to `tell`."""

    def __init__(self, caller: Caller, attempts: list[Attempt], end_at: float, stop_s: float, tell: Tell) -> None:
        """From `end_at` on nothing begins, and `stop_s` later what runs is stopped."""
        self._caller = caller
        self._attempts = attempts
        self._end_at = end_at
        self._stop_at = end_at + stop_s
        self._tell = tell
        self._open = dict(enumerate(attempts))  # by place: of which nothing was heard
        self._began_at = time.monotonic()
        self._hold_s = hold_of(attempts)
        self._interrupted: list[Attempt] = []
        self._kill_at = 0.0
        self.died = ""  # how, if its process did by itself

    def run(self) -> list[Attempt]:
        """Those that did not begin; or, of a handler of many whose process died, those that it had."""
        caller = self._caller
        try:
            caller.begin(self._attempts)
            while True:
                wake_at = self._look(time.monotonic())
                for answer in caller.hear(wake_at - time.monotonic()):
                    if isinstance(answer, Over):
                        return list(self._open.values())
                    self._hear(answer)
        except Died as death:
            return self._bury(str(death))

    def _hear(self, answer: Said | Done) -> None:
        attempt = self._attempts[answer.at]
        if isinstance(answer, Said):
            attempt.say(answer.kind, answer.percent, answer.text, answer.data)
        elif self._open.pop(answer.at, None) is not None:
            self._tell(attempt, told_of(attempt, answer.ended))

    def _running(self) -> list[Attempt]:
        if not self._caller.is_single:
            return list(self._open.values())
        current = self._open.get(self._caller.progress.begun - 1)
        return [] if current is None else [current]

    def _look(self, now: float) -> float:
        """Stop what is not wanted; answers when to look again."""
        wake_at = now + LOOK_S
        if self._caller.is_single:
            wake_at = self._take_back(now)
        running = self._running()
        for attempt in running:
            timeout_ms = attempt.options.timeout_ms
            over_at = attempt.started_at + timeout_ms / 1_000 + TIMEOUT_GRACE_S if timeout_ms else math.inf
            if not attempt.stop and now >= over_at:
                attempt.stop = TIMED_OUT
            elif not attempt.stop and now >= self._stop_at:
                attempt.stop = STOPPING
            if not attempt.stop:
                wake_at = min(wake_at, over_at, self._stop_at)
        if running and all(attempt.stop for attempt in running):
            wake_at = min(wake_at, self._stop(running, now))
        return wake_at

    def _stop(self, running: list[Attempt], now: float) -> float:
        """Asked at first, then killed."""
        if self._interrupted != running:
            self._interrupted = running
            self._kill_at = now + STOP_S
            self._caller.interrupt()
        elif now >= self._kill_at:
            self._caller.kill()
            return now + LOOK_S
        return self._kill_at

    def _take_back(self, now: float) -> float:
        """Jobs that wait behind others do not begin when that takes long, when they are cancelled, or at the end.
        Answers when to look again."""
        progress = self._caller.progress
        begun, allowed = progress.begun, progress.allowed
        hold_at = min(self._began_at + self._hold_s, self._end_at)
        first = allowed
        if now >= hold_at:
            first = begun if now >= self._end_at else max(begun, 1)
        elif self._caller.was_rung():
            first = next((at for at in range(begun, allowed) if self._attempts[at].stop), allowed)
        if first < allowed:
            progress.take_back(first)
        return hold_at if first > begun and now < hold_at else now + LOOK_S

    def _bury(self, how: str) -> list[Attempt]:
        """What ran has ended with its process, if it was not stopped; what had not begun is left."""
        running = self._running()
        for at, attempt in list(self._open.items()):
            if attempt.stop and attempt in running:
                del self._open[at]
                self._tell(attempt, told_of(attempt, RELEASED))
            elif attempt in running:
                self.died = how
        if self.died and len(running) == 1:
            [at] = [at for at, attempt in self._open.items() if attempt is running[0]]
            self._tell(self._open.pop(at), failed(ProcessDied(how)))
        return list(self._open.values())


def hold_of(attempts: list[Attempt]) -> float:
    """For how many seconds these may wait for each other."""
    timeouts = (attempt.options.timeout_ms for attempt in attempts)
    return min(min((ms / 1_000 / TIMEOUT_PARTS for ms in timeouts if ms), default=HOLD_S), HOLD_S)


def told_of(attempt: Attempt, ended: Ended) -> Ended:
    """What the store is told of a job whose handler has ended, or was ended."""
    if attempt.stop == TIMED_OUT:
        return failed(TimeoutError(f"it ran longer than {attempt.options.timeout_ms} ms"))
    if attempt.stop == CANCELLED or ended.type == CancelledByStore.__qualname__:
        return RELEASED  # refused if it was cancelled; it is the sign that its handler has stopped
    return ended
