"""docs/guarantees.md names what holds each promise; here it is made sure that all it names exists, and all is named."""

import ast
import re
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

import pytest

from tenure.store.behaviour.trap import TRAPS
from tenure.store.conformance import BEHAVIOURS, TOPICS, name_of
from tests.docs.page import CODE, ROOT, prose_of, rows, section
from tests.model.invariants import INVARIANTS

PAGE: Final = ROOT / "docs" / "guarantees.md"

BEHAVIOUR: Final = re.compile(r"[a-z_*]+\.[a-z0-9_*]+")
TEST: Final = re.compile(r"(tests/[\w./]+\.py)::(\w+)")

NAMES: Final = [name_of(behaviour) for behaviour in BEHAVIOURS]
TRAPS_IN_ALL: Final = 23


def table(letter: str) -> list[list[str]]:
    """The rows that begin with a letter and a number."""
    return rows(prose_of(PAGE), re.compile(rf"{letter}\d+"))


def holders(row: list[str]) -> list[str]:
    """What the last cell names: behaviours, with `*` for any text, and tests."""
    return [code for code in CODE.findall(row[-1]) if BEHAVIOUR.fullmatch(code) or TEST.fullmatch(code)]


@cache
def defined_in(path: str) -> frozenset[str]:
    """The names that a file defines at its top: functions, classes, values."""
    names: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return frozenset(names)


def exists(holder: str) -> bool:
    found = TEST.fullmatch(holder)
    if found:
        return (ROOT / found[1]).is_file() and found[2] in defined_in(found[1])
    return any(fnmatchcase(name, holder) for name in NAMES)


@pytest.mark.parametrize("row", [*table("G"), *table("I"), *table("T")], ids=lambda row: str(row[0]))
def test_named_holder_exists(row: list[str]) -> None:
    assert [holder for holder in holders(row) if not exists(holder)] == []


def test_every_code_in_the_last_cell_is_a_holder() -> None:
    """A misspelt name would else be passed over in silence."""
    for row in (*table("G"), *table("I"), *table("T")):
        assert CODE.findall(row[-1]) == holders(row), row[0]


def test_promises_are_numbered_without_gap_or_repeat() -> None:
    assert [row[0] for row in table("G")] == [f"G{at}" for at in range(1, len(table("G")) + 1)]


def test_every_promise_is_held_by_something() -> None:
    assert [row[0] for row in table("G") if not holders(row)] == []


def test_every_topic_of_the_suite_holds_a_promise() -> None:
    named = {holder.partition(".")[0] for row in table("G") for holder in holders(row) if BEHAVIOUR.fullmatch(holder)}
    assert set(TOPICS) - named == set()


def test_every_invariant_is_listed_with_its_check() -> None:
    expected = [
        (check.__name__.partition("_")[0].upper(), f"tests/model/invariants.py::{check.__name__}")
        for check in INVARIANTS
    ]
    assert [(row[0], holders(row)[0]) for row in table("I")] == expected


def test_traps_are_numbered_without_gap_or_repeat() -> None:
    assert [row[0] for row in table("T")] == [f"T{at}" for at in range(1, TRAPS_IN_ALL + 1)]


def test_every_trap_of_the_suite_is_listed() -> None:
    listed = [trap for trap in TRAPS for row in table("T") if trap in row[1]]
    assert listed == list(TRAPS)


@pytest.mark.parametrize("trap", TRAPS)
def test_every_behaviour_of_a_trap_is_in_its_row(trap: str) -> None:
    [row] = [row for row in table("T") if trap in row[1]]
    missing = [
        name_of(behaviour)
        for behaviour in BEHAVIOURS
        if behaviour.trap == trap and not any(fnmatchcase(name_of(behaviour), holder) for holder in holders(row))
    ]
    assert missing == []


def test_trap_without_a_behaviour_names_the_part_it_belongs_to() -> None:
    assert [row[0] for row in table("T") if not holders(row) and "planned" not in row[-1]] == []


def test_there_is_a_place_for_what_was_broken_on_purpose() -> None:
    assert section(prose_of(PAGE), "Broken on purpose")


def test_holder_that_does_not_exist_is_found() -> None:
    assert exists("lease.expired_lease_cannot_settle")
    assert exists("slot.*_slot_is_held_after_cancel_*")
    assert exists("tests/model/test_model.py::TestModel")
    assert not exists("lease.expired_lease_can_settle")
    assert not exists("slot.*_nothing_of_the_kind")
    assert not exists("tests/model/test_model.py::TestNothing")
    assert not exists("tests/model/nothing.py::test_nothing")
