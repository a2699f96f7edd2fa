"""Texts to numbers, against a dict, small and past the split."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.engine.keys import SPLIT_AT, Keys

texts = st.text(max_size=3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), texts, st.integers(1, 2**53 - 1)),
        st.tuples(st.just("remove"), texts, st.just(0)),
    ),
    max_size=60,
)


def run(keys: Keys, expected: dict[str, int], steps: list[tuple[str, str, int]]) -> None:
    for step, key, number in steps:
        if step == "set":
            keys.set(key, number)
            expected[key] = number
        else:
            keys.remove(key)
            expected.pop(key, None)
        assert keys.size == len(expected)
        assert keys.get(key) == expected.get(key, 0)


@given(steps)
def test_keys_are_a_dict(steps: list[tuple[str, str, int]]) -> None:
    keys = Keys()
    expected: dict[str, int] = {}
    run(keys, expected, steps)
    assert dict(keys.items()) == expected


@settings(max_examples=15)
@given(steps, st.integers(-5, 5))
def test_keys_are_a_dict_around_the_split(steps: list[tuple[str, str, int]], off: int) -> None:
    keys = Keys()
    expected: dict[str, int] = {}
    filled = [("set", f"filler {at}", at + 1) for at in range(SPLIT_AT + off)]
    run(keys, expected, filled)
    run(keys, expected, steps)
    run(keys, expected, [("remove", key, 0) for _, key, _ in filled[::2]])
    run(keys, expected, steps)
    assert dict(keys.items()) == expected
    assert len(keys.items()) == keys.size


def is_split(keys: Keys) -> bool:
    return keys._one is None


def test_split_comes_after_its_size_and_loses_nothing() -> None:
    keys = Keys()
    for at in range(1, SPLIT_AT + 1):
        keys.set(f"key {at}", at)
    assert not is_split(keys)
    keys.set("key 1", 7)
    assert not is_split(keys)
    keys.set("one more", 9)
    assert is_split(keys)
    assert keys.size == SPLIT_AT + 1
    assert (keys.get("key 1"), keys.get("key 2"), keys.get("one more"), keys.get("other")) == (7, 2, 9, 0)


def test_no_part_of_many_keys_is_large() -> None:
    keys = Keys()
    for at in range(1, 40_001):
        keys.set(f"key {at}", at)
    assert max(map(len, keys._many.values())) < 100


def test_keys_that_are_emptied_hold_nothing() -> None:
    keys = Keys()
    for at in range(1, 2 * SPLIT_AT):
        keys.set(f"key {at}", at)
    for at in range(1, 2 * SPLIT_AT):
        keys.remove(f"key {at}")
    assert keys.size == 0
    assert keys.items() == []
    assert keys._many == {}
    assert not is_split(keys)


def test_removing_what_is_not_there_changes_nothing() -> None:
    keys = Keys()
    keys.remove("a")
    keys.set("a", 1)
    keys.remove("b")
    assert (keys.size, keys.get("a")) == (1, 1)
