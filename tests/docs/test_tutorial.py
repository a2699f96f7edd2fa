"""The tutorial works: its files are written, its commands typed, and they print what it says."""

from pathlib import Path

import pytest

from tests.docs.page import ROOT, Block, read
from tests.docs.terminal import Terminal, commands_of

TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.mark.slow
def test_tutorial_works_from_the_first_line_to_the_last(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        for block in read(TUTORIAL)[1]:
            terminal.follow(block)
    finally:
        terminal.leave()
    written = {block.info[1].partition("=")[2] for block in read(TUTORIAL)[1] if block.info[0] == "python"}
    assert {name for name in written if not any(name in command.split() for command in terminal.commands)} == {
        "shop.py"
    }


def test_output_that_differs_is_noticed(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    terminal.follow(Block("page", 1, ("python", "title=say.py"), "print('one')\n"))
    terminal.follow(Block("page", 1, ("python", "add=say.py"), "print('two')\n"))
    terminal.follow(Block("page", 1, ("console",), "$ python say.py\none\ntwo\n"))
    with pytest.raises(AssertionError, match="page:9"):
        terminal.follow(Block("page", 9, ("console",), "$ python say.py\none\n"))
    with pytest.raises(AssertionError, match="what does 'rm -r"):
        terminal.type("rm -r x")


def test_commands_have_what_they_print() -> None:
    block = Block("page", 1, ("console",), "$ a\n$ b c\none\ntwo\n")
    assert commands_of(block) == [("a", []), ("b c", ["one", "two"])]
