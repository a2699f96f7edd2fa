"""Section 19: what a store states about itself."""

from collections.abc import Awaitable, Callable

from tenure.core.error import Unsupported
from tenure.core.request import STAGE, Filter, Load
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import Rig
from tenure.store.contract import VERBS

MODES = ("relaxed", "write", "fsync")


@behaviour(19)
async def store_states_what_it_can_do(rig: Rig) -> None:
    capabilities = rig.store.capabilities
    assert capabilities.name
    assert [mode for mode in MODES if mode in capabilities.durability] == list(capabilities.durability)
    assert capabilities == rig.store.capabilities


@behaviour(19)
async def store_has_every_verb(rig: Rig) -> None:
    for verb in VERBS:
        assert callable(getattr(rig.store, verb)), verb


@behaviour(19)
async def what_a_store_lacks_it_says_at_the_call(rig: Rig) -> None:
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "groups": lambda: rig.enqueue(group="g"),
        "limits": lambda: rig.enqueue(limit_keys=["k"]),
        "dependencies": lambda: rig.enqueue(depends_on=[1]),
        "ageing": lambda: rig.set_queue(age_ms=1_000),
        "streams": lambda: rig.stream(1),
        "search": lambda: rig.find(Filter(tag="t")),
        "loads": lambda: rig.load(Load(STAGE, "load", batch=rig.batch([b"x"]))),
    }
    for capability, call in calls.items():
        if not getattr(rig.store.capabilities, capability):
            await refused(Unsupported, call(), capability=capability)
