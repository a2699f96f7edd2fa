"""Atomic batches: every item is decided before the first is stored, so that all are taken or none."""

from mypy_extensions import i64

from tenure.core.answer import Answers, Outcome
from tenure.core.error import Conflict, DependencyNotFound, Error, InvalidRequest, Overloaded, PayloadTooLarge
from tenure.core.job import ERROR as ON_CONFLICT_ERROR
from tenure.core.job import Extras, Options
from tenure.core.request import Batch
from tenure.core.state import (
    READY,
)
from tenure.engine.room import RETRY_AFTER_MS, has_bytes, room_for
from tenure.engine.world import Queue, Tenant, World


def check_options(w: World, tenant: str, options: Options, extras: Extras | None) -> Error | None:
    if options.lifo:
        if extras is not None and extras.group:
            return InvalidRequest("lifo", True, "a group keeps the order of joining; leave out lifo or group")
        q = w.find_queue(tenant, options.queue)
        if q is not None and q.age_ms:
            return InvalidRequest("lifo", True, f"queue {options.queue} has ageing (age_ms); leave out lifo")
    if extras is None:
        if options.debounce_ms:
            return InvalidRequest("debounce_ms", options.debounce_ms, "it needs a debounce_key")
        return None
    if extras.run_at and options.delay_ms:
        return InvalidRequest("run_at", extras.run_at, "give either run_at or delay_ms")
    if extras.expires_at and options.ttl_ms:
        return InvalidRequest("expires_at", extras.expires_at, "give either expires_at or ttl_ms")
    if extras.debounce_key and not options.debounce_ms:
        return InvalidRequest("debounce_key", extras.debounce_key, "it needs debounce_ms")
    if options.debounce_ms and not extras.debounce_key:
        return InvalidRequest("debounce_ms", options.debounce_ms, "it needs a debounce_key")
    return None


def rehearse(w: World, tenant: str, batch: Batch, above_limits: bool) -> Answers | None:
    """The refusal of an atomic batch, or None when every item will be taken. Changes nothing."""
    fresh = _Fresh(above_limits)
    count = len(batch.payloads)
    payloads: list[object] = list(batch.payloads)
    for at in range(count):
        options = batch.options if batch.each is None else batch.each[at]
        extras = None if batch.extras is None else batch.extras[at]
        error = _rehearse_one(w, tenant, options, payloads[at], extras, fresh)
        if error is not None:
            other = {
                i: Outcome(0, READY, error=error if i == at else Conflict("another item of the batch was refused", 0))
                for i in range(count)
            }
            return Answers([0] * count, READY, other)
    return None


class _Fresh:
    """What the items before this one would have used up."""

    def __init__(self, above_limits: bool) -> None:
        self.above_limits = above_limits
        self.jobs: i64 = 0
        self.bytes: i64 = 0
        self.keys: dict[tuple[str, str, str], bool] = {}


def _rehearse_one(
    w: World, tenant: str, options: Options, payload: object, extras: Extras | None, fresh: _Fresh
) -> Error | None:
    if not isinstance(payload, bytes):
        return InvalidRequest("payload", payload, "it must be bytes")
    if len(payload) > w.payload_bytes_max:
        return PayloadTooLarge(len(payload), int(w.payload_bytes_max))
    error = check_options(w, tenant, options, extras)
    if error is not None:
        return error
    run_at = max(extras.run_at if extras is not None else 0, int(w.wall_ms) + options.delay_ms)
    expires_at = extras.expires_at if extras is not None and extras.expires_at else 0
    if options.ttl_ms:
        expires_at = int(w.wall_ms) + options.ttl_ms
    if expires_at and expires_at <= run_at:
        return InvalidRequest("expires_at", expires_at, f"it must be after the run time, {run_at}")
    q = w.find_queue(tenant, options.queue)
    t = w.tenants[w.tenant_numbers[tenant]] if tenant in w.tenant_numbers else None
    if extras is not None:
        hit = _rehearse_keys(t, q, options, extras, fresh)
        if hit >= 0:
            return (
                Conflict(f"job {hit} has this key already", hit) if options.on_conflict == ON_CONFLICT_ERROR else None
            )
        for id in extras.depends_on:
            job = w.index.get(id)
            number = -1 if t is None else int(t.number)
            known = job.spec.tenant == number if job is not None else w.outcomes.get(id, number) >= 0
            if not known:
                return DependencyNotFound(id)
    if fresh.above_limits:
        return None
    fresh.jobs += 1
    fresh.bytes += len(payload)
    if w.jobs + w.staged_jobs + fresh.jobs > w.settings.jobs_max:
        return Overloaded(f"the store ({int(w.settings.jobs_max)} jobs)", RETRY_AFTER_MS)
    if (
        t is not None
        and q is not None
        and (room_for(w, t, q, fresh.jobs) < fresh.jobs or not has_bytes(w, t, q, fresh.bytes))
    ):
        return Overloaded(f"queue {q.name}, its tenant or the store", RETRY_AFTER_MS)
    return None


def _rehearse_keys(t: Tenant | None, q: Queue | None, options: Options, extras: Extras, fresh: _Fresh) -> int:
    """The job that has one of the keys already (0 for an earlier item of this batch), or -1."""
    named = (
        ("custom_id", "", extras.custom_id),
        ("idempotency_key", f"{options.queue}\n{options.task}", extras.idempotency_key),
        ("unique_key", options.queue, extras.unique_key),
    )
    hit = -1
    for field, scope, key in named:
        if key and hit < 0:
            if field == "custom_id" and t is not None and t.custom_ids is not None:
                hit = t.custom_ids.get(key) or -1
            elif field == "idempotency_key" and q is not None and q.idempotent is not None:
                entry = q.idempotent.get(f"{options.task}\n{key}")
                hit = -1 if entry is None else int(entry.job)
            elif field == "unique_key" and q is not None and q.unique is not None:
                hit = q.unique.get(key) or -1
            if hit < 0 and (field, scope, key) in fresh.keys:
                hit = 0
    if hit < 0:
        for field, scope, key in named:
            if key:
                fresh.keys[(field, scope, key)] = True
    return hit
