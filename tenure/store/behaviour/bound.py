"""Sections 18 and 20: wrong input is refused with the field and the rule, and nothing happens.

One behaviour per field, from the tables below: some values that are refused, and those at the bounds that are taken.
"""

from typing import Final

from tenure.core import bound
from tenure.core.error import InvalidRequest, QueueNotFound
from tenure.core.limit import Rate
from tenure.core.request import KEY, QUEUE, STORE, TENANT, WORKER, Configure, Filter
from tenure.core.retry import FIXED, Backoff
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import Check, add, behaviour
from tenure.store.behaviour.rig import ACME, MINUTE, Rig

Values = tuple[list[object], list[object]]  # refused, taken

YEARS: Final = bound.DELAY_MS_MAX
NAME: Final[Values] = (["", "a b", "é", "a/b", "a*", "a" * 257, b"a", None, 1, "a\n"], ["a", "A-Z_0.9", "a" * 256])
KEY_TEXT: Final[Values] = (["", "a" * 513, "é" * 257, "\ud800", b"a", None, 1], ["a", "é" * 256, "any text: ok"])
DURATION: Final[Values] = ([-1, YEARS + 1, 1.5, "1", True, None], [0, 1])
POSITIVE: Final[Values] = ([0, -1, YEARS + 1, 1.5, "1", True, None], [1])
COUNT: Final[Values] = ([-1, bound.RATE_MAX + 1, 1.5, "1", True], [0, 1, bound.RATE_MAX])
BYTES: Final[Values] = ([-1, 2**53 + 1, 1.5, "1", True], [0, 2**53])
FLAG: Final[Values] = ([0, 1, "yes"], [True, False])
LEASE: Final[Values] = ([0, 999, 43_200_001, "1s", True, -1], [1_000, 43_200_000])
RATE: Final[Values] = ([5, "5/s", (5, 1_000), True], [Rate(5, 1_000), Rate(1, 1, 1)])

OPTIONS: Final[dict[str, Values]] = {
    "queue": NAME,
    "task": NAME,
    "codec": NAME,
    "priority": ([2**31, -(2**31) - 1, "urgent", 1.0, True, None], [2**31 - 1, -(2**31), "low"]),
    "delay_ms": DURATION,
    "ttl_ms": POSITIVE,
    "max_attempts": ([0, -1, bound.ATTEMPTS_MAX + 1, "3", True, 1.0], [1, None, bound.ATTEMPTS_MAX]),
    "backoff": (["fixed", 5, None, {}], [Backoff(FIXED, 0)]),
    "timeout_ms": POSITIVE,
    "lease_ms": LEASE,
    "on_conflict": (["ignore", 0, None, True], ["return", "replace", "error"]),
    "idempotency_ttl_ms": ([0, 999, YEARS + 1, True, "1"], [1_000]),
    "debounce_ms": ([0, -1, YEARS + 1, True], []),
    "debounce_mode": (["middle", 0, None], ["leading", "trailing"]),
    "debounce_max_wait_ms": ([0, -1, YEARS + 1, True, 5], []),
    "dependency_policy": (["none", 0, None], ["all_success", "all_done", "any_success"]),
    "lifo": FLAG,
    "limit_keys": (["a", ["a", "a"], [""], ["k"] * 9, [1], ["k" * 513], None], [[], list("abcdefgh"), ["k" * 512]]),
    "keep_completed_ms": DURATION,
    "keep_completed_count": COUNT,
    "keep_failed_ms": DURATION,
    "keep_failed_count": COUNT,
    "schema_version": ([-1, 2**31, "1", True], [0, 2**31 - 1]),
}
EXTRAS: Final[dict[str, Values]] = {
    "custom_id": KEY_TEXT,
    "unique_key": KEY_TEXT,
    "idempotency_key": KEY_TEXT,
    "debounce_key": (KEY_TEXT[0], []),
    "group": KEY_TEXT,
    "depends_on": ([[0], [-1], [2**53], ["1"], [True], [1] * 10_001, 1, None], [[]]),
    "run_at": ([-1, bound.TIME_MS_MAX + 1, "now", True, 1.5], [0, 1]),
    "expires_at": ([0, -1, bound.TIME_MS_MAX + 1, "now", True], [bound.TIME_MS_MAX]),
    "tags": (
        ["tag", ["a", "a"], [""], ["t" * 129], [1], [f"{at}" for at in range(33)], None],
        [[], ["t" * 128], [f"{at}" for at in range(32)]],
    ),
    "metadata": (
        [[], {"": "v"}, {"k": 1}, {1: "v"}, {"k": "v" * 4_096}, {f"{at}": "v" for at in range(33)}, None],
        [{}, {"k": "v" * 4_095}, {f"{at}": "v" for at in range(32)}],
    ),
    "trace": (["", "t" * 513, 1, None], ["t" * 512]),
}
KEEP: Final[dict[str, Values]] = {
    "keep_completed_ms": ([-1, YEARS + 1, "1", True], [0, YEARS]),
    "keep_completed_count": COUNT,
    "keep_failed_ms": ([-1, YEARS + 1, "1", True], [0, YEARS]),
    "keep_failed_count": COUNT,
}
QUEUES: Final[dict[str, Values]] = {
    "paused": FLAG,
    "rate": RATE,
    "concurrency": COUNT,
    "enqueue_rate": RATE,
    "group_concurrency": ([0, -1, "1", True], [1, bound.RATE_MAX]),
    "group_order": (["loose", 0, True], ["strict", "relaxed"]),
    "age_ms": ([-1, YEARS + 1, "1", True], [0, 1_000]),
    "lease_ms": LEASE,
    "slo_wait_ms": ([-1, YEARS + 1, "1", True], [0, 1_000]),
    "jobs_max": COUNT,
    "bytes_max": BYTES,
    **KEEP,
}
KEYS: Final[dict[str, Values]] = {
    "rate": RATE,
    "concurrency": COUNT,
    "shared": FLAG,
    "paused_ms": ([-1, YEARS + 1, "1", True], [0, 1_000]),
}
TENANTS: Final[dict[str, Values]] = {
    "weight": ([0, -1, 1_001, "1", True, 1.5], [1, 1_000]),
    "jobs_max": COUNT,
    "bytes_max": BYTES,
    "running_max": COUNT,
    "rate": RATE,
    "enqueue_rate": RATE,
    "queues_max": ([0, -1, 1_000_001, "1", True], [1, 1_000_000]),
    "workers_max": ([0, -1, 1_000_001, "1", True], [1, 1_000_000]),
    "worker_bytes_max": ([0, -1, 2**53 + 1, "1", True], [1, 2**53]),
    **KEEP,
}
STORES: Final[dict[str, Values]] = {
    "jobs_max": COUNT,
    "bytes_max": BYTES,
    "payload_bytes_max": ([0, -1, bound.PAYLOAD_BYTES_MAX + 1, "1", True], [1, bound.PAYLOAD_BYTES_MAX]),
    "terminal_jobs_max": COUNT,
    "terminal_bytes_max": BYTES,
    "events_max": ([0, -1, "1", True], [1, bound.RATE_MAX]),
    "workers_max": ([0, -1, 1_000_001, "1", True], [1, 1_000_000]),
    "worker_bytes_max": ([0, -1, 2**53 + 1, "1", True], [1, 2**53]),
    **KEEP,
}
WORKERS: Final[dict[str, Values]] = {
    "version": ([1, "v" * 257, True], ["", "1.2.3", "v" * 256]),
    "tasks": (["a", [1], [""], ["a", "a"], ["t" * 257]], [[], ["a", "b"]]),
    "published": ([1, "p" * 262_145, True], ["", "{}", "p" * 262_144]),
    "leaving": ([1, "yes"], [False]),
    "stop": ([1, "yes"], [False]),
    "alive": ([1, "yes"], [True]),
}
CLAIMS: Final[dict[str, Values]] = {
    "queues": ([(), [], "a b", "*a", ["a", ""], [1], [("a", 0)], [("a", 1_001)], "a**", None], ["a", "a*", "*", ["a"]]),
    "n": ([0, -1, 10_001, "1", True, 1.0], [1, 10_000]),
    "wait_ms": ([-1, 600_001, "1", True], [0]),
    "worker": (["w" * 257, 1, None, b"w"], ["", "w" * 256, "any text"]),
    "tasks": ([[], "a", ["a b"], [1]], [["a"], ("a", "b"), None]),
    "max_bytes": ([0, -1, bound.MIB * 8 + 1, "1", True], [1]),
    "lease_ms": ([999, 43_200_001, -1, "1", True], [0, 1_000]),
    "strict": ([1, "yes", None], [True, False]),
}
SUBJECTS: Final = {
    "queue": (QUEUE, "q", QUEUES, bound.QUEUE_RULES),
    "key": (KEY, "k:", KEYS, bound.KEY_RULES),
    "tenant": (TENANT, ACME, TENANTS, bound.TENANT_RULES),
    "store": (STORE, "", STORES, bound.STORE_RULES),
    "worker": (WORKER, "w1", WORKERS, bound.WORKER_RULES),
}


def job_field(field: str, values: Values) -> Check:
    async def check(rig: Rig) -> None:
        for value in values[0]:
            error = await refused(InvalidRequest, rig.enqueue_many([b"x"], each=[{field: value}]))
            assert error.field.split("[")[0] == field
            assert error.rule
        assert await rig.count() == {}
        for value in values[1]:
            answers = await rig.enqueue_many([b"x"], each=[{field: value}])
            assert not answers.errors(), f"{field}={value!r} was refused: {answers.errors()}"

    return check


async def claim(rig: Rig, field: str, value: object) -> object:
    return await rig.store.claim(rig.context(), bound.make_claim(**{field: value}), rig.now())


def claim_field(field: str, values: Values) -> Check:
    async def check(rig: Rig) -> None:
        await rig.enqueue()
        for value in values[0]:
            error = await refused(InvalidRequest, claim(rig, field, value))
            assert error.field in {field, "weight"}
        assert await rig.count() == {"ready": 1}
        for value in values[1]:
            bound.make_claim(**{field: value})

    return check


def setting(subject: int, name: str, field: str, values: Values) -> Check:
    async def check(rig: Rig) -> None:
        for value in values[0]:
            configure = Configure(subject, name, {field: value})
            error = await refused(InvalidRequest, rig.store.configure(rig.context(), configure, rig.now()))
            assert error.field.split("[")[0] == field
        assert await rig.events(tenants=("*",)) == []
        for value in values[1]:
            await rig.store.configure(rig.context(), Configure(subject, name, {field: value}), rig.now())

    return check


for _field, _values in {**OPTIONS, **EXTRAS}.items():
    add(f"job_refuses_a_wrong_{_field}", __name__, job_field(_field, _values), 20)
for _field, _values in CLAIMS.items():
    add(f"claim_refuses_a_wrong_{_field}", __name__, claim_field(_field, _values), 20)
for _subject, (_code, _name, _settings, _rules) in SUBJECTS.items():
    for _field, _values in _settings.items():
        add(f"{_subject}_refuses_a_wrong_{_field}", __name__, setting(_code, _name, _field, _values), 20)


@behaviour(20)
async def every_field_has_its_wrong_values(rig: Rig) -> None:  # noqa: ARG001
    assert set(OPTIONS) == set(bound.OPTION_RULES)
    assert set(EXTRAS) == set(bound.EXTRA_RULES)
    for _, _, settings, rules in SUBJECTS.values():
        assert set(settings) == set(rules)


@behaviour(18)
async def unknown_field_is_refused_with_the_nearest_known_one(rig: Rig) -> None:
    error = await refused(InvalidRequest, rig.enqueue(prioriti=5), field="prioriti")
    assert "priority" in error.rule
    error = await refused(InvalidRequest, rig.set_queue(concurency=5), field="concurency")
    assert "concurrency" in error.rule


@behaviour(18)
async def settings_with_one_wrong_value_are_not_changed_at_all(rig: Rig) -> None:
    await rig.set_queue("q", concurrency=5)
    await refused(InvalidRequest, rig.set_queue("q", concurrency=9, jobs_max=-1), field="jobs_max")
    assert (await rig.set_queue("q"))["concurrency"] == 5


@behaviour(18)
async def settings_of_a_badly_named_subject_are_refused(rig: Rig) -> None:
    await refused(InvalidRequest, rig.set_queue("bad name", concurrency=5))
    await refused(InvalidRequest, rig.set_queue("", concurrency=5))
    await refused(InvalidRequest, rig.configure(TENANT, "bad name", weight=5))
    await refused(InvalidRequest, rig.configure(99, "x", weight=5))


@behaviour(18)
async def settings_of_an_unknown_queue_are_not_found(rig: Rig) -> None:
    await refused(QueueNotFound, rig.set_queue("nowhere"), queue="nowhere")


@behaviour(20)
async def reads_refuse_limits_and_cursors_out_of_bounds(rig: Rig) -> None:
    context, now = rig.context(), rig.now()
    id = await rig.enqueue()
    for limit in (0, -1, 1_000_000_000):
        await refused(InvalidRequest, rig.store.find(context, Filter(), limit, "", now), field="limit")
        await refused(InvalidRequest, rig.store.events(context, "", limit, 0, now), field="limit")
        await refused(InvalidRequest, rig.store.stream(context, id, 1, 0, limit, 0, now), field={"limit", "offset"})
    await refused(InvalidRequest, rig.store.find(context, Filter(), 10, "no cursor", now), field="cursor")
    await refused(InvalidRequest, rig.store.events(context, "no cursor", 10, 0, now), field="cursor")
    await refused(InvalidRequest, rig.store.stream(context, id, 1, -1, 10, 0, now), field="offset")
    await refused(InvalidRequest, rig.store.stream(context, id, 9, 0, 10, 0, now), field="kind")


@behaviour(20)
async def waits_are_ten_minutes_at_most(rig: Rig) -> None:
    context, now = rig.context(), rig.now()
    id = await rig.enqueue()
    for wait_ms in (-1, 10 * MINUTE + 1):
        await refused(InvalidRequest, rig.store.watch(context, id, wait_ms, now), field="wait_ms")
        await refused(InvalidRequest, rig.store.events(context, "", 10, wait_ms, now), field="wait_ms")
        await refused(InvalidRequest, rig.store.stream(context, id, 1, 0, 10, wait_ms, now), field="wait_ms")


@behaviour(18)
async def error_names_what_was_wrong(rig: Rig) -> None:
    error = await refused(InvalidRequest, rig.enqueue(max_attempts=0), field="max_attempts")
    assert (error.code, error.retryable, error.status) == ("InvalidRequest", False, 400)
    assert "max_attempts" in str(error)
    assert "0" in str(error)
    assert error.fields == {"field": "max_attempts", "rule": error.rule}
