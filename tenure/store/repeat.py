"""One rule for calls whose server or owner goes away: how long they go on, and which of them may be made again.

A call has a deadline of its own. While it is not over, a lost connection, an owner that ended and a server that stops
lead to the next one, where the call is made again with what is left of its wait. Reads are repeated freely, changes
with their operation id, under which a store answers what it did before and does nothing twice.
"""

from typing import Any

from tenure.core.request import PROGRESS, Append, Change, Claim

CALL_S = 30.0  # for a call, besides what it waits by itself
LATE_S = 5.0  # so long after its timeout the answer to `watch` is still taken
STOPPING = "stopping"  # a field of `Unavailable`: nothing was done, and the next server will do it

WITH_OP_ID = frozenset({"enqueue", "claim", "settle", "change", "configure", "load"})
WAITS = frozenset({"claim", "watch", "events", "stream"})


def deadline_s(verb: str, wait_ms: int, call_s: float = CALL_S) -> float:
    """How long a call goes on. The wait of `watch` is the caller's own deadline; the wait of the others says how long
    nothing may happen, and `call_s` comes on top of it."""
    wait_s = max(wait_ms, 0) / 1_000
    return wait_s if has_own_deadline(verb, wait_ms) else wait_s + call_s


def has_own_deadline(verb: str, wait_ms: int) -> bool:
    return verb == "watch" and wait_ms > 0


def is_sweep(arguments: tuple[Any, ...]) -> bool:
    """A change of all that match a filter: done in steps, and answered when all are done."""
    return isinstance(arguments[0], Change) and arguments[0].filter is not None


def is_repeatable(verb: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a call that may have been executed can be made again. A store remembers no line of a log and no emitted
    item: a repeat could add it twice."""
    return verb != "append" or (isinstance(arguments[0], Append) and arguments[0].kind == PROGRESS)


def wait_ms_of(verb: str, arguments: tuple[Any, ...]) -> int:
    if verb not in WAITS:
        return 0
    wait_ms: int = arguments[0].wait_ms if verb == "claim" else arguments[-1]
    return wait_ms


def with_wait(verb: str, arguments: tuple[Any, ...], wait_ms: int) -> tuple[Any, ...]:
    """The same call with another wait."""
    if verb not in WAITS:
        return arguments
    if verb != "claim":
        return (*arguments[:-1], wait_ms)
    claim: Claim = arguments[0]
    return (
        Claim(
            claim.queues,
            claim.n,
            wait_ms,
            claim.worker,
            claim.tasks,
            claim.max_bytes,
            claim.lease_ms,
            claim.strict,
            claim.withdraw,
        ),
    )
