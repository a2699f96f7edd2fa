"""Runs handlers in processes: for work that holds the interpreter, leaks, or may take it down.

A process takes one job at a time. It is started when needed, kept, and replaced when it has grown over its limit, has
done its share, was told to stop a job and did not, or died: then its job has failed, and nobody else is harmed.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

from tenure.core.state import SETTLE_FAIL
from tenure.task.trace import current_trace
from tenure.worker.attempt import Attempt
from tenure.worker.ended import Ended
from tenure.worker.message import Ask, Said, place_of, read_message, write_message

log = logging.getLogger("tenure.worker")

STOP_S = 5.0  # for a handler that was told to stop; then its process is killed
JOBS_MAX = 1_000
LAST_WORDS_S = 0.2  # of a process that has ended: what it wrote before is read first


class ProcessDied(Exception):
    """The process of a handler ended before the handler did."""


class HandlerFailed(Exception):
    """What a handler in a process raised, as far as it can be told here."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(f"{ended.type}: {ended.message}")
        self.ended = ended


class Child:
    """One process, and the job it runs."""

    def __init__(self, memory_bytes: int) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self.jobs = 0
        self.grown = 0  # resident bytes after the last job
        self._memory_bytes = memory_bytes
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tenure.worker.child", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        theirs.close()

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        loop = asyncio.get_running_loop()
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(self.process.pid)
            loop.add_reader(handle, self._exited, loop, handle)
        else:
            threading.Thread(target=self._wait_for_exit, args=(loop,), daemon=True).start()

    def _wait_for_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread, where the loop cannot be told of the end of a process."""
        self.process.wait()
        with suppress(RuntimeError):  # the loop was closed before
            loop.call_soon_threadsafe(self._end, loop)

    def _exited(self, loop: asyncio.AbstractEventLoop, handle: int) -> None:
        loop.remove_reader(handle)
        os.close(handle)
        self._end(loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        """Seen by itself: a process that it has started may hold the socket open."""
        loop.call_later(LAST_WORDS_S, self._reader.feed_eof)

    async def run(self, ask: Ask, attempt: Attempt) -> Ended:
        """Who leaves it in another way than with an answer has to `kill` it: the next answer would be this one's."""
        self.jobs += 1
        write_message(self._writer.write, ask)
        while True:
            try:
                message = await read_message(self._reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                code = await asyncio.to_thread(self.process.wait)
                raise ProcessDied(how_it_died(code)) from None
            if message.number != ask.number:
                continue
            if isinstance(message, Said):
                attempt.say(message.kind, message.percent, message.text, message.data)
            else:
                self.grown = message.resident_bytes
                return message.ended

    @property
    def is_spent(self) -> bool:
        is_fat = bool(self._memory_bytes) and self.grown > self._memory_bytes
        return self.jobs >= JOBS_MAX or is_fat or self.process.poll() is not None

    def interrupt(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()

    def close(self) -> None:
        """It ends by itself when its socket does."""
        self._writer.close()


class Processes:
    def __init__(self, loop: asyncio.AbstractEventLoop, memory_bytes: int = 0) -> None:
        self._loop = loop
        self._memory_bytes = memory_bytes
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._running: dict[Attempt, Child] = {}
        self._ending: set[asyncio.Future[None]] = set()
        self._exchanges = 0

    async def run(self, attempt: Attempt) -> Ended:
        attempt.runs_in = self
        child = self._rested() or await self._started()
        self._running[attempt] = child
        is_in_step = False
        try:
            if attempt.stop:
                is_in_step = True
                raise asyncio.CancelledError
            self._exchanges += 1
            ended = await child.run(_ask(self._exchanges, attempt), attempt)
            is_in_step = True
            return self._told(ended)
        finally:
            del self._running[attempt]
            if not is_in_step:
                child.kill()
            if child.is_spent or not is_in_step:
                self._drop(child)
            else:
                self._idle.append(child)

    def _rested(self) -> Child | None:
        """One that has nothing to do, and is still there."""
        while self._idle:
            child = self._idle.pop()
            if not child.is_spent:
                return child
            self._drop(child)
        return None

    def _told(self, ended: Ended) -> Ended:
        if ended.verb == SETTLE_FAIL:
            raise HandlerFailed(ended)
        return ended

    async def _started(self) -> Child:
        child = Child(self._memory_bytes)
        self._all.add(child)
        await child.open()
        return child

    def _drop(self, child: Child) -> None:
        self._all.discard(child)
        child.close()
        waiting = self._loop.run_in_executor(None, _wait, child.process)
        self._ending.add(waiting)
        waiting.add_done_callback(self._ending.discard)

    def stop(self, attempt: Attempt) -> None:
        child = self._running.get(attempt)
        if child is not None:
            child.interrupt()
            self._loop.call_later(STOP_S, self._kill, attempt, child)

    def _kill(self, attempt: Attempt, child: Child) -> None:
        if self._running.get(attempt) is child:
            log.warning("job %d did not stop within %.0f s; its process is killed", attempt.id, STOP_S)
            child.kill()

    async def close(self) -> None:
        for child in list(self._all):
            child.close()
        for child in list(self._all):
            await asyncio.to_thread(_wait, child.process)
        await asyncio.gather(*self._ending)
        self._all.clear()
        self._idle.clear()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ask(number: int, attempt: Attempt) -> Ask:
    job, options = attempt.context.job, attempt.options
    return Ask(
        number,
        *place_of(attempt.task),
        attempt.payload,
        options.codec,
        options.schema_version,
        job.id,
        job.task,
        job.queue,
        job.tenant,
        job.attempt,
        job.max_attempts,
        job.custom_id,
        list(job.tags),
        job.metadata,
        job.trace,
        current_trace(),
    )


def how_it_died(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        hint = "; it may have run out of memory" if name == "SIGKILL" else ""
        return f"the handler's process was ended by {name}{hint}"
    return f"the handler ended its process with {code}"
