"""Arguments and options that commands share, and turning what was typed into values."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.completion import complete_queue, complete_state
from tenure.core.bound import nearest
from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest
from tenure.core.limit import Rate
from tenure.core.request import Filter
from tenure.core.state import STATE_NAMES

if TYPE_CHECKING:
    from tenure.store.url import SqliteUrl

RATE = re.compile(r"([0-9]{1,10})/([0-9.]{0,10})(ms|s|m|h|d)")
NUMBER = re.compile(r"-?[0-9]{1,10}")
PERIODS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON instead of text.")]
# Of every command that talks to a store; tenure/cli/session.py adds them.
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="TENURE_URL",
        help="The store or server: sqlite:///jobs.db, tenure://host:6789. By default the store of TENURE_STORE or"
        " tenure.toml, else the server on this machine.",
        rich_help_panel="Connection",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        envvar="TENURE_TOKEN",
        help="The token for a server; TENURE_TOKEN_FILE names a file that holds it.",
        rich_help_panel="Connection",
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(
        metavar="TENANT",
        envvar="TENURE_TENANT",
        help="On whose behalf; by default that of the token, else 'default'; '*' reads those of all.",
        rich_help_panel="Connection",
    ),
]
# Which jobs.
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids or custom ids.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id or custom id.")]
Queue = Annotated[
    str, typer.Option(metavar="QUEUE", help="Only of this queue.", autocompletion=complete_queue, show_default=False)
]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", autocompletion=complete_queue)]
States = Annotated[
    list[str] | None,
    typer.Option(
        "--state", metavar="STATE", help="Only in this state; repeat it for several.", autocompletion=complete_state
    ),
]
Task = Annotated[str, typer.Option(metavar="TASK", help="Only of this task.", show_default=False)]
Tag = Annotated[str, typer.Option(metavar="TAG", help="Only with this tag.", show_default=False)]
Worker = Annotated[str, typer.Option(metavar="NAME", help="Only of this worker.", show_default=False)]
ErrorText = Annotated[
    str,
    typer.Option(
        "--error", metavar="TEXT", help="Only with this in the type or message of the error.", show_default=False
    ),
]
Fingerprint = Annotated[
    str, typer.Option(metavar="HEX", help="Only of this group; see tenure dead groups.", show_default=False)
]
Reason = Annotated[str, typer.Option(metavar="REASON", help="Only those that failed for it.", show_default=False)]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="Show so many at most.")]
Cursor = Annotated[str, typer.Option(metavar="CURSOR", help="Go on where a list ended.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant.")]
Payload = Annotated[str | None, typer.Option(metavar="JSON", help="With another payload; - reads standard input.")]
# Where backups are.
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


def store_of(source: str) -> "SqliteUrl":
    """A file, or what a URL sqlite:///file says."""
    from tenure.store.url import SqliteUrl, read_sqlite

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


def states_of(names: list[str] | None, allowed: tuple[int, ...] = (), verb: str = "") -> int:
    """As a bit set, 0 when none is named."""
    states = 0
    for name in names or ():
        if name not in STATE_NAMES:
            raise InvalidRequest("state", name, nearest(name, STATE_NAMES))
        code = STATE_NAMES.index(name)
        if allowed and code not in allowed:
            known = ", ".join(STATE_NAMES[each] for each in allowed)
            raise InvalidRequest("state", name, f"only jobs that are {known} can be {verb}")
        states |= 1 << code
    return states


def filter_of(
    queue: str = "", states: int = 0, task: str = "", tag: str = "", worker: str = "", error: str = ""
) -> Filter | None:
    """None when nothing was asked for."""
    if not (queue or states or task or tag or worker or error):
        return None
    return Filter(queue, states, task, tag, worker=worker, error=error)


def rate_of(field: str, text: str | None, burst: int | None = None) -> Rate | None:
    """100/s, 30/m, 5/10s: so many in so long."""
    if text is None:
        return None
    found = RATE.fullmatch(text.replace(" ", ""))
    if found is None or int(found[1]) == 0:
        raise InvalidRequest(field, text, "it must be a number and a time, as in 100/s, 30/m or 5/10s")
    period_ms = milliseconds(field, (found[2] or "1") + found[3])
    return Rate(int(found[1]), period_ms, burst or 0)


def show_rate(rate: object) -> str:
    """As it is written: a store answers a rate as tokens, milliseconds, burst."""
    if not isinstance(rate, (list, tuple)) or len(rate) != 3:
        return str(rate)
    tokens, period_ms, burst = rate
    unit = next((name for name, ms in PERIODS_MS.items() if ms == period_ms), "")
    if not unit:
        unit = f"{period_ms}ms" if period_ms % 1_000 else f"{period_ms // 1_000}s"
    return f"{tokens:,}/{unit}" + (f" (burst {burst:,})" if burst != tokens else "")


def metadata_of(pairs: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise InvalidRequest("metadata", pair, "it must be a key and a value, as in customer=42")
        found[key] = text
    return found


def priority_of(text: str) -> int | str:
    """A number, or a name, which is checked with the job."""
    return int(text) if NUMBER.fullmatch(text) else text
