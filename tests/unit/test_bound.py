"""Every field's bound, from both sides, written out from section 20 of the semantics."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core import bound, dependency, job
from tenure.core.error import InvalidRequest, PayloadTooLarge
from tenure.core.limit import Rate
from tenure.core.request import CLAIM_BYTES_MAX
from tenure.core.retry import Backoff

DECADE = 3_653 * 86_400_000
YEAR_10000 = 253_402_300_800_000

# Values of one kind: those at its bounds, which are taken as they are, and those outside, which are refused.
Kind = tuple[list[Any], list[Any]]

NOT_WHOLE: list[Any] = [None, True, False, 1.5, "1", b"1", [1]]
NOT_TEXT: list[Any] = [None, 1, True, b"a", ["a"]]


def whole(low: int, high: int) -> Kind:
    return [low, high], [low - 1, high + 1, *NOT_WHOLE]


def text(bytes_max: int, empty: bool = False) -> Kind:
    fits = ["a" * bytes_max, "é" * (bytes_max // 2), *([""] if empty else [])]
    bad = ["a" * (bytes_max + 1), "é" * (bytes_max // 2) + "e", "\ud800", *NOT_TEXT, *([] if empty else [""])]
    return fits, bad


def texts(count_max: int, bytes_max: int) -> Kind:
    full = [str(at) for at in range(count_max)]
    fits: list[Any] = [(), tuple(full), ("a" * bytes_max,)]
    bad: list[Any] = [[*full, "more"], ["a" * (bytes_max + 1)], [""], ["a", "a"], [1], ["\ud800"], "a", {"a"}, None, 1]
    return fits, bad


def name(chars_max: int) -> Kind:
    return ["a" * chars_max, "A", "0", "_.-"], ["", "a" * (chars_max + 1), "a b", "ä", "a/b", "a*", "a\n", *NOT_TEXT]


NAME = name(256)
KEY = text(512)
FLAG: Kind = ([True, False], [None, 0, 1, "true", b""])
DURATION = whole(0, DECADE)
POSITIVE_DURATION = whole(1, DECADE)
COUNT = whole(0, 10**9)
BYTES = whole(0, 2**53)
LEASE = whole(1_000, 43_200_000)
RATE: Kind = ([None, Rate(1, 1), Rate(10**9, 1_000)], [5, "5/s", (5, 1_000), True])
METADATA: Kind = (
    [{}, {"k": "v" * 4_095}, {str(at): "" for at in range(32)}, {"é": "é" * 2_047}],
    [
        {"k": "v" * 4_096},
        {str(at): "" for at in range(33)},
        {"": "v"},
        {"k": 1},
        {1: "v"},
        {"k": "\ud800"},
        [("k", "v")],
        "k",
        None,
    ],
)
DEPENDS_ON: Kind = (
    [(), (1, 2**53 - 1), tuple(range(1, 10_001))],
    [[0], [2**53], [-1], [True], ["1"], [1.0], [None], list(range(1, 10_002)), 1, {1}, None],
)
KEEPS = {
    "keep_completed_ms": DURATION,
    "keep_completed_count": COUNT,
    "keep_failed_ms": DURATION,
    "keep_failed_count": COUNT,
}

KINDS: dict[str, dict[str, Kind]] = {
    "option": {
        "queue": NAME,
        "task": NAME,
        "priority": ([0, -(2**31), 2**31 - 1], [-(2**31) - 1, 2**31, "urgent", "", None, True, 1.5]),
        "delay_ms": DURATION,
        "ttl_ms": POSITIVE_DURATION,
        "max_attempts": ([1, 1_000_000], [0, 1_000_001, -1, True, 1.5, "3"]),
        "backoff": ([Backoff.fixed(1)], [None, 1, "fixed", [1]]),
        "timeout_ms": POSITIVE_DURATION,
        "lease_ms": LEASE,
        "on_conflict": ([], ["", "RETURN", "ignore", 0, None, True]),
        "idempotency_ttl_ms": whole(1_000, DECADE),
        "debounce_ms": POSITIVE_DURATION,
        "debounce_mode": ([], ["", "both", 0, None]),
        "debounce_max_wait_ms": POSITIVE_DURATION,
        "dependency_policy": ([], ["", "none", 0, None]),
        "lifo": FLAG,
        "limit_keys": texts(8, 512),
        **KEEPS,
        "codec": NAME,
        "schema_version": whole(0, 2**31 - 1),
    },
    "extra": {
        "custom_id": KEY,
        "unique_key": KEY,
        "idempotency_key": KEY,
        "debounce_key": KEY,
        "depends_on": DEPENDS_ON,
        "group": KEY,
        "run_at": whole(0, YEAR_10000),
        "expires_at": whole(1, YEAR_10000),
        "tags": texts(32, 128),
        "metadata": METADATA,
        "trace": text(512),
    },
    "queue": {
        "paused": FLAG,
        "rate": RATE,
        "concurrency": COUNT,
        "enqueue_rate": RATE,
        "group_concurrency": whole(1, 10**9),
        "group_order": ([], ["", "loose", 0, None]),
        "age_ms": DURATION,
        "lease_ms": LEASE,
        "slo_wait_ms": DURATION,
        "jobs_max": COUNT,
        "bytes_max": BYTES,
        **KEEPS,
    },
    "key": {"rate": RATE, "concurrency": COUNT, "shared": FLAG, "paused_ms": DURATION},
    "tenant": {
        "weight": whole(1, 1_000),
        "jobs_max": COUNT,
        "bytes_max": BYTES,
        "running_max": COUNT,
        "rate": RATE,
        "enqueue_rate": RATE,
        "queues_max": whole(1, 1_000_000),
        "workers_max": whole(1, 1_000_000),
        "worker_bytes_max": whole(1, 2**53),
        **KEEPS,
    },
    "store": {
        "jobs_max": COUNT,
        "bytes_max": BYTES,
        "payload_bytes_max": whole(1, 10 * 1024 * 1024),
        "terminal_jobs_max": COUNT,
        "terminal_bytes_max": BYTES,
        "events_max": whole(1, 10**9),
        "workers_max": whole(1, 1_000_000),
        "worker_bytes_max": whole(1, 2**53),
        **KEEPS,
    },
    "worker": {
        "version": text(256, empty=True),
        "tasks": texts(10_000, 256),
        "published": text(262_144, empty=True),
        "leaving": FLAG,
        "stop": FLAG,
        "alive": FLAG,
    },
}

RULES = {
    "option": bound.OPTION_RULES,
    "extra": bound.EXTRA_RULES,
    "queue": bound.QUEUE_RULES,
    "key": bound.KEY_RULES,
    "tenant": bound.TENANT_RULES,
    "store": bound.STORE_RULES,
    "worker": bound.WORKER_RULES,
}

FIELDS = [(table, field) for table, fields in KINDS.items() for field in fields]


@pytest.mark.parametrize("table", KINDS)
def test_every_rule_is_tested_here(table: str) -> None:
    assert set(RULES[table]) == set(KINDS[table])


@pytest.mark.parametrize(("table", "field"), FIELDS)
def test_value_at_a_bound_is_taken_as_it_is(table: str, field: str) -> None:
    for value in KINDS[table][field][0]:
        assert bound.check_fields(RULES[table], {field: value}) == {field: value}


@pytest.mark.parametrize(("table", "field"), FIELDS)
def test_value_outside_is_refused_with_field_value_and_rule(table: str, field: str) -> None:
    for value in KINDS[table][field][1]:
        with pytest.raises(InvalidRequest) as refused:
            bound.check_fields(RULES[table], {field: value})
        error = refused.value
        assert error.field.partition("[")[0] == field
        assert error.value == value or error.value in value
        assert error.rule.startswith("it must ")
        assert str(error).startswith(error.field + ": ")
        assert str(error).endswith(error.rule)
        assert error.fields == {"field": error.field, "rule": error.rule}


# A rate is made outside, so its numbers are looked at where it is used.
WRONG_RATES = [(0, 1_000, 0), (-1, 1_000, 0), (1, 0, 0), (1, -1, 0), (1, 1_000, -1), (10**9 + 1, 1_000, 0)]
WRONG_RATES += [(1, 366 * 86_400_000 + 1, 0), (1, 1_000, 10**9 + 1)]


@pytest.mark.parametrize("numbers", WRONG_RATES, ids=str)
def test_rate_outside_its_bounds_is_refused(numbers: tuple[int, int, int]) -> None:
    for rules in (bound.QUEUE_RULES, bound.KEY_RULES, bound.TENANT_RULES):
        with pytest.raises(InvalidRequest):
            bound.check_fields(rules, {"rate": Rate(*numbers)})


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("on_conflict", job.CONFLICT_NAMES),
        ("debounce_mode", job.DEBOUNCE_NAMES),
        ("dependency_policy", dependency.POLICY_NAMES),
    ],
)
def test_choice_becomes_its_code(field: str, names: tuple[str, ...]) -> None:
    for code, value in enumerate(names):
        assert bound.check_fields(bound.OPTION_RULES, {field: value}) == {field: code}
    with pytest.raises(InvalidRequest, match="it must be one of " + ", ".join(names)):
        bound.check_fields(bound.OPTION_RULES, {field: "other"})


def test_group_order_becomes_its_code() -> None:
    codes = [bound.check_fields(bound.QUEUE_RULES, {"group_order": value}) for value in ("strict", "relaxed")]
    assert codes == [{"group_order": 0}, {"group_order": 1}]


@pytest.mark.parametrize(("value", "priority"), [("low", -10), ("normal", 0), ("high", 10), ("critical", 20)])
def test_priority_has_names(value: str, priority: int) -> None:
    assert bound.make_options(priority=value).priority == priority


def test_no_limit_of_attempts_is_said_by_none() -> None:
    assert bound.make_options(max_attempts=None).max_attempts == job.ATTEMPTS_UNLIMITED
    assert bound.make_options().max_attempts == 3


def test_dependency_named_twice_counts_once() -> None:
    assert bound.make_extras(depends_on=[3, 1, 3]).depends_on == (3, 1)


def test_metadata_is_copied() -> None:
    mine = {"k": "v"}
    extras = bound.make_extras(metadata=mine)
    mine["k"] = "other"
    assert extras.metadata == {"k": "v"}


def test_entry_of_a_list_is_named_by_its_place() -> None:
    with pytest.raises(InvalidRequest) as refused:
        bound.make_extras(tags=["a", "", "c"])
    assert refused.value.field == "tags[1]"


@pytest.mark.parametrize("digits", [100, 5_000])
def test_number_of_any_length_is_refused_and_shown_short(digits: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        bound.make_options(priority=10**digits)
    assert len(str(refused.value)) < 200


def test_long_value_is_shown_short() -> None:
    with pytest.raises(InvalidRequest) as refused:
        bound.make_options(queue="q" * 10_000)
    assert len(str(refused.value)) < 200
    assert "..." in str(refused.value)


# Unknown fields.


@pytest.mark.parametrize(
    ("table", "wrong", "right"),
    [
        ("option", "queu", "queue"),
        ("option", "max_atempts", "max_attempts"),
        ("option", "keep_complete_ms", "keep_completed_ms"),
        ("extra", "uniq_key", "unique_key"),
        ("queue", "concurency", "concurrency"),
        ("key", "rates", "rate"),
        ("tenant", "wieght", "weight"),
        ("store", "payload_max", "payload_bytes_max"),
        ("worker", "task", "tasks"),
    ],
)
def test_unknown_field_names_the_nearest(table: str, wrong: str, right: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        bound.check_fields(RULES[table], {wrong: 1})
    assert refused.value.field == wrong
    assert refused.value.rule == f"there is no such field; did you mean {right}?"


def test_unknown_field_like_no_other_lists_all() -> None:
    with pytest.raises(InvalidRequest, match="known are concurrency, paused_ms, rate, shared"):
        bound.check_fields(bound.KEY_RULES, {"zzz": 1})


def test_fields_are_checked_in_the_order_given() -> None:
    with pytest.raises(InvalidRequest) as refused:
        bound.make_options(task="", queue="")
    assert refused.value.field == "task"


# Makers.


def test_options_hold_what_was_given_and_defaults_else() -> None:
    options = bound.make_options(queue="q", priority="high", lifo=True, limit_keys=["a", "b"])
    assert (options.queue, options.priority, options.lifo, options.limit_keys) == ("q", 10, True, ("a", "b"))
    assert (options.task, options.delay_ms, options.max_attempts, options.codec) == ("default", 0, 3, "json")
    assert bound.make_options().key() == job.DEFAULT_OPTIONS.key()


def test_longest_wait_of_a_debounce_needs_its_window() -> None:
    with pytest.raises(InvalidRequest, match="it needs debounce_ms"):
        bound.make_options(debounce_max_wait_ms=10)
    assert bound.make_options(debounce_max_wait_ms=10, debounce_ms=5).debounce_max_wait_ms == 10


def test_extras_hold_what_was_given() -> None:
    extras = bound.make_extras(custom_id="c", run_at=5, tags=["t"])
    assert (extras.custom_id, extras.run_at, extras.tags, extras.group) == ("c", 5, ("t",), "")


def test_claim_reads_queues_with_and_without_weights() -> None:
    claim = bound.make_claim(["a", ("b", 3), "c*", "*"])
    assert [(pick.name, pick.weight) for pick in claim.queues] == [("a", 1), ("b", 3), ("c*", 1), ("*", 1)]
    assert [pick.name for pick in bound.make_claim("solo").queues] == ["solo"]
    assert [pick.name for pick in bound.make_claim().queues] == ["default"]


def test_queue_named_twice_is_claimed_once() -> None:
    assert [(pick.name, pick.weight) for pick in bound.make_claim(["a", ("a", 2)]).queues] == [("a", 2)]


def test_claim_knows_its_tasks_or_all() -> None:
    assert bound.make_claim(tasks=["a", "b", "a"]).tasks == frozenset({"a", "b"})
    assert bound.make_claim(tasks=frozenset({"a"})).tasks == frozenset({"a"})
    assert bound.make_claim().tasks is None


def test_claim_without_a_lease_leaves_it_to_the_job() -> None:
    assert bound.make_claim().lease_ms == 0
    assert bound.make_claim(lease_ms=0).lease_ms == 0


CLAIM: dict[str, Kind] = {
    "n": whole(1, 10_000),
    "wait_ms": whole(0, 600_000),
    "worker": text(256, empty=True),
    "max_bytes": whole(1, CLAIM_BYTES_MAX),
    "lease_ms": ([1_000, 43_200_000], [999, 43_200_001, -1, True, False, "30s", None, 1.5]),
    "strict": FLAG,
    "tasks": ([], [[], "a", [""], [1], ["a b"], [str(at) for at in range(10_001)], 1, {"a": 1}]),
    "queues": (
        [],
        [[], "", "a b", ["a", ""], [1], [None], None, 1, {"a"}, "**", "a*b", "a" * 257, ["q"] * 1_001, [("a", 1, 1)]],
    ),
}


@pytest.mark.parametrize("field", CLAIM)
def test_claim_is_bounded(field: str) -> None:
    fits, bad = CLAIM[field]
    for value in fits:
        assert getattr(bound.make_claim(**{field: value}), field) == value
    for value in bad:
        with pytest.raises(InvalidRequest) as refused:
            bound.make_claim(**{field: value})
        assert refused.value.field == field


@pytest.mark.parametrize("weight", [0, 1_001, -1, True, 1.5, "2", None])
def test_weight_of_a_claimed_queue_is_bounded(weight: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        bound.make_claim([("a", weight)])
    assert refused.value.field == "weight"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("type", 1),
        ("message", None),
        ("trace", b"x"),
        ("retryable", 1),
        ("undecodable", None),
        ("delay_ms", -2),
        ("delay_ms", DECADE + 1),
        ("delay_ms", True),
        ("delay_ms", 1.0),
    ],
)
def test_failure_of_a_wrong_shape_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        bound.make_failure(**{field: value})
    assert refused.value.field == field


def test_report_of_a_failure_is_cut_and_not_refused() -> None:
    failure = bound.make_failure("t" * 300, "é" * 5_000, "x" * 40_000)
    assert [len(part.encode()) for part in (failure.type, failure.message, failure.trace)] == [256, 4_096, 32_768]
    assert (failure.retryable, failure.undecodable, failure.delay_ms) == (True, False, -1)


# Texts.


@given(st.text(), st.integers(0, 50))
def test_clip_keeps_the_longest_head_that_fits(value: str, bytes_max: int) -> None:
    cut = bound.clip("message", value, bytes_max)
    assert value.startswith(cut)
    assert len(cut.encode()) <= bytes_max
    assert cut == value or len(value[: len(cut) + 1].encode()) > bytes_max


@pytest.mark.parametrize(
    ("bytes_max", "kept"), [(0, ""), (1, "a"), (2, "a"), (3, "aé"), (5, "aé"), (6, "aé€"), (9, "aé€"), (10, "aé€😀")]
)
def test_clip_cuts_between_characters(bytes_max: int, kept: str) -> None:
    assert bound.clip("message", "aé€😀", bytes_max) == kept


def test_clip_replaces_what_cannot_be_encoded() -> None:
    assert bound.clip("message", "a\ud800b", 10) == "a?b"
    assert bound.clip("message", "\udfff" * 20, 10) == "?" * 10


@given(st.text(st.characters()))
def test_clipped_text_can_always_be_stored(value: str) -> None:
    bound.clip("message", value, 20).encode()


@given(st.text())
def test_length_in_bytes_is_that_of_the_encoding(value: str) -> None:
    assert bound.utf8_bytes(value) == len(value.encode())


@pytest.mark.parametrize("surrogate", ["\ud800", "a\udfff", "é\udc80é"])
def test_surrogate_fits_nowhere(surrogate: str) -> None:
    assert bound.utf8_bytes(surrogate) > 10**18
    for field in ("custom_id", "group", "trace"):
        with pytest.raises(InvalidRequest):
            bound.make_extras(**{field: surrogate})
    with pytest.raises(InvalidRequest):
        bound.make_extras(metadata={surrogate: "v"})
    with pytest.raises(InvalidRequest):
        bound.make_extras(tags=[surrogate])
    with pytest.raises(InvalidRequest):
        bound.make_claim(worker=surrogate)


def test_payload_is_measured_against_its_cap() -> None:
    bound.check_payload_size(10, 10)
    with pytest.raises(PayloadTooLarge) as refused:
        bound.check_payload_size(11, 10)
    assert (refused.value.size, refused.value.max) == (11, 10)
