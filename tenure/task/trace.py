"""The trace of whoever enqueues goes with the job, and the handler continues it: W3C `traceparent`.

Where the program uses OpenTelemetry its current span is used; else the trace of the job that is running here. A handler
in a process has its span in the worker, around the process; what it does there is below that span.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tenure.core.error import RateLimited
from tenure.task.context import Context, find_current
from tenure.task.outcome import Cancel, CancelledByStore, Snooze

# What may leave a handler that has not failed.
NO_FAILURES = (asyncio.CancelledError, Cancel, CancelledByStore, GeneratorExit, RateLimited, Snooze)

Note = Callable[[object], None]


def is_traced() -> bool:
    """Whether somebody else has imported OpenTelemetry: without that there is no span to continue."""
    return "opentelemetry.trace" in sys.modules


def current_trace() -> str:
    if is_traced():
        carrier: dict[str, str] = {}
        _propagator().inject(carrier)
        found = carrier.get("traceparent", "")
        if found:
            return found
    context = find_current()
    return "" if context is None else context.job.trace


@contextmanager
def continued(context: Context) -> Iterator[Note]:
    """A span around the handler, child of whoever enqueued the job; what the handler returned is to be noted."""
    from opentelemetry import trace

    job = context.job
    attributes: dict[str, str | int] = {
        "messaging.system": "tenure",
        "messaging.operation.type": "process",
        "messaging.destination.name": job.queue,
        "messaging.message.id": str(job.id),
        "tenure.task": job.task,
        "tenure.tenant": job.tenant,
        "tenure.attempt": context.attempt,
    }
    with trace.get_tracer("tenure").start_as_current_span(
        f"run {job.task}",
        _parent(job.trace),
        trace.SpanKind.CONSUMER,
        attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:

        def note(value: object) -> None:
            if isinstance(value, BaseException) and not isinstance(value, NO_FAILURES):
                span.record_exception(value)
                span.set_status(trace.Status(trace.StatusCode.ERROR, f"{type(value).__name__}: {value}"))

        try:
            yield note
        except BaseException as error:
            note(error)
            raise


@contextmanager
def below(span: str) -> Iterator[None]:
    """What is done here is below a span of another process."""
    if not span or not is_traced():
        yield
        return
    from opentelemetry import context

    token = context.attach(_parent(span))
    try:
        yield
    finally:
        context.detach(token)


def _propagator() -> Any:
    """Of W3C always, whatever else the program is set to use: it is what a job's field holds."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()


def _parent(trace: str) -> Any:
    """Of a job without a trace there is none; in particular not the span that was current when the worker started."""
    return _propagator().extract({"traceparent": trace})
