"""Loads as they are kept: what was staged, and what became of it."""

from mypy_extensions import i64

from tenure.core.request import Batch
from tenure.engine.alarm import Alarm

Key = tuple[int, str, int]  # part, writing, chunk


class Given:
    """What became of a chunk's rows, in order. Ids and sources are runs: first, count, first, count, ..."""

    def __init__(self) -> None:
        self.ids: list[int] = []  # 0 for a row that was refused
        self.sources: list[int] = []  # what imported rows were called before
        self.duplicates: list[int] = []  # rows, by their place
        self.refused: dict[int, tuple[str, str]] = {}  # place -> code, message
        self.rows: i64 = 0

    def add(self, id: int, source: int) -> None:
        self.rows += 1
        _extend(self.ids, id)
        _extend(self.sources, source)


class Staged:
    """A load: what was staged, by part, writing and chunk; after publication, what came of it."""

    def __init__(self, number: i64, tenant: str, load_id: str) -> None:
        self.number: i64 = number
        self.tenant = tenant
        self.load_id = load_id
        self.chunks: dict[Key, Batch] = {}
        self.jobs: i64 = 0
        self.published: bool = False
        self.done: bool = False
        self.parts: dict[int, str] = {}
        self.rows: i64 = 0
        self.new: i64 = 0
        self.duplicates: i64 = 0
        self.refused: i64 = 0
        self.alarm: Alarm | None = None
        self.given: dict[Key, Given] = {}
        self.ids: dict[int, int] = {}  # of an import that is being let in: old id -> new id


def _extend(runs: list[int], number: int) -> None:
    if runs and number and runs[-2] + runs[-1] == number:
        runs[-1] += 1
    else:
        runs.append(number)
        runs.append(1)


def numbers(runs: list[int]) -> list[int]:
    """The runs written out."""
    found: list[int] = []
    for at in range(0, len(runs), 2):
        found.extend(range(runs[at], runs[at] + runs[at + 1]))
    return found
