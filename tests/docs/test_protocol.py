"""docs/protocol.md has every command and every field of the code, and no command that the code does not have."""

import re
from typing import Any, Final

import msgspec
import pytest

from tenure.core.error import Error
from tenure.wire import command as c
from tenure.wire import limit, option
from tenure.wire.command import COMMANDS, UNSUPPORTED
from tests.docs.page import CODE, ROOT, Line, prose_of, rows, section

PAGE: Final = ROOT / "docs" / "protocol.md"
LINES: Final = prose_of(PAGE)
WORDS: Final = {code for line in LINES for code in CODE.findall(line.text)}
NAME: Final = re.compile(r"`[A-Z]+`")
ANY: Final = re.compile(r".+")


def names(kind: Any) -> set[str]:
    return set(kind.__struct_encode_fields__)


def named(lines: list[Line]) -> set[str]:
    """What is written as code in the first cells of a section's table."""
    return {code for row in rows(lines, ANY) for code in CODE.findall(row[0])}


COMMON: Final = names(c.Command)
JOB: Final = names(option.JobFields)
FILTER: Final = names(c.Which)
TABLE: Final = {row[0].strip("`"): row for row in rows(section(LINES, "Commands"), NAME)}


def test_tables_have_every_command_and_no_other() -> None:
    assert set(TABLE) == set(COMMANDS)
    assert len(rows(section(LINES, "Commands"), NAME)) == len(COMMANDS)


def test_commands_that_are_not_there_yet_are_named() -> None:
    found = section(LINES, "Commands")
    text = "\n".join(line.text for line in found).split("### Not there yet")[1]
    assert set(CODE.findall(text)) - {"Unsupported"} == set(UNSUPPORTED)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_row_of_a_command_names_all_its_fields(name: str) -> None:
    fields = TABLE[name][1]
    own = names(COMMANDS[name]) - COMMON
    if "*job*" in fields:
        own -= JOB
    if "*filter*" in fields:
        own -= FILTER
    assert own - set(CODE.findall(fields)) == set()


def test_shared_fields_are_in_their_tables() -> None:
    assert named(section(LINES, "Common fields")) == COMMON
    assert named(section(LINES, "Fields of a job")) == JOB
    assert named(section(LINES, "Fields of a filter")) == FILTER


@pytest.mark.parametrize("kind", [option.WireBackoff, c.WireRate, c.Of, c.Done, c.Failed, c.Followups, option.Item])
def test_fields_of_a_part_are_on_the_page(kind: type[msgspec.Struct]) -> None:
    assert names(kind) - WORDS == set()


def test_every_error_is_on_the_page() -> None:
    def kinds(kind: type[Error]) -> list[type[Error]]:
        return [found for child in kind.__subclasses__() for found in (child, *kinds(child))]

    codes = {kind.__name__ for kind in kinds(Error) if kind.__module__ == Error.__module__}
    assert named(section(LINES, "Errors")) >= codes


def test_other_names_are_on_the_page() -> None:
    assert set(option.ALIASES) <= WORDS


def test_bounds_are_those_of_the_code() -> None:
    table = "\n".join(line.text for line in section(LINES, "Bounds"))
    for number in (
        limit.CALLS_PER_CONNECTION,
        limit.SUBSCRIPTIONS_MAX,
        limit.CONNECTIONS_MAX,
        limit.MESSAGE_BYTES_MAX // 2**20,
        limit.STRANGER_BYTES_MAX // 2**10,
        limit.WORKERS_PER_CONNECTION,
    ):
        assert f"{number:,}" in table
