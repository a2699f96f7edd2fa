"""`tenure workers`: who works."""

from typing import Any

import typer

from tenure.cli.field import show_instant
from tenure.cli.screen import show_json, show_line, show_table
from tenure.cli.session import Session, connected
from tenure.cli.table import elastic, make_table, shorten, show_ago
from tenure.client.clock import read_clock

TASKS_CHARS = 60

app = typer.Typer(help="Look at workers.", no_args_is_help=True)


@app.command("list")
@connected
def list_workers(session: Session) -> None:
    """List the workers that have shown a sign of life in the last minute."""
    found: dict[str, Any] = session.client.configure("worker", "*")
    workers = [found[name] for name in sorted(found)]
    if session.as_json:
        for worker in workers:
            show_json({**worker, **{name: show_instant(worker[name]) for name in ("joined_at", "seen_at")}})
        return
    if not workers:
        show_line("no worker has shown a sign of life in the last minute")
        return
    now_ms = read_clock().wall_ms
    table = make_table("worker", "version", "joined", "seen", "~tasks")
    for worker in workers:
        joined, seen = show_ago(worker["joined_at"], now_ms), show_ago(worker["seen_at"], now_ms)
        tasks = shorten(", ".join(worker["tasks"]), TASKS_CHARS)
        table.add_row(worker["name"], worker["version"], joined, seen, elastic(tasks))
    show_table(table)
