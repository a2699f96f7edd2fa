"""`tenure enqueue TASK [JSON]`"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.argument import metadata_of, priority_of
from tenure.cli.completion import complete_queue
from tenure.cli.field import content_of, error_fields
from tenure.cli.payload import STDIN, check_json, read_payload
from tenure.cli.screen import Screen, show_count, show_duration, show_error, show_json, show_line, show_note
from tenure.cli.session import Session, connected
from tenure.client.clock import read_clock
from tenure.core import bound
from tenure.core.duration import milliseconds
from tenure.core.error import Error, InvalidRequest

if TYPE_CHECKING:
    from tenure.client.sync import SyncClient

NULL = b"null"
BATCH_JOBS = 1_000
BATCH_BYTES = 8 * bound.MIB
ERRORS_SHOWN = 20

Line = tuple[int, bytes]


@connected
def enqueue(
    session: Session,
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="The payload; - reads standard input, null if left out.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="QUEUE",
            help="The queue it goes to; by default that of the task, as its workers published it, or default.",
            autocompletion=complete_queue,
        ),
    ] = None,
    priority: Annotated[
        str | None, typer.Option(metavar="N", help="A number, or low, normal, high, critical; higher goes first.")
    ] = None,
    delay: Annotated[str | None, typer.Option(metavar="5m", help="How long it waits before it may run.")] = None,
    custom_id: Annotated[str | None, typer.Option(metavar="ID", help="An id of your own, for one job.")] = None,
    unique_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="No other job of the queue with it until this one has ended.")
    ] = None,
    max_attempts: Annotated[int | None, typer.Option(metavar="N", help="How often it is tried at most; 3.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag to find it by; repeat it.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A pair to find it by; repeat it.")
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="A job for each line of standard input, which is its JSON.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and write it.")] = False,
    timeout: Annotated[str, typer.Option(metavar="30s", help="How long --wait waits; 10m at most.")] = "30s",
) -> None:
    """Enqueue a job, or many from lines of JSON."""
    fields: dict[str, object] = {"task": task}
    if queue is not None:
        fields["queue"] = queue
    if priority is not None:
        fields["priority"] = priority_of(priority)
    for name, given in (
        ("delay", delay),
        ("custom_id", custom_id),
        ("unique_key", unique_key),
        ("max_attempts", max_attempts),
        ("tags", tag),
        ("metadata", metadata_of(metadata) if metadata else None),
    ):
        if given is not None:
            fields[name] = given
    timeout_ms = milliseconds("timeout", timeout)
    bound.wait_ms("timeout", timeout_ms)
    _check(fields)
    if lines:
        _check_lines(payload, wait, custom_id, unique_key)
        _enqueue_lines(session, fields)
    else:
        content = read_payload(payload) or NULL
        _enqueue_one(session, content, fields, timeout_ms if wait else None)


def _check(fields: dict[str, object]) -> None:
    """Before a file is made for a job that will be refused."""
    from tenure.client.client import split_fields

    split_fields(fields)


def _enqueue_one(session: Session, content: bytes, fields: dict[str, object], wait_ms: int | None) -> None:
    client = session.of_one_tenant(create=True)
    made = client.enqueue(content, **_with_published(client, fields))
    found: dict[str, object] = {"id": made.id, "state": made.state, "duplicate": made.duplicate}
    if wait_ms is None:
        if session.as_json:
            show_json(found)
        else:
            known = ", which was there already" if made.duplicate else ""
            show_line(f"enqueued {made.id}, {made.state}{known}", "" if made.duplicate else "green")
        return
    result = client.wait(made.id, wait_ms / 1_000)
    content_shown = None if result is None else content_of(result, "json")
    show_json({**found, "state": "completed", "result": content_shown} if session.as_json else content_shown)


def _with_published(client: "SyncClient", fields: dict[str, object]) -> dict[str, object]:
    """What was asked for, over what the task's workers say of it; the payload is JSON, whatever they prefer."""
    from tenure.client.published import options_as_given

    found = client.published(str(fields["task"]))
    known = {} if found is None else options_as_given(found.options)
    return {**known, **fields, "codec": "json"}


def _check_lines(payload: str | None, wait: bool, custom_id: str | None, unique_key: str | None) -> None:
    if payload not in (None, STDIN):
        raise InvalidRequest("payload", payload, "with --lines the payloads come from standard input")
    for name, given in (("wait", wait), ("custom_id", custom_id), ("unique_key", unique_key)):
        if given:
            raise InvalidRequest(name, given, "it is for one job, not for --lines")


def _enqueue_lines(session: Session, fields: dict[str, object]) -> None:
    """In batches; a line that is refused harms no other, and the exit code is 1."""
    client = session.of_one_tenant(create=True)
    fields = _with_published(client, fields)
    tally = _Tally(session.as_json)
    began = read_clock().elapsed_ms
    with _counter() as count:
        for batch in _batches(tally):
            try:
                made = client.enqueue_many([content for _, content in batch], **fields)
            except Error:
                show_note(f"{show_count(tally.accepted, 'job')} enqueued before line {batch[0][0]:,}")
                raise
            for (number, _), job in zip(batch, made, strict=True):
                if job.error is not None:
                    tally.refuse(number, job.error)
                else:
                    tally.accept(number, job.id, job.state)
            count(tally.accepted)
    if not session.as_json:
        took = show_duration(read_clock().elapsed_ms - began)
        show_line(f"enqueued {show_count(tally.accepted, 'job')} in {took}", "green" if tally.accepted else "")
    if tally.refused:
        show_error(f"{show_count(tally.refused, 'line')} refused")
        sys.exit(1)


class _Tally:
    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.accepted = 0
        self.refused = 0

    def accept(self, number: int, id: int, state: str) -> None:
        self.accepted += 1
        if self._as_json:
            show_json({"line": number, "id": id, "state": state})

    def refuse(self, number: int, error: Error) -> None:
        self.refused += 1
        if self._as_json:
            show_json({"line": number, "error": error_fields(error)})
        elif self.refused <= ERRORS_SHOWN:
            show_error(f"line {number:,}: {error}")


def _batches(tally: _Tally) -> Iterator[list[Line]]:
    batch: list[Line] = []
    size = 0
    for number, line in enumerate(sys.stdin.buffer, 1):
        content = line.strip()
        if not content:
            continue
        try:
            check_json(content, content[:80].decode("utf-8", "replace"))
        except InvalidRequest as error:
            tally.refuse(number, error)
            continue
        if batch and (len(batch) == BATCH_JOBS or size + len(content) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((number, content))
        size += len(content)
    if batch:
        yield batch


@contextmanager
def _counter() -> Iterator[Callable[[int], None]]:
    """How many so far, on the terminal that errors go to; nothing where there is none."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.completed:,} jobs"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        bar = shown.add_task("enqueue", total=None)
        yield lambda done: shown.update(bar, completed=done)
