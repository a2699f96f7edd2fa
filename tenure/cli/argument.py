"""Arguments and options that commands share, and turning what was typed into values."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest
from tenure.store.url import SqliteUrl, read_sqlite

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
Place = Annotated[
    str,
    typer.Argument(
        metavar="DEST",
        help="The folder or bucket of the backups: a path, file:///path, or s3://bucket/prefix (keys and endpoint from"
        " AWS_* variables).",
    ),
]
Scratch = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Where the working copy of the file is made; beside the file if not given."),
]


def store_of(source: str) -> SqliteUrl:
    """A file, or what a URL sqlite:///file says."""
    if source.startswith("sqlite:"):
        return read_sqlite(source)
    if "://" in source:
        raise InvalidRequest("source", source, "it must be a file, or sqlite:/// and a file")
    return SqliteUrl(Path(source))


def duration_of(field: str, text: str | None) -> int | None:
    return None if text is None else milliseconds(field, text)


def time_of(text: str | None) -> int | None:
    """Milliseconds since 1970; a time without a zone is UTC."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest("at", text, "it must be a time such as 2026-01-31T10:15:00Z or 2026-01-31 10:15") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
