"""Loads as they are kept: what was staged, and what became of it."""

from typing import cast

from librt.vecs import append, vec
from mypy_extensions import i64

from tenure.core.blob import Blob
from tenure.core.packed import Packed, Texts
from tenure.core.request import Batch
from tenure.engine.alarm import Alarm
from tenure.engine.holders import code_of

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


class Measured:
    """What letting rows of a chunk in asks of each of them. It is taken when the chunk is staged, and its rows are at
    hand: to fetch each of them from memory again takes longer than all the rest."""

    def __init__(self, batch: Batch) -> None:
        payloads = batch.payloads
        self._packed: Packed | None = payloads if isinstance(payloads, Packed) else None
        self._sizes: vec[i64] = _sizes_of(batch)  # -1 when the payload is not here; none when they are packed
        self.codes: vec[i64] = _codes_of(batch)  # of the key, 0 when there is none; no codes when no row has one

    def size(self, at: i64) -> i64:
        """Of the payload in that row; -1 when it is not here."""
        packed = self._packed
        return self._sizes[at] if packed is None else packed.size(at)

    def fitting(self, first: i64, end: i64, most: i64) -> i64:
        """The first row whose payload is not here, or has more than so many bytes; else the end."""
        packed = self._packed
        if packed is not None and packed.longest <= most:
            return end
        at: i64 = first
        while at < end and 0 <= self.size(at) <= most:
            at += 1
        return at


def _sizes_of(batch: Batch) -> vec[i64]:
    if isinstance(batch.payloads, Packed):
        return vec[i64]()
    payloads: list[object] = cast("list[object]", batch.payloads)
    sizes: vec[i64] = vec[i64](capacity=len(payloads))
    for payload in payloads:
        sizes = append(sizes, i64(len(payload)) if isinstance(payload, bytes) else i64(-1))
    return sizes


def _codes_of(batch: Batch) -> vec[i64]:
    keys = batch.keys
    codes: vec[i64] = vec[i64](capacity=0 if keys is None else len(keys))
    if isinstance(keys, Texts):
        packed = keys.packed
        at: i64 = 0
        while at < packed.count:
            codes = append(codes, code_of(packed.entry(at).decode()) if packed.size(at) else i64(0))
            at += 1
        return codes
    for key in keys or ():
        codes = append(codes, code_of(key) if key else i64(0))
    return codes


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
        self.measured: dict[Key, Measured] = {}  # of chunks that were staged since the store was opened
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

    def measure(self, key: Key) -> Measured:
        measured = self.measured.get(key)
        if measured is None:
            measured = Measured(self.chunks[key])
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
