"""`tenure spark`: what a cluster does."""

import typer

from tenure.cli.migrate import migrate
from tenure.cli.replay import groups, replay

app = typer.Typer(help="Bulk operations on Spark.", no_args_is_help=True)
for command in (migrate, groups, replay):
    app.command()(command)
