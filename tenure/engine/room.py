"""Backpressure: whether the store, the tenant and the queue have room for more jobs, bytes and calls.

Room for what a load stages is kept until it is let in, whatever comes meanwhile. That goes by chunks: while one is let
in, the jobs that are in already count twice.
"""

from mypy_extensions import i64

from tenure.core.error import Overloaded
from tenure.core.limit import Bucket
from tenure.engine.journal import QUEUE, TENANT
from tenure.engine.staged import Share
from tenure.engine.world import Queue, Settings, Tenant, World

RETRY_AFTER_MS = 1_000
NOTHING_KEPT = Share("")


def kept(w: World, tenant: str, queue: str) -> Share:
    """For what is staged; `queue` is "" for all of the tenant's."""
    found = w.kept.get((tenant, queue)) if w.kept else None
    return NOTHING_KEPT if found is None else found


def keep_room(w: World, tenant: str, shares: list[Share], sign: i64) -> None:
    """Or let it go, with -1."""
    for share in shares:
        w.kept_held += sign * share.held
        for queue in ("", share.queue):
            total = w.kept.get((tenant, queue))
            if total is None:
                total = Share(queue)
                w.kept[(tenant, queue)] = total
            total.jobs += sign * share.jobs
            total.bytes += sign * share.bytes
            total.held += sign * share.held
            if total.jobs == 0:
                del w.kept[(tenant, queue)]


def overload_by(w: World, tenant: str, shares: list[Share]) -> Overloaded | None:
    """Who has no room for a chunk to be staged; how many jobs the store has is looked at elsewhere."""
    if not shares:
        return None
    jobs: i64 = 0
    size: i64 = 0
    held: i64 = 0
    for share in shares:
        jobs += share.jobs
        size += share.bytes
        held += share.held
    if not _fits(w.settings, w.bytes + w.kept_held, held):
        return _full("the store", w.settings, False)
    number = w.tenant_numbers.get(tenant)
    if number is None:
        return None
    t = w.tenants[number]
    if t.settings is not None:
        already = kept(w, tenant, "")
        if 0 <= t.settings.jobs_max < t.jobs + already.jobs + jobs:
            return _full(f"tenant {tenant}", t.settings, True)
        if not _fits(t.settings, t.bytes + already.bytes, size):
            return _full(f"tenant {tenant}", t.settings, False)
    for share in shares:
        q = w.find_queue(tenant, share.queue)
        if q is not None and q.settings is not None:
            already = kept(w, tenant, share.queue)
            if 0 <= q.settings.jobs_max < q.live() + already.jobs + share.jobs:
                return _full(f"queue {q.name}", q.settings, True)
            if not _fits(q.settings, q.bytes + already.bytes, share.bytes):
                return _full(f"queue {q.name}", q.settings, False)
    return None


def _full(whose: str, settings: Settings, of_jobs: bool) -> Overloaded:
    said = f"{int(settings.jobs_max)} jobs" if of_jobs else f"{int(settings.bytes_max)} bytes"
    return Overloaded(f"{whose} ({said})", RETRY_AFTER_MS)


def room_for(w: World, t: Tenant, q: Queue, count: i64) -> i64:
    """How many of `count` jobs there is room for, by numbers and rates."""
    found: i64 = min(count, w.settings.jobs_max - w.jobs - w.staged_jobs)
    if t.settings is not None and t.settings.jobs_max >= 0:
        found = min(found, t.settings.jobs_max - t.jobs - kept(w, t.name, "").jobs)
    if q.settings is not None and q.settings.jobs_max >= 0:
        found = min(found, q.settings.jobs_max - q.live() - kept(w, t.name, q.name).jobs)
    if t.enqueue_bucket is not None:
        found = min(found, t.enqueue_bucket.available(w.elapsed_ms))
    if q.enqueue_bucket is not None:
        found = min(found, q.enqueue_bucket.available(w.elapsed_ms))
    return found


def has_bytes(w: World, t: Tenant, q: Queue, size: i64) -> bool:
    return (
        _fits(w.settings, w.bytes + w.kept_held, size)
        and (t.settings is None or _fits(t.settings, t.bytes + kept(w, t.name, "").bytes, size))
        and (q.settings is None or _fits(q.settings, q.bytes + kept(w, t.name, q.name).bytes, size))
    )


def _fits(settings: Settings, bytes_now: i64, size: i64) -> bool:
    return settings.bytes_max < 0 or bytes_now + size <= settings.bytes_max


def spend_rates(w: World, t: Tenant, q: Queue, count: i64) -> None:
    if t.enqueue_bucket is not None:
        t.enqueue_bucket.take(count)
        w.journal.mark((TENANT, t.name))
    if q.enqueue_bucket is not None:
        q.enqueue_bucket.take(count)
        w.journal.mark((QUEUE, q.tenant_name, q.name))


class Ahead:
    """What the items of an atomic batch before this one will take."""

    def __init__(self) -> None:
        self.jobs: i64 = 0
        self.bytes: i64 = 0
        self.held: i64 = 0
        self.queues: dict[int, tuple[int, int]] = {}

    def add(self, q: Queue, size: i64, held: i64) -> None:
        jobs, bytes = self.of(q)
        self.jobs += 1
        self.bytes += size
        self.held += held
        self.queues[int(q.number)] = (jobs + 1, bytes + int(size))

    def of(self, q: Queue) -> tuple[int, int]:
        return self.queues.get(int(q.number), (0, 0))


NOTHING_AHEAD = Ahead()


def overload(w: World, t: Tenant, q: Queue, size: i64, held: i64, ahead: Ahead) -> Overloaded | None:
    """Tenants and queues have quotas of true sizes; the store's limit is on what its memory holds."""
    jobs: i64 = ahead.jobs
    more: i64 = ahead.bytes + size
    if w.jobs + w.staged_jobs + jobs >= w.settings.jobs_max:
        return _full("the store", w.settings, True)
    if not _fits(w.settings, w.bytes + w.kept_held, ahead.held + held):
        return _full("the store", w.settings, False)
    if t.settings is not None:
        staged = kept(w, t.name, "")
        if 0 <= t.settings.jobs_max <= t.jobs + staged.jobs + jobs:
            return _full(f"tenant {t.name}", t.settings, True)
        if not _fits(t.settings, t.bytes + staged.bytes, more):
            return _full(f"tenant {t.name}", t.settings, False)
    queue_jobs, queue_bytes = ahead.of(q)
    if q.settings is not None:
        staged = kept(w, t.name, q.name)
        if 0 <= q.settings.jobs_max <= q.live() + staged.jobs + queue_jobs:
            return _full(f"queue {q.name}", q.settings, True)
        if not _fits(q.settings, q.bytes + staged.bytes, queue_bytes + size):
            return _full(f"queue {q.name}", q.settings, False)
    if t.enqueue_bucket is not None and t.enqueue_bucket.available(w.elapsed_ms) <= jobs:
        return _too_fast(w, f"tenant {t.name}", t.enqueue_bucket, jobs)
    if q.enqueue_bucket is not None and q.enqueue_bucket.available(w.elapsed_ms) <= queue_jobs:
        return _too_fast(w, f"queue {q.name}", q.enqueue_bucket, queue_jobs)
    return None


def _too_fast(w: World, whose: str, bucket: Bucket, ahead: i64) -> Overloaded:
    return Overloaded(f"{whose} (enqueue rate)", int(bucket.next_at_ms(ahead + 1) - w.elapsed_ms))
