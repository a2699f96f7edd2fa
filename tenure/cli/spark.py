"""`tenure spark …`: what is done with Spark."""

import typer

from tenure.cli.audit import audit

app = typer.Typer(help="Look at the whole history of a store with Spark.", no_args_is_help=True)
app.command()(audit)
