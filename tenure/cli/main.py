"""The command line: `tenure COMMAND`. Each command has a file of its own; this one puts them together.

What takes long to import (the engine, the server, gRPC) is imported by the command that needs it, when it runs.
"""

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from tenure.cli import dead, jobs, queues, spark, tenants, tokens, workers
from tenure.cli.backup import backup
from tenure.cli.backups import backups
from tenure.cli.bench import bench
from tenure.cli.dev import dev
from tenure.cli.doctor import doctor
from tenure.cli.enqueue import enqueue
from tenure.cli.events import events
from tenure.cli.restore import restore
from tenure.cli.screen import show_error
from tenure.cli.serve import serve
from tenure.cli.tokens import token
from tenure.cli.top import top
from tenure.cli.verify import verify
from tenure.cli.worker import worker
from tenure.core.error import Error, InvalidRequest

FAILED = 1
MISUSED = 2
TASKS, JOBS, SERVER, BACKUPS = "Tasks", "Jobs and queues", "Server", "Backups"


class Commands(TyperGroup):
    def main(self, *arguments: Any, **options: Any) -> Any:
        """Exits with 0 when all is well, 1 when it is not, 2 when it was called wrongly."""
        try:
            return super().main(*arguments, **options)
        except InvalidRequest as error:
            show_error(str(error))
            sys.exit(MISUSED)
        except Error as error:
            show_error(str(error))
            sys.exit(FAILED)
        except Exception as error:
            if os.environ.get("TENURE_TRACEBACK"):
                raise
            text = f"unexpected {type(error).__name__}: {error}; set TENURE_TRACEBACK=1 to see where, and report it"
            show_error(text)
            sys.exit(FAILED)


app = typer.Typer(
    cls=Commands,
    name="tenure",
    help="Run Tenure, look after its stores, and see to the jobs in them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (enqueue, events, top):
    app.command(rich_help_panel=JOBS)(command)
for name, group in (("jobs", jobs), ("queues", queues), ("dead", dead), ("workers", workers), ("tenants", tenants)):
    app.add_typer(group.app, name=name, rich_help_panel=JOBS)
for command in (worker, dev):
    app.command(rich_help_panel=TASKS)(command)
for command in (serve, doctor, bench, token):
    app.command(rich_help_panel=SERVER)(command)
app.add_typer(tokens.app, name="tokens", rich_help_panel=SERVER)
app.add_typer(spark.app, name="spark", rich_help_panel=JOBS)
for command in (backup, backups, restore, verify):
    app.command(rich_help_panel=BACKUPS)(command)


def main() -> None:
    app(prog_name="tenure")
