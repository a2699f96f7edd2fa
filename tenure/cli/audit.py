"""`tenure spark audit`: what the contract promises, asked of the events that a store left."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.cluster import Master, check_installed, open_session
from tenure.cli.screen import show_json_text, show_line
from tenure.cli.session import Session, connected
from tenure.core.error import InvalidRequest

if TYPE_CHECKING:
    from tenure.spark.audit.verdict import Verdict

Lake = Annotated[
    str | None, typer.Option(metavar="URL", help="The event lake: a folder, file:///folder or s3://bucket/prefix.")
]
Events = Annotated[Path | None, typer.Option(metavar="FOLDER", help="A folder or file of events as Parquet.")]
Part = Annotated[
    bool, typer.Option("--part", help="The events are not all of a store's, so that numbers may be missing.")
]
Drained = Annotated[
    bool, typer.Option("--drained", help="All queues were worked off: a job that has not ended was left behind.")
]


@connected
def audit(
    session: Session,
    lake: Lake = None,
    events: Events = None,
    part: Part = False,
    drained: Drained = False,
    master: Master = "",
) -> None:
    """Check every promise that events can show, of a lake, of files, or of a store that is asked for its events.

    Of a store those of one tenant are read; with --tenant '*' those of all, which shows more. Exits with 1 when a
    promise is broken.
    """
    if lake is not None and events is not None:
        raise InvalidRequest("lake", lake, "name either --lake or --events")
    verdict = _audit(session, lake or "", str(events) if events else "", part, drained, master)
    if session.as_json:
        show_json_text(verdict.to_json())
    else:
        show_line(verdict.to_text(), "" if verdict.ok else "red")
    if not verdict.ok:
        sys.exit(1)


def _audit(session: Session, lake: str, events: str, part: bool, drained: bool, master: str) -> "Verdict":
    check_installed()
    from tenure.spark.audit import audit as look_at
    from tenure.spark.audit.source import fetch_events, read_files
    from tenure.spark.bronze import read_events

    if events and not Path(events).exists():
        raise InvalidRequest("events", events, "there is no such folder or file")
    with tempfile.TemporaryDirectory(prefix="tenure-audit-") as folder:
        if not lake and not events:
            events = str(Path(folder) / "events.parquet")
            fetch_events(session.client, Path(events))
            part = part or not session.is_all
        spark = open_session(master)
        found = read_events(spark, lake) if lake else read_files(spark, events)
        return look_at(found, dense=not part, drained=drained)
