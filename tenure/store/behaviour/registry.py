"""The list of all behaviours. Importing a topic's module puts its behaviours on it; `conformance` imports them all."""

from collections.abc import Callable, Coroutine
from typing import Final

import msgspec

from tenure.store.behaviour.rig import Rig
from tenure.store.behaviour.trap import TRAPS
from tenure.store.contract import Capabilities

Check = Callable[[Rig], Coroutine[object, object, None]]

OWNED: Final = "owned"  # not a capability of its own: what a shared store, with its one clock, cannot show
CAPPED: Final = "capped"  # nor is this: having no blob store, to refuse what is over the payload cap
SECTIONS: Final = range(1, 21)
RULINGS: Final = range(1, 44)


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """One promise: the section that makes it, the rulings and the trap it covers, the capabilities it needs."""

    name: str
    topic: str
    section: int
    rulings: tuple[int, ...]
    trap: str
    needs: tuple[str, ...]
    check: Check

    def missing(self, capabilities: Capabilities) -> tuple[str, ...]:
        return tuple(need for need in self.needs if not has(capabilities, need))


REGISTRY: Final[dict[str, Behaviour]] = {}


def behaviour(
    section: int, *, rulings: tuple[int, ...] = (), trap: str = "", needs: tuple[str, ...] = ()
) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        add(check.__name__, check.__module__, check, section, rulings, trap, needs)
        return check

    return register


def add(
    name: str,
    module: str,
    check: Check,
    section: int,
    rulings: tuple[int, ...] = (),
    trap: str = "",
    needs: tuple[str, ...] = (),
) -> None:
    assert name not in REGISTRY, f"two behaviours are called {name}"
    assert section in SECTIONS, f"{name}: there is no section {section} for stores"
    assert not trap or trap in TRAPS, f"{name}: {trap!r} is not a known trap"
    assert all(ruling in RULINGS for ruling in rulings), f"{name}: a ruling of {rulings} does not exist"
    assert all(need in (OWNED, CAPPED) or need in Capabilities.__struct_fields__ for need in needs), (
        f"{name}: needs {needs}"
    )
    topic = module.rpartition(".")[2]
    REGISTRY[name] = Behaviour(
        name=name, topic=topic, section=section, rulings=rulings, trap=trap, needs=needs, check=check
    )


def has(capabilities: Capabilities, need: str) -> bool:
    if need == OWNED:
        return not capabilities.shared
    if need == CAPPED:
        return not capabilities.blobs
    return bool(getattr(capabilities, need))
