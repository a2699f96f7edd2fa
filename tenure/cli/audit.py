"""`tenure spark audit`: what the contract promises, asked of the events that a store left."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.screen import show_line
from tenure.cli.session import Session, connected
from tenure.core.error import InvalidRequest, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tenure.spark.audit.verdict import Verdict

Lake = Annotated[
    str | None, typer.Option(metavar="URL", help="The event lake: a folder, file:///folder or s3a://bucket/prefix.")
]
Events = Annotated[Path | None, typer.Option(metavar="FOLDER", help="A folder or file of events as Parquet.")]
Master = Annotated[str, typer.Option(metavar="MASTER", help="The Spark master.")]
Part = Annotated[
    bool, typer.Option("--part", help="The events are not all of a store's, so that numbers may be missing.")
]


@connected
def audit(
    session: Session, lake: Lake = None, events: Events = None, part: Part = False, master: Master = "local[*]"
) -> None:
    """Check every promise that events can show, of a lake, of files, or of a store that is asked for its events.

    Of a store those of one tenant are read; with --tenant '*' those of all, which shows more. Exits with 1 when a
    promise is broken.
    """
    if lake is not None and events is not None:
        raise InvalidRequest("lake", lake, "name either --lake or --events")
    verdict = _audit(session, lake or (str(events) if events else ""), part, master)
    if session.as_json:
        sys.stdout.write(verdict.to_json() + "\n")
    else:
        show_line(verdict.to_text(), "" if verdict.ok else "red")
    if not verdict.ok:
        sys.exit(1)


def _audit(session: Session, where: str, part: bool, master: str) -> "Verdict":
    try:
        from tenure.spark.audit import audit as look_at
        from tenure.spark.audit.source import fetch_events, read_lake
    except ImportError as error:
        raise Unavailable(f"Spark is not installed ({error.name}); install tenure[spark]") from error
    with tempfile.TemporaryDirectory(prefix="tenure-audit-") as folder:
        if not where:
            where = str(Path(folder) / "events.parquet")
            fetch_events(session.client, Path(where))
            part = part or not session.is_all
        elif "://" not in where and not Path(where).exists():
            raise InvalidRequest("events", where, "there is no such folder or file")
        spark, is_ours = _open_spark(master)
        try:
            return look_at(read_lake(spark, where), dense=not part)
        finally:
            if is_ours:
                spark.stop()


def _open_spark(master: str) -> "tuple[SparkSession, bool]":
    """The session that there is, or one of our own."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    made = (
        SparkSession.builder.master(master)
        .appName("tenure-audit")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    return made, True
