"""Jobs that came in a row and that nobody has looked at yet.

Of a published load all that differs between rows is the payload and the key, and both are in the staged chunk; of a
batch whose jobs ask for nothing of their own it is the payload. So their jobs are not made when they come: the index
knows that they are in a bundle, a stand-in is in line for all of them, and each is made when it is first asked for.
Whoever gets a job from the index or from a line gets a whole one.
"""

from typing import cast

from mypy_extensions import i32, i64, mypyc_attr

from tenure.core.packed import Packed, pack
from tenure.core.request import Batch
from tenure.engine.job import BUNDLED, LINE, Job, Spec


class Bundle:
    def __init__(
        self,
        spec: Spec,
        batch: Batch,
        row: i64,
        first: i64,
        count: i64,
        number: i64,
        at_ms: i64,
        keys_until: i64,
        is_stored: bool,
    ) -> None:
        """Rows of the batch from `row` on, as jobs from the id `first` on, with ready numbers from `number` on. They
        hold their idempotency keys until `keys_until`.
        `is_stored`: that they are there is in the journal, or will be in its next record whatever becomes of them, and
        a job of it is not dirty."""
        self.spec = spec
        self.batch = batch
        self.row: i64 = row
        self.first: i64 = first
        self.count: i64 = count
        self.number: i64 = number
        self.at_ms: i64 = at_ms
        self.keys_until: i64 = keys_until
        self.is_stored: bool = is_stored
        self.left: i64 = count  # to be made

    def last(self) -> i64:
        return self.first + self.count - 1

    def has(self, id: i64) -> bool:
        return self.first <= id < self.first + self.count

    def job(self, id: i64) -> Job:
        """As it came in."""
        step: i64 = id - self.first
        row: i64 = self.row + step
        spec = self.spec
        job = Job(id, spec, self._payload(row), self.at_ms, i32(spec.options.priority), spec.rank)
        job.ready_at = self.at_ms
        job.number = self.number + step
        job.place = LINE
        job.dirty = not self.is_stored
        job.stored = self.is_stored
        keys = self.batch.keys
        if keys is not None and keys[row]:
            job.key = keys[row]
            job.key_until = self.keys_until
        return job

    def pack(self) -> Packed:
        """The payloads of its batch, which are all its own; from now on they rest in one piece."""
        payloads = self.batch.payloads
        if isinstance(payloads, Packed):
            return payloads
        packed = pack(cast("list[bytes]", payloads))
        self.batch.payloads = packed
        return packed

    def rest(self) -> None:
        """Its jobs are made."""
        payloads = self.batch.payloads
        if isinstance(payloads, Packed):
            payloads.rest()

    def _payload(self, row: i64) -> bytes:
        payloads = self.batch.payloads
        if isinstance(payloads, Packed):
            return payloads.entry(row)
        payload: object = cast("list[object]", payloads)[row]
        assert isinstance(payload, bytes)
        return payload


@mypyc_attr(acyclic=True)
class StandIn(Job):
    """In a line, at the place of the last job of its bundle."""

    def __init__(self, bundle: Bundle) -> None:
        spec = bundle.spec
        super().__init__(bundle.last(), spec, b"", bundle.at_ms, i32(spec.options.priority), spec.rank)
        self.number = bundle.number + bundle.count - 1
        self.place = BUNDLED
        self.bundle = bundle
