"""The pages are true: their code runs, their links lead somewhere, the targets and files they name exist.

A block that begins with ```python is run as it stands. One that is only a fragment says so: ```python no-run. Those of
the tutorial are files, with names: tests/docs/test_tutorial.py.
"""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.docs.page import CODE, ROOT, Block, Line, anchors, cells, name_of, pages, prose_of, read, split

README: Final = ROOT / "README.md"
LINEAGE: Final = ROOT / "docs" / "lineage.md"

LINK: Final = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:")
TARGET: Final = re.compile(r"\bmake ([a-z][a-z-]*)")
RULE: Final = re.compile(r"^([a-z][a-z-]*):(?:.*?## (.*))?", re.MULTILINE)
MARK: Final = re.compile(r"python (?:title|add)=[\w.]+")
FILE: Final = re.compile(r"((?:bench|docs|examples|requirements|tenure|tests)/[\w./-]*)(?:::[\w:]+)?")


def python_blocks() -> list[Block]:
    return [block for page in pages() for block in read(page)[1] if block.info[:1] == ("python",)]


def runnable_blocks() -> list[Block]:
    return [block for block in python_blocks() if block.info == ("python",)]


def run_block(block: Block) -> None:
    # The empty lines in front make a traceback name the line of the page.
    source = "\n" * (block.line - 1) + block.text
    exec(compile(source, block.page, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", runnable_blocks(), ids=str)
def test_code_block_runs_as_written(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_block(block)


@pytest.mark.parametrize("block", [block for block in runnable_blocks() if block.page == "README.md"], ids=str)
def test_example_of_the_readme_says_what_it_prints(
    block: Block, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_block(block)
    said = re.findall(r"print\(.*# (.*)$", block.text, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == said


def test_fragment_is_marked_in_the_one_way() -> None:
    others = [block for block in python_blocks() if block.info not in (("python",), ("python", "no-run"))]
    assert {block.page for block in others} == {"docs/tutorial.md"}
    assert [str(block) for block in others if not MARK.fullmatch(" ".join(block.info))] == []


# Make.


def targets_of_makefile() -> dict[str, str]:
    """Each target, and what `make help` says of it."""
    return {found[1]: found[2] or "" for found in RULE.finditer((ROOT / "Makefile").read_text(encoding="utf-8"))}


def targets_named(page: Path) -> set[str]:
    prose, blocks = read(page)
    code = [found for line in prose for found in CODE.findall(line.text)]
    return {found for text in (*code, *(block.text for block in blocks)) for found in TARGET.findall(text)}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_named_target_is_in_the_makefile(page: Path) -> None:
    assert targets_named(page) - targets_of_makefile().keys() == set()


def test_readme_names_every_target() -> None:
    listed = {target for target, meaning in targets_of_makefile().items() if meaning}
    assert listed - targets_named(README) == set()


def test_readme_says_whether_the_simulation_is_there() -> None:
    [row] = [line.text for line in prose_of(README) if cells(line.text)[:1] == ["`make simulate`"]]
    assert ("planned" in row) != (ROOT / "tests" / "simulation" / "__main__.py").exists()


# Links.


def broken_links(page: Path, lines: list[Line]) -> list[str]:
    found: list[str] = []
    for line in lines:
        for link in LINK.findall(CODE.sub("", line.text)):
            if ELSEWHERE.match(link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            own = anchors(lines if target == page else prose_of(target)) if anchor and target.is_file() else {anchor}
            if not target.exists() or anchor not in own:
                found.append(f"{name_of(page)}:{line.number}: {link}")
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page, prose_of(page)) == []


# Files.


def missing_files(page: str, lines: list[Line], excuse: str) -> list[str]:
    """Files and folders named in backticks that do not exist, unless the line has the excuse."""
    return [
        f"{page}:{line.number}: {code}"
        for line in lines
        for code in CODE.findall(line.text)
        if (found := FILE.fullmatch(code)) and not (ROOT / found[1]).exists() and not (excuse and excuse in line.text)
    ]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_named_file_exists(page: Path) -> None:
    assert missing_files(name_of(page), prose_of(page), "planned" if page == LINEAGE else "") == []


# The tests above see what they are to see.


def test_block_without_a_mark_is_found_with_its_line() -> None:
    prose, blocks = split("page", "a\n```python\nx = 1\n```\n```python no-run\ny\n```\nb\n")
    assert [(block.line, block.info, block.text) for block in blocks] == [
        (3, ("python",), "x = 1\n"),
        (6, ("python", "no-run"), "y\n"),
    ]
    assert [line.text for line in prose] == ["a", "b"]


def test_broken_block_fails() -> None:
    with pytest.raises(ZeroDivisionError):
        run_block(Block("page", 3, ("python",), "1 / 0\n"))


def test_missing_file_and_broken_link_are_found() -> None:
    prose, _ = split(
        "page", "# A b\n`tenure/nowhere.py` `tenure/core/` `tests/none/` planned\n[x](no.md) [y](#a-b) [z](#c)\n"
    )
    assert missing_files("page", prose, "") == ["page:2: tenure/nowhere.py", "page:2: tests/none/"]
    assert missing_files("page", prose, "planned") == []
    assert broken_links(README, prose) == ["README.md:3: no.md", "README.md:3: #c"]
