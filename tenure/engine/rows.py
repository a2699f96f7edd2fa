"""The jobs of a batch, whatever they came in: a list, a column in one piece, or a chunk of a load."""

from typing import Final, cast

from librt.vecs import append, vec
from mypy_extensions import i64

from tenure.core.blob import Blob
from tenure.core.packed import Packed, Texts
from tenure.core.request import Batch
from tenure.engine.holders import code_of

NO_PAYLOADS: Final[list[object]] = []  # never appended to
NOT_HERE: Final = 1 << 60  # bytes: more than any payload has


class Rows:
    """Payload, size and key of each job, by its place."""

    def __init__(self, batch: Batch) -> None:
        payloads = batch.payloads
        self.batch = batch
        self.count: i64 = len(payloads)
        self.bytes: i64 = 0  # of all payloads that are here and not in the blob store
        self._longest: i64 = 0  # NOT_HERE when one is not here
        self._measured: Measured | None = None
        if isinstance(payloads, Packed):
            self._packed: Packed | None = payloads
            self._payloads: list[object] = NO_PAYLOADS
            self.bytes = payloads.bytes
            self._longest = payloads.longest
        else:
            self._packed = None
            self._payloads = cast("list[object]", payloads)
            self._weigh(self._payloads)

    def _weigh(self, payloads: list[object]) -> None:
        total: i64 = 0
        longest: i64 = 0
        for payload in payloads:
            if isinstance(payload, bytes):
                size: i64 = len(payload)
                total += size
                if size > longest:
                    longest = size
            else:
                longest = NOT_HERE
        self.bytes = total
        self._longest = longest

    def measure(self) -> "Rows":
        """Take now what admitting a row asks of it, while the rows are at hand. Rows of a staged chunk may be admitted
        much later: to fetch each of them from memory again would take longer than all the rest."""
        self._measured = Measured(self.batch)
        return self

    def payload(self, at: i64) -> object:
        packed = self._packed
        return self._payloads[at] if packed is None else packed.entry(at)

    def size(self, at: i64) -> i64:
        """Of the payload; NOT_HERE when it is not."""
        packed = self._packed
        if packed is not None:
            return packed.size(at)
        measured = self._measured
        return _size_of(self._payloads[at]) if measured is None else measured.sizes[at]

    def codes(self) -> vec[i64]:
        """Of the keys, 0 for a row that has none."""
        measured = self._measured
        return _codes_of(self.batch) if measured is None else measured.codes

    def fitting(self, first: i64, end: i64, most: i64) -> i64:
        """The first row whose payload is not here, or has more than so many bytes; else the end."""
        if self._longest <= most:
            return end
        at: i64 = first
        while at < end and self.size(at) <= most:
            at += 1
        return at

    def part(self, first: i64, count: i64) -> Batch:
        """Some rows by themselves, without keys. Their payloads are gone from memory with their jobs, whatever becomes
        of the other rows."""
        packed = self._packed
        if packed is None:
            return Batch(self.batch.options, cast("list[bytes | Blob]", self._payloads[first : first + count]))
        return Batch(self.batch.options, packed if count == packed.count else packed.part(first, count))

    def rest(self) -> None:
        """Nobody will look at them soon."""
        if self._packed is not None:
            self._packed.rest()


class Measured:
    """The numbers of all rows."""

    def __init__(self, batch: Batch) -> None:
        self.sizes: vec[i64] = _sizes_of(batch)  # none where payloads are packed, and know their sizes
        self.codes: vec[i64] = _codes_of(batch)


def _size_of(payload: object) -> i64:
    return len(payload) if isinstance(payload, bytes) else NOT_HERE


def _sizes_of(batch: Batch) -> vec[i64]:
    if isinstance(batch.payloads, Packed):
        return vec[i64]()
    payloads: list[object] = cast("list[object]", batch.payloads)
    sizes: vec[i64] = vec[i64](capacity=len(payloads))
    for payload in payloads:
        sizes = append(sizes, _size_of(payload))
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
