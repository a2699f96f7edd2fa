"""Records as JSON for programs: times in ISO 8601, payloads as what they are, absent things as null."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from tenure.core.error import Error
from tenure.core.record import Event, JobRecord
from tenure.wire.format import JSON_FORMAT, shown

INSTANTS = frozenset(
    {
        "at",
        "created_at",
        "run_at",
        "ready_at",
        "started_at",
        "ended_at",
        "expires_at",
        "enqueued_at",
        "joined_at",
        "seen_at",
        "first_at",
        "last_at",
        "lease_until",
        "since",
        "earliest",
    }
)
RATES = ("rate", "enqueue_rate")
ALWAYS = frozenset({"seq", "at", "type"})  # fields of every event

Fields = dict[str, Any]


def show_instant(ms: int) -> str | None:
    """2026-01-31T10:15:00.000Z; none for 0."""
    if not ms:
        return None
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fields_of(record: msgspec.Struct) -> Fields:
    return {name: _field(name, getattr(record, name)) for name in record.__struct_fields__}


def _field(name: str, value: Any) -> Any:
    if name in INSTANTS and isinstance(value, int):
        return show_instant(value)
    if isinstance(value, msgspec.Struct):
        return fields_of(value)
    if isinstance(value, (list, tuple)):
        return [_field("", item) for item in value]
    return value


def job_fields(job: JobRecord) -> Fields:
    found = fields_of(job)
    is_elsewhere = job.payload_blob is not None and job.payload_blob.absent
    found["payload"] = None if is_elsewhere else content_of(job.payload, job.codec)
    found["result"] = None if job.result is None else content_of(job.result, job.codec)
    return found


def content_of(content: bytes, codec: str) -> object:
    """The value, or {"$bin": base64} when JSON cannot say it."""
    return shown(content, codec, JSON_FORMAT)


def event_fields(event: Event) -> Fields:
    """Those that the event has."""
    defaults = Event(seq=0, at=0, type="")
    return {
        name: _field(name, getattr(event, name))
        for name in event.__struct_fields__
        if name in ALWAYS or getattr(event, name) != getattr(defaults, name)
    }


def error_fields(error: Error) -> Fields:
    return {"code": error.code, "message": error.message}


def settings_fields(settings: object) -> Fields:
    """A store answers a rate as three numbers; here they have names."""
    found = settings if isinstance(settings, dict) else {}
    return {name: _rate(value) if name in RATES else value for name, value in found.items()}


def _rate(value: Any) -> Any:
    return (
        dict(zip(("tokens", "period_ms", "burst"), value, strict=True)) if isinstance(value, (list, tuple)) else value
    )
