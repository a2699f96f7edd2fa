"""The command line: `tenure COMMAND`. Each command has a file of its own; this one puts them together."""

import os
import sys

import typer

from tenure.cli.backup import backup
from tenure.cli.backups import backups
from tenure.cli.restore import restore
from tenure.cli.screen import show_error
from tenure.cli.serve import serve, token
from tenure.cli.verify import verify
from tenure.core.error import Error, InvalidRequest

FAILED = 1
MISUSED = 2

app = typer.Typer(
    name="tenure",
    help="Run Tenure and look after its stores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (serve, token, backup, backups, restore, verify):
    app.command()(command)


def main() -> None:
    """Exits with 0 when all is well, 1 when it is not, 2 when it was called wrongly."""
    try:
        app(prog_name="tenure")
    except InvalidRequest as error:
        show_error(str(error))
        sys.exit(MISUSED)
    except Error as error:
        show_error(str(error))
        sys.exit(FAILED)
    except Exception as error:
        if os.environ.get("TENURE_TRACEBACK"):
            raise
        show_error(f"unexpected {type(error).__name__}: {error}; set TENURE_TRACEBACK=1 to see where, and report it")
        sys.exit(FAILED)
