"""The trace of whoever enqueues is continued by the handler, with OpenTelemetry and without."""

import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

import tenure
from tenure.core.error import JobFailed
from tenure.core.request import Filter
from tests.worker.handlers import app as process_app
from tests.worker.handlers import speak
from tests.worker.telemetry import MODULE, Telemetry, own, parent, telemetry, text_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

WAIT = 60
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[Telemetry]:
    with telemetry() as found:
        yield found


def seen_here() -> str:
    from opentelemetry import trace

    return text_of(trace.get_current_span().get_span_context())


def make_app() -> tuple[tenure.App, "dict[str, tenure.Task[..., Any]]"]:
    app = tenure.App("memory://")

    @app.task
    async def child() -> None: ...

    async def in_loop(ctx: tenure.Context) -> str:
        await child.enqueue()
        ctx.enqueue(child.bind())
        return seen_here()

    def in_thread(ctx: tenure.Context) -> str:
        ctx.enqueue(child.bind())
        return seen_here()

    return app, {"async": app.add_task(in_loop, {}), "thread": app.add_task(in_thread, {})}


async def children(app: tenure.App, name: str) -> list[str]:
    """The traces of the jobs that a handler enqueued."""
    client = app.home.here
    assert client is not None
    return [job.trace for job in (await client.find(Filter(task=name))).jobs]


@pytest.mark.parametrize("mode", ["async", "thread"])
async def test_span_of_whoever_enqueues_is_the_parent_of_the_handlers_span(spans: Telemetry, mode: str) -> None:
    app, tasks = make_app()
    task = tasks[mode]
    async with app.worker() as worker:
        with spans.span("request") as request:
            job = await task.enqueue()
        seen = await job.result(WAIT)
        await worker.until_idle()
        span = spans.of(f"run {task.name}")
        assert parent(span) == request
        assert own(span) == seen
        for trace in await children(app, "child"):
            assert trace.startswith(own(span))


async def test_span_says_what_ran(spans: Telemetry) -> None:
    app, tasks = make_app()
    async with app.worker():
        job = await tasks["async"].options(queue="default").enqueue()
        await job.result(WAIT)
    span = spans.of("run in_loop")
    assert span.kind.name == "CONSUMER"
    assert span.status.is_ok
    assert dict(span.attributes or {}) == {
        "messaging.system": "tenure",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": str(job.id),
        "tenure.task": "in_loop",
        "tenure.tenant": "default",
        "tenure.attempt": 1,
    }


def said(span: "ReadableSpan") -> list[Any]:
    return [dict(event.attributes or {})["exception.message"] for event in span.events]


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("is_returned", [False, True])
async def test_failure_is_recorded_on_the_span(spans: Telemetry, in_thread: bool, is_returned: bool) -> None:
    app = tenure.App("memory://")

    def fails_in_thread() -> Any:
        if is_returned:
            return tenure.Permanent("wrong")
        raise ValueError("wrong")

    async def fails() -> Any:
        return fails_in_thread()

    task = app.add_task(fails_in_thread if in_thread else fails, {"name": "fails", "max_attempts": 1})
    async with app.worker():
        with pytest.raises(JobFailed):
            await (await task.enqueue()).result(WAIT)
    span = spans.of("run fails")
    assert not span.status.is_ok
    assert said(span) == ["wrong"]


async def test_outcome_that_is_no_failure_is_not_recorded_as_one(spans: Telemetry) -> None:
    app = tenure.App("memory://")

    @app.task
    async def gives_up() -> None:
        raise tenure.Cancel

    async with app.worker():
        with pytest.raises(tenure.JobCancelled):
            await (await gives_up.enqueue()).result(WAIT)
    assert spans.of("run gives_up").status.is_ok
    assert said(spans.of("run gives_up")) == []


async def test_job_without_a_trace_begins_one_of_its_own(spans: Telemetry) -> None:
    app, tasks = make_app()
    async with app:
        job = await tasks["async"].enqueue()
        with spans.span("start of the worker"):
            async with app.worker():
                await job.result(WAIT)
    assert parent(spans.of("run in_loop")) == ""


async def test_trace_that_is_none_is_passed_over(spans: Telemetry) -> None:
    app, tasks = make_app()
    async with app.worker():
        await (await tasks["async"].options(trace="nonsense").enqueue()).result(WAIT)
    assert parent(spans.of("run in_loop")) == ""


async def test_handler_in_a_process_is_below_its_span_in_the_worker(spans: Telemetry) -> None:
    from tests.worker import traced

    traced.app.use("memory://")
    async with traced.app.worker(concurrency=1):
        with spans.span("request") as request:
            job = await traced.in_process.enqueue()
        seen = await job.result(WAIT)
        span = spans.of("run in_process")
        assert parent(span) == request
        assert own(span) == seen
        [trace] = await children(traced.app, "child")
        assert trace.startswith(own(span))
        with pytest.raises(JobFailed):
            await (await traced.fails_in_process.enqueue()).result(WAIT)
        assert said(spans.of("run fails_in_process")) == ["ValueError: wrong"]


async def test_thread_sees_the_context_variables_of_middleware() -> None:
    app = tenure.App("memory://")
    who: ContextVar[str] = ContextVar("who", default="nobody")

    @app.middleware
    async def say(_: tenure.Context, call: Any) -> Any:
        who.set("middleware")
        return await call()

    @app.task
    def tell() -> str:
        return who.get()

    async with app.worker():
        assert await (await tell.enqueue()).result(WAIT) == "middleware"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_job_of_a_handler_carries_its_trace_without_opentelemetry(in_thread: bool) -> None:
    assert MODULE not in sys.modules
    app = tenure.App("memory://")

    @app.task
    async def child() -> None: ...

    def parent_in_thread(ctx: tenure.Context) -> str:
        ctx.enqueue(child.bind())
        return ctx.job.trace

    async def parent_in_loop(ctx: tenure.Context) -> str:
        return parent_in_thread(ctx)

    task = app.add_task(parent_in_thread if in_thread else parent_in_loop, {})
    async with app.worker():
        assert await (await task.options(trace=TRACE).enqueue()).result(WAIT) == TRACE
        assert await children(app, "child") == [TRACE]
    assert MODULE not in sys.modules


async def test_job_of_a_handler_in_a_process_carries_its_trace_without_opentelemetry() -> None:
    process_app.use("memory://")
    async with process_app.worker(concurrency=1):
        await (await speak.options(trace=TRACE).enqueue()).result(WAIT)
        assert await children(process_app, "square") == [TRACE]
    assert MODULE not in sys.modules
