"""What may be wrong with an item of a batch, whatever else is in the store; and its times."""

from mypy_extensions import i64

from tenure.core.blob import Blob
from tenure.core.error import Error, InvalidRequest, PayloadTooLarge
from tenure.core.job import TRAILING, Extras, Options
from tenure.engine.world import World


def check_item(w: World, tenant: str, options: Options, payload: object, extras: Extras | None) -> Error | None:
    error = check_content(w, payload, "payload")
    if error is not None:
        return error
    error = check_options(w, tenant, options, extras)
    if error is not None:
        return error
    run_at = asked_run_at(w, options, extras)
    expires_at = expiry_time(w, options, extras)
    if expires_at and expires_at <= run_at:
        return InvalidRequest("expires_at", int(expires_at), f"it must be after the run time, {int(run_at)}")
    return None


def check_content(w: World, content: object, field: str) -> Error | None:
    """A payload or result is bytes up to the cap, or a blob where there is a blob store."""
    if isinstance(content, bytes):
        if len(content) <= w.payload_bytes_max:
            return None
        return PayloadTooLarge(len(content), int(max(w.payload_bytes_max, w.blob_bytes_max)), field)
    if isinstance(content, Blob) and w.blob_bytes_max > 0:
        return None
    return InvalidRequest(field, content, "it must be bytes")


def content_bytes(content: bytes | Blob) -> i64:
    """The true size, wherever it is kept."""
    return content.size if isinstance(content, Blob) else len(content)


def held_bytes(content: bytes | Blob) -> i64:
    """What it takes of the engine's memory."""
    return 0 if isinstance(content, Blob) else len(content)


def asked_delay_ms(options: Options, extras: Extras | None) -> i64:
    """How long the job is to wait; 0 when it may run at once, or at an instant."""
    if extras is not None and extras.debounce_key and options.debounce_mode == TRAILING:
        return options.debounce_ms
    return options.delay_ms


def asked_run_at(w: World, options: Options, extras: Extras | None) -> i64:
    """When the job may run by the wall clock, at the earliest now."""
    delay_ms = asked_delay_ms(options, extras)
    if extras is not None and extras.run_at and delay_ms == 0:
        return max(extras.run_at, w.wall_ms)
    return w.wall_ms + delay_ms


def expiry_time(w: World, options: Options, extras: Extras | None) -> i64:
    """When the job expires if it has not been started; 0 for never."""
    if extras is not None and extras.expires_at:
        return extras.expires_at
    return w.wall_ms + options.ttl_ms if options.ttl_ms else 0


def check_options(w: World, tenant: str, options: Options, extras: Extras | None) -> Error | None:
    if options.lifo:
        if extras is not None and extras.group:
            return InvalidRequest("lifo", True, "a group keeps the order of joining; leave out one of the two")
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
