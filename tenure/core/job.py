"""What a job is asked to be: `Options` shared by many, `Extras` of one.

Most jobs of a batch differ only in their payload, so the options are one object for all of them, and what only some
jobs have (keys, dependencies, a group, a time of their own) is a second object that most jobs do without. Both are made
by `core.bound`, which checks every field; once made they do not change.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from tenure.core.dependency import ALL_SUCCESS
from tenure.core.retry import DEFAULT as DEFAULT_BACKOFF
from tenure.core.retry import Backoff

PRIORITIES: Final = {"low": -10, "normal": 0, "high": 10, "critical": 20}

ATTEMPTS_DEFAULT: Final = 3
ATTEMPTS_UNLIMITED: Final = 0  # `max_attempts=None` in requests
DELIVERIES_EXTRA: Final = 50
LEASE_DEFAULT_MS: Final = 30_000
IDEMPOTENCY_DEFAULT_MS: Final = 86_400_000
UNSET: Final = -1

RETURN: Final = 0
REPLACE: Final = 1
ERROR: Final = 2
CONFLICT_NAMES: Final = ("return", "replace", "error")

LEADING: Final = 0
TRAILING: Final = 1
DEBOUNCE_NAMES: Final = ("leading", "trailing")
DEBOUNCE_WINDOWS_MAX: Final = 10


class Options:
    """Everything that jobs can share. Durations in milliseconds; 0 is none, `UNSET` asks for the queue's setting."""

    def __init__(
        self,
        queue: str = "default",
        task: str = "default",
        priority: int = 0,
        delay_ms: int = 0,
        ttl_ms: int = 0,
        max_attempts: int = ATTEMPTS_DEFAULT,
        backoff: Backoff = DEFAULT_BACKOFF,
        timeout_ms: int = 0,
        lease_ms: int = 0,
        on_conflict: int = RETURN,
        idempotency_ttl_ms: int = IDEMPOTENCY_DEFAULT_MS,
        debounce_ms: int = 0,
        debounce_mode: int = LEADING,
        debounce_max_wait_ms: int = 0,
        dependency_policy: int = ALL_SUCCESS,
        lifo: bool = False,
        limit_keys: tuple[str, ...] = (),
        keep_completed_ms: int = UNSET,
        keep_completed_count: int = UNSET,
        keep_failed_ms: int = UNSET,
        keep_failed_count: int = UNSET,
        codec: str = "json",
        schema_version: int = 0,
    ) -> None:
        self.queue = queue
        self.task = task
        self.priority = priority
        self.delay_ms = delay_ms
        self.ttl_ms = ttl_ms
        self.max_attempts = max_attempts
        self.backoff = backoff
        self.timeout_ms = timeout_ms
        self.lease_ms = lease_ms
        self.on_conflict = on_conflict
        self.idempotency_ttl_ms = idempotency_ttl_ms
        self.debounce_ms = debounce_ms
        self.debounce_mode = debounce_mode
        self.debounce_max_wait_ms = debounce_max_wait_ms
        self.dependency_policy = dependency_policy
        self.lifo = lifo
        self.limit_keys = limit_keys
        self.keep_completed_ms = keep_completed_ms
        self.keep_completed_count = keep_completed_count
        self.keep_failed_ms = keep_failed_ms
        self.keep_failed_count = keep_failed_count
        self.codec = codec
        self.schema_version = schema_version

    def without_times(self) -> "Options":
        """The same, to be run at once and for good: no delay, no expiry, no debounce."""
        return Options(
            self.queue,
            self.task,
            self.priority,
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            timeout_ms=self.timeout_ms,
            lease_ms=self.lease_ms,
            on_conflict=self.on_conflict,
            idempotency_ttl_ms=self.idempotency_ttl_ms,
            dependency_policy=self.dependency_policy,
            lifo=self.lifo,
            limit_keys=self.limit_keys,
            keep_completed_ms=self.keep_completed_ms,
            keep_completed_count=self.keep_completed_count,
            keep_failed_ms=self.keep_failed_ms,
            keep_failed_count=self.keep_failed_count,
            codec=self.codec,
            schema_version=self.schema_version,
        )

    def key(self) -> tuple[object, ...]:
        """Equal for options that mean the same, so that a store can keep them once."""
        return (
            self.queue,
            self.task,
            self.priority,
            self.delay_ms,
            self.ttl_ms,
            self.max_attempts,
            self.backoff.key(),
            self.timeout_ms,
            self.lease_ms,
            self.on_conflict,
            self.idempotency_ttl_ms,
            self.debounce_ms,
            self.debounce_mode,
            self.debounce_max_wait_ms,
            self.dependency_policy,
            self.lifo,
            self.limit_keys,
            self.keep_completed_ms,
            self.keep_completed_count,
            self.keep_failed_ms,
            self.keep_failed_count,
            self.codec,
            self.schema_version,
        )


@mypyc_attr(acyclic=True)
class Extras:
    """What one job has and its neighbours in the batch do not. Times in milliseconds since 1970; 0 is none."""

    def __init__(
        self,
        custom_id: str = "",
        unique_key: str = "",
        idempotency_key: str = "",
        debounce_key: str = "",
        depends_on: tuple[int, ...] = (),
        group: str = "",
        run_at: int = 0,
        expires_at: int = 0,
        tags: tuple[str, ...] = (),
        metadata: dict[str, str] | None = None,
        trace: str = "",
    ) -> None:
        self.custom_id = custom_id
        self.unique_key = unique_key
        self.idempotency_key = idempotency_key
        self.debounce_key = debounce_key
        self.depends_on = depends_on
        self.group = group
        self.run_at = run_at
        self.expires_at = expires_at
        self.tags = tags
        self.metadata = metadata
        self.trace = trace

    def is_key_alone(self) -> bool:
        """Whether there is nothing but an idempotency key, if that."""
        return self.metadata is None and not (
            self.custom_id
            or self.unique_key
            or self.debounce_key
            or self.depends_on
            or self.group
            or self.run_at
            or self.expires_at
            or self.tags
            or self.trace
        )


DEFAULT_OPTIONS: Final = Options()
