"""What the commands show: progress bars on a terminal, plain lines elsewhere, JSON when it is asked for.

Everything that a command writes goes through here. What others wrote (payloads, errors, names, log lines) reaches the
terminal as text and nothing else: `Screen` shows characters that are not seen as escapes, and knows no markup.
"""

import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console, ConsoleOptions, RenderableType
from rich.filesize import decimal
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tenure.core.printable import printable, printable_json
from tenure.ops.progress import Progress, silent

UNCUT_CHARS = 100_000


class Screen(Console):
    """The one way of the commands to the terminal. Of segments those are left alone that rich made to steer it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            if segment.control or text.isprintable() or text == "\n":
                yield segment
            else:
                yield Segment(printable(text), segment.style)

    def render_str(self, text: str, **options: Any) -> Text:
        """Before its width is measured."""
        return super().render_str(printable(text), **options)


def show_error(text: str) -> None:
    console = Screen(stderr=True)
    console.print("error:", style="bold red", end=" ")
    console.print(text, soft_wrap=True)


def show_note(text: str) -> None:
    """What a person wants to know besides what was asked for; not in the way of a program that reads the output."""
    Screen(stderr=True).print(text, style="bright_black", soft_wrap=True)


def show_line(text: str, style: str = "") -> None:
    Screen().print(text, style=style, soft_wrap=True)


def ask(question: str) -> str:
    """What a person answers."""
    sys.stderr.write(printable(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def show_table(table: Table) -> None:
    """Not cut to a width where there is no terminal."""
    show(table)


def show(shown: RenderableType, console: Console | None = None) -> None:
    console = console or Screen()
    if console.is_terminal:
        console.print(shown)
    else:
        sys.stdout.write(plain_text(shown))
        sys.stdout.flush()


def plain_text(shown: RenderableType) -> str:
    """As wide as it needs to be, without colours or spaces at the ends of lines."""
    console = Screen(width=UNCUT_CHARS, no_color=True, file=io.StringIO())
    with console.capture() as captured:
        console.print(shown)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show_json(value: object) -> None:
    """On one line, so that a schedule's output can be read line by line."""
    show_json_text(msgspec.json.encode(value).decode())


def show_json_text(text: str) -> None:
    """JSON that was written already."""
    sys.stdout.write(printable_json(text) + "\n")
    sys.stdout.flush()


def show_size(size_bytes: int) -> str:
    return decimal(size_bytes)


def show_duration(ms: int) -> str:
    """Its two largest units."""
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes = ms // 60_000
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def show_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@contextmanager
def bars(rows: bool = False) -> Iterator[Progress]:
    """A bar for each part of the work, on the terminal that errors go to; nothing where there is none. With `rows` the
    work is counted, else it is bytes."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:>9}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        MofNCompleteColumn() if rows else DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def progress(what: str, done_bytes: int, total_bytes: int) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(what, total=total_bytes)
            shown.update(tasks[what], completed=done_bytes, total=total_bytes)

        yield progress
