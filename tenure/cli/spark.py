"""`tenure spark`: from events to figures, on Spark. A command is a function; the app at the end has them all.

Spark takes seconds to import, so that each command imports what it needs when it runs.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.argument import AsJson, duration_of
from tenure.cli.audit import audit
from tenure.cli.cluster import Master, check_installed, open_session
from tenure.cli.migrate import migrate
from tenure.cli.replay import groups, replay
from tenure.cli.screen import show_count, show_json, show_line, show_note
from tenure.client.clock import read_clock
from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest

if TYPE_CHECKING:
    from tenure.spark.pipeline import Refreshed

LOOK_S = 1  # how soon a signal is heard while Spark works

Lake = Annotated[
    str,
    typer.Option(metavar="URL", envvar="TENURE_LAKE", help="The event lake: a folder, or s3://bucket/prefix."),
]
Gold = Annotated[
    Path, typer.Option(metavar="DIR", envvar="TENURE_GOLD", help="The folder of the gold tables; made if need be.")
]
Slo = Annotated[
    str | None,
    typer.Option(metavar="5s", help="The wait that queues without slo_wait_ms promise; breaches of it are counted."),
]
NoSilver = Annotated[bool, typer.Option("--no-silver", help="Leave out the tables attempts and jobs.")]


def date_of(field: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(field, text, "it must be a date such as 2026-01-31") from None


def run(
    lake: Lake,
    gold: Gold,
    once: Annotated[bool, typer.Option("--once", help="End when all that is in the lake now is done.")] = False,
    every: Annotated[str, typer.Option(metavar="1m", help="Otherwise look for new events so often.")] = "1m",
    master: Master = "",
    slo: Slo = None,
    no_silver: NoSilver = False,
    as_json: AsJson = False,
) -> None:
    """Make gold tables from an event lake, and go on as events come.

    May be stopped or killed at any time, and started again: nothing is lost or counted twice.
    """
    check_installed()
    from tenure.spark.pipeline import Settings
    from tenure.spark.run import start

    every_ms = None if once else milliseconds("every", every)
    settings = Settings(slo_wait_ms=duration_of("slo", slo), silver=not no_silver)
    told = _Told(as_json)
    session = open_session(master)  # sets a handler of its own, so that it comes before ours
    with _signals() as stop:
        query = start(session, lake, gold, every_ms, settings, told)
        while not query.awaitTermination(LOOK_S):
            if stop.is_set():
                query.stop()
    if not told.batches:
        told.nothing()


def backfill(
    lake: Lake,
    gold: Gold,
    first: Annotated[str, typer.Option("--from", metavar="DATE", help="The first date: 2026-01-31.")],
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last date.")],
    master: Master = "",
    slo: Slo = None,
    no_silver: NoSilver = False,
    as_json: AsJson = False,
) -> None:
    """Make the gold tables of a range of dates anew, both dates included; other dates are not touched."""
    begin, end = date_of("from", first), date_of("to", last)
    check_installed()
    from tenure.spark.backfill import backfill as fill
    from tenure.spark.pipeline import Settings

    settings = Settings(slo_wait_ms=duration_of("slo", slo), silver=not no_silver)
    told = _Told(as_json)
    told(fill(open_session(master), lake, gold, begin, end, settings))


def report(
    gold: Gold,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("report.html"),
    png: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write each picture, into this folder.")] = None,
    first: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="From this date on; the newest 30 days if not given.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="DATE", help="Up to this date.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write one page with figures and pictures that opens without a network. Needs neither Spark nor Java."""
    begin, end = first and date_of("from", first), last and date_of("to", last)
    check_installed("pyarrow", "matplotlib")
    from tenure.spark.report.write import write_report

    made = write_report(gold, out, png, begin or None, end or None, now_ms=read_clock().wall_ms)
    if as_json:
        pictures = [str(path) for path in made.pictures]
        show_json({"page": str(made.page), "pictures": pictures, "empty": made.summary is None})
        return
    if made.summary is None:
        show_note("there is no gold of these dates; the page says so")
    show_line(f"wrote {made.page}" + (f" and {show_count(len(made.pictures), 'picture')}" if png else ""), "green")


class _Told:
    """Says what became of each batch."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.batches = 0

    def __call__(self, done: "Refreshed") -> None:
        self.batches += 1
        if self._as_json:
            show_json({"events": done.events, "hours": len(done.hours), "kept_hours": len(done.kept)})
            return
        show_line(f"{show_count(done.events, 'event')} in {show_count(len(done.hours), 'hour')}", "green")
        if done.kept:
            show_note(f"{show_count(len(done.kept), 'hour')} left as they were: the lake has dropped events of them")

    def nothing(self) -> None:
        if self._as_json:
            show_json({"events": 0, "hours": 0, "kept_hours": 0})
        else:
            show_line("nothing new in the lake")


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set by SIGINT and SIGTERM. What is under way then is done again by the next run."""
    asked = threading.Event()

    def hear(_number: int, _frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


app = typer.Typer(help="Figures, pictures and bulk work on Spark.", no_args_is_help=True)
for command in (run, backfill, report, audit, migrate, groups, replay):
    app.command()(command)
