"""What `tenure top` shows, gathered: counts of queues, rates from events, jobs that run, the last failures."""

import time
from collections import Counter, deque

import msgspec

from tenure.cli.field import event_fields, fields_of, settings_fields
from tenure.cli.queues import all_settings
from tenure.cli.session import Session
from tenure.client.clock import read_clock
from tenure.core.error import EventsLost, Forbidden
from tenure.core.record import Event
from tenure.core.request import Filter
from tenure.core.state import RUNNING, STATE_NAMES

END = "end"
PAGES_MAX = 50  # of events in one frame, a thousand each
SCANS_MAX = 200  # pages of the store that are searched for running jobs
RUNNING_MAX = 5_000
JOBS_PER_PAGE = 1_000
FAILURES = 10
RATES = ("enqueued", "started", "completed", "failed")
LEAVING = frozenset({"completed", "retrying", "failed", "cancelled", "released", "removed", "ready"})


class Running(msgspec.Struct, frozen=True):
    id: int
    tenant: str
    queue: str
    task: str
    worker: str
    attempt: int
    started_at: int


class QueueLine(msgspec.Struct, frozen=True):
    name: str
    counts: dict[str, int]
    rates: dict[str, float]
    settings: dict[str, object]


class Frame(msgspec.Struct, frozen=True):
    """`is_partial`: more happened than could be read, and the rates are the least there was.

    `has_events`: whether there are any rates; a token may not reach the events.
    """

    at: int
    queues: tuple[QueueLine, ...]
    running: tuple[Running, ...]
    failures: tuple[Event, ...]
    has_events: bool
    is_partial: bool

    def total(self, state: str) -> int:
        return sum(queue.counts[state] for queue in self.queues)

    def rate(self, name: str) -> float:
        return sum(queue.rates[name] for queue in self.queues)


class Watch:
    """Asked again and again; between two times it looks at what happened."""

    def __init__(self, session: Session, queue: str = "") -> None:
        self._session = session
        self._queue = queue
        self._running: dict[int, Running] = {}
        self._failures: deque[Event] = deque(maxlen=FAILURES)
        self._cursor = ""
        self._since_ms = read_clock().elapsed_ms
        self._has_events = True
        self._skip_to_now()
        self._find_running()

    def _skip_to_now(self) -> None:
        try:
            self._cursor = self._session.client.event_page(END).cursor
        except Forbidden:
            self._has_events = False

    def _find_running(self) -> None:
        """As many as there are. A page looks at a part of the store only, and there is an end to that."""
        client = self._session.client
        wanted = min(sum(states["running"] for states in client.count(self._queue).values()), RUNNING_MAX)
        cursor = ""
        for _ in range(SCANS_MAX):
            if len(self._running) >= wanted:
                return
            page = client.find(Filter(self._queue, 1 << RUNNING), JOBS_PER_PAGE, cursor)
            for job in page.jobs:
                known = Running(job.id, job.tenant, job.queue, job.task, job.worker, job.attempt, job.started_at)
                self._running[job.id] = known
            cursor = page.cursor
            if not cursor:
                return

    def look(self, measure: bool = True) -> Frame:
        """Without `measure` there are no rates: a moment is too short for any."""
        seen: Counter[tuple[str, str]] = Counter()
        is_partial = self._read_events(seen) if self._has_events else False
        now = read_clock()
        passed_s = max(now.elapsed_ms - self._since_ms, 1) / 1_000
        self._since_ms = now.elapsed_ms
        client = self._session.client
        counts = client.count(self._queue)
        settings = all_settings(self._session)
        lines = []
        for name in sorted(counts):
            rates = {rate: seen[name, rate] / passed_s if measure else 0.0 for rate in RATES}
            known = settings.get(name)
            lines.append(QueueLine(name, counts[name], rates, known if isinstance(known, dict) else {}))
        if not any(line.counts["running"] for line in lines):
            self._running.clear()
        elif is_partial or not self._has_events:
            self._forget_ended()
        oldest = sorted(self._running.values(), key=lambda job: job.started_at)
        return Frame(
            now.wall_ms, tuple(lines), tuple(oldest), tuple(reversed(self._failures)), self._has_events, is_partial
        )

    def _read_events(self, seen: "Counter[tuple[str, str]]") -> bool:
        """Whether there was too much to be read."""
        for _ in range(PAGES_MAX):
            try:
                page = self._session.client.event_page(self._cursor)
            except EventsLost:
                break
            for event in page.events:
                if not self._queue or event.queue == self._queue:
                    self._take(event, seen)
            if page.cursor == self._cursor:
                return False
            self._cursor = page.cursor
        self._skip_to_now()
        return True

    def _take(self, event: Event, seen: "Counter[tuple[str, str]]") -> None:
        seen[event.queue, event.type] += 1
        if event.type == "started":
            self._running[event.job] = Running(
                event.job, event.tenant, event.queue, event.task, event.worker, event.attempt, event.at
            )
        elif event.type in LEAVING:
            self._running.pop(event.job, None)
        if event.type in ("failed", "retrying"):
            self._failures.append(event)

    def _forget_ended(self) -> None:
        """Events were missed: what is known to run may have ended."""
        self._running.clear()
        self._find_running()


def wait(interval_s: float) -> None:
    time.sleep(interval_s)


def frame_fields(frame: Frame) -> dict[str, object]:
    """For programs."""
    found = fields_of(frame)
    for line, queue in zip(found["queues"], frame.queues, strict=True):
        line["settings"] = settings_fields(queue.settings)
    found["failures"] = [event_fields(event) for event in frame.failures]
    found["totals"] = {state: frame.total(state) for state in STATE_NAMES}
    return found
