"""Backpressure: whether the store, the tenant and the queue have room for more jobs, bytes and calls."""

from mypy_extensions import i64

from tenure.core.error import Overloaded
from tenure.core.limit import Bucket
from tenure.engine.journal import QUEUE, TENANT
from tenure.engine.world import Queue, Settings, Tenant, World

RETRY_AFTER_MS = 1_000


def room_for(w: World, t: Tenant, q: Queue, count: i64) -> i64:
    """How many of `count` jobs there is room for, by numbers and rates."""
    found: i64 = min(count, w.settings.jobs_max - w.jobs - w.staged_jobs)
    if t.settings is not None and t.settings.jobs_max >= 0:
        found = min(found, t.settings.jobs_max - t.jobs)
    if q.settings is not None and q.settings.jobs_max >= 0:
        found = min(found, q.settings.jobs_max - q.live())
    if t.enqueue_bucket is not None:
        found = min(found, t.enqueue_bucket.available(w.elapsed_ms))
    if q.enqueue_bucket is not None:
        found = min(found, q.enqueue_bucket.available(w.elapsed_ms))
    return found


def has_bytes(w: World, t: Tenant, q: Queue, size: i64) -> bool:
    return (
        _fits(w.settings, w.bytes, size)
        and (t.settings is None or _fits(t.settings, t.bytes, size))
        and (q.settings is None or _fits(q.settings, q.bytes, size))
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
        return Overloaded(f"the store ({int(w.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
    if not _fits(w.settings, w.bytes, ahead.held + held):
        return Overloaded(f"the store ({int(w.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    if t.settings is not None:
        if 0 <= t.settings.jobs_max <= t.jobs + jobs:
            return Overloaded(f"tenant {t.name} ({int(t.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
        if not _fits(t.settings, t.bytes, more):
            return Overloaded(f"tenant {t.name} ({int(t.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    queue_jobs, queue_bytes = ahead.of(q)
    if q.settings is not None:
        if 0 <= q.settings.jobs_max <= q.live() + queue_jobs:
            return Overloaded(f"queue {q.name} ({int(q.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
        if not _fits(q.settings, q.bytes, queue_bytes + size):
            return Overloaded(f"queue {q.name} ({int(q.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    if t.enqueue_bucket is not None and t.enqueue_bucket.available(w.elapsed_ms) <= jobs:
        return _too_fast(w, f"tenant {t.name}", t.enqueue_bucket, jobs)
    if q.enqueue_bucket is not None and q.enqueue_bucket.available(w.elapsed_ms) <= queue_jobs:
        return _too_fast(w, f"queue {q.name}", q.enqueue_bucket, queue_jobs)
    return None


def _too_fast(w: World, whose: str, bucket: Bucket, ahead: i64) -> Overloaded:
    return Overloaded(f"{whose} (enqueue rate)", int(bucket.next_at_ms(ahead + 1) - w.elapsed_ms))
