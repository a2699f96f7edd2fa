"""What jobs are called in the store they came to. Two numbers a job, in rising order of the old ones."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from tenure.core.record import LoadedRow


class Ids:
    def __init__(self) -> None:
        self._sources = array("q")
        self._targets = array("q")
        self._is_sorted = True
        self.duplicates: set[int] = set()  # old ids of jobs that met another by their keys
        self.refused: dict[int, str] = {}  # old id -> why

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self._sort()
        return zip(self._sources, self._targets, strict=True)

    def add(self, rows: Iterable[LoadedRow]) -> int:
        count = 0
        for row in rows:
            count += 1
            if not row.id:
                self.refused[row.source] = f"{row.code}: {row.message}" if row.code else row.message
                continue
            if self._sources and row.source < self._sources[-1]:
                self._is_sorted = False
            self._sources.append(row.source)
            self._targets.append(row.id)
            if row.duplicate:
                self.duplicates.add(row.source)
        return count

    def get(self, source: int) -> int:
        """0 when there is none."""
        self._sort()
        at = bisect_left(self._sources, source)
        return self._targets[at] if at < len(self._sources) and self._sources[at] == source else 0

    @property
    def targets(self) -> tuple[int, int]:
        """The lowest and the highest of the new ids."""
        return (min(self._targets), max(self._targets)) if self._targets else (0, 0)

    @property
    def last(self) -> int:
        self._sort()
        return self._sources[-1] if self._sources else 0

    def _sort(self) -> None:
        """Loads of several tenants come one after the other; each is in order."""
        if self._is_sorted:
            return
        pairs = sorted(zip(self._sources, self._targets, strict=True))
        self._sources = array("q", (source for source, _ in pairs))
        self._targets = array("q", (target for _, target in pairs))
        self._is_sorted = True


class Known:
    """The ids that were read so far, which rise."""

    def __init__(self) -> None:
        self._ids = array("q")

    def add(self, id: int) -> None:
        self._ids.append(id)

    def __contains__(self, id: int) -> bool:
        at = bisect_left(self._ids, id)
        return at < len(self._ids) and self._ids[at] == id
