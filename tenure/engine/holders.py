"""Who holds which key: from texts to the jobs that have them, for tables of millions.

A slot is a number of 8 bytes: 27 bits of a text's hash, its tag, and the id of its job; the text itself is the job's
(`Job.key`). Slots are probed one after the other, so that most look-ups touch one line of the processor's cache, and a
table is parts that grow by themselves, so that no insert stalls. Nothing that is answered depends on the hash.
"""

from typing import Final

from librt.vecs import extend, vec
from mypy_extensions import i64

from tenure.engine.index import Index

SLOTS_MIN: Final = 8
SPLIT_AT: Final = 4_096  # entries of the only part
PARTS: Final = 1024
PART_BITS: Final = 10
PART_MASK: Final = 1023
TAG_MASK: Final = (1 << 27) - 1
ID_BITS: Final = 36
ID_MASK: Final = (1 << 36) - 1  # the highest id that a slot has room for
BLANK: Final = 2048  # slots that are copied at once

_blank: vec[i64] = vec[i64]([0] * BLANK)


def code_of(key: str) -> i64:
    """The hash of a key; never 0, which stands for no key."""
    code: i64 = hash(key)
    return code if code != 0 else 1


def tag_of(code: i64) -> i64:
    """Of the hash, what does not say the part."""
    return (code >> PART_BITS) & TAG_MASK


def _free_slots(count: i64) -> vec[i64]:
    slots: vec[i64] = _blank[: min(count, BLANK)]
    while len(slots) < count:
        slots = extend(slots, _blank)
    return slots


class Part:
    """Open addressing: a slot is the tag above the id, or 0 when it is free."""

    def __init__(self) -> None:
        self.slots: vec[i64] = _free_slots(SLOTS_MIN)
        self.mask: i64 = SLOTS_MIN - 1
        self.size: i64 = 0

    def find(self, tag: i64, after: i64) -> i64:
        """The next slot with this tag behind that one, or from the beginning after -1; -1 when there is none."""
        slots = self.slots
        mask: i64 = self.mask
        at: i64 = tag & mask if after < 0 else (after + 1) & mask
        slot: i64 = slots[at]
        while slot != 0:
            if slot >> ID_BITS == tag:
                return at
            at = (at + 1) & mask
            slot = slots[at]
        return -1

    def id_at(self, at: i64) -> i64:
        return self.slots[at] & ID_MASK

    def slot_of(self, tag: i64, id: i64) -> i64:
        """The slot with this tag and job; -1 when there is none."""
        at: i64 = self.find(tag, -1)
        while at >= 0 and self.id_at(at) != id:
            at = self.find(tag, at)
        return at

    def put(self, tag: i64, id: i64) -> None:
        slots = self.slots
        mask: i64 = self.mask
        at: i64 = tag & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        self._fill(at, tag, id)

    def put_new(self, tag: i64, id: i64) -> bool:
        """Unless a slot has this tag."""
        slots = self.slots
        mask: i64 = self.mask
        at: i64 = tag & mask
        slot: i64 = slots[at]
        while slot != 0:
            if slot >> ID_BITS == tag:
                return False
            at = (at + 1) & mask
            slot = slots[at]
        self._fill(at, tag, id)
        return True

    def _fill(self, at: i64, tag: i64, id: i64) -> None:
        self.slots[at] = (tag << ID_BITS) | id
        self.size += 1
        if self.size * 3 > 2 * (self.mask + 1):
            self._resize(2 * (self.mask + 1))

    def drop(self, at: i64) -> None:
        """Free the slot; those behind it that were pushed on come forward, so that no search ends too early."""
        slots = self.slots
        mask: i64 = self.mask
        next: i64 = (at + 1) & mask
        while slots[next] != 0:
            home: i64 = (slots[next] >> ID_BITS) & mask
            if ((next - home) & mask) >= ((next - at) & mask):
                slots[at] = slots[next]
                at = next
            next = (next + 1) & mask
        slots[at] = 0
        self.size -= 1
        if self.size * 8 < mask + 1 and mask >= SLOTS_MIN:
            self._resize((mask + 1) // 2)

    def _resize(self, count: i64) -> None:
        old = self.slots
        slots: vec[i64] = _free_slots(count)
        mask: i64 = count - 1
        at: i64 = 0
        while at <= self.mask:
            slot: i64 = old[at]
            if slot != 0:
                to: i64 = (slot >> ID_BITS) & mask
                while slots[to] != 0:
                    to = (to + 1) & mask
                slots[to] = slot
            at += 1
        self.slots = slots
        self.mask = mask


class Holders:
    """The keys of one queue and task that jobs in the index have."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._parts: list[Part] = [Part()]
        self._far: dict[str, int] = {}  # keys of jobs whose ids have no room in a slot
        self.size: i64 = 0

    def _part(self, code: i64) -> Part:
        parts = self._parts
        return parts[0] if len(parts) == 1 else parts[code & PART_MASK]

    def find(self, key: str) -> i64:
        """The job that has the key, or 0."""
        code: i64 = code_of(key)
        part = self._part(code)
        at: i64 = part.find(tag_of(code), -1)
        while at >= 0:
            id: i64 = part.id_at(at)
            job = self._index.get(id)
            assert job is not None, "a job that is gone holds a key"
            if job.key == key:
                return id
            at = part.find(tag_of(code), at)
        return self._far.get(key, 0) if self._far else 0

    def put(self, key: str, id: i64) -> None:
        """The key must be nobody's."""
        self.size += 1
        if id > ID_MASK:
            self._far[key] = int(id)
            return
        self.prepare()
        code: i64 = code_of(key)
        self._part(code).put(tag_of(code), id)

    def prepare(self) -> None:
        """Before keys are put by `put_new`: the index has the jobs of all keys that are here."""
        if len(self._parts) == 1 and self._parts[0].size > SPLIT_AT:
            self._split(self._parts[0])

    def put_new(self, code: i64, id: i64) -> bool:
        """Whether the key with this code was nobody's for sure, and is the job's now."""
        if id > ID_MASK or self._far or not self._part(code).put_new(tag_of(code), id):
            return False
        self.size += 1
        return True

    def put_all_new(self, codes: vec[i64], first: i64, end: i64, id: i64) -> i64:
        """As `put_new` of these codes, for jobs from the id on, up to one that is not put; answers its place, or the
        end. Nothing else is done meanwhile, so that the processor waits for several slots at once."""
        if self._far or id + end - first > ID_MASK:
            return first
        parts = self._parts
        is_split = len(parts) > 1
        at: i64 = first
        while at < end:
            code: i64 = codes[at]
            if code != 0:
                part = parts[code & PART_MASK] if is_split else parts[0]
                if not part.put_new(tag_of(code), id):
                    break
                self.size += 1
            id += 1
            at += 1
        return at

    def drop(self, key: str, id: i64) -> None:
        """The job does not have the key any more."""
        self.size -= 1
        if id > ID_MASK:
            del self._far[key]
            return
        code: i64 = code_of(key)
        part = self._part(code)
        at: i64 = part.slot_of(tag_of(code), id)
        assert at >= 0, "the job does not hold this key"
        part.drop(at)

    def has(self, key: str, id: i64) -> bool:
        """Whether the table says that the job has the key; for checking."""
        code: i64 = code_of(key)
        return self._part(code).slot_of(tag_of(code), id) >= 0 or self._far.get(key) == id

    def ids(self) -> list[int]:
        """Of all jobs that have keys; for checking."""
        found: list[int] = list(self._far.values())
        for part in self._parts:
            at: i64 = 0
            while at <= part.mask:
                if part.slots[at] != 0:
                    found.append(int(part.id_at(at)))
                at += 1
        return found

    def _split(self, one: Part) -> None:
        """A slot does not say the part: the texts have to be asked once more."""
        self._parts = [Part() for _ in range(PARTS)]
        at: i64 = 0
        while at <= one.mask:
            if one.slots[at] != 0:
                id: i64 = one.id_at(at)
                job = self._index.peek(id)
                assert job is not None, "a job that is gone holds a key"
                code: i64 = code_of(job.key)
                self._part(code).put(tag_of(code), id)
            at += 1
