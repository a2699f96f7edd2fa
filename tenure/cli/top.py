"""`tenure top`: a live screen of queues, running jobs and failures."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tenure.cli.argument import Queue
from tenure.cli.field import show_instant
from tenure.cli.queues import show_held, used_states
from tenure.cli.screen import Screen, show, show_duration, show_json
from tenure.cli.session import Session, choose_place, connected
from tenure.cli.stop import Stop
from tenure.cli.table import STYLES, count_cell, elastic, make_table, shorten, show_ago
from tenure.cli.watch import RATES, Frame, QueueLine, Watch, frame_fields, wait
from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest

DIM = "bright_black"
ERROR_CHARS = 80
RATE_TITLES = {"enqueued": "in/s", "started": "run/s", "completed": "done/s", "failed": "fail/s"}
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
    console = Screen()
    where = choose_place(session.url).url
    with Stop() as stop:
        try:
            is_live = console.is_terminal and not once and not session.as_json
            frames = _frames(session, queue, interval_ms / 1_000, stop, is_live)
            if not is_live:
                _print_frames(session, frames, console, where, once)
            else:
                _show_live(session, frames, console, where)
        except KeyboardInterrupt:
            pass


def _frames(session: Session, queue: str, interval_s: float, stop: Stop, at_once: bool) -> Iterator[Frame]:
    """`at_once`: the first one without a wait, and without rates."""
    with stop.interruptible():
        watch = Watch(session, queue)
        first = watch.look(measure=False) if at_once else None
    if first is not None:
        yield first
    while True:
        with stop.interruptible():
            wait(interval_s)
            frame = watch.look()
        yield frame


def _print_frames(session: Session, frames: Iterator[Frame], console: Screen, where: str, once: bool) -> None:
    for frame in frames:
        if session.as_json:
            show_json(frame_fields(frame))
        else:
            show(render(frame, where, session.tenant, LINES_PLAIN), console)
        if once:
            return


def _show_live(session: Session, frames: Iterator[Frame], console: Screen, where: str) -> None:
    from rich.live import Live

    with Live(Text("looking…", DIM), console=console, screen=True, auto_refresh=False) as live:
        for frame in frames:
            live.update(render(frame, where, session.tenant, console.height), refresh=True)


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


def _queues(frame: Frame, lines: int) -> Table:
    states = used_states(queue.counts for queue in frame.queues)
    rates = RATES if frame.has_events else ()
    titles = (*(f">{state}" for state in states), *(f">{RATE_TITLES[rate]}" for rate in rates))
    table = make_table("~queue", *titles, "~held by", header_style=DIM)
    busiest = sorted(frame.queues, key=_busyness, reverse=True)
    shown = sorted(busiest[:lines], key=lambda queue: queue.name)
    for queue in shown:
        counted = [count_cell(queue.counts[state], STYLES[state]) for state in states]
        measured = [_rate_cell(queue.rates[rate], rate) for rate in rates]
        table.add_row(elastic(queue.name), *counted, *measured, show_held(queue.settings))
    if len(busiest) > len(shown):
        table.add_row(elastic(f"and {len(busiest) - len(shown):,} more", DIM))
    return table


def _busyness(queue: QueueLine) -> tuple[float, int]:
    counts = queue.counts
    return sum(queue.rates.values()), counts["running"] + counts["ready"] + counts["retrying"] + counts["failed"]


def _rate_cell(rate: float, name: str) -> Text:
    style = {"completed": "green", "failed": "red"}.get(name, "")
    return Text(show_per_s(rate), style if rate else "bright_black")


def _running(frame: Frame, lines: int) -> Table:
    columns = (">job", ">age", ">attempt", "~queue", "~task", "~worker")
    table = make_table(*columns, title="running, oldest first", header_style=DIM)
    for job in frame.running[:lines]:
        age = show_duration(max(frame.at - job.started_at, 0))
        where = elastic(job.queue), elastic(job.task), elastic(job.worker)
        table.add_row(str(job.id), age, str(job.attempt), *where)
    return table


def _failures(frame: Frame, lines: int) -> Table:
    columns = (">job", ">when", "now", "~queue", "~task", "~error")
    table = make_table(*columns, title="failures, newest first", header_style=DIM)
    for event in frame.failures[:lines]:
        error = f"{event.error_type}: {event.message}" if event.error_type else event.message or event.reason
        where = elastic(event.queue), elastic(event.task), elastic(shorten(error, ERROR_CHARS))
        table.add_row(str(event.job), show_ago(event.at, frame.at), Text(event.type, STYLES[event.type]), *where)
    return table
