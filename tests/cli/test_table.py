"""How values look in a cell."""

import pytest
from rich.console import Console

from tenure.cli.argument import show_rate
from tenure.cli.field import show_instant
from tenure.cli.table import count_cell, elastic, make_table, shorten, show_ago, show_content, state_cell

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("passed_ms", "text"),
    [
        (0, "0.0 s ago"),
        (3_200, "3.2 s ago"),
        (185_000, "3 min ago"),
        (2 * 3_600_000 + 60_000, "2 h 1 min ago"),
        (49 * 3_600_000, "2 d 1 h ago"),
        (-300_000, "in 5 min"),
    ],
)
def test_times_are_told_from_now(passed_ms: int, text: str) -> None:
    assert show_ago(NOW_MS - passed_ms, NOW_MS) == text
    assert show_ago(0, NOW_MS) == ""


def test_instants_are_iso_in_utc() -> None:
    assert show_instant(NOW_MS) == "2023-11-14T22:13:20.000Z"
    assert show_instant(0) is None


def test_long_and_broken_text_is_one_short_line() -> None:
    assert shorten("a\nb\t c") == "a b c"
    assert shorten("x" * 50, 10) == "x" * 9 + "…"
    assert show_content({"to": ["ü"]}) == '{"to":["ü"]}'


def test_narrow_terminal_cuts_texts_and_never_numbers() -> None:
    table = make_table(">id", "~text", "state", "~more")
    for _ in range(2):
        table.add_row("1234567890", elastic("x" * 50), state_cell("completed"), elastic("y" * 50))
    console = Console(width=40, force_terminal=True)
    with console.capture() as captured:
        console.print(table)
    rows = captured.get().splitlines()
    assert len(rows) == 3
    assert all("1234567890" in row and "completed" in row and "x…" in row and "y…" in row for row in rows[1:])


def test_counts_have_separators_and_nought_is_dim() -> None:
    assert (count_cell(1_234_567).plain, count_cell(0, "red").style) == ("1,234,567", "bright_black")


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        ([100, 1_000, 100], "100/s"),
        ([5_000, 60_000, 10], "5,000/m (burst 10)"),
        ([1, 1_500, 1], "1/1500ms"),
        ([1, 90_000, 1], "1/90s"),
    ],
)
def test_rates_are_as_people_write_them(rate: list[int], text: str) -> None:
    assert show_rate(rate) == text
