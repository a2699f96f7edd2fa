"""docs/operations.md and docs/cli.md speak of every command and every option of the command line."""

import re
from collections.abc import Iterator

import typer.core
import typer.main

from tenure.cli.main import app
from tests.docs.page import ROOT

PAGES = [ROOT / "docs" / name for name in ("operations.md", "cli.md")]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def commands(group: typer.core.TyperGroup, path: str) -> Iterator[tuple[str, typer.core.TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, f"{path} {name}")
        else:
            assert isinstance(command, typer.core.TyperCommand)
            yield f"{path} {name}", command


def test_every_command_and_option_is_on_a_page() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    found = list(commands(group, "tenure"))
    assert found
    for name, command in found:
        assert re.search(rf"{name}[ `\n]", TEXT), name
        for parameter in command.params:
            if isinstance(parameter, typer.core.TyperOption):
                for option in parameter.opts:
                    assert re.search(rf"[` ]{option}[ `,;]", TEXT), (name, option)
