"""Reading: a job's record, search, counts, groups of dead letters, and why a job is where it is."""

from mypy_extensions import i64

from tenure.core import bound
from tenure.core.blob import Blob
from tenure.core.error import InvalidRequest
from tenure.core.record import BlobRecord, DeadLetterGroup, Explanation, Failed, JobPage, JobRecord
from tenure.core.request import Filter
from tenure.core.state import BLOCKED, READY, RETRYING, RUNNING, SCHEDULED, STATE_NAMES
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.clock import on_steady, shown_lease_until, shown_run_at, step_text
from tenure.engine.job import ASIDE, MEMBER, PARKED, Job
from tenure.engine.parking import is_held_by
from tenure.engine.world import UNLIMITED, Queue, World

SCAN_PER_PAGE = 20_000
PAGE_MAX = 1_000
PLACE_MAX = 1_000


def worker_of(job: Job) -> str:
    """Who has its lease, or had the last one."""
    if job.lease is not None:
        return job.lease.worker
    return "" if job.side is None else job.side.worker


def record(w: World, job: Job) -> JobRecord:
    side = job.side
    spec = job.spec
    options = spec.options
    extras = None if side is None else side.extras
    lease = job.lease
    running = job.state == RUNNING
    return JobRecord(
        id=int(job.id),
        custom_id="" if extras is None else extras.custom_id,
        tenant=spec.tenant_name,
        queue=options.queue,
        task=options.task,
        state=STATE_NAMES[job.state],
        priority=int(job.priority),
        payload=job.payload,
        codec=options.codec,
        schema_version=options.schema_version,
        attempt=int(job.attempt),
        delivery=int(job.delivery),
        max_attempts=options.max_attempts or None,
        created_at=int(job.created_at),
        run_at=int(shown_run_at(w, job)),
        ready_at=int(job.ready_at),
        started_at=int(job.started_at),
        ended_at=int(job.ended_at),
        expires_at=0 if side is None else int(side.expires_at),
        lease_until=int(shown_lease_until(w, lease)) if running and lease is not None else 0,
        worker=worker_of(job),
        progress=None if side is None else side.progress,
        result=None if side is None else side.result,
        error=None if side is None else side.error,
        reason="" if side is None else side.reason,
        group="" if extras is None else extras.group,
        tags=() if side is None else side.tags,
        metadata={} if side is None or side.metadata is None else side.metadata,
        depends_on=() if extras is None else extras.depends_on,
        flow=0 if side is None else int(side.flow),
        parent=0 if side is None else int(side.parent),
        replays=0 if side is None else int(side.replays),
        trace="" if extras is None else extras.trace,
        history=() if side is None or side.history is None else tuple(side.history),
        payload_blob=None if side is None else _blob_record(side.payload_blob),
        result_blob=None if side is None else _blob_record(side.result_blob),
    )


def _blob_record(blob: Blob | None) -> BlobRecord | None:
    return None if blob is None else BlobRecord(blob.name, blob.size)


def get(w: World, context: Context, ids: list[int], custom_ids: list[str]) -> list[JobRecord | None]:
    if len(ids) + len(custom_ids) > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("ids", len(ids), f"at most {bound.BATCH_ITEMS_MAX} jobs are read at once")
    found: list[JobRecord | None] = []
    for id in ids:
        job = w.find(id)
        visible = job is not None and w.is_visible(job, context.tenant, context.tenants)
        found.append(record(w, job) if job is not None and visible else None)
    number = w.tenant_numbers.get(context.tenant)
    keys = None if number is None else w.tenants[number].custom_ids
    for custom_id in custom_ids:
        id = 0 if keys is None else keys.get(custom_id)
        job = w.index.get(id) if id else None
        found.append(None if job is None else record(w, job))
    return found


def matches(job: Job, filter: Filter, tenant: str) -> bool:
    """Whether the job is the tenant's and meets every condition of the filter."""
    spec = job.spec
    options = spec.options
    if tenant != ANY_TENANT and spec.tenant_name != tenant:
        return False
    if filter.queue and options.queue != filter.queue:
        return False
    if filter.states and not filter.states & (1 << int(job.state)):
        return False
    if filter.task and options.task != filter.task:
        return False
    if filter.created_from and job.created_at < filter.created_from:
        return False
    if filter.created_to and job.created_at >= filter.created_to:
        return False
    if filter.ended_before and not 0 < job.ended_at < filter.ended_before:
        return False
    if filter.worker and worker_of(job) != filter.worker:
        return False
    side = job.side
    if filter.tag and (side is None or filter.tag not in side.tags):
        return False
    if filter.reason and (side is None or side.reason != filter.reason):
        return False
    if filter.group or filter.custom_id_prefix:
        extras = None if side is None else side.extras
        if extras is None or (filter.group and extras.group != filter.group):
            return False
        if filter.custom_id_prefix and not extras.custom_id.startswith(filter.custom_id_prefix):
            return False
    for key, text in filter.metadata:
        if side is None or side.metadata is None or side.metadata.get(key) != text:
            return False
    return _matches_error(None if side is None else side.error, filter)


def _matches_error(error: Failed | None, filter: Filter) -> bool:
    if filter.fingerprint and (error is None or error.fingerprint != filter.fingerprint):
        return False
    if filter.error:
        wanted = filter.error.lower()
        return error is not None and (wanted in error.type.lower() or wanted in error.message.lower())
    return True


def find(w: World, context: Context, filter: Filter, limit: int, cursor: str) -> JobPage:
    """A page in the order of ids. A step looks at a bounded number of jobs: with a cursor and too few of them it is for
    the store to go on."""
    if not 0 < limit <= PAGE_MAX:
        raise InvalidRequest("limit", limit, f"it must be from 1 to {PAGE_MAX}")
    place, _, skipped = cursor.partition("+")
    if not (not place or place.isdecimal()) or not (not skipped or skipped.isdecimal()):
        raise InvalidRequest("cursor", cursor, "it must be a cursor that a page answered")
    tenant = ANY_TENANT if ANY_TENANT in context.tenants else context.tenant
    after: i64 = int(place) if place and len(place) <= 16 else 0
    skip: i64 = int(skipped) if skipped and len(skipped) <= 16 else 0  # of those that match, so many are passed over
    found: list[JobRecord] = []
    scanned: i64 = 0
    while scanned < SCAN_PER_PAGE:
        jobs = w.index.scan(after, 1000, w.last_id)
        if not jobs:
            return JobPage(tuple(found), "")
        for job in jobs:
            after = job.id
            scanned += 1
            if matches(job, filter, tenant):
                if skip > 0:
                    skip -= 1
                    continue
                found.append(record(w, job))
                if len(found) >= limit:
                    return JobPage(tuple(found), str(int(after)) if after < w.last_id else "")
    return JobPage(tuple(found), f"{int(after)}+{int(skip)}" if skip else str(int(after)))


def count(w: World, context: Context, queue: str) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name in _tenants(w, context):
        t = w.tenants[w.tenant_numbers[name]]
        for queue_name, number in t.queues.items():
            if queue and queue_name != queue:
                continue
            counts = found.setdefault(queue_name, dict.fromkeys(STATE_NAMES, 0))
            q = w.queues[number]
            for state, amount in zip(
                STATE_NAMES,
                (q.scheduled, q.blocked, q.ready, q.running, q.retrying, q.completed, q.failed, q.cancelled),
                strict=True,
            ):
                counts[state] += int(amount)
    return found


def _tenants(w: World, context: Context) -> list[str]:
    if ANY_TENANT in context.tenants:
        return list(w.tenant_numbers)
    return [name for name in (context.tenants or (context.tenant,)) if name in w.tenant_numbers]


def groups(w: World, context: Context, queue: str) -> list[DeadLetterGroup]:
    """Dead letters by fingerprint and reason. Looks at the newest 100,000 of each queue."""
    found: dict[tuple[str, str], list[Job]] = {}
    totals: dict[tuple[str, str], int] = {}
    for name in _tenants(w, context):
        t = w.tenants[w.tenant_numbers[name]]
        for queue_name, number in t.queues.items():
            if queue and queue_name != queue:
                continue
            for kept_number in w.queues[number].kepts:
                kept = w.kepts[kept_number]
                if kept.failed:
                    _group(kept.line.jobs()[-100_000:], found, totals)
    made: list[DeadLetterGroup] = []
    for key in sorted(totals, key=lambda key: (-totals[key], key)):
        first, last = found[key]
        error = None if first.side is None else first.side.error
        made.append(
            DeadLetterGroup(
                fingerprint=key[0],
                reason=key[1],
                type="" if error is None else error.type,
                message="" if error is None else error.message[:256],
                count=totals[key],
                first_at=int(first.ended_at),
                last_at=int(last.ended_at),
                example=int(last.id),
            )
        )
        if len(made) >= PAGE_MAX:
            break
    return made


def _group(jobs: list[Job], found: dict[tuple[str, str], list[Job]], totals: dict[tuple[str, str], int]) -> None:
    for job in jobs:
        side = job.side
        assert side is not None
        key = ("" if side.error is None else side.error.fingerprint, side.reason)
        pair = found.setdefault(key, [job, job])
        if job.ended_at < pair[0].ended_at:
            pair[0] = job
        if job.ended_at >= pair[1].ended_at:
            pair[1] = job
        totals[key] = totals.get(key, 0) + 1


# Why.


class Why:
    def __init__(self, held_by: str, detail: str, since: i64, place: i64 = -1, earliest: i64 = 0) -> None:
        self.held_by = held_by
        self.detail = detail
        self.since: i64 = since
        self.place: i64 = place
        self.earliest: i64 = earliest


def explain(w: World, job: Job) -> Explanation:
    why = _why(w, job)
    return Explanation(
        id=int(job.id),
        state=STATE_NAMES[job.state],
        held_by=why.held_by,
        detail=why.detail,
        since=int(why.since),
        place=int(why.place),
        earliest=int(why.earliest),
    )


def _why(w: World, job: Job) -> Why:
    state = job.state
    side = job.side
    if state == SCHEDULED or state == RETRYING:
        text = (
            "waits for its run time" if state == SCHEDULED else f"attempt {int(job.attempt)} failed; waits to try again"
        )
        stepped = "" if job.is_delayed else step_text(w)
        if stepped:
            text += f"; {stepped}"
        return Why("run_at", text, job.created_at if state == SCHEDULED else job.started_at, -1, shown_run_at(w, job))
    if state == BLOCKED:
        assert side is not None
        return Why(
            "dependencies",
            f"waits for {int(side.pending)} of its dependencies",
            job.created_at,
            -1,
            shown_run_at(w, job),
        )
    if state == RUNNING:
        assert job.lease is not None
        text = f"leased to {job.lease.worker or 'a worker'} until {int(shown_lease_until(w, job.lease))}"
        return Why("lease", text, job.started_at)
    if state != READY:
        return Why(
            "ended", f"ended {STATE_NAMES[state]}" + (f": {side.reason}" if side and side.reason else ""), job.ended_at
        )
    return _why_waiting(w, w.queue_of(job), job)


def _why_waiting(w: World, q: Queue, job: Job) -> Why:
    side = job.side
    since = job.ready_at
    if job.place == MEMBER:
        assert side is not None and side.extras is not None
        return Why("group", f"its turn in group {side.extras.group} has not come", since)
    if job.place == PARKED:
        assert side is not None
        limit = w.limits[side.parked_on]
        text = f"limit key {limit.key} has no room"
        return Why("limit", text, since, _place(w, q, job), _earliest(w, limit.alarm_due()))
    if job.place == ASIDE:
        return Why("task", f"no worker that asked knows the task {job.spec.options.task}", since)
    place = _place(w, q, job)
    if q.paused:
        return Why("queue_paused", f"queue {q.name} is paused", since, place)
    if q.concurrency != UNLIMITED and q.running + q.held_over >= q.concurrency:
        return Why("queue_concurrency", f"queue {q.name} runs {int(q.concurrency)} at once", since, place)
    if q.bucket is not None and q.bucket.available(w.elapsed_ms) <= 0:
        return Why("queue_rate", f"queue {q.name} is at its rate", since, place, _earliest(w, q.bucket.next_at_ms()))
    t = w.tenants[q.tenant]
    if t.running_max != UNLIMITED and t.running + t.held_over >= t.running_max:
        return Why("tenant_running", f"tenant {t.name} runs {int(t.running_max)} at once", since, place)
    if t.bucket is not None and t.bucket.available(w.elapsed_ms) <= 0:
        return Why("tenant_rate", f"tenant {t.name} is at its rate", since, place, _earliest(w, t.bucket.next_at_ms()))
    for key in job.spec.options.limit_keys:
        if is_held_by(w, t, key):
            return Why("limit", f"limit key {key} has no room", since, place)
    return Why("nothing", "waits for a worker to claim it", since, place)


def _place(w: World, q: Queue, job: Job) -> i64:
    """How many jobs of the queue stand before it, in line or held back by a limit key; -1 when over PLACE_MAX."""
    ahead = q.order.place(job, PLACE_MAX)
    if q.parked == 0 or ahead < 0:
        return ahead
    for limit in w.limits.values():
        order = None if limit.parked is None else limit.parked.get(q.number)
        if order is not None:
            more = order.place(job, PLACE_MAX)
            if more < 0:
                return -1
            ahead += more
    return ahead if ahead <= PLACE_MAX else -1


def _earliest(w: World, elapsed_ms: i64) -> i64:
    """A time on the elapsed clock, as the wall would show it; 0 stays 0."""
    return on_steady(w, elapsed_ms) + w.shift_ms if elapsed_ms else 0
