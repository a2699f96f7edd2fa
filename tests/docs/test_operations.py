"""docs/operations.md speaks of every command and every option of the command line."""

import typer.core
import typer.main

from tenure.cli.main import app
from tests.docs.page import ROOT

TEXT = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def test_every_command_and_option_is_on_the_page() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert group.commands
    for name, command in group.commands.items():
        assert f"tenure {name} " in TEXT
        for parameter in command.params:
            if isinstance(parameter, typer.core.TyperOption):
                assert f"`{parameter.opts[0]}" in TEXT or f" {parameter.opts[0]} " in TEXT, parameter.opts
