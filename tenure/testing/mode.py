"""The two ways to test an app: `inline` runs a job in the call that enqueues it, `manual` when it is told to."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from threading import Thread
from types import TracebackType
from typing import Any, TypeVar

from tenure.app.app import App
from tenure.client.client import Client
from tenure.client.driver import Driver
from tenure.core.answer import Answers
from tenure.core.duration import Duration, milliseconds
from tenure.core.error import InvalidRequest
from tenure.core.request import Batch
from tenure.core.tenant import Context
from tenure.task.home import Home
from tenure.task.task import Task
from tenure.testing.client import ModeClient
from tenure.testing.clock import Clock
from tenure.testing.runner import Runner
from tenure.testing.sent import Reading, Sent, matches, show_all, show_call
from tenure.testing.store import KeptStore

T = TypeVar("T")


class Mode:
    """A store in memory in the place of the app's own, while the block lasts: `with` or `async with`.

    With `async with`, handlers run in the loop of the test; with `with`, in a thread of the app, unless the test or the
    program under test opens the app (`async with app`, a lifespan). The jobs stay the same.
    """

    def __init__(self, app: App, clock: Clock | None, inline: bool, raises: bool) -> None:
        self.app = app
        self.clock = clock or Clock()
        self.is_inline = inline
        self.sent: list[Sent] = []
        self.raises = raises
        self._store = KeptStore()
        self._reading = Reading(app.registry, app.codecs)
        self.home = ModeHome(self)
        self._undo = ExitStack()

    def make_client(self) -> Client:
        driver = Driver(self._store, self.clock)
        runner = Runner(self.app, self.clock, driver, self._note, lambda: {sent.tenant for sent in self.sent})
        return ModeClient(driver, Context(tenant=self.app.tenant), runner, self._note, self.is_inline, self.raises)

    def _note(self, batch: Batch, tenant: str, answers: Answers | None = None) -> None:
        self.sent += self._reading.sent(batch, tenant, answers)

    def clear(self) -> None:
        self.sent = []
        self._store.clear(self.clock())

    def __enter__(self) -> "Mode":
        self._undo.enter_context(self.app.at(self.home, "memory://"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
        closing = Thread(target=self.home.close_sync)  # not in this one, in which a loop may be running
        closing.start()
        closing.join()

    async def __aenter__(self) -> "Mode":
        self.__enter__()
        await self.home.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
        await self.home.close()


class ModeHome(Home):
    lets_workers_claim = False

    def __init__(self, mode: Mode) -> None:
        super().__init__(mode.make_client)
        self.mode = mode


def inline(app: App, *, clock: Clock | None = None, raises: bool = False) -> Mode:
    """While the block lasts, a job runs in the call that enqueues it, with all its retries.

    A failure is the job's, as it is with a worker; with `raises`, it is also raised by the call that enqueued.
    """
    return Mode(app, clock, True, raises)


def manual(app: App, *, clock: Clock | None = None) -> Mode:
    """While the block lasts, jobs are stored and run when `run_all` is called."""
    return Mode(app, clock, False, False)


def mode_of(app: App) -> Mode:
    if not isinstance(app.home, ModeHome):
        raise InvalidRequest("app", app.name, "it is not under test here; use inline(app) or manual(app)")
    return app.home.mode


def clock_of(app: App) -> Clock:
    return mode_of(app).clock


# Running.


async def run_all(app: App, *, concurrency: int = 1, raises: bool = False) -> int:
    """Runs what is due, and what that enqueues, until nothing is; answers how many attempts there were.

    One after another, in the order in which a worker gets them, unless more are to run at once. With `raises`, a job
    that failed for good is raised as `JobFailed`.
    """
    return await _run(app, lambda runner: runner.run_due(concurrency, raises))


def run_all_sync(app: App, *, concurrency: int = 1, raises: bool = False) -> int:
    return _run_sync(app, lambda runner: runner.run_due(concurrency, raises))


async def advance(app: App, duration: Duration) -> None:
    """Time passes. In inline mode, what comes due meanwhile runs, each at its time."""
    await _run(app, _advancing(app, duration))


def advance_sync(app: App, duration: Duration) -> None:
    _run_sync(app, _advancing(app, duration))


def _advancing(app: App, duration: Duration) -> Callable[[Runner], Awaitable[int]]:
    mode = mode_of(app)

    async def pass_time(runner: Runner) -> int:
        if mode.is_inline:
            return await runner.run_until(mode.clock().wall_ms + milliseconds("duration", duration), mode.raises)
        mode.clock.advance(duration)
        return 0

    return pass_time


async def _run(app: App, work: Callable[[Runner], Awaitable[T]]) -> T:
    return await mode_of(app).home.run(_same, lambda client: work(_runner_of(client)))


def _run_sync(app: App, work: Callable[[Runner], Awaitable[T]]) -> T:
    return mode_of(app).home.run_sync(_same, lambda client: work(_runner_of(client)))


def _same(client: Client) -> Client:
    return client


def _runner_of(client: Client) -> Runner:
    assert isinstance(client, ModeClient)
    return client.runner


# Looking.


def enqueued(app: App, task: Task[..., Any] | None = None) -> list[Sent]:
    """What was enqueued since the block began, in order, whatever became of it; follow-ups too, duplicates not."""
    return [sent for sent in mode_of(app).sent if task is None or matches(sent, task, {})]


def assert_enqueued(task: Task[..., Any], /, **arguments: Any) -> list[Sent]:
    """There is a job of the task with these arguments, whatever others it has; answers all that match."""
    __tracebackhide__ = True
    sent = mode_of(_app_of(task)).sent
    found = [each for each in sent if matches(each, task, arguments)]
    if not found:
        raise AssertionError(f"{show_call(task, arguments)} was not enqueued. {show_all(sent, task.name)}")
    return found


def assert_not_enqueued(task: Task[..., Any], /, **arguments: Any) -> None:
    __tracebackhide__ = True
    sent = mode_of(_app_of(task)).sent
    found = [each for each in sent if matches(each, task, arguments)]
    if found:
        times = "once" if len(found) == 1 else f"{len(found)} times"
        raise AssertionError(f"{show_call(task, arguments)} was enqueued {times}. {show_all(found, task.name)}")


def _app_of(task: Task[..., Any]) -> App:
    assert isinstance(task.sender, App)
    return task.sender


def clear(app: App) -> None:
    """As if nothing had been enqueued; the clock stays where it is."""
    mode_of(app).clear()
