"""`tenure spark groups` and `tenure spark replay`: dead letters by the million."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tenure.cli.argument import AsJson, Fingerprint, Queue, Reason, Task, Url
from tenure.cli.cluster import Master, open_session
from tenure.cli.screen import show_count, show_error, show_json, show_line, show_table
from tenure.cli.session import check_place, choose_place
from tenure.cli.table import elastic, make_table, shorten
from tenure.core.error import InvalidRequest
from tenure.core.tenant import ANY_TENANT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = 10
MESSAGE_CHARS = 100

OfTenant = Annotated[
    str, typer.Option(metavar="TENANT", envvar="TENURE_TENANT", help="Only of this tenant; all if not given.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The token for a server, where the tasks run; else TENURE_TOKEN there."),
]
Groups = Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Show so many groups at most.")]


def _letters(url: str | None, tenant: str, queue: str, token_file: Path | None, master: str) -> "tuple[DataFrame, str]":
    place = choose_place(url)
    check_place(place)
    session = open_session(master)
    from tenure.spark.replay import dead_letters

    found = dead_letters(session, place.url, tenant=tenant, queue=queue, token_file=str(token_file or ""))
    return found, place.url


def groups(
    queue: Queue = "",
    tenant: OfTenant = ANY_TENANT,
    limit: Groups = 50,
    url: Url = None,
    token_file: TokenFile = None,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """List the different failures among all dead letters, most frequent first."""
    letters, _ = _letters(url, tenant, queue, token_file, master)
    from tenure.spark import replay as spark_replay

    rows = [row.asDict() for row in spark_replay.groups(letters).limit(limit).collect()]
    if as_json:
        for row in rows:
            show_json(row)
        return
    table = make_table(">jobs", "fingerprint", ">example", "queues", "tasks", "~reason", "~error")
    for row in rows:
        error = f"{row['type'] or ''}: {row['message'] or ''}"
        queues, tasks = ", ".join(row["queues"][:SHOWN]), ", ".join(row["tasks"][:SHOWN])
        cells = elastic(row["reason"] or ""), elastic(shorten(error, MESSAGE_CHARS))
        table.add_row(f"{row['jobs']:,}", row["fingerprint"] or "", str(row["example"]), queues, tasks, *cells)
    show_table(table)


def replay(
    rate: Annotated[int, typer.Option(metavar="N", min=1, help="So many a second, in all tasks together.")],
    fingerprint: Fingerprint = "",
    queue: Queue = "",
    task: Task = "",
    reason: Reason = "",
    tenant: OfTenant = ANY_TENANT,
    selection: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="Keep what was selected there; the same again goes on with it and starts nothing twice.",
            show_default=False,
        ),
    ] = "",
    tasks: Annotated[int, typer.Option(metavar="N", min=1, help="Tasks that share the rate.")] = 2,
    url: Url = None,
    token_file: TokenFile = None,
    master: Master = "",
    as_json: AsJson = False,
) -> None:
    """Start dead letters again, each once, at a rate: all that have what is named."""
    if not (fingerprint or queue or task or reason):
        raise InvalidRequest("fingerprint", "", "say which, by --fingerprint, --queue, --task or --reason")
    letters, place = _letters(url, tenant, queue, token_file, master)
    for name, value in (("fingerprint", fingerprint), ("task", task), ("reason", reason)):
        if value:
            letters = letters.where(letters[name] == value)
    from tenure.spark import replay as spark_replay

    done = spark_replay.replay(
        letters, place, rate=rate, selection=selection, tasks=min(tasks, rate), token_file=str(token_file or "")
    )
    if as_json:
        show_json(msgspec.to_builtins(done))
        return
    show_line(
        f"started {show_count(done.replayed, 'job')} again of {done.selected:,} selected; {done.passed_over:,} passed"
        f" over, {done.refused:,} refused",
        "green",
    )
    for tenant_name, id, why in done.reasons[:SHOWN]:
        show_error(f"{tenant_name}: job {id}: {why}")
