"""What is counted, for Prometheus: requests by command and outcome, how long they took, jobs by queue and state.

Labels are bounded: commands and statuses are few, and of the queues the largest are named and the others added up.
"""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tenure.server.handler import Handler

QUEUES_SHOWN = 200
OTHER = "(other)"  # no queue can have this name
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.registry = CollectorRegistry(auto_describe=True)
        self._seconds = Histogram(
            "tenure_request_seconds",
            "Time from a request's head to its answer over HTTP, what it waited included.",
            ("command",),
            registry=self.registry,
            buckets=BUCKETS_S,
        )
        self._children: dict[str, Histogram] = {}

    def note(self, command: str, outcome: str, seconds: float) -> None:
        """Of a request over HTTP."""
        self._handler.note("http", command, outcome)
        child = self._children.get(command)
        if child is None:
            child = self._children[command] = self._seconds.labels(command)
        child.observe(seconds)

    def show(self, counts: dict[str, dict[str, int]], with_figures: bool = False) -> bytes:
        """With the figures of all tenants together, for who reaches all of them."""
        jobs = CollectorRegistry(auto_describe=False)
        jobs.register(_Counted(self._handler, counts, with_figures))
        return generate_latest(self.registry) + generate_latest(jobs)


class _Counted(Collector):
    def __init__(self, handler: Handler, counts: dict[str, dict[str, int]], with_figures: bool) -> None:
        self._handler = handler
        self._counts = counts
        self._figures = handler.figures if with_figures else ()

    def collect(self) -> Iterator[Metric]:
        labels = ("door", "command", "outcome")
        requests = CounterMetricFamily("tenure_requests", "Requests that were answered.", labels=labels)
        for key, count in self._handler.answered.items():
            requests.add_metric(key, count)
        yield requests
        family = GaugeMetricFamily("tenure_jobs", "Jobs by queue and state.", labels=("queue", "state"))
        for queue, states in shown(self._counts).items():
            for state, count in states.items():
                family.add_metric((queue, state), count)
        yield family
        for figures in self._figures:
            for figure in figures():
                kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
                yield kind(figure.name, figure.text, value=figure.value)


def shown(counts: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    ordered = sorted(counts, key=lambda queue: (-sum(counts[queue].values()), queue))
    found = {queue: counts[queue] for queue in ordered[:QUEUES_SHOWN]}
    for queue in ordered[QUEUES_SHOWN:]:
        other = found.setdefault(OTHER, {})
        for state, count in counts[queue].items():
            other[state] = other.get(state, 0) + count
    return found
