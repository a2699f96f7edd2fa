"""Backpressure: whether the store, the tenant and the queue have room for more jobs, bytes and calls."""

from mypy_extensions import i64

from tenure.core.error import Overloaded
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


def spend_rates(t: Tenant, q: Queue, count: i64) -> None:
    if t.enqueue_bucket is not None:
        t.enqueue_bucket.take(count)
    if q.enqueue_bucket is not None:
        q.enqueue_bucket.take(count)


def overload(w: World, t: Tenant, q: Queue, size: i64) -> Overloaded | None:
    if w.jobs + w.staged_jobs >= w.settings.jobs_max:
        return Overloaded(f"the store ({int(w.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
    if not _fits(w.settings, w.bytes, size):
        return Overloaded(f"the store ({int(w.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    if t.settings is not None:
        if 0 <= t.settings.jobs_max <= t.jobs:
            return Overloaded(f"tenant {t.name} ({int(t.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
        if not _fits(t.settings, t.bytes, size):
            return Overloaded(f"tenant {t.name} ({int(t.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    if q.settings is not None:
        if 0 <= q.settings.jobs_max <= q.live():
            return Overloaded(f"queue {q.name} ({int(q.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
        if not _fits(q.settings, q.bytes, size):
            return Overloaded(f"queue {q.name} ({int(q.settings.bytes_max)} bytes)", RETRY_AFTER_MS)
    for name, bucket in ((f"tenant {t.name}", t.enqueue_bucket), (f"queue {q.name}", q.enqueue_bucket)):
        if bucket is not None and bucket.available(w.elapsed_ms) < 1:
            return Overloaded(f"{name} (enqueue rate)", int(bucket.next_at_ms() - w.elapsed_ms))
    return None
