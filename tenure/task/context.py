"""What a handler knows of its job, and what it may say while it runs.

The calls are plain and buffered, the same in a coroutine, a thread and a process: they return at once, and what was
said goes to the store in order, before the job is settled.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from tenure.core import bound, request
from tenure.core.error import InvalidRequest
from tenure.task.outcome import CancelledByStore

if TYPE_CHECKING:
    from tenure.task.bound import Bound

_percent = bound.whole(0, 100)
APPENDS_MAX = 10_000  # said and not yet taken by the store, by one attempt


class Running:
    """The job that a handler runs."""

    __slots__ = ("attempt", "custom_id", "id", "max_attempts", "metadata", "queue", "tags", "task", "tenant", "trace")

    def __init__(
        self,
        id: int,
        task: str = "",
        queue: str = "",
        tenant: str = "",
        attempt: int = 1,
        max_attempts: int | None = None,
        custom_id: str = "",
        tags: tuple[str, ...] = (),
        metadata: dict[str, str] | None = None,
        trace: str = "",
    ) -> None:
        self.id = id
        self.task = task
        self.queue = queue
        self.tenant = tenant
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.custom_id = custom_id
        self.tags = tags
        self.metadata: dict[str, str] = metadata or {}
        self.trace = trace


class Output(Protocol):
    """Where what a handler says goes; may be called from any thread."""

    def say(self, kind: int, percent: int, text: str, data: bytes) -> None: ...


class Silent:
    """Nobody listens."""

    def say(self, kind: int, percent: int, text: str, data: bytes) -> None: ...


class Context:
    """Of one attempt. The first parameter of a handler that is annotated with it is given it."""

    def __init__(
        self, job: Running, output: Output | None = None, encode: Callable[[object], bytes] | None = None
    ) -> None:
        self.job = job
        self.attempt = job.attempt
        self.tenant = job.tenant
        self.cancelled = False
        self.state: dict[str, Any] = {}  # for middleware
        self.followups: list[Bound[Any]] = []
        self._output: Output = output or Silent()
        self._encode = encode
        self._waiters: list[asyncio.Future[None]] = []
        self._is_over = False

    def check(self) -> None:
        """Ends the handler if its job was cancelled, timed out or lost."""
        if self.cancelled:
            raise CancelledByStore(f"job {self.job.id} was cancelled or its lease was lost")

    async def until_cancelled(self) -> None:
        if self.cancelled:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        await future

    def cancel(self) -> None:
        """Called by the worker, in the loop of whoever waits."""
        self.cancelled = True
        waiters, self._waiters = self._waiters, []
        for future in waiters:
            if not future.done():
                future.set_result(None)

    def end(self) -> None:
        """The job is settled: what is said from now on, as by a hook, is not its own any more."""
        self._is_over = True
        self._output = Silent()

    def progress(self, percent: int, message: str = "") -> None:
        _percent("percent", percent)
        self._output.say(request.PROGRESS, percent, bound.clip("message", message, bound.LOG_LINE_BYTES_MAX), b"")

    def log(self, line: str) -> None:
        """A line of the job's log; what `logging` is told inside a handler comes here too."""
        self._output.say(request.LOG, 0, bound.clip("line", line, bound.LOG_LINE_BYTES_MAX), b"")

    def emit(self, value: object) -> None:
        """An item of the job's stream, for whoever reads `job.stream()`."""
        if self._encode is None:
            raise InvalidRequest("emit", value, "this context belongs to no task")
        self._output.say(request.EMIT, 0, "", self._encode(value))

    def enqueue(self, follow_up: "Bound[Any]") -> None:
        """A job to store in the same step as this one's completion: both or neither."""
        if self._is_over:
            raise InvalidRequest("follow_up", follow_up.options.task, "the job is settled; enqueue it by itself")
        if len(self.followups) >= bound.FOLLOWUPS_MAX:
            raise InvalidRequest("followups", len(self.followups), f"at most {bound.FOLLOWUPS_MAX}")
        if follow_up.tenant and follow_up.tenant != self.tenant:
            raise InvalidRequest("tenant", follow_up.tenant, "a follow-up belongs to the tenant of its job")
        self.followups.append(follow_up)


class Holder(Protocol):
    """Who has a context, or makes it when it is asked for: most handlers never do."""

    @property
    def context(self) -> Context: ...


class Held:
    def __init__(self, context: Context) -> None:
        self.context = context


_current: ContextVar[Holder | None] = ContextVar("tenure_context", default=None)


def current() -> Context:
    """The context of the job that is running here."""
    found = _current.get()
    if found is None:
        raise InvalidRequest("current", None, "no job is running here; call it inside a handler")
    return found.context


def find_current() -> Context | None:
    found = _current.get()
    return None if found is None else found.context


@contextmanager
def running(context: Context) -> Iterator[None]:
    token = _current.set(Held(context))
    try:
        yield
    finally:
        _current.reset(token)


def enter(holder: Holder) -> None:
    """For a task or thread that ends with the job."""
    _current.set(holder)
