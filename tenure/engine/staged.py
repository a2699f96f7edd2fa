"""Loads as they are kept: what was staged, and what became of it."""

from mypy_extensions import i64

from tenure.core.blob import Blob
from tenure.core.packed import Packed
from tenure.core.request import Batch
from tenure.engine.alarm import Alarm
from tenure.engine.rows import Rows

Key = tuple[int, str, int]  # part, writing, chunk


class Given:
    """What became of a chunk's rows, in order. Ids and sources are runs: first, count, first, count, ...; those of 0
    say it again and again."""

    def __init__(self) -> None:
        self.ids: list[int] = []  # 0 for a row that was refused
        self.sources: list[int] = []  # what imported rows were called before
        self.duplicates: list[int] = []  # rows, by their place
        self.refused: dict[int, tuple[str, str]] = {}  # place -> code, message
        self.rows: i64 = 0

    def add(self, id: int, source: int) -> None:
        self.rows += 1
        _extend(self.ids, id, 1)
        _extend(self.sources, source, 1)

    def add_run(self, first: int, count: int) -> None:
        """New jobs, one after the other, that were nowhere before."""
        self.rows += count
        _extend(self.ids, first, count)
        _extend(self.sources, 0, count)


class Share:
    """What is staged for a queue, or for all queues of a tenant."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.jobs: i64 = 0
        self.bytes: i64 = 0
        self.held: i64 = 0  # of them, those in memory

    def add(self, content: object) -> None:
        self.jobs += 1
        if isinstance(content, Blob):
            self.bytes += content.size
        elif isinstance(content, bytes):
            self.bytes += len(content)
            self.held += len(content)


def shares_of(batch: Batch) -> list[Share]:
    """By queue. An import has none: it brings what there was, whatever the limits are."""
    if batch.pasts is not None:
        return []
    payloads = batch.payloads
    each = batch.each
    if each is None:
        share = Share(batch.options.queue)
        if isinstance(payloads, Packed):
            share.jobs = payloads.count
            share.bytes = payloads.bytes
            share.held = payloads.bytes
        else:
            for payload in payloads:
                share.add(payload)
        return [share]
    shares: dict[str, Share] = {}
    for at, content in enumerate(payloads):
        queue = each[at].queue
        found = shares.get(queue)
        if found is None:
            found = Share(queue)
            shares[queue] = found
        found.add(content)
    return list(shares.values())


class Staged:
    """A load: what was staged, by part, writing and chunk; after publication, what came of it."""

    def __init__(self, number: i64, tenant: str, load_id: str) -> None:
        self.number: i64 = number
        self.tenant = tenant
        self.load_id = load_id
        self.chunks: dict[Key, Batch] = {}
        self.measured: dict[Key, Rows] = {}  # of chunks that were staged since the store was opened
        self.jobs: i64 = 0
        self.published: bool = False
        self.done: bool = False
        self.is_quoted: bool = False  # jobs of its chunks are in the journal as rows of them
        self.parts: dict[int, str] = {}
        self.digest = ""  # what the publication said of its rows, if it did
        self.rows: i64 = 0
        self.new: i64 = 0
        self.duplicates: i64 = 0
        self.refused: i64 = 0
        self.alarm: Alarm | None = None
        self.given: dict[Key, Given] = {}
        self.ids: dict[int, int] = {}  # of an import that is being let in: old id -> new id
        self.kept: dict[Key, list[Share]] = {}  # room for chunks that are not let in yet; none for those of an import

    def rows_of(self, key: Key) -> Rows:
        measured = self.measured.get(key)
        if measured is None:
            measured = Rows(self.chunks[key]).measure()
            self.measured[key] = measured
        return measured

    def given_of(self, key: Key) -> Given:
        given = self.given.get(key)
        if given is None:
            given = Given()
            self.given[key] = given
        return given


def _extend(runs: list[int], first: int, count: int) -> None:
    if runs and (runs[-2] + runs[-1] == first if first and runs[-2] else runs[-2] == first):
        runs[-1] += count
    else:
        runs.append(first)
        runs.append(count)


def numbers(runs: list[int]) -> list[int]:
    """The runs written out."""
    found: list[int] = []
    for at in range(0, len(runs), 2):
        first = runs[at]
        count = runs[at + 1]
        found.extend(range(first, first + count) if first else [0] * count)
    return found
