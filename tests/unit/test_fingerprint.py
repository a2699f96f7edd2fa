"""Which failures are the same failure."""

import re
from hashlib import sha256
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.core.fingerprint import fingerprint

SAME = [
    ("user 17 not found", "user 18 not found"),
    ("took 1.5 s", "took 20.25 s"),
    ("version 1.2.3", "version 10.0.11"),
    ("at 0xdeadbeef", "at 0X7F"),
    ("no file 'a.txt'", "no file 'b/c.txt'"),
    ('key "name" is missing', 'key "other name" is missing'),
    ("value '' is empty", "value 'x' is empty"),
    (
        "job 6f1c2b6e-0b1a-4c57-9d8a-2b8f6a1c9e00 is gone",
        "job 00000000-AAAA-bbbb-CCCC-999999999999 is gone",
    ),
    ("row 1 of 'a' in \"b\"", "row 999 of 'zz' in \"yy\""),
    ("can't open 'a.txt'", "can't open 'b.txt'"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_errors_that_differ_in_masked_details_share_it(one: str, other: str) -> None:
    assert fingerprint("ValueError", one) == fingerprint("ValueError", other)


DIFFERENT = [
    ("user 17 not found", "order 17 not found"),
    ("user 17 not found", "user not found"),
    ("no file 'a'", "no folder 'a'"),
    ("timed out", "Timed out"),
    ("a", ""),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_errors_that_differ_in_words_do_not(one: str, other: str) -> None:
    assert fingerprint("ValueError", one) != fingerprint("ValueError", other)


def test_type_counts_and_is_not_masked() -> None:
    assert fingerprint("E1", "x") != fingerprint("E2", "x")


def test_type_and_message_do_not_run_together() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")


def test_it_is_sixteen_digits_of_sha_256() -> None:
    assert fingerprint("KeyError", "user 17 not found") == sha256(b"KeyError\nuser ? not found").hexdigest()[:16]
    assert fingerprint("", "") == sha256(b"\n").hexdigest()[:16]


@given(st.text(), st.text())
def test_any_text_has_one(type: str, message: str) -> None:
    found = fingerprint(type, message)
    assert re.fullmatch("[0-9a-f]{16}", found)
    assert found == fingerprint(type, message)


@given(st.characters(categories=["Cs"]))
def test_text_that_cannot_be_encoded_has_one(surrogate: str) -> None:
    assert len(fingerprint(surrogate, surrogate)) == 16


@given(st.uuids(), st.uuids())
def test_every_uuid_is_masked(one: UUID, other: UUID) -> None:
    assert fingerprint("E", f"job {one} failed") == fingerprint("E", f"job {other} failed")


@given(st.integers(0), st.integers(0))
def test_every_number_is_masked(one: int, other: int) -> None:
    assert fingerprint("E", f"row {one}") == fingerprint("E", f"row {other}")


def test_end_of_a_very_long_message_plays_no_part() -> None:
    head = "x" * 4_096
    assert fingerprint("E", head + "one") == fingerprint("E", head + "other")
    assert fingerprint("E", head[1:] + "a") != fingerprint("E", head[1:] + "b")
