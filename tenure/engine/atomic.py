"""Atomic batches: every item is decided before the first is stored, so that all are taken or none.

Each item is looked at by the same functions that decide when it is stored; what the items before it would take (keys,
room) is kept in `Ahead`.
"""

from tenure.core.answer import Answers, Outcome
from tenure.core.blob import Blob
from tenure.core.error import Conflict, DependencyNotFound, Error, Overloaded
from tenure.core.job import ERROR as ON_CONFLICT_ERROR
from tenure.core.job import Extras, Options
from tenure.core.request import Batch
from tenure.core.state import READY
from tenure.engine.check import check_item, content_bytes, held_bytes
from tenure.engine.dependent import count_dependencies
from tenure.engine.duplicate import HIDDEN, conflict_with, find_holder, find_window
from tenure.engine.job import Side, Spec
from tenure.engine.room import Ahead, overload
from tenure.engine.world import World


class Refusal:
    """Why a batch is not taken: one of its items is refused."""

    def __init__(self, at: int, error: Error, count: int) -> None:
        self.at = at
        self.error = error
        self.count = count

    def answers(self) -> Answers:
        """Item by item: the refused one has its error, the others say that it was not they."""
        others = Conflict("another item of the batch was refused", 0)
        found = {at: Outcome(0, READY, error=self.error if at == self.at else others) for at in range(self.count)}
        return Answers([0] * self.count, READY, found)


def rehearse(w: World, tenant: str, reach: tuple[str, ...], batch: Batch, above_limits: bool) -> Refusal | None:
    """The first refusal in an atomic batch, or None when every item will be taken. Stores nothing."""
    ahead = Ahead()
    taken: set[tuple[str, ...]] = set()
    count = len(batch.payloads)
    payloads: list[object] = list(batch.payloads)
    for at in range(count):
        options = batch.options if batch.each is None else batch.each[at]
        extras = batch.extra(at)
        error = check_item(w, tenant, options, payloads[at], extras)
        if error is None:
            try:
                spec = w.spec(tenant, options)
            except Overloaded as overloaded:
                error = overloaded
            else:
                payload = payloads[at]
                assert isinstance(payload, (bytes, Blob))
                error = _decide(w, reach, spec, options, payload, extras, ahead, taken, above_limits)
        if error is not None:
            return Refusal(at, error, count)
    return None


def _decide(
    w: World,
    reach: tuple[str, ...],
    spec: Spec,
    options: Options,
    payload: bytes | Blob,
    extras: Extras | None,
    ahead: Ahead,
    taken: set[tuple[str, ...]],
    above_limits: bool,
) -> Error | None:
    if extras is not None:
        keys = _keys_of(options, extras)
        id, _ = find_holder(w, reach, spec, options, extras)
        if id or any(key in taken for key in keys):
            is_refused = id == HIDDEN or options.on_conflict == ON_CONFLICT_ERROR
            return conflict_with(w, id) if is_refused else None
        if extras.debounce_key:
            window = ("debounce", options.queue, extras.debounce_key)
            if window in taken or find_window(w, spec, extras) is not None:
                return None
            taken.add(window)
        unknown = count_dependencies(w, spec.tenant, Side(None), extras.depends_on)
        if unknown:
            return DependencyNotFound(unknown)
        taken.update(keys)
    if above_limits:
        return None
    q = w.queues[spec.queue]
    size = content_bytes(payload)
    held = held_bytes(payload)
    overloaded = overload(w, w.tenants[spec.tenant], q, size, held, ahead)
    if overloaded is None:
        ahead.add(q, size, held)
    return overloaded


def _keys_of(options: Options, extras: Extras) -> list[tuple[str, ...]]:
    keys: list[tuple[str, ...]] = []
    if extras.custom_id:
        keys.append(("custom", extras.custom_id))
    if extras.idempotency_key:
        keys.append(("idempotency", options.queue, options.task, extras.idempotency_key))
    if extras.unique_key:
        keys.append(("unique", options.queue, extras.unique_key))
    return keys
