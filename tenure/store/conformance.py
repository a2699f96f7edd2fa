"""The conformance suite: what every store must do, for its tests to import.

A store's test file is five lines:

    @pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
    def test_behaviour(behaviour: Behaviour) -> None:
        check(behaviour, MyStore)

Each behaviour runs on a store of its own, which takes its time from the `now` it is given. What a store states that
it cannot do is skipped, visibly and with the reason; `skips=False` forbids that, for stores that do all. A store
whose wakes travel over a network gives its own `pause`, which returns when what is on its way has arrived.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Final

from tenure.store.behaviour.audit import audit, begin
from tenure.store.behaviour.registry import REGISTRY
from tenure.store.behaviour.registry import Behaviour as Behaviour
from tenure.store.behaviour.rig import Pause, Rig, spin
from tenure.store.contract import Capabilities, Store

TOPICS: Final = (
    "settle",
    "release",
    "lease",
    "claim",
    "wait",
    "set_aside",
    "order",
    "group",
    "limit",
    "limit_key",
    "slot",
    "fairness",
    "duplicate",
    "debounce",
    "dependency",
    "retry",
    "enqueue",
    "batch",
    "backpressure",
    "change",
    "search",
    "dead_letter",
    "retention",
    "result",
    "stream",
    "event",
    "time",
    "tenant",
    "op_id",
    "load",
    "imported",
    "scan",
    "explain",
    "worker",
    "capability",
    "bound",
    "shape",
    "interplay",
)

for _topic in TOPICS:
    import_module(f"tenure.store.behaviour.{_topic}")

BEHAVIOURS: Final[list[Behaviour]] = list(REGISTRY.values())
BEHAVIOUR_SECONDS_MAX: Final = 120.0  # of real time: a store that hangs fails instead

StoreFactory = Callable[[], Store]


class Skipped(Exception):
    """The store states that it cannot do what the behaviour needs."""


def name_of(behaviour: Behaviour) -> str:
    return f"{behaviour.topic}.{behaviour.name}"


def behaviours_for(capabilities: Capabilities) -> list[Behaviour]:
    """The behaviours that a store with these capabilities must show."""
    return [behaviour for behaviour in BEHAVIOURS if not behaviour.missing(capabilities)]


async def run(behaviour: Behaviour, store_factory: StoreFactory, pause: Pause = spin) -> None:
    """Runs one behaviour on a fresh store; raises `Skipped` where it does not apply."""
    store = store_factory()
    missing = behaviour.missing(store.capabilities)
    if missing:
        raise Skipped(f"{store.capabilities.name} cannot do {', '.join(missing)}")
    rig = Rig(store, pause)
    await store.open(rig.now())
    try:
        await asyncio.wait_for(show(behaviour, rig), BEHAVIOUR_SECONDS_MAX)
    finally:
        await rig.stop()
        await store.close()


async def show(behaviour: Behaviour, rig: Rig) -> None:
    cursor = await begin(rig)
    await behaviour.check(rig)
    await audit(rig, cursor)


def check(behaviour: Behaviour, store_factory: StoreFactory, *, pause: Pause = spin, skips: bool = True) -> None:
    """Runs one behaviour as a test of pytest."""
    import pytest

    try:
        asyncio.run(run(behaviour, store_factory, pause))
    except Skipped as reason:
        if not skips:
            raise
        pytest.skip(str(reason))
