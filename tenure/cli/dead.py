"""`tenure dead`: dead letters, which are jobs that ended failed."""

from typing import Annotated

import typer

from tenure.cli.argument import (
    Cursor,
    ErrorText,
    Fingerprint,
    Ids,
    Limit,
    Payload,
    Queue,
    Reason,
    Task,
    Yes,
    duration_of,
)
from tenure.cli.change import change_all, change_ids, describe_filter, ids_or_filter
from tenure.cli.field import fields_of
from tenure.cli.jobs import show_jobs
from tenure.cli.payload import read_payload
from tenure.cli.screen import show_json, show_line, show_table
from tenure.cli.session import Session, connected
from tenure.cli.table import elastic, make_table, shorten, show_ago
from tenure.client.clock import read_clock
from tenure.core import request
from tenure.core.bound import nearest
from tenure.core.error import InvalidRequest
from tenure.core.request import Change, Filter
from tenure.core.state import FAILED, REASONS

DEAD = 1 << FAILED
MESSAGE_CHARS = 100

app = typer.Typer(help="Look at dead letters, start them again, purge them.", no_args_is_help=True)

Older = Annotated[str | None, typer.Option(metavar="7d", help="Only what ended longer ago.")]


def _dead(queue: str, task: str, error: str, fingerprint: str, reason: str, older: str | None = None) -> Filter:
    if reason and reason not in REASONS:
        raise InvalidRequest("reason", reason, nearest(reason, REASONS))
    age_ms = duration_of("older", older)
    before = 0 if age_ms is None else read_clock().wall_ms - age_ms
    return Filter(queue, DEAD, task, error=error, fingerprint=fingerprint, reason=reason, ended_before=before)


@app.command("list")
@connected
def list_dead(
    session: Session,
    queue: Queue = "",
    task: Task = "",
    error: ErrorText = "",
    fingerprint: Fingerprint = "",
    reason: Reason = "",
    limit: Limit = 50,
    cursor: Cursor = "",
) -> None:
    """List dead letters, oldest first."""
    show_jobs(session, _dead(queue, task, error, fingerprint, reason), limit, cursor)


@app.command()
@connected
def groups(session: Session, queue: Queue = "") -> None:
    """List the different failures, most frequent first."""
    found = session.client.dead_letter_groups(queue)
    if session.as_json:
        for group in found:
            show_json(fields_of(group))
        return
    if not found:
        show_line("no dead letter" + (f" in {queue}" if queue else ""))
        return
    now_ms = read_clock().wall_ms
    table = make_table(">jobs", "fingerprint", "last", ">example", "~reason", "~error")
    for group in found:
        error = f"{group.type}: {group.message}" if group.type else group.message
        last, example = show_ago(group.last_at, now_ms), str(group.example)
        cells = elastic(group.reason), elastic(shorten(error, MESSAGE_CHARS))
        table.add_row(f"{group.count:,}", group.fingerprint, last, example, *cells)
    show_table(table)


@app.command()
@connected
def replay(
    session: Session,
    ids: Ids = None,
    queue: Queue = "",
    task: Task = "",
    error: ErrorText = "",
    fingerprint: Fingerprint = "",
    reason: Reason = "",
    rate: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="So many a second; all at once if left out.")
    ] = None,
    count: Annotated[int | None, typer.Option(metavar="N", min=1, help="So many at most.")] = None,
    payload: Payload = None,
    yes: Yes = False,
) -> None:
    """Start dead letters again, by ids or all that a filter finds."""
    filter = _dead(queue, task, error, fingerprint, reason) if queue or task or error or fingerprint or reason else None
    ids_or_filter(ids, filter)
    change = Change(request.REPLAY, payload=read_payload(payload))
    if ids:
        _check_alone("rate", rate)
        _check_alone("count", count)
        change_ids(session, change, ids)
        return
    assert filter is not None
    change.filter, change.rate_per_s, change.limit = filter, rate or 0, count or 0
    change_all(session, change, yes, describe_filter(filter))


def _check_alone(name: str, given: object) -> None:
    if given:
        raise InvalidRequest(name, given, "it goes with a filter, not with ids")


@app.command()
@connected
def purge(
    session: Session,
    ids: Ids = None,
    queue: Queue = "",
    task: Task = "",
    error: ErrorText = "",
    fingerprint: Fingerprint = "",
    reason: Reason = "",
    older: Older = None,
    yes: Yes = False,
) -> None:
    """Remove dead letters for good, by ids or all that a filter finds."""
    is_filter = bool(queue or task or error or fingerprint or reason or older)
    filter = _dead(queue, task, error, fingerprint, reason, older) if is_filter else None
    ids_or_filter(ids, filter)
    if ids:
        change_ids(session, Change(request.REMOVE), ids, only="failed")
        return
    assert filter is not None
    which = describe_filter(filter) + (f" that ended more than {older} ago" if older else "")
    change_all(session, Change(request.REMOVE, filter=filter), yes, which)
