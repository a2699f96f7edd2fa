"""What the commands show: progress bars on a terminal, plain lines elsewhere, JSON when it is asked for."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console, RenderableType
from rich.filesize import decimal
from rich.table import Table

from tenure.ops.progress import Progress, silent

UNCUT_CHARS = 100_000


def show_error(text: str) -> None:
    console = Console(stderr=True)
    console.print("error:", style="bold red", end=" ")
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def show_note(text: str) -> None:
    """What a person wants to know besides what was asked for; not in the way of a program that reads the output."""
    Console(stderr=True).print(text, style="bright_black", markup=False, highlight=False, soft_wrap=True)


def show_line(text: str, style: str = "") -> None:
    Console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def show_table(table: Table) -> None:
    """Not cut to a width where there is no terminal."""
    console = Console()
    if console.is_terminal:
        console.print(table)
    else:
        sys.stdout.write(plain_text(table))


def plain_text(shown: RenderableType) -> str:
    """As wide as it needs to be, without colours or spaces at the ends of lines."""
    console = Console(width=UNCUT_CHARS, no_color=True, file=io.StringIO())
    with console.capture() as captured:
        console.print(shown)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show_json(value: object) -> None:
    """On one line, so that a schedule's output can be read line by line."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
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
    console = Console(stderr=True)
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
