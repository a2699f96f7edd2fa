"""What may be shown while the disk does not answer: nothing that a crash could take back.

A change is made in memory and then written. Reads wait for that. When the disk fails or hangs they cannot wait, so they
are compared with the changes that are not on disk yet: their events and output say which jobs they touched.

A job that only exists in such a group is left out. A job, page or setting that such a group changed is refused
(`InDoubt`): how it was before is known to nobody but the file. Everything else is shown. Renewals of leases are no
events: they need no disk.
"""

from collections.abc import Iterable
from typing import TypeVar, cast

import msgspec

from tenure.core.error import JobNotFound
from tenure.core.record import Event, EventPage, JobPage, JobRecord, Scanned, StreamItem
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.eventlog import read_runs
from tenure.engine.redo import Sections

T = TypeVar("T")

ALL = 1 << 60
SETTINGS = frozenset({"paused", "resumed", "limits_changed"})

_unpack = msgspec.msgpack.Decoder().decode


class InDoubt(Exception):
    """The answer shows a change that is not on disk."""


class _Touched:
    """A job with events that are not on disk."""

    __slots__ = ("first", "is_new", "last", "queue", "state", "tenant")

    def __init__(self, tenant: str, queue: str, first: str) -> None:
        self.tenant = tenant
        self.queue = queue
        self.first = first
        self.last = first
        self.is_new = first == "enqueued"
        self.state = ""

    def is_as_before(self) -> bool:
        """Whether it was leased and released again: all that is left of it is a higher count of deliveries."""
        return self.first == "started" and self.last == "released"


class Doubt:
    """What a number of groups changed, that come one after the other and are not on disk."""

    def __init__(self, events_after: int) -> None:
        """`events_after` is the last event that is on disk."""
        self._events_after = events_after
        self._jobs: dict[int, _Touched] = {}
        self._output: dict[tuple[int, int], int] = {}  # job and kind: the first offset that is not on disk
        self._settings = False

    def add(self, record: bytes, events: bytes) -> None:
        found: list[Event] = []
        read_runs(events, 0, ALL, "", found)
        for event in found:
            if event.job:
                job = self._jobs.get(event.job)
                if job is None:
                    job = self._jobs[event.job] = _Touched(event.tenant, event.queue, event.type)
                job.last = event.type
                job.state = event.state
            elif event.type in SETTINGS:
                self._settings = True
        output = Sections(record).output if record else b""
        for job_id, kind, offset, *_ in cast("list[list[int]]", _unpack(output)) if output else ():
            self._output.setdefault((job_id, kind), offset)

    def _changed(self, id: int) -> bool:
        job = self._jobs.get(id)
        return job is not None and not job.is_new and not job.is_as_before()

    def _is_new(self, id: int) -> bool:
        job = self._jobs.get(id)
        return job is not None and job.is_new

    def _refuse(self, ids: Iterable[int]) -> None:
        if any(self._changed(id) for id in ids):
            raise InDoubt

    # What of an answer may be shown.

    def records(self, found: list[JobRecord | None], asked: list[int]) -> list[JobRecord | None]:
        self._refuse(asked)
        self._refuse(record.id for record in found if record is not None)
        return [None if record is None or self._is_new(record.id) else record for record in found]

    def page(self, page: JobPage) -> JobPage:
        self._refuse(record.id for record in page.jobs)
        return JobPage(tuple(record for record in page.jobs if not self._is_new(record.id)), page.cursor)

    def counts(self, context: Context, counts: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """Without the jobs that are new. One that changed is there either way, and counts in the state it has now."""
        shown = {queue: dict(states) for queue, states in counts.items()}
        for job in self._jobs.values():
            if job.is_new and job.last != "removed" and job.queue in shown and _is_seen(context, job.tenant):
                shown[job.queue][job.state] -= 1
        return shown

    def whole(self, answer: T, context: Context, queue: str) -> T:
        """For an answer that is made of every job of the queue, or of all queues when it is empty."""
        for job in self._jobs.values():
            if (not queue or job.queue == queue) and _is_seen(context, job.tenant) and not job.is_as_before():
                raise InDoubt
        return answer

    def of_job(self, answer: T, id: int) -> T:
        if self._is_new(id):
            raise JobNotFound(id)
        self._refuse((id,))
        return answer

    def extended(self, answer: T, over: list[int]) -> T:
        """`over` names the jobs whose leases are said to be over."""
        self._refuse(over)
        return answer

    def items(self, id: int, kind: int, items: list[StreamItem]) -> list[StreamItem]:
        if self._is_new(id):
            raise JobNotFound(id)
        first = self._output.get((id, kind))
        if first is None:
            return items
        shown = [item for item in items if item.offset < first]
        if items and not shown:
            raise InDoubt
        return shown

    def events(self, page: EventPage) -> EventPage:
        """Those that are on disk. A reader that waits is refused and not told of none: it would ask again at once."""
        upto = min(int(page.cursor[1:]), self._events_after)
        shown = tuple(event for event in page.events if event.seq <= upto)
        if page.events and not shown:
            raise InDoubt
        return EventPage(shown, f"e{upto}")

    def scanned(self, page: Scanned, table: str, after: int) -> Scanned:
        if table == "events":
            if page.next > self._events_after:
                raise InDoubt
            return msgspec.structs.replace(page, last=min(page.last, self._events_after))
        if any(after < id <= page.next and not job.is_as_before() for id, job in self._jobs.items()):
            raise InDoubt
        return page

    def settings(self, answer: T) -> T:
        if self._settings:
            raise InDoubt
        return answer


def _is_seen(context: Context, tenant: str) -> bool:
    return ANY_TENANT in context.tenants or tenant in (context.tenants or (context.tenant,))
