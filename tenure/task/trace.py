"""The trace of whoever enqueues goes with the job, and the handler continues it: W3C `traceparent`.

Where the program uses OpenTelemetry its current span is used; else the trace of the job that is running here.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tenure.task.context import Context, find_current


def _propagate() -> Any:
    """OpenTelemetry, if somebody else has imported it: without that there is no span to continue."""
    if not is_traced():
        return None
    from opentelemetry import propagate

    return propagate


def current_trace() -> str:
    propagate = _propagate()
    if propagate is not None:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        found = carrier.get("traceparent", "")
        if found:
            return found
    context = find_current()
    return "" if context is None else context.job.trace


def is_traced() -> bool:
    return "opentelemetry.trace" in sys.modules


@contextmanager
def continued(context: Context) -> Iterator[None]:
    """A span around the handler, child of whoever enqueued the job."""
    propagate = _propagate()
    if propagate is None:
        yield
        return
    from opentelemetry import trace

    parent = propagate.extract({"traceparent": context.job.trace} if context.job.trace else {})
    attributes: dict[str, str | int] = {
        "messaging.system": "tenure",
        "messaging.destination.name": context.job.queue,
        "messaging.message.id": str(context.job.id),
        "tenure.attempt": context.attempt,
    }
    with trace.get_tracer("tenure").start_as_current_span(
        f"run {context.job.task}", parent, trace.SpanKind.CONSUMER, attributes
    ):
        yield
