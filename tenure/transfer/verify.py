"""Reads both stores again and names every job, field and setting in which the copy is not what it should be."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

import msgspec

from tenure.client.client import Client
from tenure.transfer.difference import (
    DIFFERENT,
    EXTRA,
    MISSING,
    REFUSED,
    Difference,
    Tally,
    View,
    compare_rows,
    shown,
)
from tenure.transfer.ids import Ids
from tenure.transfer.read import read_jobs
from tenure.transfer.row import Row
from tenure.transfer.settings import Differing
from tenure.transfer.since import Since

NAMED_MAX: Final = 1_000  # that an answer holds; whoever wants all of them is told one by one
GAP_MAX: Final = 1_000  # ids of other jobs that are read over, rather than asking once more

Pages = AsyncIterator[tuple[int, list[Row]]]
Told = Callable[[Difference], None]


class Counted(msgspec.Struct, frozen=True):
    """A queue on both sides. The hashes are of everything that a job keeps wherever it is."""

    tenant: str
    queue: str
    source_rows: int
    target_rows: int
    source_hash: str
    target_hash: str

    @property
    def is_same(self) -> bool:
        return (self.source_rows, self.source_hash) == (self.target_rows, self.target_hash)


class Verified(msgspec.Struct, frozen=True):
    rows: int
    differences: int
    queues: list[Counted]
    expected: dict[str, int]  # name of a rule -> fields that it explains
    named: list[Difference]  # the first of them
    settings: list[Differing]

    @property
    def is_same(self) -> bool:
        return not self.differences and not self.settings and all(queue.is_same for queue in self.queues)


class Verifier:
    """Takes in pages of the one store and looks their jobs up in the other."""

    def __init__(
        self,
        target: Client,
        ids: Ids,
        view: View,
        bound: int,
        since: Since,
        tell: Told | None = None,
    ) -> None:
        """`bound` is the id up to which the copy read."""
        self._target = target
        self._ids = ids
        self._view = view
        self._bound = bound
        self._since = since
        self._tell = tell
        self._sources: dict[tuple[str, str], Tally] = {}
        self._targets: dict[tuple[str, str], Tally] = {}
        self._expected: Counter[str] = Counter()
        self._named: list[Difference] = []
        self._differences = 0
        self._rows = 0

    async def run(self, pages: Pages) -> None:
        copied: Iterator[tuple[int, int]] = iter(self._ids)
        waiting = next(copied, None)
        async for upto, rows in pages:
            there = {row["id"]: row for row in rows}
            gone: list[tuple[int, int]] = []
            while waiting is not None and waiting[0] <= upto:
                if waiting[0] not in there:
                    gone.append(waiting)
                waiting = next(copied, None)
            await self._page(rows)
            await self._gone(gone)
        rest = [] if waiting is None else [waiting, *copied]
        await self._gone(rest)

    async def _page(self, rows: list[Row]) -> None:
        found = await self._find([self._ids.get(row["id"]) for row in rows])
        for row in rows:
            self._rows += 1
            target = self._ids.get(row["id"])
            if not target:
                self._name_absent(row)
                continue
            key = (self._view.tenant or row["tenant"], row["queue"])
            self._sources.setdefault(key, Tally()).add(row)
            other = found.get(target)
            if other is None:
                note = "it had ended: retention may have taken it" if row["ended_at"] else ""
                self._name(MISSING, row, target, note=note)
            else:
                self._targets.setdefault((other["tenant"], other["queue"]), Tally()).add(other)
                self._compare(row, other)

    def _name_absent(self, row: Row) -> None:
        refusal = self._ids.refused.get(row["id"])
        if refusal is not None:
            self._name(REFUSED, row, 0, note=refusal)
        else:
            note = "it came after the copy had read the store" if row["id"] > self._bound else ""
            self._name(MISSING, row, 0, note=note)

    def _compare(self, row: Row, other: Row) -> None:
        for field, rule in compare_rows(row, other, self._view):
            if rule:
                self._expected[rule] += 1
            else:
                note = self._since.explain(row["id"], other["id"], row["id"] in self._ids.duplicates)
                self._name(DIFFERENT, row, other["id"], field, row[field], other[field], note)

    async def _gone(self, pairs: list[tuple[int, int]]) -> None:
        """Copied, and not in the source any more; the copy may have gone as well."""
        found = await self._find([target for _, target in pairs])
        for source, target in pairs:
            row = found.get(target)
            if row is not None:
                said = {**row, "id": source}
                self._name(EXTRA, said, target, note="it is not in the old store any more")

    async def _find(self, ids: list[int]) -> dict[int, Row]:
        """Those that are there. Ids of one page are mostly in a row, and are read as that."""
        found: dict[int, Row] = {}
        wanted = {id for id in ids if id}
        for first, last in spans_of(sorted(wanted)):
            async for _, rows in read_jobs(self._target, first - 1, last):
                found.update((row["id"], row) for row in rows if row["id"] in wanted)
        return found

    def _name(
        self,
        kind: str,
        row: Row,
        target: int,
        field: str = "",
        expected: object = None,
        found: object = None,
        note: str = "",
    ) -> None:
        self._differences += 1
        named = Difference(
            kind, row["tenant"], row["queue"], row["id"], target, field, shown(expected), shown(found), note
        )
        if len(self._named) < NAMED_MAX:
            self._named.append(named)
        if self._tell is not None:
            self._tell(named)

    def verified(self, settings: list[Differing]) -> Verified:
        none = Tally()
        queues = [
            Counted(*key, source.rows, target.rows, source.hash, target.hash)
            for key in sorted({*self._sources, *self._targets})
            for source, target in [(self._sources.get(key, none), self._targets.get(key, none))]
        ]
        return Verified(self._rows, self._differences, queues, dict(self._expected), self._named, settings)


def spans_of(ids: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of ids that lie close together; they rise."""
    at = 0
    while at < len(ids):
        end = at
        while end + 1 < len(ids) and ids[end + 1] - ids[end] <= GAP_MAX:
            end += 1
        yield ids[at], ids[end]
        at = end + 1
