"""The options of `@app.task` and of a worker, for type checkers and for people."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict

from tenure.core.duration import Duration
from tenure.core.retry import Backoff

Text = str | Callable[..., str]
Texts = Iterable[str] | Callable[..., Iterable[str]]


class TaskOptions(TypedDict, total=False):
    """Those of every job of the task, which may be functions of its arguments where that makes sense; then its own."""

    queue: str
    priority: int | str
    delay: Duration
    ttl: Duration
    max_attempts: int | None
    backoff: Backoff
    timeout: Duration
    lease: Duration
    custom_id: Text
    unique_key: Text
    idempotency_key: Text
    idempotency_ttl: Duration
    debounce_key: Text
    debounce: Duration
    debounce_mode: str
    debounce_max_wait: Duration
    on_conflict: str
    dependency_policy: str
    group: Text
    lifo: bool
    limit_keys: Texts
    tags: Texts
    metadata: dict[str, str]
    keep_completed: Duration
    keep_completed_count: int
    keep_failed: Duration
    keep_failed_count: int
    remove_on_complete: bool
    remove_on_fail: bool

    name: str
    aliases: Iterable[str]  # names it had before: jobs of that name come here
    run: str  # async, thread or process; by default as the function is
    codec: str
    schema_version: int
    retry_on: type[BaseException] | tuple[type[BaseException], ...]  # only these are tried again
    permanent: type[BaseException] | tuple[type[BaseException], ...]  # these never
    search: Iterable[str]  # arguments to copy into the metadata, by which jobs are found
    emits: Any  # the type of what the handler emits
    on_success: Callable[..., Any]
    on_failure: Callable[..., Any]


class WorkerOptions(TypedDict, total=False):
    """Of `app.worker`."""

    queues: Sequence[str | tuple[str, int]]
    concurrency: int
    processes: int
    latency_target: Duration | None
    tenants: Sequence[str]
    name: str
    version: str
    strict: bool
    stop: Duration
    memory_bytes: int
