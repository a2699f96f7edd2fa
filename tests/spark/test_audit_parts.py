"""The parts of an audit that need no JVM: the verdict, the limits in force, the numbers of events."""

import json
import re
from itertools import combinations
from pathlib import Path

import msgspec
from pyspark.sql import Row

from tenure.core import event, state
from tenure.spark.audit import Verdict
from tenure.spark.audit.code import STATE_OF_TYPE, tells
from tenure.spark.audit.run import every_check
from tenure.spark.audit.sequence import CRASH_SKIPS_LEAST, PART_BITS, Gap, _is_dense, _read_parts
from tenure.spark.audit.setting import Settings
from tenure.spark.audit.verdict import Checked, Example
from tenure.store.embedded.sqlite import RESERVE

ROOT = Path(__file__).parents[2]
EXAMPLE = Example("it was cancelled and starts", 7, 3, 99, 1_700_000_000_123, "acme", "mail", "send", "started", "w-1")


def verdict(*checks: Checked, **fields: object) -> Verdict:
    made = Verdict(
        ok=not any(check.violations for check in checks),
        events=1_234,
        jobs=56,
        first_seq=1,
        last_seq=8_001_234,
        is_whole=True,
        skipped=8_000_000,
        crashes=1,
        took_ms=4_200,
        checks=checks,
    )
    return msgspec.structs.replace(made, **fields)


SOUND = Checked("I3", "one_lease", "A job that is running is not leased again.", 0)
BROKEN = Checked("I6", "cancel_wins", "A job that was cancelled does not start.", 21, (EXAMPLE,) * 20)


def test_text_of_a_sound_history_is_short() -> None:
    assert verdict(SOUND).to_text().splitlines() == [
        "SOUND: nothing is broken in 1,234 events of 56 jobs.",
        "",
        "1 checks, seq 1 to 8,001,234, 4.2 s.",
        "8,000,000 numbers were skipped in 1 place, as a crash does.",
    ]


def test_text_says_what_broke_which_jobs_and_where_to_look() -> None:
    lines = verdict(SOUND, BROKEN, is_whole=False).to_text().splitlines()
    assert lines[0] == "BROKEN: 21 violations of 1 promise in 1,234 events of 56 jobs."
    assert lines[2:5] == [
        "I6 cancel_wins: 21 violations",
        "  must hold: A job that was cancelled does not start.",
        "  job 7 (acme/mail/send), event 3, seq 99, started by w-1 at 2023-11-14 22:13:20.123 UTC:"
        " it was cancelled and starts",
    ]
    assert "  and 16 more; --json names 20" in lines
    assert "  tenure jobs show 7 has the job's record, if the store still has it" in lines
    assert "one_lease" not in "\n".join(lines)
    assert lines[-1].startswith("The history begins in the middle")


def test_audit_of_nothing_does_not_say_that_all_is_well() -> None:
    assert verdict(SOUND, ok=False, events=0).to_text().startswith("EMPTY: there are no events")


def test_json_has_every_check_and_its_examples() -> None:
    told = json.loads(verdict(SOUND, BROKEN).to_json())
    assert told["ok"] is False
    assert [check["violations"] for check in told["checks"]] == [0, 21]
    assert told["checks"][1]["examples"][0]["job"] == 7


def test_checks_have_names_of_their_own_and_invariants_of_the_contract() -> None:
    checks = every_check()
    assert len({check.name for check in checks}) == len(checks)
    assert {check.invariant for check in checks} <= {f"I{number}" for number in range(1, 19)}
    assert all(check.sentence.endswith(".") for check in checks)


def test_every_check_and_invariant_is_on_the_page() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    assert [check.name for check in every_check() if f"`{check.name}`" not in page] == []
    rows = dict(re.findall(r"^\| (I\d+) [^|]*\| ([^|]*) \|", page, re.MULTILINE))
    assert list(rows) == [f"I{number}" for number in range(1, 19)]
    for check in every_check():
        assert f"`{check.name}`" in rows[check.invariant]


def test_types_tell_their_own_states() -> None:
    assert tells(event.STARTED, state.CLAIM, state.RUNNING)
    assert not tells(event.UPDATED, state.CLAIM, state.RUNNING)
    assert not tells(event.UPDATED, state.REMOVE, state.GONE)
    for type, only in STATE_OF_TYPE.items():
        assert not any(tells(type, state.UPDATE, other) for other in range(state.GONE + 1) if other != only)


# Limits.


def change(
    seq: int,
    detail: dict[str, object] | None = None,
    tenant: str = "acme",
    queue: str = "",
    type: str = "limits_changed",
) -> Row:
    told = json.dumps(detail) if detail else None
    return Row(store=0, seq=seq, type=type, tenant=tenant, queue=queue, detail=told)


def follow(*changes: Row) -> list[tuple[object, ...]]:
    """From which seq on what is in force: seq, kind, tenant, name, is it set, shared, how many may run."""
    settings = Settings()
    for row in changes:
        settings.take(row)
    return [row[1:8] for row in settings.rows]


def test_queue_and_tenant_have_what_their_last_change_says() -> None:
    assert follow(
        change(1, {"concurrency": 2}, queue="mail"),
        change(2, queue="mail"),
        change(3, {"tenant": "acme", "running_max": 4}, tenant="operator"),
    ) == [
        (1, "queue", "acme", "mail", True, False, 2),
        (2, "queue", "acme", "mail", True, False, None),
        (3, "tenant", "acme", "", True, False, 4),
    ]


def test_change_of_something_else_is_no_new_limit() -> None:
    again = change(2, {"tenant": "acme", "running_max": 4, "weight": 3})
    assert len(follow(change(1, {"tenant": "acme", "running_max": 4}), again)) == 1


def test_shared_settings_of_a_key_are_changed_by_whoever_has_none_of_his_own() -> None:
    assert follow(
        change(1, {"key": "api:", "shared": True, "concurrency": 2}),
        change(2, {"key": "api:", "shared": True, "concurrency": 3}, tenant="other"),
        change(3, {"key": "api:", "concurrency": 3}, tenant="other"),  # no longer shared: his own now
        change(4, {"key": "api:"}, tenant="other"),
    ) == [
        (1, "key", "", "api:", True, True, 2),
        (2, "key", "", "api:", True, True, 3),
        (3, "key", "", "api:", False, False, None),
        (3, "key", "other", "api:", True, False, 3),
        (4, "key", "other", "api:", False, False, None),
    ]


def test_settings_that_only_pause_set_no_limit_but_are_there() -> None:
    assert follow(
        change(1, {"key": "api:", "paused_ms": 10}),
        change(2, {"key": "api:", "shared": True, "concurrency": 2}, tenant="other"),
        change(3, {"key": "api:", "paused_ms": 10, "concurrency": 1}),  # its own, not the shared ones
    ) == [(2, "key", "", "api:", True, True, 2), (3, "key", "acme", "api:", True, False, 1)]


def test_pause_keeps_the_limits() -> None:
    settings = Settings()
    settings.take(change(1, {"concurrency": 2}, queue="mail"))
    settings.take(change(2, queue="mail", type="paused"))
    settings.take(change(3, queue="mail", type="resumed"))
    assert [(row[7], row[-1]) for row in settings.rows] == [(2, False), (2, True), (2, False)]


# Numbers.


def part(numbers: list[int], store: int = 0) -> Row:
    places = [number % 2**PART_BITS for number in numbers]
    squares = sum(place * place for place in places)
    return Row(
        store=store,
        part=min(numbers) >> PART_BITS,
        events=len(numbers),
        low=min(numbers),
        high=max(numbers),
        born=0,
        total=sum(places),
        squares=squares,
    )


def test_part_is_dense_when_every_number_is_there_once() -> None:
    whole = list(range(2**PART_BITS + 10, 2**PART_BITS + 20))
    assert _is_dense(part(whole))
    for lost in whole[1:-1]:
        assert not _is_dense(part([number for number in whole if number != lost]))
    for lost, double in combinations(whole[1:-1], 2):
        assert not _is_dense(part([double if number == lost else number for number in whole]))


def test_gap_between_parts_is_told_with_its_size() -> None:
    high = 40 << PART_BITS
    numbers = _read_parts([part([1, 2, 3]), part([high, high + 1]), part([5], store=1)])
    assert numbers.gaps == [Gap(0, high, high - 4)]
    assert numbers.skipped == numbers.gaps
    assert (numbers.first, numbers.last) == ({0: 1, 1: 5}, {0: high + 1, 1: 5})


def test_crash_skips_more_than_what_counts_as_missing() -> None:
    assert CRASH_SKIPS_LEAST * 2 <= RESERVE
    assert 2**PART_BITS < CRASH_SKIPS_LEAST  # so that a crash never leaves a gap inside a part
