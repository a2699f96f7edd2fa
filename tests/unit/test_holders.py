"""Tables of keys against plain dicts, through growth, splits, removals and texts whose hashes are equal."""

import random

import pytest
from librt.vecs import vec
from mypy_extensions import i64

from tenure.core.job import Options
from tenure.engine.holders import ID_MASK, SPLIT_AT, Holders, Part, code_of, tag_of
from tenure.engine.index import Index
from tenure.engine.job import Job, Spec


class Keyed:
    """An index with a job for each key, a table, and the dict that says what must be in it."""

    def __init__(self) -> None:
        self.index = Index()
        self.holders = Holders(self.index)
        self.known: dict[str, int] = {}
        self._spec = Spec(Options(), 0, "acme", 0)
        self._last = 0

    def job(self, key: str) -> int:
        self._last += 1
        job = Job(self._last, self._spec, b"", 0, 0, 0)
        job.key = key
        self.index.add(job)
        return self._last

    def put(self, key: str) -> None:
        id = self.job(key)
        self.holders.prepare()
        if self.holders.put_new(code_of(key), id):
            assert key not in self.known
        elif key not in self.known:  # another has the same tag
            assert self.holders.find(key) == 0
            self.holders.put(key, id)
        self.known.setdefault(key, id)

    def drop(self, key: str) -> None:
        self.holders.drop(key, self.known.pop(key))

    def agrees(self, keys: list[str]) -> bool:
        return (
            all(self.holders.find(key) == self.known.get(key, 0) for key in keys)
            and self.holders.size == len(self.known)
            and sorted(self.holders.ids()) == sorted(self.known.values())
        )


def test_table_says_what_a_dict_says_through_growth_and_removals() -> None:
    chance = random.Random(5)
    keyed = Keyed()
    keys = [f"order-{number}" for number in range(400)]
    for step in range(4_000):
        key = chance.choice(keys)
        if key in keyed.known and chance.random() < 0.6:
            keyed.drop(key)
        else:
            keyed.put(key)
        if step % 400 == 0:
            assert keyed.agrees(keys)
    for key in list(keyed.known):
        keyed.drop(key)
    assert keyed.agrees(keys)


def test_table_that_is_split_into_parts_has_what_it_had() -> None:
    keyed = Keyed()
    keys = [f"order-{number}" for number in range(SPLIT_AT + 100)]
    for key in keys:
        keyed.put(key)
    assert keyed.agrees(keys)
    for key in keys[::2]:
        keyed.drop(key)
    assert keyed.agrees(keys)


@pytest.mark.parametrize("seed", range(20))
def test_no_slot_is_lost_when_one_before_it_is_freed(seed: int) -> None:
    """Few homes, so that runs of slots are long and go around the end."""
    chance = random.Random(seed)
    part = Part()
    known: dict[int, int] = {}
    for id in range(1, 400):
        if known and chance.random() < 0.5:
            gone = chance.choice(sorted(known))
            tag = known.pop(gone)
            at: i64 = part.find(tag, -1)
            while part.id_at(at) != gone:
                at = part.find(tag, at)
            part.drop(at)
        else:
            known[id] = chance.choice((0, 1, 5, 6, 7, 7))
            part.put(known[id], id)
        for other, tag in known.items():
            found = []
            at = part.find(tag, -1)
            while at >= 0:
                found.append(int(part.id_at(at)))
                at = part.find(tag, at)
            assert other in found
        assert part.size == len(known)


def test_texts_with_one_hash_are_told_apart() -> None:
    keyed = Keyed()
    first, second = keyed.job("a"), keyed.job("b")
    code = code_of("a")
    part = keyed.holders._parts[0]
    part.put(tag_of(code), second)  # as though hash("b") were the same
    assert keyed.holders.find("a") == 0
    part.put(tag_of(code), first)
    assert keyed.holders.find("a") == first
    assert not keyed.holders.put_new(code, 9)


def test_table_gives_its_slots_back() -> None:
    part = Part()
    for id in range(1, 10_001):
        part.put(id, id)
    for id in range(1, 10_001):
        part.drop(part.find(id, -1))
    assert (part.size, part.mask) == (0, 7)


def test_parts_share_no_slots() -> None:
    one, other = Part(), Part()
    one.put(5, 1)
    assert other.find(5, -1) == -1
    for id in range(2, 5_000):
        one.put(id, id)
    assert Part().find(5, -1) == -1
    assert one.size == 4_999


def test_ids_that_have_no_room_in_a_slot_hold_keys_as_well() -> None:
    keyed = Keyed()
    keyed.put("near")
    keyed._last = ID_MASK
    far = keyed.job("far")
    assert not keyed.holders.put_new(code_of("far"), far)
    keyed.holders.put("far", far)
    keyed.known["far"] = far
    assert keyed.agrees(["near", "far", "neither"])
    assert keyed.holders.has("far", far)
    assert not keyed.holders.has("far", 1)
    keyed.drop("far")
    keyed.drop("near")
    assert keyed.agrees(["near", "far"])


def test_codes_are_put_in_a_row_up_to_one_that_is_taken() -> None:
    keyed = Keyed()
    keyed.put("taken")
    keys = ["a", "", "b", "taken", "c"]
    for key in keys:
        keyed.job(key)
    codes: vec[i64] = vec[i64]([code_of(key) if key else 0 for key in keys])
    assert keyed.holders.put_all_new(codes, 0, 5, 2) == 3
    keyed.known.update(a=2, b=4)
    assert keyed.agrees(keys)
    assert keyed.holders.put_all_new(codes, 4, 5, ID_MASK) == 4
    assert keyed.holders.put_all_new(codes, 4, 5, 6) == 5
    keyed.known["c"] = 6
    assert keyed.agrees(keys)
