"""Who keeps a slot of its group: what is certain, and what is left open."""

from tests.simulation.slots import Slots
from tests.simulation.story import Story

GROUP = ("group", "acme", "mail", "g")


def story(id: int) -> Story:
    return Story(id, "acme", "mail", "send", joined=id)


def keeping(*ids: int, width: int = 9) -> Slots:
    slots = Slots()
    for id in ids:
        slots.retry(GROUP, story(id), 0, 0, width)
    return slots


def test_who_is_tried_again_keeps_its_slot() -> None:
    slots = keeping(1, 2)
    assert slots.sure(GROUP) == 2
    assert slots.drop(GROUP, story(1))
    assert not slots.drop(GROUP, story(1))
    assert slots.sure(GROUP) == 1


def test_nobody_keeps_a_slot_that_is_one_too_many() -> None:
    slots = keeping(1)
    slots.retry(GROUP, story(2), 1, 1, 2)
    assert slots.sure(GROUP) == 1
    assert not slots.drop(GROUP, story(2))


def test_where_others_may_take_a_slot_nobody_is_sure() -> None:
    slots = Slots()
    slots.retry(GROUP, story(1), 1, 2, 2)
    assert slots.sure(GROUP) == 0
    assert slots.drop(GROUP, story(1))


def test_who_joined_last_gives_up_first() -> None:
    slots = keeping(1, 3, 2)
    slots.narrow(GROUP, 1, 2)
    assert slots.sure(GROUP) == 1
    assert [slots.drop(GROUP, story(id)) for id in (1, 2, 3)] == [True, False, False]


def test_who_gives_up_is_open_when_it_is_open_who_keeps() -> None:
    slots = keeping(1, 2)
    slots.doubt(GROUP, story(3))
    slots.narrow(GROUP, 0, 1)
    assert slots.sure(GROUP) == 1
    assert [slots.drop(GROUP, story(id)) for id in (1, 2, 3)] == [True, True, True]


def test_relaxed_order_clears_the_groups_of_a_queue() -> None:
    slots = keeping(1)
    assert slots.groups("acme", "other") == []
    for group in slots.groups("acme", "mail"):
        slots.clear(group)
    assert slots.sure(GROUP) == 0
