"""The options that jobs share, as bytes: named fields, those with their default left out."""

from typing import cast

import msgspec

from tenure.core.job import DEFAULT_OPTIONS, Options
from tenure.core.retry import Backoff
from tenure.engine.job import Spec
from tenure.engine.world import World

NUMBERS = (
    "priority",
    "delay_ms",
    "ttl_ms",
    "max_attempts",
    "timeout_ms",
    "lease_ms",
    "on_conflict",
    "idempotency_ttl_ms",
    "debounce_ms",
    "debounce_mode",
    "debounce_max_wait_ms",
    "dependency_policy",
    "keep_completed_ms",
    "keep_completed_count",
    "keep_failed_ms",
    "keep_failed_count",
    "schema_version",
)


def options_fact(options: Options) -> dict[str, object]:
    fact: dict[str, object] = {"queue": options.queue, "task": options.task}
    for name in NUMBERS:
        value = getattr(options, name)
        if value != getattr(DEFAULT_OPTIONS, name):
            fact[name] = value
    if options.lifo:
        fact["lifo"] = True
    if options.limit_keys:
        fact["limit_keys"] = options.limit_keys
    if options.codec != DEFAULT_OPTIONS.codec:
        fact["codec"] = options.codec
    if options.backoff.key() != DEFAULT_OPTIONS.backoff.key():
        fact["backoff"] = options.backoff.key()
    return fact


def read_options(fact: dict[str, object]) -> Options:
    options = Options(queue=str(fact["queue"]), task=str(fact["task"]))
    for name in NUMBERS:
        if name in fact:
            setattr(options, name, fact[name])
    options.lifo = bool(fact.get("lifo"))
    options.limit_keys = tuple(cast("list[str]", fact.get("limit_keys", [])))
    options.codec = str(fact.get("codec", options.codec))
    backoff = fact.get("backoff")
    if backoff is not None:
        kind, base_ms, factor, cap_ms, delays = cast(
            "tuple[int, int, float, int, list[int]]", tuple(cast("list[object]", backoff))
        )
        options.backoff = Backoff(kind, base_ms, float(factor), cap_ms, tuple(delays))
    return options


def spec_fact(spec: Spec) -> bytes:
    """Made once per spec: tenant and options."""
    if not spec.fact:
        fact = options_fact(spec.options)
        fact["tenant"] = spec.tenant_name
        spec.fact = msgspec.msgpack.encode(fact)
    return spec.fact


def read_spec(w: World, data: bytes) -> Spec:
    fact = msgspec.msgpack.decode(data, type=dict[str, object])
    w.tenant(str(fact["tenant"])).queues_max = 1 << 60  # what was accepted is taken back, whatever the bound is now
    return w.spec(str(fact["tenant"]), read_options(fact))
