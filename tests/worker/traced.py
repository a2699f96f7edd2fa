"""Tasks of a program that uses OpenTelemetry; imported only inside tests that have it."""

from opentelemetry import trace

import tenure
from tests.worker.telemetry import text_of

app = tenure.App("memory://")


@app.task(run="process")
def child() -> None: ...


@app.task(run="process")
def in_process(ctx: tenure.Context) -> str:
    """Which span it sees."""
    ctx.enqueue(child.bind())
    return text_of(trace.get_current_span().get_span_context())


@app.task(run="process", max_attempts=1)
def fails_in_process() -> None:
    raise ValueError("wrong")
