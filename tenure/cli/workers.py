"""`tenure workers`: who works."""

import time
from typing import Annotated, Any

import typer

from tenure.cli.field import show_instant
from tenure.cli.screen import show_json, show_line, show_table
from tenure.cli.session import Session, connected
from tenure.cli.table import elastic, make_table, shorten, show_ago
from tenure.client.clock import read_clock
from tenure.core.bound import nearest
from tenure.core.duration import milliseconds
from tenure.core.error import InvalidRequest

TASKS_CHARS = 60
LOOK_S = 0.2

app = typer.Typer(help="Look at workers, and stop one.", no_args_is_help=True)


@app.command("list")
@connected
def list_workers(session: Session) -> None:
    """List the tenant's workers that have shown a sign of life in the last minute; with --tenant '*' those of all."""
    found: dict[str, Any] = session.client.configure("worker", "*")
    workers = [found[name] for name in sorted(found)]
    if session.as_json:
        for worker in workers:
            show_json({**worker, **{name: show_instant(worker[name]) for name in ("joined_at", "seen_at")}})
        return
    if not workers:
        whose = "no worker" if session.is_all else f"no worker of the tenant {session.tenant}"
        show_line(f"{whose} has shown a sign of life in the last minute")
        return
    now_ms = read_clock().wall_ms
    owner = ("tenant",) if session.is_all else ()
    table = make_table(*owner, "worker", "version", "joined", "seen", "~tasks")
    for worker in workers:
        joined, seen = show_ago(worker["joined_at"], now_ms), show_ago(worker["seen_at"], now_ms)
        tasks = shorten(", ".join(worker["tasks"]), TASKS_CHARS)
        shown = [worker[name] for name in owner]
        table.add_row(*shown, worker["name"], worker["version"], joined, seen, elastic(tasks))
    show_table(table)


@app.command("stop")
@connected
def stop_worker(
    session: Session,
    name: Annotated[str, typer.Argument(help="Its name, as in the list.")],
    wait: Annotated[str, typer.Option(help="How long to wait until it has left, as in 60s.")] = "60s",
) -> None:
    """Ask a worker to stop: it claims nothing more, lets its jobs end, releases those that do not, and leaves."""
    client = session.of_one_tenant()
    wait_s = milliseconds("wait", wait) / 1000
    known: dict[str, Any] = client.configure("worker", "*")
    if name not in known:
        others = nearest(name, known) if known else "nor has any other"
        raise InvalidRequest("name", name, f"no such worker has shown a sign of life in the last minute; {others}")
    client.configure("worker", name, stop=True)
    until = time.monotonic() + wait_s
    while name in known and time.monotonic() < until:
        time.sleep(LOOK_S)
        known = client.configure("worker", "*")
    has_left = name not in known
    if session.as_json:
        show_json({"name": name, "left": has_left})
    elif has_left:
        show_line(f"{name} has left")
    else:
        show_line(f"{name} was asked to stop and still ends its jobs; see tenure workers list")
