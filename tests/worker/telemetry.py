"""OpenTelemetry for one test at a time: the others run as they do in a program without it.

A worker looks whether `opentelemetry.trace` was imported, so it is imported late here, and hidden again after.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

MODULE = "opentelemetry.trace"


@cache
def _installed() -> "tuple[Any, InMemorySpanExporter]":
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return trace, exporter


class Telemetry:
    def __init__(self, trace: Any, exporter: "InMemorySpanExporter") -> None:
        self._trace = trace
        self._exporter = exporter

    @contextmanager
    def span(self, name: str) -> Iterator[str]:
        """A span of the test's own, as the text of a `traceparent` up to its flags."""
        with self._trace.get_tracer("test").start_as_current_span(name) as span:
            yield text_of(span.get_span_context())

    def of(self, name: str) -> "ReadableSpan":
        [found] = [span for span in self._exporter.get_finished_spans() if span.name == name]
        return found


def text_of(context: Any) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}"


def own(span: "ReadableSpan") -> str:
    return text_of(span.context)


def parent(span: "ReadableSpan") -> str:
    return "" if span.parent is None else text_of(span.parent)


@contextmanager
def telemetry() -> Iterator[Telemetry]:
    trace, exporter = _installed()
    sys.modules[MODULE] = trace
    exporter.clear()
    try:
        yield Telemetry(trace, exporter)
    finally:
        del sys.modules[MODULE]
