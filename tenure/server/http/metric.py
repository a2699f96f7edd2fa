"""What is counted, for Prometheus: requests by command and outcome, how long they took, jobs by queue and state.

Labels are bounded: commands and statuses are few, and of the queues the largest are named and the others added up.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from tenure.server.handler import Handler

QUEUES_SHOWN = 200
OTHER = "(other)"  # no queue can have this name
BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._times: dict[str, _Times] = {}

    def note(self, command: str, outcome: str, seconds: float) -> None:
        """Of a request over HTTP."""
        self._handler.note("http", command, outcome)
        times = self._times.get(command)
        if times is None:
            times = self._times[command] = _Times()
        times.counts[bisect_left(BUCKETS_S, seconds)] += 1
        times.total += seconds

    def show(self, counts: dict[str, dict[str, int]], of_all: bool = False) -> bytes:
        """Jobs as counted; requests, their times and other figures are of all tenants and queues together, and for who
        reaches all of them."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Counted(self._handler, self._times, counts, of_all))
        return generate_latest(registry)


class _Times:
    """How long requests took: how many of them up to each bound, and together."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.total = 0.0

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: each has what those before it have."""
        return list(zip((*map(floatToGoString, BUCKETS_S), "+Inf"), accumulate(self.counts), strict=True))


class _Counted(Collector):
    def __init__(
        self, handler: Handler, times: dict[str, _Times], counts: dict[str, dict[str, int]], of_all: bool
    ) -> None:
        self._handler = handler
        self._times = times
        self._counts = counts
        self._of_all = of_all

    def collect(self) -> Iterator[Metric]:
        if self._of_all:
            yield from self._requests()
        family = GaugeMetricFamily("tenure_jobs", "Jobs by queue and state.", labels=("queue", "state"))
        for queue, states in shown(self._counts).items():
            for state, count in states.items():
                family.add_metric((queue, state), count)
        yield family
        if self._of_all:
            for figures in self._handler.figures:
                for figure in figures():
                    kind = CounterMetricFamily if figure.is_counter else GaugeMetricFamily
                    yield kind(figure.name, figure.text, value=figure.value)

    def _requests(self) -> Iterator[Metric]:
        said = "Time from a request's head to its answer over HTTP, what it waited included."
        seconds = HistogramMetricFamily("tenure_request_seconds", said, labels=("command",))
        for command, times in self._times.items():
            seconds.add_metric((command,), times.buckets(), times.total)
        yield seconds
        labels = ("door", "command", "outcome")
        requests = CounterMetricFamily("tenure_requests", "Requests that were answered.", labels=labels)
        for key, count in self._handler.answered.items():
            requests.add_metric(key, count)
        yield requests


def shown(counts: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    ordered = sorted(counts, key=lambda queue: (-sum(counts[queue].values()), queue))
    found = {queue: counts[queue] for queue in ordered[:QUEUES_SHOWN]}
    for queue in ordered[QUEUES_SHOWN:]:
        other = found.setdefault(OTHER, {})
        for state, count in counts[queue].items():
            other[state] = other.get(state, 0) + count
    return found
