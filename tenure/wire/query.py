"""Commands that read: jobs, counts, events."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from tenure.core import bound
from tenure.core.error import InvalidRequest, JobCancelled, JobFailed, JobNotFound
from tenure.core.record import EventPage, JobPage, JobRecord, Scanned
from tenure.wire import command as c
from tenure.wire.format import shown
from tenure.wire.speech import Call, Fields, Speech

OFFSET_MAX = 10_000  # go on by the cursor from there


def _found(found: list[JobRecord | None], asked_for: int | str) -> JobRecord:
    if found[0] is None:
        raise JobNotFound(asked_for)
    return found[0]


def get(say: Callable[[Speech, JobRecord], Fields]) -> Callable[[Speech, Any], Call]:
    return lambda s, m: Call("get", ([m.id], []), lambda found: say(s, _found(found, m.id)))


def say_result(s: Speech, found: JobRecord) -> Fields:
    result = None if found.result is None else shown(found.result, found.codec, s.form)
    return {"result": result, "state": s.state(found.state)}


def say_progress(s: Speech, found: JobRecord) -> Fields:
    progress = found.progress
    return {
        "progress": 0 if progress is None else progress.percent,
        "message": "" if progress is None else progress.message,
    }


def get_by_custom_id(s: Speech, m: c.GetJobByCustomId) -> Call:
    return Call("get", ([], [m.custom_id]), lambda found: {"job": s.record(_found(found, m.custom_id))})


def get_many(s: Speech, m: c.GetJobs) -> Call:
    if m.packed:
        return Call("get", (m.ids, m.custom_ids), lambda found: {"jobs": found})
    say = lambda found: {"jobs": [None if job is None else s.record(job) for job in found]}  # noqa: E731
    return Call("get", (m.ids, m.custom_ids), say)


def wait(s: Speech, m: c.WaitJob) -> Call:
    def say(found: JobRecord) -> Fields:
        if m.packed:
            return {"job": found}
        if found.state == "failed":
            error = found.error
            kind, message, trace = ("", "", "") if error is None else (error.type, error.message, error.trace)
            raise JobFailed(kind, message, trace, found.reason)
        if found.state == "cancelled":
            raise JobCancelled(found.id)
        return say_result(s, found)

    wait_ms = bound.as_int(bound.wait_ms("timeout", m.timeout))
    return Call("watch", (m.id, wait_ms), say)


def find(s: Speech, m: c.Find) -> Call:
    def say(found: JobPage) -> Fields:
        jobs = list(found.jobs) if m.packed else [s.record(job) for job in found.jobs]
        return {"jobs": jobs, "cursor": found.cursor}

    return Call("find", (s.filter(m), m.limit, _place(m)), say)


def _place(m: c.Find) -> str:
    """Where the page begins. An offset is counted from the first job each time; the cursor goes on without."""
    if not m.offset:
        return m.cursor
    if m.cursor:
        raise InvalidRequest("offset", m.offset, "give either offset or cursor")
    bound.whole(0, OFFSET_MAX)("offset", m.offset)
    return f"+{m.offset}"


def counts(s: Speech, m: c.OfQueue) -> Call:
    def say(found: dict[str, dict[str, int]]) -> Fields:
        if m.packed or not m.queue:
            return {"queues": found}
        counts: dict[str, int] = {}
        for name, count in found.get(m.queue, {}).items():
            own = s.state(name)
            counts[own] = counts.get(own, 0) + count
        return {"counts": counts}

    return Call("count", (m.queue,), say)


def count(s: Speech, m: c.Count) -> Call:
    def say(found: dict[str, dict[str, int]]) -> Fields:
        live = ("ready", "scheduled", "retrying", "blocked", "running")
        return {"count": sum(found.get(m.queue, {}).get(name, 0) for name in live)}

    return Call("count", (m.queue,), say)


def list_queues(s: Speech, m: c.ListQueues) -> Call:
    return Call("count", ("",), lambda found: {"queues": sorted(found)})


def stats(s: Speech, m: c.Stats) -> Call:
    def say(found: dict[str, dict[str, int]]) -> Fields:
        total: dict[str, int] = {}
        for counts in found.values():
            for name, count in counts.items():
                own = s.state(name)
                total[own] = total.get(own, 0) + count
        return {"stats": total, "queues": len(found)}

    return Call("count", ("",), say)


# Events.


def cursor_of(after: int | str) -> str:
    return f"e{after}" if isinstance(after, int) else after


def events(s: Speech, m: c.ReadEvents) -> Call:
    def say(found: EventPage) -> Fields:
        events = [e for e in found.events if wanted(e, m.queue, m.events)]
        return {"events": events, "cursor": found.cursor}

    wait_ms = bound.as_int(bound.wait_ms("timeout", m.timeout))
    return Call("events", (cursor_of(m.after), m.limit, wait_ms), say)


PARTS_MAX = 10_000


def scan(s: Speech, m: c.ScanTable) -> Call:
    def say(found: Scanned) -> Fields:
        if m.limit:
            return {"scan": found}
        return {"scan": found, "parts": split(found, m.parts)}

    bound.whole(0, PARTS_MAX)("parts", m.parts)
    asked = bound.make_scan(m.table, m.after, m.upto, m.limit, m.queue, m.states, m.types, m.columns)
    return Call("scan", (asked,), say)


def split(found: Scanned, parts: int) -> list[tuple[int, int]]:
    """What there is now, in at most so many parts of the same length: after which number, up to which."""
    low, high = found.first - 1, found.last
    if high <= low or not parts:
        return []
    ends = sorted({low + (high - low) * part // parts for part in range(parts + 1)})
    return list(pairwise(ends))


def wanted(event: Any, queue: str, types: list[str] | None) -> bool:
    return (not queue or event.queue == queue) and (types is None or event.type in types)
