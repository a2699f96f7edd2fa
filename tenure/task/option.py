"""The options of jobs and tasks as people write them, and the values of the contract they become."""

from collections.abc import Iterable
from typing import Any, TypedDict

from tenure.client.client import split_fields
from tenure.core import bound
from tenure.core.duration import Duration, Time, time_ms
from tenure.core.job import Extras, Options
from tenure.core.retry import Backoff


class JobOptions(TypedDict, total=False):
    """Of one job: docs/semantics.md, section 4."""

    tenant: str
    queue: str
    priority: int | str
    delay: Duration
    run_at: Time
    ttl: Duration
    expires_at: Time
    max_attempts: int | None
    backoff: Backoff
    timeout: Duration
    lease: Duration
    custom_id: str
    unique_key: str
    idempotency_key: str
    idempotency_ttl: Duration
    debounce_key: str
    debounce: Duration
    debounce_mode: str
    debounce_max_wait: Duration
    on_conflict: str
    depends_on: Iterable[Any]
    dependency_policy: str
    group: str
    lifo: bool
    limit_keys: Iterable[str]
    tags: Iterable[str]
    metadata: dict[str, str]
    keep_completed: Duration
    keep_completed_count: int
    keep_failed: Duration
    keep_failed_count: int
    remove_on_complete: bool
    remove_on_fail: bool
    durability: str
    trace: str


# Those of a task that may depend on the arguments: a function of them, or the value itself.
BY_ARGUMENTS = ("unique_key", "idempotency_key", "debounce_key", "group", "limit_keys", "tags", "custom_id")
OF_TASKS = frozenset(JobOptions.__annotations__) - {
    "tenant",
    "run_at",
    "expires_at",
    "depends_on",
    "durability",
    "trace",
}


def job_ids(value: Iterable[Any]) -> list[int]:
    """Jobs by their handles or their ids."""
    return [each if isinstance(each, int) else each.id for each in value]


def read_options(fields: dict[str, Any]) -> tuple[Options, dict[str, Any]]:
    """What a batch can share, and what belongs to one job (to be given to `extras_of`)."""
    plain = dict(fields)
    for name in ("run_at", "expires_at"):
        if name in plain:
            plain[name] = time_ms(name, plain[name])
    if "depends_on" in plain:
        plain["depends_on"] = job_ids(plain["depends_on"])
    for name in ("limit_keys", "tags"):
        if name in plain:
            plain[name] = tuple(plain[name])
    own = {name: plain.pop(name) for name in bound.EXTRA_RULES if name in plain}
    options, _ = split_fields(plain)
    return options, own


def extras_of(own: dict[str, Any]) -> Extras | None:
    return bound.make_extras(**own) if own else None
