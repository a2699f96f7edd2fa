"""`tenure jobs`: finding jobs, looking at them, and changing them."""

from typing import Annotated

import typer
from rich.text import Text

from tenure.cli.argument import (
    Cursor,
    ErrorText,
    Id,
    Ids,
    Limit,
    Payload,
    Queue,
    States,
    Tag,
    Task,
    Worker,
    Yes,
    filter_of,
    states_of,
)
from tenure.cli.change import change_all, change_ids, describe_filter, find_job, ids_or_filter
from tenure.cli.field import content_of, fields_of, job_fields, show_instant
from tenure.cli.payload import read_payload
from tenure.cli.screen import show_count, show_json, show_line, show_note, show_size, show_table
from tenure.cli.session import Session, connected
from tenure.cli.table import elastic, make_pairs, make_table, shorten, show_ago, show_content, state_cell
from tenure.client.clock import read_clock
from tenure.core import request
from tenure.core.printable import printable_line
from tenure.core.record import JobRecord
from tenure.core.request import Change, Filter
from tenure.core.state import FAILED, LIVE, RETRYING, SCHEDULED

PAGE_MAX = 1_000

app = typer.Typer(help="Find jobs, look at them, change them.", no_args_is_help=True)


@app.command("list")
@connected
def list_jobs(
    session: Session,
    queue: Queue = "",
    state: States = None,
    task: Task = "",
    tag: Tag = "",
    worker: Worker = "",
    error: ErrorText = "",
    limit: Limit = 50,
    cursor: Cursor = "",
) -> None:
    """List jobs, oldest first."""
    filter = filter_of(queue, states_of(state), task, tag, worker, error) or Filter()
    show_jobs(session, filter, limit, cursor)


def show_jobs(session: Session, filter: Filter, limit: int, cursor: str) -> None:
    """A page may be short and still not be the last."""
    found: list[JobRecord] = []
    while len(found) < limit:
        page = session.client.find(filter, min(limit - len(found), PAGE_MAX), cursor)
        found += page.jobs
        cursor = page.cursor
        if not cursor:
            break
    if session.as_json:
        for job in found:
            show_json(job_fields(job))
    elif found:
        _show_list(found, session.is_all)
    else:
        show_line(f"no job{describe_filter(filter)}")
    if cursor and found:
        show_note(f"there may be more: --cursor {cursor}")


def _show_list(jobs: list[JobRecord], with_tenant: bool) -> None:
    now_ms = read_clock().wall_ms
    tenant = ["~tenant"] if with_tenant else []
    table = make_table(">id", *tenant, "~queue", "~task", "state", ">attempt", "created", "~note", "~payload")
    for job in jobs:
        table.add_row(
            str(job.id),
            *([elastic(job.tenant)] if with_tenant else []),
            elastic(job.queue),
            elastic(job.task),
            state_cell(job.state),
            _attempt(job),
            show_ago(job.created_at, now_ms),
            elastic(note_of(job, now_ms)),
            elastic(_payload(job)),
        )
    show_table(table)


def _attempt(job: JobRecord) -> str:
    return f"{job.attempt}/{'∞' if job.max_attempts is None else job.max_attempts}"


def _payload(job: JobRecord) -> str:
    blob = job.payload_blob
    if blob is not None and blob.absent:
        return f"{show_size(blob.size)} in the blob store"
    return show_content(content_of(job.payload, job.codec))


def note_of(job: JobRecord, now_ms: int) -> str:
    """What matters of a job in its state."""
    if job.state in ("failed", "retrying") and job.error is not None:
        return shorten(f"{job.error.type}: {job.error.message}" if job.error.type else job.error.message)
    if job.state == "running":
        return f"{job.worker or 'a worker'}, {show_ago(job.started_at, now_ms)}"
    if job.state in ("scheduled", "retrying"):
        return show_ago(job.run_at, now_ms)
    return job.reason


@app.command()
@connected
def show(session: Session, id: Id) -> None:
    """Show everything about a job: its fields, payload, result, error and past attempts."""
    job = find_job(session, id)
    if session.as_json:
        show_json(job_fields(job))
        return
    show_table(make_pairs(_pairs(job, read_clock().wall_ms)))
    if job.error is not None and job.error.trace:
        show_line(job.error.trace.rstrip(), "red")
    if job.history:
        _show_history(job)


def _pairs(job: JobRecord, now_ms: int) -> list[tuple[str, str | Text]]:
    fields = job_fields(job)
    rows: list[tuple[str, str | Text]] = [("id", str(job.id)), ("state", state_cell(job.state))]
    for name in ("custom_id", "tenant", "queue", "task", "priority", "reason", "worker", "group", "codec", "trace"):
        if fields[name]:
            rows.append((name, str(fields[name])))
    rows.append(("attempt", f"{_attempt(job)}, delivery {job.delivery}"))
    for name in ("created_at", "run_at", "ready_at", "started_at", "ended_at", "expires_at", "lease_until"):
        if fields[name]:
            rows.append((name, f"{fields[name]} ({show_ago(getattr(job, name), now_ms)})"))
    if job.progress is not None:
        rows.append(("progress", f"{job.progress.percent} % {job.progress.message}".rstrip()))
    if job.error is not None:
        rows.append(("error", Text(f"{job.error.type}: {job.error.message}", "red")))
        rows.append(("fingerprint", job.error.fingerprint))
    for name in ("tags", "depends_on"):
        if fields[name]:
            rows.append((name, ", ".join(str(item) for item in fields[name])))
    rows += [(f"metadata.{key}", text) for key, text in job.metadata.items()]
    rows += [(name, str(fields[name])) for name in ("flow", "parent", "replays") if fields[name]]
    rows.append(("payload", show_content(fields["payload"], 2_000)))
    if job.result is not None:
        rows.append(("result", show_content(fields["result"], 2_000)))
    return rows


def _show_history(job: JobRecord) -> None:
    table = make_table(">attempt", ">delivery", "worker", "started", "ended", "cause", "~error")
    for past in job.history:
        error = "" if past.error is None else f"{past.error.type}: {past.error.message}"
        started, ended = show_instant(past.started_at) or "", show_instant(past.ended_at) or ""
        table.add_row(
            str(past.attempt), str(past.delivery), past.worker, started, ended, past.cause, shorten(error, 200)
        )
    show_line("")
    show_table(table)


@app.command()
@connected
def explain(session: Session, id: Id) -> None:
    """Say why a job is where it is: what holds it, since when, its place in line."""
    job = find_job(session, id)
    why = session.client.explain(job.id)
    if session.as_json:
        show_json(fields_of(why))
        return
    now_ms = read_clock().wall_ms
    rows: list[tuple[str, str | Text]] = [
        ("state", state_cell(why.state)),
        ("held by", why.held_by),
        ("why", why.detail),
        ("since", f"{show_instant(why.since)} ({show_ago(why.since, now_ms)})"),
    ]
    if why.place >= 0:
        rows.append(("before it", show_count(why.place, "job")))
    if why.earliest:
        rows.append(("earliest", f"{show_instant(why.earliest)} ({show_ago(why.earliest, now_ms)})"))
    show_table(make_pairs(rows))


@app.command()
@connected
def logs(
    session: Session,
    id: Id,
    offset: Annotated[int, typer.Option(metavar="N", min=0, help="Begin at this line.")] = 0,
    limit: Limit = 100,
) -> None:
    """Show the lines that a job has logged."""
    items = session.client.logs(find_job(session, id).id, offset, min(limit, PAGE_MAX))
    for item in items:
        line = item.data.decode("utf-8", "replace")
        if session.as_json:
            show_json({"offset": item.offset, "at": show_instant(item.at), "line": line})
        else:
            show_line(f"{show_instant(item.at)}  {printable_line(line)}")
    if not items and not session.as_json:
        show_line(f"job {id} has logged nothing" + (f" from line {offset} on" if offset else ""))


# Changing.


@app.command()
@connected
def cancel(
    session: Session,
    ids: Ids = None,
    queue: Queue = "",
    state: States = None,
    task: Task = "",
    tag: Tag = "",
    worker: Worker = "",
    error: ErrorText = "",
    yes: Yes = False,
) -> None:
    """Cancel jobs that have not ended, by ids or all that a filter finds."""
    states = states_of(state, LIVE, "cancelled") if state else 0
    filter = filter_of(queue, states, task, tag, worker, error)
    _change(session, Change(request.CANCEL, filter=filter), ids, LIVE, yes)


@app.command()
@connected
def replay(
    session: Session,
    ids: Ids = None,
    queue: Queue = "",
    task: Task = "",
    tag: Tag = "",
    worker: Worker = "",
    error: ErrorText = "",
    payload: Payload = None,
    yes: Yes = False,
) -> None:
    """Start failed jobs again, by ids or all that a filter finds."""
    filter = filter_of(queue, 0, task, tag, worker, error)
    change = Change(request.REPLAY, filter=filter, payload=read_payload(payload))
    _change(session, change, ids, (FAILED,), yes)


@app.command()
@connected
def promote(
    session: Session,
    ids: Ids = None,
    queue: Queue = "",
    state: States = None,
    task: Task = "",
    tag: Tag = "",
    worker: Worker = "",
    error: ErrorText = "",
    yes: Yes = False,
) -> None:
    """Let jobs run now that wait for their time, by ids or all that a filter finds."""
    states = states_of(state, (SCHEDULED, RETRYING), "promoted") if state else 0
    filter = filter_of(queue, states, task, tag, worker, error)
    _change(session, Change(request.PROMOTE, filter=filter), ids, (SCHEDULED, RETRYING), yes)


@app.command()
@connected
def clone(
    session: Session,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids or custom ids.")],
    payload: Payload = None,
) -> None:
    """Make new jobs of jobs in any state, with the same options."""
    change_ids(session, Change(request.CLONE, payload=read_payload(payload)), ids)


def _change(session: Session, change: Change, ids: list[str] | None, states: tuple[int, ...], yes: bool) -> None:
    ids_or_filter(ids, change.filter)
    if ids:
        change_ids(session, change, ids)
        return
    assert change.filter is not None
    which = describe_filter(change.filter)
    change.filter.states = change.filter.states or sum(1 << code for code in states)
    change_all(session, change, yes, which)
