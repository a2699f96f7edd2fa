"""`tenure tenants`: who shares the store, their weights and quotas."""

from typing import Annotated

import typer
from rich.text import Text

from tenure.cli.archive import export, import_tenant
from tenure.cli.argument import duration_of, rate_of
from tenure.cli.field import settings_fields
from tenure.cli.queues import show_setting
from tenure.cli.screen import show_json, show_line, show_table
from tenure.cli.session import Session, connected
from tenure.cli.table import STYLES, count_cell, make_pairs, make_table
from tenure.core.bound import TENANT_RULES, nearest, tenant_name
from tenure.core.error import InvalidRequest
from tenure.core.state import STATE_NAMES
from tenure.core.tenant import ANY_TENANT

app = typer.Typer(help="Look at tenants, set their weights and quotas, take them along as files.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TENANT", help="The tenant's name.")]


@app.command("list")
@connected
def list_tenants(session: Session) -> None:
    """List the tenants with what was set for each."""
    found = session.client.configure("tenant", "*")
    if session.as_json:
        for name in sorted(found):
            show_json({"tenant": name, "settings": settings_fields(found[name])})
        return
    if not found:
        show_line("no tenant; a tenant exists from its first job or setting")
        return
    table = make_table("tenant", ">weight", "~quotas")
    for name in sorted(found):
        settings = found[name]
        known = settings if isinstance(settings, dict) else {}
        quotas = ", ".join(f"{key} {show_setting(key, value)}" for key, value in known.items() if key != "weight")
        table.add_row(name, str(known.get("weight", 1)), quotas)
    show_table(table)


@app.command()
@connected
def show(session: Session, name: Name) -> None:
    """Show a tenant's settings, and how many jobs it has in which state."""
    _check(name)
    settings = session.client.configure("tenant", name)
    counts = dict.fromkeys(STATE_NAMES, 0)
    queues = session.client.as_tenant(name).count()
    for found in queues.values():
        for state, count in found.items():
            counts[state] += count
    if session.as_json:
        show_json({"tenant": name, "settings": settings_fields(settings), "queues": len(queues), "counts": counts})
        return
    rows: list[tuple[str, str | Text]] = [("tenant", name), ("queues", f"{len(queues):,}")]
    rows += [(state, count_cell(counts[state], STYLES[state])) for state in STATE_NAMES]
    rows += [(key, show_setting(key, value)) for key, value in {"weight": 1, **settings}.items()]
    show_table(make_pairs(rows))


def _check(name: str) -> None:
    if name == ANY_TENANT:
        raise InvalidRequest("tenant", name, "name one; tenure tenants list shows all")
    tenant_name("tenant", name)


@app.command("set")
@connected
def set_tenant(
    session: Session,
    name: Name,
    weight: Annotated[int | None, typer.Option(metavar="N", help="Its share of turns; 1 to 1,000.")] = None,
    jobs_max: Annotated[int | None, typer.Option(metavar="N", help="Jobs that have not ended.")] = None,
    bytes_max: Annotated[int | None, typer.Option(metavar="N", help="Bytes of their payloads.")] = None,
    running_max: Annotated[int | None, typer.Option(metavar="N", help="Jobs that run at once.")] = None,
    queues_max: Annotated[int | None, typer.Option(metavar="N", help="Queues.")] = None,
    workers_max: Annotated[int | None, typer.Option(metavar="N", help="Workers that are listed.")] = None,
    worker_bytes_max: Annotated[int | None, typer.Option(metavar="N", help="Bytes of what they say.")] = None,
    rate: Annotated[str | None, typer.Option(metavar="100/s", help="Jobs that start.")] = None,
    enqueue_rate: Annotated[str | None, typer.Option(metavar="100/s", help="Jobs that are enqueued.")] = None,
    keep_completed: Annotated[str | None, typer.Option(metavar="24h", help="How long completed jobs stay.")] = None,
    keep_failed: Annotated[str | None, typer.Option(metavar="30d", help="How long dead letters stay.")] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(metavar="SETTING", help="Back to the default, as in --reset jobs_max; repeat it."),
    ] = None,
) -> None:
    """Set a tenant's weight and quotas; what is not named stays."""
    _check(name)
    given: dict[str, object] = {
        "weight": weight,
        "jobs_max": jobs_max,
        "bytes_max": bytes_max,
        "running_max": running_max,
        "queues_max": queues_max,
        "workers_max": workers_max,
        "worker_bytes_max": worker_bytes_max,
        "rate": rate_of("rate", rate),
        "enqueue_rate": rate_of("enqueue_rate", enqueue_rate),
        "keep_completed_ms": duration_of("keep_completed", keep_completed),
        "keep_failed_ms": duration_of("keep_failed", keep_failed),
    }
    changes = {key: value for key, value in given.items() if value is not None}
    for key in reset or ():
        field = key.replace("-", "_")
        if field not in TENANT_RULES:
            raise InvalidRequest("reset", key, nearest(field, TENANT_RULES))
        changes[field] = None
    if not changes:
        raise InvalidRequest("changes", "", "say what to set, as in --weight 3, or --reset")
    settings = session.client.configure("tenant", name, **changes)
    if session.as_json:
        show_json({"tenant": name, "settings": settings_fields(settings)})
    else:
        shown = ", ".join(f"{key} {show_setting(key, value)}" for key, value in settings.items())
        show_line(f"{name}: {shown or 'nothing is set'}", "green")


app.command()(export)
app.command("import")(import_tenant)
