"""Who holds which key: from texts to the jobs that have them, for tables of millions.

A slot has a text's hash and the id of its job, 16 bytes; the text itself is the job's (`Job.key`). Slots are probed one
after the other, so that most look-ups touch one line of the processor's cache, and a table is parts that grow by
themselves, so that no insert stalls. Nothing that is answered depends on the hash.
"""

from typing import Final

from librt.vecs import extend, vec
from mypy_extensions import i64

from tenure.engine.index import Index

SLOTS_MIN: Final = 8
SPLIT_AT: Final = 16_384  # entries of the only part
PARTS: Final = 1024
PART_BITS: Final = 10
PART_MASK: Final = 1023
BLANK: Final = 2048  # numbers that are copied at once

_blank: vec[i64] = vec[i64]([0] * BLANK)


def code_of(key: str) -> i64:
    """The hash of a key; never 0, which stands for no key."""
    code: i64 = hash(key)
    return code if code != 0 else 1


def _free_slots(count: i64) -> vec[i64]:
    slots: vec[i64] = _blank[: min(2 * count, BLANK)]
    while len(slots) < 2 * count:
        slots = extend(slots, _blank)
    return slots


class Part:
    """Open addressing: slot n is the hash at 2n and the id at 2n + 1, which is 0 when the slot is free."""

    def __init__(self) -> None:
        self.slots: vec[i64] = _free_slots(SLOTS_MIN)
        self.mask: i64 = SLOTS_MIN - 1
        self.size: i64 = 0

    def find(self, code: i64, after: i64) -> i64:
        """The next slot with this hash behind that one, or from the beginning after -1; -1 when there is none."""
        slots = self.slots
        mask: i64 = self.mask
        at: i64 = (code >> PART_BITS) & mask if after < 0 else (after + 1) & mask
        while slots[2 * at + 1] != 0:
            if slots[2 * at] == code:
                return at
            at = (at + 1) & mask
        return -1

    def slot_of(self, code: i64, id: i64) -> i64:
        """The slot with this hash and job; -1 when there is none."""
        at: i64 = self.find(code, -1)
        while at >= 0 and self.slots[2 * at + 1] != id:
            at = self.find(code, at)
        return at

    def put(self, code: i64, id: i64) -> None:
        self.size += 1
        if self.size * 3 > 2 * (self.mask + 1):
            self._resize(2 * (self.mask + 1))
        self._place(code, id)

    def put_new(self, code: i64, id: i64) -> bool:
        """Unless a slot has this hash."""
        slots = self.slots
        mask: i64 = self.mask
        at: i64 = (code >> PART_BITS) & mask
        while slots[2 * at + 1] != 0:
            if slots[2 * at] == code:
                return False
            at = (at + 1) & mask
        if (self.size + 1) * 3 > 2 * (mask + 1):
            self.put(code, id)
        else:
            self.size += 1
            slots[2 * at] = code
            slots[2 * at + 1] = id
        return True

    def _place(self, code: i64, id: i64) -> None:
        slots = self.slots
        mask: i64 = self.mask
        at: i64 = (code >> PART_BITS) & mask
        while slots[2 * at + 1] != 0:
            at = (at + 1) & mask
        slots[2 * at] = code
        slots[2 * at + 1] = id

    def drop(self, at: i64) -> None:
        """Free the slot; those behind it that were pushed on come forward, so that no search ends too early."""
        slots = self.slots
        mask: i64 = self.mask
        next: i64 = (at + 1) & mask
        while slots[2 * next + 1] != 0:
            home: i64 = (slots[2 * next] >> PART_BITS) & mask
            if ((next - home) & mask) >= ((next - at) & mask):
                slots[2 * at] = slots[2 * next]
                slots[2 * at + 1] = slots[2 * next + 1]
                at = next
            next = (next + 1) & mask
        slots[2 * at + 1] = 0
        self.size -= 1
        if self.size * 8 < mask + 1 and mask >= SLOTS_MIN:
            self._resize((mask + 1) // 2)

    def _resize(self, count: i64) -> None:
        old = self.slots
        slots: i64 = self.mask + 1
        self.slots = _free_slots(count)
        self.mask = count - 1
        at: i64 = 0
        while at < slots:
            if old[2 * at + 1] != 0:
                self._place(old[2 * at], old[2 * at + 1])
            at += 1


class Holders:
    """The keys of one queue and task that jobs in the index have."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._parts: list[Part] = [Part()]
        self.size: i64 = 0

    def _part(self, code: i64) -> Part:
        parts = self._parts
        return parts[0] if len(parts) == 1 else parts[code & PART_MASK]

    def find(self, key: str) -> i64:
        """The job that has the key, or 0."""
        code: i64 = code_of(key)
        part = self._part(code)
        at: i64 = part.find(code, -1)
        while at >= 0:
            id: i64 = part.slots[2 * at + 1]
            job = self._index.get(id)
            assert job is not None, "a job that is gone holds a key"
            if job.key == key:
                return id
            at = part.find(code, at)
        return 0

    def put(self, key: str, id: i64) -> None:
        """The key must be nobody's."""
        code: i64 = code_of(key)
        self._part(code).put(code, id)
        self._count()

    def put_new(self, code: i64, id: i64) -> bool:
        """Whether the key with this code was nobody's for sure, and is the job's now."""
        if not self._part(code).put_new(code, id):
            return False
        self._count()
        return True

    def _count(self) -> None:
        self.size += 1
        if self.size > SPLIT_AT and len(self._parts) == 1:
            self._split(self._parts[0])

    def drop(self, key: str, id: i64) -> None:
        """The job does not have the key any more."""
        code: i64 = code_of(key)
        part = self._part(code)
        at: i64 = part.slot_of(code, id)
        assert at >= 0, "the job does not hold this key"
        part.drop(at)
        self.size -= 1

    def has(self, key: str, id: i64) -> bool:
        """Whether the table says that the job has the key; for checking."""
        code: i64 = code_of(key)
        return self._part(code).slot_of(code, id) >= 0

    def ids(self) -> list[int]:
        """Of all jobs that have keys; for checking."""
        found: list[int] = []
        for part in self._parts:
            at: i64 = 0
            while at <= part.mask:
                if part.slots[2 * at + 1] != 0:
                    found.append(int(part.slots[2 * at + 1]))
                at += 1
        return found

    def _split(self, one: Part) -> None:
        self._parts = [Part() for _ in range(PARTS)]
        at: i64 = 0
        while at <= one.mask:
            if one.slots[2 * at + 1] != 0:
                code: i64 = one.slots[2 * at]
                self._part(code).put(code, one.slots[2 * at + 1])
            at += 1
