"""A digest of everything that was asked, answered and seen, in order.

Values are written out field by field: no address, no hash order and nothing of the build can get into the text.
"""

from hashlib import sha256
from typing import Final

import msgspec

from tenure.core.answer import Answers, Claimed, Extended, Outcome
from tenure.core.error import Error
from tenure.core.job import Extras, Options
from tenure.core.limit import Rate
from tenure.core.packed import Packed, Texts
from tenure.core.request import (
    Append,
    Batch,
    Change,
    Claim,
    Configure,
    Extend,
    Failure,
    Filter,
    Load,
    Pick,
    Settle,
)
from tenure.core.retry import Backoff
from tenure.core.tenant import Context, OpId
from tests.simulation.record import Record

FIELDS: Final[dict[type, tuple[str, ...]]] = {
    Answers: ("ids", "state", "other", "count", "ticket"),
    Outcome: ("id", "state", "duplicate", "replaced", "run_at", "error"),
    Claimed: ("token", "ticket", "ids", "payloads", "tenants", "attempts", "lease_until"),
    Extended: ("lease_until", "errors"),
    Extras: (
        "custom_id",
        "unique_key",
        "idempotency_key",
        "debounce_key",
        "depends_on",
        "group",
        "run_at",
        "expires_at",
        "tags",
        "metadata",
    ),
    Batch: ("options", "payloads", "extras", "each", "atomic"),
    Pick: ("name", "weight"),
    Claim: ("queues", "n", "wait_ms", "worker", "tasks", "max_bytes", "lease_ms", "strict"),
    Failure: ("type", "message", "trace", "retryable", "undecodable", "delay_ms"),
    Settle: ("verb", "ids", "tokens", "results", "failures", "followups", "delay_ms", "pause_key"),
    Extend: ("ids", "tokens", "lease_ms"),
    Filter: ("queue", "states", "task", "tag", "worker", "reason", "group", "custom_id_prefix"),
    Change: ("action", "ids", "filter", "priority", "payload", "metadata", "tags", "run_at", "limit", "rate_per_s"),
    Append: ("kind", "id", "token", "percent", "text", "data"),
    Configure: ("subject", "name", "changes"),
    Load: ("step", "load_id", "part", "writing", "chunk", "batch", "parts"),
    Context: ("tenant", "tenants", "op", "connection"),
    OpId: ("session", "counter"),
}


def render(value: object) -> str:
    """The value as text, the same in every process and build."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join([render(item) for item in value]) + "]"
    if isinstance(value, (Packed, Texts)):
        return render(list(value))
    if isinstance(value, frozenset):
        return "{" + ",".join(sorted(render(item) for item in value)) + "}"
    if isinstance(value, dict):
        return "{" + ",".join([f"{render(key)}:{render(item)}" for key, item in value.items()]) + "}"
    if isinstance(value, Error):
        return f"{value.code}({value.message})"
    if isinstance(value, (Options, Backoff, Rate)):
        return render(value.key())
    if isinstance(value, msgspec.Struct):
        return type(value).__name__ + render([getattr(value, name) for name in value.__struct_fields__])
    fields = FIELDS[type(value)]
    return type(value).__name__ + "(" + ",".join([render(getattr(value, name)) for name in fields]) + ")"


class Trace:
    def __init__(self) -> None:
        self._hash = sha256()
        self.events = 0

    def add(self, record: Record) -> None:
        head = [record.step, record.wall, record.elapsed, record.verb]
        body = [record.context, record.request, record.answer, list(record.events), list(record.sent)]
        self._hash.update(render([*head, *body]).encode("utf-8", "backslashreplace") + b"\n")
        self.events += len(record.events)

    def digest(self) -> str:
        return self._hash.hexdigest()
