"""Jobs with a past: how the rows of an import come in, in whatever state they were.

What was running elsewhere is not leased here: its worker may still be at it, and its token means nothing to this
store. It comes in as if released, the attempt given back and the delivery kept, and not before its old lease is over.
"""

from mypy_extensions import i32, i64

from tenure.core import dependency
from tenure.core.answer import Outcome
from tenure.core.blob import Blob
from tenure.core.error import DependencyNotFound, Error, InvalidRequest, Overloaded, PayloadTooLarge
from tenure.core.fingerprint import fingerprint
from tenure.core.job import Extras, Options
from tenure.core.past import check_row
from tenure.core.record import Failed, Past
from tenure.core.request import Batch
from tenure.core.state import (
    BLOCKED,
    FAIL_DEPENDENCY,
    IMPORT,
    READY,
    REASON_DEPENDENCY,
    RUNNING,
    SCHEDULED,
    STATE_NAMES,
    is_terminal,
)
from tenure.engine import idempotency
from tenure.engine.alarm import EXPIRE, Alarm
from tenure.engine.blob import put_payload
from tenure.engine.check import check_options
from tenure.engine.dependent import count_dependencies, depend, judge
from tenure.engine.duplicate import find_duplicate, refused, take_keys
from tenure.engine.ending import count_live, fail_waiting
from tenure.engine.job import Job, Side, Spec
from tenure.engine.place import join_started, line_up, wait_for_run
from tenure.engine.removal import keep
from tenure.engine.staged import Staged
from tenure.engine.transition import arrive
from tenure.engine.world import Queue, World


def check_pasts(w: World, batch: Batch) -> None:
    """Raises for the first row that cannot be imported, whatever else is in the store; names it by its place."""
    pasts: list[object] = list(batch.pasts or [])
    seen: set[int] = set()
    for at, past in enumerate(pasts):
        options = batch.options if batch.each is None else batch.each[at]
        extras = batch.extra(at)
        try:
            check_row(past, options, extras, int(w.at_ms), int(w.payload_bytes_max))
        except InvalidRequest as error:
            field = f"pasts[{at}].{error.field}" if error.field else f"pasts[{at}]"
            raise InvalidRequest(field, error.value, error.rule) from None
        except PayloadTooLarge as error:
            raise PayloadTooLarge(error.size, error.max, f"pasts[{at}].result") from None
        assert isinstance(past, Past)
        if past.id and past.id in seen:
            raise InvalidRequest(f"pasts[{at}].id", past.id, "an earlier row has it")
        seen.add(past.id)


def bring_in(
    w: World, staged: Staged, options: Options, payload: bytes | Blob, extras: Extras | None, past: Past
) -> Outcome:
    """One row. What it depends on must have come before it, in the same load."""
    error = check_options(w, staged.tenant, options, extras)
    if error is None and past.id in staged.ids:
        error = InvalidRequest("id", past.id, "an earlier row of the load has it")
    if error is not None:
        return refused(error)
    own = _translate(staged, extras)
    if isinstance(own, Error):
        return refused(own)
    try:
        spec = w.spec(staged.tenant, options)
    except Overloaded as overloaded:
        return refused(overloaded)
    outcome = find_duplicate(w, (), spec, options, _keys_held(w, spec, own, past), payload)
    if outcome is None:
        outcome = _insert(w, spec, payload, own, past, staged.ids.get(past.parent, 0))
    if past.id and outcome.error is None:
        staged.ids[past.id] = outcome.id
    return outcome


def _translate(staged: Staged, extras: Extras | None) -> Extras | Error:
    """The row's extras, with its dependencies by the ids they have here."""
    if extras is None:
        return Extras()
    depends_on: list[int] = []
    for id in extras.depends_on:
        found = staged.ids.get(id, 0)
        if not found:
            return DependencyNotFound(id)
        if found not in depends_on:
            depends_on.append(found)
    return Extras(
        extras.custom_id,
        extras.unique_key,
        extras.idempotency_key,
        "",
        tuple(depends_on),
        extras.group,
        0,
        extras.expires_at,
        extras.tags,
        extras.metadata,
        extras.trace,
    )


def _code_of(past: Past) -> int:
    return STATE_NAMES.index(past.state)


def _idempotent_until(spec: Spec, past: Past) -> int:
    return past.created_at + spec.options.idempotency_ttl_ms


def _keys_held(w: World, spec: Spec, extras: Extras, past: Past) -> Extras:
    """The keys that a job in this state has. An ended one has its custom id, and its idempotency key for its time."""
    if not is_terminal(_code_of(past)):
        return Extras(extras.custom_id, extras.unique_key, extras.idempotency_key, metadata=extras.metadata)
    is_held = _idempotent_until(spec, past) > w.steady_ms + w.shift_ms
    return Extras(extras.custom_id, "", extras.idempotency_key if is_held else "", metadata=extras.metadata)


def _insert(w: World, spec: Spec, payload: bytes | Blob, extras: Extras, past: Past, parent: i64) -> Outcome:
    q = w.queues[spec.queue]
    side = Side(extras)
    if extras.depends_on:
        missing = count_dependencies(w, spec.tenant, side, extras.depends_on)
        if missing:
            return refused(DependencyNotFound(missing))
    w.last_id += 1
    job = Job(w.last_id, spec, b"", past.created_at, i32(spec.options.priority), spec.rank)
    job.side = side
    put_payload(w, job, payload)
    _fill(job, side, extras, past)
    side.parent = parent
    spec.jobs += 1
    w.index.add(job)
    w.journal.born(job)
    held = _keys_held(w, spec, extras, past)
    take_keys(w, q, job, Extras(held.custom_id, held.unique_key))
    if held.idempotency_key:
        idempotency.hold(w, q, job, held.idempotency_key, _idempotent_until(spec, past) - w.shift_ms)
    elif extras.idempotency_key:
        job.key = extras.idempotency_key  # another's by now, or nobody's
    if is_terminal(_code_of(past)):
        _end(w, q, job, side, past)
    else:
        _begin(w, q, job, side, past)
    return Outcome(int(job.id), int(job.state), run_at=int(job.run_at))


def _fill(job: Job, side: Side, extras: Extras, past: Past) -> None:
    job.run_at = past.run_at or past.created_at
    job.ready_at = past.ready_at
    job.started_at = past.started_at
    job.attempt = i32(past.attempt)
    job.delivery = i32(past.delivery)
    side.tags = extras.tags
    side.metadata = extras.metadata
    side.expires_at = extras.expires_at
    side.error = _with_fingerprint(past.error)
    side.reason = past.reason
    side.result = past.result
    side.progress = past.progress
    side.replays = past.replays
    side.worker = past.worker
    side.history = list(past.history) or None
    # How many deliveries were snoozes is not in a record. None of those that were given back counts here, so that no
    # job fails for what happened elsewhere.
    side.snoozes = past.delivery - past.attempt


def _with_fingerprint(error: Failed | None) -> Failed | None:
    if error is None or error.fingerprint:
        return error
    return Failed(error.type, error.message, error.trace, fingerprint(error.type, error.message))


def _end(w: World, q: Queue, job: Job, side: Side, past: Past) -> None:
    """It is over: to the ended ones, by when it ended."""
    side.pending = 0
    side.succeeded = 0
    side.failed = 0
    job.ended_at = past.ended_at
    arrive(w, q, job, IMPORT, i32(_code_of(past)), past.reason)
    keep(w, q, job)


def _begin(w: World, q: Queue, job: Job, side: Side, past: Past) -> None:
    count_live(w, q, job, 1)
    if side.expires_at:
        side.expiry = Alarm(side.expires_at, EXPIRE, job.id)
        w.wall.add(side.expiry)
    state = _code_of(past)
    if state == RUNNING:
        job.attempt -= 1
        side.snoozes += 1
        state = READY
        if past.lease_until > w.wall_ms:
            job.run_at = past.lease_until
            state = SCHEDULED
    verdict = dependency.GO
    assert side.extras is not None
    if side.extras.depends_on:
        depend(w, job, False)
        if state == BLOCKED:
            verdict = judge(job)
            if verdict == dependency.GO:
                state = SCHEDULED if job.run_at > w.wall_ms else READY
    arrive(w, q, job, IMPORT, i32(state))
    if side.extras.group and state != BLOCKED and _has_started(past):
        join_started(w, q, job)
    if state == READY:
        job.ready_at = past.ready_at or w.at_ms
        line_up(w, q, job, True)
        return
    if state != BLOCKED:
        wait_for_run(w, job)
    elif verdict == dependency.FAIL:
        fail_waiting(w, q, job, FAIL_DEPENDENCY, REASON_DEPENDENCY)


def _has_started(past: Past) -> bool:
    """Since it was enqueued or last replayed, as far as its record tells."""
    return past.attempt > 0 or (past.delivery > 0 and past.replays == 0)
