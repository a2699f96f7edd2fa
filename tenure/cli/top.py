"""`tenure top`: a live screen of queues, running jobs and failures."""

import sys
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tenure.cli.argument import Queue
from tenure.cli.field import show_instant
from tenure.cli.queues import show_held
from tenure.cli.screen import plain_text, show_duration, show_json
from tenure.cli.session import Session, choose_place, connected
from tenure.cli.table import STYLES, count_cell, shorten, show_ago
from tenure.cli.watch import RATES, Frame, QueueLine, Watch, frame_fields, wait
from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest

SHOWN_STATES = ("ready", "running", "scheduled", "retrying", "blocked", "completed", "failed")
RATE_TITLES = {"enqueued": "in/s", "started": "start/s", "completed": "done/s", "failed": "fail/s"}
LINES_PLAIN = 40  # of a screen that is none
LINES_FOR_ALL = 20
HEAD_LINES = 6  # two of the head, one empty, the titles of the queues, one that says there are more, one left free
SECTION_LINES = 3  # one empty, the title, the titles of its columns
QUEUES_MIN = 3
INTERVAL_MS_MIN = 100


@connected
def top(
    session: Session,
    queue: Queue = "",
    interval: Annotated[str, typer.Option(metavar="2s", help="How often the screen is made anew.")] = "2s",
    once: Annotated[bool, typer.Option("--once", help="One screen, after one interval, and no more.")] = False,
) -> None:
    """Watch queues, rates, running jobs and failures until Ctrl-C."""
    interval_ms = milliseconds("interval", interval)
    if interval_ms < INTERVAL_MS_MIN:
        raise InvalidRequest("interval", interval, f"it must be at least {INTERVAL_MS_MIN}ms")
    console = Console()
    where = choose_place(session.url).url
    watch = Watch(session, queue)
    try:
        if once or session.as_json or not console.is_terminal:
            _print_frames(session, watch, console, where, interval_ms / 1_000, once)
        else:
            _show_live(watch, session, console, where, interval_ms / 1_000)
    except KeyboardInterrupt:
        pass


def _print_frames(session: Session, watch: Watch, console: Console, where: str, interval_s: float, once: bool) -> None:
    while True:
        wait(interval_s)
        frame = watch.look()
        if session.as_json:
            show_json(frame_fields(frame))
        else:
            _print(console, render(frame, where, session.tenant, LINES_PLAIN))
        if once:
            return


def _print(console: Console, shown: RenderableType) -> None:
    if console.is_terminal:
        console.print(shown)
    else:
        sys.stdout.write(plain_text(shown))
        sys.stdout.flush()


def _show_live(watch: Watch, session: Session, console: Console, where: str, interval_s: float) -> None:
    from rich.live import Live

    first = render(watch.look(), where, session.tenant, console.height)
    with Live(first, console=console, screen=True, auto_refresh=False) as live:
        while True:
            wait(interval_s)
            live.update(render(watch.look(), where, session.tenant, console.height), refresh=True)


# One screen.


def render(frame: Frame, where: str, tenant: str, lines: int) -> RenderableType:
    """On so many lines. A small screen has queues only; on others they get half of it at least."""
    share = lines // 5 if lines >= LINES_FOR_ALL else 0
    running, failures = min(len(frame.running), share), min(len(frame.failures), share)
    left = lines - HEAD_LINES - sum(count + SECTION_LINES for count in (running, failures) if count)
    parts: list[RenderableType] = [_head(frame, where, tenant), "", _queues(frame, max(left, QUEUES_MIN))]
    if running:
        parts += ["", _running(frame, running)]
    if failures:
        parts += ["", _failures(frame, failures)]
    return Group(*parts)


def _head(frame: Frame, where: str, tenant: str) -> Text:
    text = Text("tenure ", "bold")
    text.append(f"{where}  tenant {tenant}  {show_instant(frame.at)}\n", "bright_black")
    for state in ("ready", "running", "scheduled", "retrying", "failed"):
        text.append(f"{frame.total(state):,}", f"bold {STYLES[state]}")
        text.append(f" {state}   ", "default")
    if frame.has_events:
        least = "at least " if frame.is_partial else ""
        text.append(f"{least}{show_per_s(frame.rate('completed'))}/s", "bold green")
        text.append(" completed", "default")
    else:
        text.append("no rates: the token does not reach the events", "yellow")
    return text


def show_per_s(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _section(title: str = "") -> Table:
    return Table(
        box=None,
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bright_black",
        pad_edge=False,
        padding=(0, 3, 0, 0),
    )


def _queues(frame: Frame, lines: int) -> Table:
    table = _section()
    table.add_column("queue", no_wrap=True)
    for state in SHOWN_STATES:
        table.add_column(state, justify="right", no_wrap=True)
    for rate in RATES if frame.has_events else ():
        table.add_column(RATE_TITLES[rate], justify="right", no_wrap=True)
    table.add_column("held by", no_wrap=True)
    busiest = sorted(frame.queues, key=_busyness, reverse=True)
    shown = sorted(busiest[:lines], key=lambda queue: queue.name)
    for queue in shown:
        cells = [count_cell(queue.counts[state], STYLES[state]) for state in SHOWN_STATES]
        rates = [_rate_cell(queue.rates[rate], rate) for rate in (RATES if frame.has_events else ())]
        table.add_row(shorten(queue.name), *cells, *rates, show_held(queue.settings))
    if len(busiest) > len(shown):
        table.add_row(Text(f"and {len(busiest) - len(shown):,} more", "bright_black"))
    return table


def _busyness(queue: QueueLine) -> tuple[float, int]:
    counts = queue.counts
    return sum(queue.rates.values()), counts["running"] + counts["ready"] + counts["retrying"] + counts["failed"]


def _rate_cell(rate: float, name: str) -> Text:
    style = {"completed": "green", "failed": "red"}.get(name, "")
    return Text(show_per_s(rate), style if rate else "bright_black")


def _running(frame: Frame, lines: int) -> Table:
    table = _section("running, oldest first")
    for name in ("job", "age", "attempt"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("queue", "task", "worker"):
        table.add_column(name, no_wrap=True)
    for job in frame.running[:lines]:
        age = show_duration(max(frame.at - job.started_at, 0))
        table.add_row(str(job.id), age, str(job.attempt), shorten(job.queue), shorten(job.task), shorten(job.worker))
    return table


def _failures(frame: Frame, lines: int) -> Table:
    table = _section("failures, newest first")
    table.add_column("job", justify="right", no_wrap=True)
    for name in ("when", "now", "queue", "task", "error"):
        table.add_column(name, no_wrap=True)
    for event in frame.failures[:lines]:
        error = f"{event.error_type}: {event.message}" if event.error_type else event.message or event.reason
        state = Text(event.type, STYLES[event.type])
        when = show_ago(event.at, frame.at)
        table.add_row(str(event.job), when, state, shorten(event.queue), shorten(event.task), shorten(error, 80))
    return table
