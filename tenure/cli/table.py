"""Tables for people: how times, states, payloads and counts look in a cell."""

from collections.abc import Iterable

import msgspec
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from tenure.cli.screen import show_duration
from tenure.core.printable import printable_line

CELL_CHARS = 40
STYLES = {
    "scheduled": "magenta",
    "blocked": "yellow",
    "ready": "cyan",
    "running": "blue",
    "retrying": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
}


def make_table(*columns: str, title: str | None = None, header_style: str = "bold") -> Table:
    """A column whose name begins with > has its cells on the right. One with ~ gives way on a narrow terminal: its
    cells are cut if `elastic` made them, else folded.
    """
    table = Table(box=None, header_style=header_style, pad_edge=False, padding=(0, 2, 0, 0))
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    for name in columns:
        gives_way = name.startswith("~")
        justify: JustifyMethod = "right" if name.startswith(">") else "left"
        table.add_column(name.lstrip(">~"), justify=justify, no_wrap=not gives_way, overflow="fold")
    return table


def elastic(text: str, style: str = "") -> Text:
    """A cell on one line, as much of it as there is room for."""
    return Text(printable_line(text), style, no_wrap=True, overflow="ellipsis")


def make_pairs(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """One thing, a field a line."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def state_cell(state: str) -> Text:
    return Text(state, STYLES.get(state, ""))


def show_ago(at_ms: int, now_ms: int) -> str:
    """3 min ago, in 5.0 s, or nothing where there is no time."""
    if not at_ms:
        return ""
    passed_ms = now_ms - at_ms
    return f"{show_duration(passed_ms)} ago" if passed_ms >= 0 else f"in {show_duration(-passed_ms)}"


def shorten(text: str, chars: int = CELL_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def show_content(content: object, chars: int = CELL_CHARS) -> str:
    """What `content_of` says, on one line."""
    return shorten(msgspec.json.encode(content).decode(), chars)


def count_cell(count: int, style: str = "") -> Text:
    """Nought is there, and does not catch the eye."""
    return Text(f"{count:,}", style if count else "bright_black")
