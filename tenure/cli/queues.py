"""`tenure queues`: looking at queues, holding them back, and clearing them."""

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tenure.cli.argument import QueueName, States, Yes, rate_of, show_rate, states_of
from tenure.cli.change import change_all, confirm
from tenure.cli.field import RATES, settings_fields
from tenure.cli.screen import Screen, show_count, show_duration, show_json, show_line, show_size, show_table
from tenure.cli.session import Session, connected
from tenure.cli.table import STYLES, count_cell, elastic, make_pairs, make_table
from tenure.client.clock import read_clock
from tenure.core import request
from tenure.core.bound import nearest
from tenure.core.duration import milliseconds
from tenure.core.error import Conflict, Forbidden, InvalidRequest, QueueNotFound, from_fields
from tenure.core.request import Change, Filter
from tenure.core.state import BLOCKED, CANCELLED, COMPLETED, READY, RETRYING, SCHEDULED, STATE_NAMES, TERMINAL

WAITING = (SCHEDULED, BLOCKED, READY, RETRYING)
NAMES_SHOWN = 1_000
ALWAYS = ("ready", "running", "failed")

app = typer.Typer(help="Look at queues, pause and limit them, clear them.", no_args_is_help=True)

Create = Annotated[bool, typer.Option("--create", help="Also when the queue is not there yet.")]


@app.command("list")
@connected
def list_queues(session: Session) -> None:
    """List the queues with how many jobs each has in which state."""
    counts = session.client.count()
    settings = all_settings(session)
    if session.as_json:
        for name in sorted(counts):
            show_json(_fields(name, counts[name], settings.get(name, {})))
        return
    if not counts:
        show_line("no queue; a queue exists from its first job or setting")
        return
    show_table(_table(counts, settings))


def _table(counts: dict[str, dict[str, int]], settings: dict[str, object]) -> Table:
    """On a terminal, without the states in which there is no job: few are as wide as all eight."""
    states = used_states(counts.values()) if Screen().is_terminal else STATE_NAMES
    table = make_table("~queue", *(f">{state}" for state in states), "~held by")
    for name in sorted(counts):
        cells = [count_cell(counts[name][state], STYLES[state]) for state in states]
        table.add_row(elastic(name), *cells, show_held(settings.get(name, {})))
    return table


def used_states(counts: Iterable[dict[str, int]]) -> tuple[str, ...]:
    """Those that matter always, and those in which there are jobs."""
    used = {state for found in counts for state, count in found.items() if count}
    return tuple(state for state in STATE_NAMES if state in used or state in ALWAYS)


def all_settings(session: Session) -> dict[str, object]:
    """By queue. None of all tenants, whose queues may share a name, and none for a token that may not see them."""
    try:
        return {} if session.is_all else session.client.configure("queue", "*")
    except Forbidden:
        return {}


def _fields(name: str, counts: dict[str, int], settings: object) -> dict[str, object]:
    return {"queue": name, "counts": counts, "settings": settings_fields(settings)}


def show_held(settings: object) -> Text:
    """What a queue's settings keep from running."""
    found = settings if isinstance(settings, dict) else {}
    words = [f"{name} {show_setting(name, found[name])}" for name in ("rate", "concurrency") if name in found]
    text = elastic("paused" if found.get("paused") else "", "bold yellow")
    if words:
        text.append((", " if text else "") + ", ".join(words), "default")
    return text


def show_setting(name: str, value: object) -> str:
    if name in RATES:
        return show_rate(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return str(value)
    if name.endswith("_ms"):
        return show_duration(value)
    return show_size(value) if name == "bytes_max" else f"{value:,}"


@app.command()
@connected
def show(session: Session, queue: QueueName) -> None:
    """Show a queue's counts and settings."""
    client = session.of_one_tenant()
    settings = _settings(session, queue)
    counts = client.count(queue).get(queue, dict.fromkeys(STATE_NAMES, 0))
    if session.as_json:
        show_json(_fields(queue, counts, settings))
        return
    rows: list[tuple[str, str | Text]] = [("queue", queue)]
    rows += [(state, count_cell(counts[state], STYLES[state])) for state in STATE_NAMES]
    rows += [(name, show_setting(name, value)) for name, value in settings.items()]
    show_table(make_pairs(rows))


def _settings(session: Session, queue: str) -> dict[str, object]:
    """Of a queue that is there."""
    try:
        return session.client.configure("queue", queue)
    except QueueNotFound:
        known = session.client.count()
        if not known:
            raise
        message = f"no queue {queue!r} in this tenant; {nearest(queue, list(known)[:NAMES_SHOWN])}"
        raise from_fields("QueueNotFound", message, {"queue": queue}) from None


@app.command()
@connected
def pause(session: Session, queue: QueueName, create: Create = False) -> None:
    """Let no job of a queue start; what runs goes on."""
    _set(session, queue, create, {"paused": True}, "paused")


@app.command()
@connected
def resume(session: Session, queue: QueueName) -> None:
    """Let the jobs of a paused queue start again."""
    _set(session, queue, False, {"paused": None}, "resumed")


@app.command()
@connected
def limit(
    session: Session,
    queue: QueueName,
    rate: Annotated[str | None, typer.Option(metavar="100/s", help="Start so many in so long: 100/s, 30/m.")] = None,
    burst: Annotated[int | None, typer.Option(metavar="N", min=1, help="With --rate: so many at once at most.")] = None,
    concurrency: Annotated[int | None, typer.Option(metavar="N", min=0, help="Run so many at once at most.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove both limits.")] = False,
    create: Create = False,
) -> None:
    """Limit how many jobs of a queue start and run."""
    if none == (rate is not None or concurrency is not None):
        raise InvalidRequest("limit", "", "say --rate, --concurrency or both, or --none to remove them")
    if burst is not None and rate is None:
        raise InvalidRequest("burst", burst, "it goes with --rate")
    changes: dict[str, object] = {"rate": None, "concurrency": None} if none else {}
    if rate is not None:
        changes["rate"] = rate_of("rate", rate, burst)
    if concurrency is not None:
        changes["concurrency"] = concurrency
    _set(session, queue, create, changes, "unlimited" if none else "limited")


def _set(session: Session, queue: str, create: bool, changes: dict[str, object], done: str) -> None:
    client = session.of_one_tenant()
    if not create:
        _settings(session, queue)
    settings = client.configure("queue", queue, **changes)
    if session.as_json:
        show_json({"queue": queue, "settings": settings_fields(settings)})
        return
    held = show_held(settings).plain
    show_line(f"{done} {queue}" + (f": {held}" if held and held != done else ""), "green")


# Clearing.


@app.command()
@connected
def empty(session: Session, queue: QueueName, yes: Yes = False) -> None:
    """Remove all jobs of a queue that wait; what runs and what has ended stays."""
    _remove(session, Filter(queue, sum(1 << code for code in WAITING)), yes, f" that wait in {queue}")


@app.command()
@connected
def clean(
    session: Session,
    queue: QueueName,
    state: States = None,
    older: Annotated[str, typer.Option(metavar="1h", help="Only what ended longer ago.")] = "0s",
    yes: Yes = False,
) -> None:
    """Remove jobs of a queue that have ended; completed and cancelled ones if no state is named."""
    states = states_of(state, TERMINAL, "cleaned") if state else 1 << COMPLETED | 1 << CANCELLED
    age_ms = milliseconds("older", older)
    filter = Filter(queue, states, ended_before=read_clock().wall_ms - age_ms + 1)
    names = " or ".join(name for code, name in enumerate(STATE_NAMES) if states & 1 << code)
    _remove(session, filter, yes, f" that are {names} in {queue}" + (f" for longer than {older}" if age_ms else ""))


def _remove(session: Session, filter: Filter, yes: bool, which: str) -> None:
    session.of_one_tenant()
    _settings(session, filter.queue)
    change_all(session, Change(request.REMOVE, filter=filter), yes, which)


@app.command()
@connected
def obliterate(
    session: Session,
    queue: QueueName,
    force: Annotated[bool, typer.Option("--force", help="Also cancel what runs.")] = False,
    yes: Yes = False,
) -> None:
    """Remove a queue: all its jobs, whatever their state, and its settings."""
    client = session.of_one_tenant()
    _settings(session, queue)
    if not yes:
        jobs = sum(client.count(queue).get(queue, {}).values())
        confirm(session, f"remove {queue} with {show_count(jobs, 'job')}?")
    try:
        removed = client.obliterate(queue, force)
    except InvalidRequest as error:
        if error.field != "force":
            raise
        raise Conflict(error.rule, 0) from error  # the command was right, and the queue is busy
    if session.as_json:
        show_json({"queue": queue, "removed": removed})
    else:
        show_line(f"removed {queue} with {show_count(removed, 'job')}", "green")
