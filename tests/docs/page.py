"""The pages of the documentation, as the tests of it read them: prose, code blocks, table rows, headings, links."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

FENCE: Final = re.compile(r"^ {0,3}(`{3,})(.*)$")
HEADING: Final = re.compile(r"^#{1,6} +(.*?) *#*$")
CODE: Final = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its page, the line of its first code line, the words after the fence, its text."""

    page: str
    line: int
    info: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    text: str


def pages() -> list[Path]:
    """Every page of the repository, below the root and below docs."""
    return sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def split(page: str, text: str) -> tuple[list[Line], list[Block]]:
    """The prose, line by line, and the fenced blocks."""
    prose: list[Line] = []
    blocks: list[Block] = []
    fence = ""
    info: tuple[str, ...] = ()
    code: list[str] = []
    first = 0
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                blocks.append(Block(page, first, info, "\n".join(code) + "\n"))
                fence = ""
            else:
                code.append(line)
        elif found:
            fence, info, code, first = found[1], tuple(found[2].split()), [], number + 1
        else:
            prose.append(Line(number, line))
    assert not fence, f"{page}:{first}: the block is not closed"
    return prose, blocks


def read(page: Path) -> tuple[list[Line], list[Block]]:
    return split(name_of(page), page.read_text(encoding="utf-8"))


def prose_of(page: Path) -> list[Line]:
    return read(page)[0]


def cells(line: str) -> list[str]:
    """The cells of a table's row; none for any other line."""
    stripped = line.strip()
    if not stripped.startswith("|"):
        return []
    return [cell.strip() for cell in stripped.strip("|").split("|")]


def rows(lines: list[Line], first_cell: re.Pattern[str]) -> list[list[str]]:
    """The rows whose first cell is all of the pattern."""
    found = (cells(line.text) for line in lines)
    return [row for row in found if row and first_cell.fullmatch(row[0])]


def section(lines: list[Line], heading: str) -> list[Line]:
    """The lines under a heading of the second level, up to the next one."""
    starts = [at for at, line in enumerate(lines) if line.text == f"## {heading}"]
    assert len(starts) == 1, f"there are {len(starts)} sections {heading!r}"
    rest = lines[starts[0] + 1 :]
    ends = [at for at, line in enumerate(rest) if line.text.startswith("## ")]
    return rest[: ends[0]] if ends else rest


def anchors(lines: list[Line]) -> set[str]:
    """The names under which a page's headings can be linked, as GitHub makes them."""
    found: set[str] = set()
    for line in lines:
        heading = HEADING.match(line.text)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            name, again = words, 0
            while name in found:
                again += 1
                name = f"{words}-{again}"
            found.add(name)
    return found
