"""One run of one job by this worker, from its lease to its settlement."""

import asyncio
from functools import partial
from typing import Any

from tenure.core.error import Error
from tenure.core.job import Extras, Options
from tenure.core.request import Append
from tenure.task.context import Context, Running
from tenure.task.task import Task
from tenure.worker.ended import Ended
from tenure.worker.lane import Lane
from tenure.worker.speaker import Speaker

# Why an attempt was told to stop.
CANCELLED = "cancelled"  # by somebody; or its lease was lost
TIMED_OUT = "timed out"
STOPPING = "the worker stops"


class Attempt:
    __slots__ = (
        "_context",
        "answer",
        "attempt",
        "extras",
        "has_said",
        "id",
        "is_told",
        "lane",
        "lease_ms",
        "loop",
        "options",
        "payload",
        "renewed_at",
        "runs_in",
        "slot",
        "speaker",
        "started_at",
        "stop",
        "task",
        "tenant",
        "timer",
        "token",
        "watch",
    )

    def __init__(
        self,
        id: int,
        token: bytes,
        task: Task[..., Any],
        payload: bytes,
        options: Options,
        tenant: str,
        attempt: int,
        extras: Extras | None,
        lease_ms: int,
        asked_at: float,
        started_at: float,
        speaker: Speaker,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.id = id
        self.token = token
        self.task = task
        self.payload = payload
        self.options = options
        self.tenant = tenant
        self.attempt = attempt
        self.extras = extras
        self.lease_ms = lease_ms  # that was left when the store answered
        self.renewed_at = (
            asked_at  # of `time.monotonic()`, before it was asked: the lease is no shorter than from there
        )
        self.started_at = started_at  # of the loop's clock
        self.speaker = speaker
        self.loop = loop
        self.lane: Lane | None = None  # of those that run alone
        self.slot = -1  # in the table of the keeper
        self.stop = ""  # why it was told to, if it was
        self.has_said = False
        self.is_told = False  # the store, or its settler, how it ended
        self.answer: asyncio.Future[tuple[Ended, int, Error | None]] | None = None  # of the store, if somebody waits
        self.timer: asyncio.TimerHandle | None = None
        self.runs_in: Any = None  # what runs it: a task of the loop, or has `stop(attempt)`
        self.watch: asyncio.Task[None] | None = None
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        """Made when somebody asks for it."""
        if self._context is None:
            options, extras = self.options, self.extras or Extras()
            job = Running(
                self.id,
                self.task.name,
                options.queue,
                self.tenant,
                self.attempt,
                options.max_attempts or None,
                extras.custom_id,
                extras.tags,
                extras.metadata,
                extras.trace,
            )
            context = Context(job, self, partial(self.task.write, options.codec))
            context.cancelled = bool(self.stop)
            self._context = context
        return self._context

    def forget_context(self) -> Context | None:
        """The one that was made, if any. It and the attempt hold each other until then."""
        context, self._context = self._context, None
        if context is not None:
            context.end()
        return context

    def say(self, kind: int, percent: int, text: str, data: bytes) -> None:
        """What the handler says, from whichever thread."""
        self.has_said = True
        append = Append(kind, self.id, self.token, percent, text, data)
        try:
            is_here = asyncio.get_running_loop() is self.loop
        except RuntimeError:
            is_here = False
        if is_here:
            self.speaker.say(append)
        else:
            self.loop.call_soon_threadsafe(self.speaker.say, append)
