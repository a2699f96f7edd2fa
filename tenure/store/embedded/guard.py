"""An engine belongs to the thread of the loop that serves it. No other thread calls it, not even to read.

The interpreted build checks this at every call of a served engine. The compiled build does not: its classes take no
interpreted subclass, and its steps are short enough for the check to be seen.
"""

import threading
from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import Any

from tenure.engine.engine import Engine

IS_COMPILED = not isinstance(Engine.tick, FunctionType)
OWNER = "owning_thread"


def owned_here(engine: Engine) -> Engine:
    """From now on only the calling thread may call it."""
    if not IS_COMPILED:
        engine.__class__ = _guarded_class()
        setattr(engine, OWNER, threading.get_ident())
    return engine


@cache
def _guarded_class() -> type[Engine]:
    """An engine with the check in front of every public method."""
    methods = {name: _checked(name, method) for name, method in vars(Engine).items() if _is_public(name, method)}
    return type("GuardedEngine", (Engine,), methods)


def _is_public(name: str, value: object) -> bool:
    return isinstance(value, FunctionType) and not name.startswith("_")


def _checked(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(engine: Engine, *args: Any, **named: Any) -> Any:
        if threading.get_ident() != getattr(engine, OWNER):
            raise AssertionError(f"the engine's {name} was called by another thread than that of its loop")
        return method(engine, *args, **named)

    return call
