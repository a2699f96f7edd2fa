"""Duplicates: what a new job meets by its keys, and the keys a job takes. Decided in the step that inserts."""

from typing import Final

from mypy_extensions import i64

from tenure.core.answer import Outcome
from tenure.core.blob import Blob
from tenure.core.error import Conflict, Error
from tenure.core.job import DEBOUNCE_WINDOWS_MAX, REPLACE, TRAILING, Extras, Options
from tenure.core.job import ERROR as ON_CONFLICT_ERROR
from tenure.core.state import (
    COMPLETED,
    READY,
    RUNNING,
    SCHEDULED,
    UPDATE,
    is_terminal,
)
from tenure.core.tenant import reaches_queue
from tenure.engine import idempotency
from tenure.engine.blob import put_payload
from tenure.engine.clock import run_after, shown_run_at
from tenure.engine.job import Job, Spec, payload_bytes
from tenure.engine.journal import WINDOW
from tenure.engine.keys import Keys
from tenure.engine.place import cancel_run, side_of, wait_for_run
from tenure.engine.transition import transition
from tenure.engine.world import Queue, Window, World

HIDDEN: Final = -1  # the id of a holder out of the caller's reach


def find_duplicate(
    w: World, reach: tuple[str, ...], spec: Spec, options: Options, extras: Extras, payload: bytes | Blob
) -> Outcome | None:
    """The answer if the job is there already, by any of its keys; the first hit decides."""
    id, ended = find_holder(w, reach, spec, options, extras)
    if id:
        return _meet(w, id, ended, options, extras, payload)
    window = find_window(w, spec, extras)
    if window is not None:
        return _debounce(w, window, options, extras, payload)
    return None


def find_holder(w: World, reach: tuple[str, ...], spec: Spec, options: Options, extras: Extras) -> tuple[int, int]:
    """The job that has one of the keys, and how it ended if its record is gone; 0 when there is none.

    HIDDEN when it is of a queue outside `reach` (see `Context.queues`). That can only be the holder of a custom id:
    other keys belong to a queue, and who enqueues reaches that.
    """
    q = w.queues[spec.queue]
    t = w.tenants[spec.tenant]
    id = 0
    if extras.custom_id:
        if t.custom_ids is not None:
            id = t.custom_ids.get(extras.custom_id)
            if id:
                return _within(w, reach, id), COMPLETED
        if t.custom_outcomes is not None:
            kept = t.custom_outcomes.get(extras.custom_id)
            if kept is not None and kept[2] > w.steady_ms:
                return kept[0] if not reach or reaches_queue(reach, kept[3]) else HIDDEN, kept[1]
    if extras.idempotency_key:
        id = idempotency.holder_of(w, q, options.task, extras.idempotency_key)
        if id:
            return id, COMPLETED
    if extras.unique_key and q.unique is not None:
        id = q.unique.get(extras.unique_key)
    return id, COMPLETED


def _within(w: World, reach: tuple[str, ...], id: int) -> int:
    """The holder's id, or HIDDEN."""
    if not reach:
        return id
    job = w.index.get(id)
    return id if job is not None and reaches_queue(reach, w.queue_of(job).name) else HIDDEN


def find_window(w: World, spec: Spec, extras: Extras) -> Window | None:
    """The open debounce window of the key; a trailing one is over once its job is not waiting for its time."""
    windows = w.queues[spec.queue].windows
    if not extras.debounce_key or windows is None:
        return None
    window = windows.get(extras.debounce_key)
    if window is not None and window.trailing:
        job = w.index.get(window.job)
        if job is None or job.state != SCHEDULED:
            return None
    return window


def conflict_with(w: World, id: int) -> Conflict:
    if id == HIDDEN:
        return Conflict("a job of a queue that you do not reach has this key; choose another one", 0)
    has = "has" if id == 0 or w.index.get(id) is not None else "had"
    return Conflict(f"job {id} {has} this key" if id else "an earlier item of the batch has this key", id)


def _meet(w: World, id: int, ended: int, options: Options, extras: Extras, payload: bytes | Blob) -> Outcome:
    if id == HIDDEN or options.on_conflict == ON_CONFLICT_ERROR:
        return refused(conflict_with(w, id))
    job = w.index.get(id)
    if job is None:
        return Outcome(id, ended, True, False)
    state = int(job.state)
    replaced = False
    if options.on_conflict == REPLACE and state != RUNNING and not is_terminal(state):
        replace(w, job, payload, extras)
        replaced = True
    return Outcome(id, state, True, replaced, int(shown_run_at(w, job)))


def replace(w: World, job: Job, payload: bytes | Blob, extras: Extras | None) -> None:
    """New payload and metadata for a waiting job."""
    set_payload(w, job, payload)
    if extras is not None and (extras.metadata is not None or job.side is not None):
        side_of(job).metadata = extras.metadata
    transition(w, w.queue_of(job), job, UPDATE, job.state)


def set_payload(w: World, job: Job, payload: bytes | Blob) -> None:
    job.rewritten = True
    size = payload_bytes(job)
    held: i64 = len(job.payload)
    put_payload(w, job, payload)
    grown = payload_bytes(job) - size
    w.queue_of(job).bytes += grown
    w.tenant_of(job).bytes += grown
    w.bytes += len(job.payload) - held


def _debounce(w: World, window: Window, options: Options, extras: Extras, payload: bytes | Blob) -> Outcome:
    job = w.index.get(window.job)
    if not window.trailing:
        if job is None:
            return Outcome(int(window.job), COMPLETED, True, False)
        return Outcome(int(job.id), int(job.state), True, False, int(shown_run_at(w, job)))
    assert job is not None
    most: i64 = options.debounce_max_wait_ms or options.debounce_ms * DEBOUNCE_WINDOWS_MAX
    run_at: i64 = min(w.steady_ms + options.debounce_ms, window.first_at + most)
    if run_at > job.run_at:
        cancel_run(w, job)
        run_after(w, job, run_at - w.steady_ms)
        wait_for_run(w, job)
    replace(w, job, payload, extras)
    return Outcome(int(job.id), SCHEDULED, True, True, int(shown_run_at(w, job)))


def take_keys(w: World, q: Queue, job: Job, extras: Extras) -> None:
    """Write down that the job has its keys now."""
    options = job.spec.options
    if extras.custom_id:
        t = w.tenants[q.tenant]
        if t.custom_ids is None:
            t.custom_ids = Keys()
        t.custom_ids.set(extras.custom_id, job.id)
        side_of(job).holds_custom = True
    if extras.unique_key:
        if q.unique is None:
            q.unique = Keys()
        q.unique.set(extras.unique_key, job.id)
        side_of(job).holds_unique = True
    if extras.idempotency_key:
        idempotency.hold(w, q, job, extras.idempotency_key, w.steady_ms + options.idempotency_ttl_ms)
    if extras.debounce_key:
        _open_window(w, q, job, extras.debounce_key)


def _open_window(w: World, q: Queue, job: Job, key: str) -> None:
    options = job.spec.options
    if q.windows is None:
        q.windows = {}
    trailing = options.debounce_mode == TRAILING
    due: i64 = w.elapsed_ms + options.debounce_ms
    window = Window(due, w.next_alarm_id(), q.number, key, job.id, w.steady_ms, trailing)
    q.windows[key] = window
    w.journal.mark((WINDOW, q.tenant_name, q.name, key))
    if trailing:
        assert job.side is not None
        job.side.debounced = True
    else:
        w.elapsed.add(window)


def refused(error: Error) -> Outcome:
    return Outcome(0, READY, error=error)
