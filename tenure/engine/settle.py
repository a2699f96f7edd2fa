"""What a worker says of a job it holds: complete, fail, release, snooze, cancel, extend, and what it adds while
running.

Every one of them first asks `check`: the order of its questions is the contract's, and only a live token gets past it.
"""

from typing import cast

from mypy_extensions import i32, i64

from tenure.core import bound, event
from tenure.core import request as ask
from tenure.core.answer import Answers, Extended, Outcome
from tenure.core.blob import Blob
from tenure.core.error import (
    TOKEN_AMBIGUOUS,
    TOKEN_NOT_HELD,
    AlreadySettled,
    Error,
    InvalidRequest,
    JobCancelled,
    JobNotFound,
    LeaseLost,
    PayloadTooLarge,
)
from tenure.core.fingerprint import fingerprint
from tenure.core.record import Failed, Progress, StreamItem
from tenure.core.request import Append, Batch, Extend, Failure, Settle
from tenure.core.retry import delay_ms
from tenure.core.state import (
    CANCEL,
    CANCELLED,
    COMPLETE,
    COMPLETED,
    EXPIRE_LEASE,
    FAIL,
    FAILED,
    READY,
    REASON_ATTEMPTS,
    REASON_DELIVERIES,
    REASON_LEASE,
    REASON_PERMANENT,
    REASON_TIMEOUT,
    REASON_UNDECODABLE,
    REFUSE,
    RELEASE,
    RETRYING,
    RUNNING,
    SCHEDULED,
    SETTLE_CANCEL,
    SETTLE_CANCELLED,
    SETTLE_COMPLETE,
    SETTLE_EXPIRED,
    SETTLE_FAIL,
    SETTLE_NAMES,
    SETTLE_NONE,
    SETTLE_RELEASE,
    SETTLE_SNOOZE,
    SETTLE_TIMED_OUT,
    SNOOZE,
    TIME_OUT,
    UPDATE,
)
from tenure.core.tenant import ANY_TENANT, Context
from tenure.engine.blob import put_result
from tenure.engine.check import check_content, content_bytes
from tenure.engine.clock import lease_due, run_after, shown_lease_until, shown_run_at
from tenure.engine.ending import (
    confirm,
    drop_from_lease,
    end_lease,
    finish,
    keep_or_give_up_slot,
    remember,
    shorten,
    try_again,
    watch_expiry,
)
from tenure.engine.enqueue import enqueue_followups
from tenure.engine.eventlog import NO_FAILURE
from tenure.engine.job import NO_SPEC, Job, Lease
from tenure.engine.parking import pause_key
from tenure.engine.place import make_ready, side_of, wait_for_run
from tenure.engine.transition import transition
from tenure.engine.world import Queue, World

PROGRESS_MS = 1_000


class Check:
    """The answer to: may this token settle this job by this verb?"""

    def __init__(self, job: Job | None, error: Error | None, repeat: bool) -> None:
        self.job = job
        self.error = error
        self.repeat = repeat


def check(w: World, context: Context, id: int, token: bytes | None, verb: int) -> Check:
    job = w.find(id)
    if job is None or not w.is_visible(job, context.tenant, context.tenants):
        if token is not None and job is None and _says_stopped(verb):
            confirm(w, context, token, id)
        if token is not None and w.mint.is_genuine(token):
            return Check(None, AlreadySettled(id, "unknown"), False)
        return Check(None, JobNotFound(id), False)
    lease = job.lease
    if token is None or (context.tokenless and not token):  # in a batch an empty one stands for none
        error = _refuse_without_token(context, job, lease)
        if error is not None:
            return Check(None, error, False)
        assert lease is not None
        token = lease.token
    if lease is None or lease.token != token:
        last = job.side
        if token and last is not None and last.settled_token == token:
            if last.settled_verb == verb:
                return Check(job, None, True)
            return Check(None, AlreadySettled(id, SETTLE_NAMES[last.settled_verb]), False)
        if _says_stopped(verb):
            confirm(w, context, token, id)
        return Check(None, LeaseLost(id, "superseded" if w.mint.is_genuine(token) else "unknown"), False)
    if job.state == RUNNING and job.settled == SETTLE_NONE:
        if lease_due(w, lease) > w.served_ms:
            return Check(job, None, False)
        # Over, though its alarm has not been heard yet.
        return Check(None, LeaseLost(id, "expired"), False)
    settled = int(job.settled)
    if settled == verb:
        return Check(job, None, True)
    if _says_stopped(verb):
        confirm(w, context, token, id)
    if settled == SETTLE_CANCELLED:
        return Check(None, JobCancelled(id), False)
    if settled == SETTLE_EXPIRED or settled == SETTLE_TIMED_OUT:
        return Check(None, LeaseLost(id, SETTLE_NAMES[settled]), False)
    return Check(None, AlreadySettled(id, SETTLE_NAMES[settled]), False)


def _refuse_without_token(context: Context, job: Job, lease: Lease | None) -> Error | None:
    """Why a token is needed; None if the last lease is meant beyond doubt."""
    id = int(job.id)
    if lease is None:
        held = False
    elif context.connection and lease.connection == context.connection:
        held = True
    else:
        held = context.tokenless and bool(context.principal) and lease.principal == context.principal
    if not held:
        if context.tokenless:
            return LeaseLost(id, TOKEN_NOT_HELD)
        return InvalidRequest("token", None, "only the connection that claimed the job may leave it out")
    if job.side is not None and job.side.lease_lost:
        return LeaseLost(id, TOKEN_AMBIGUOUS)
    return None


def _says_stopped(verb: int) -> bool:
    """Whether the verb, though refused, tells that the handler of an ended attempt has stopped."""
    return verb == SETTLE_COMPLETE or verb == SETTLE_FAIL or verb == SETTLE_RELEASE


def settle(w: World, context: Context, request: Settle) -> Answers:
    """Settle each job by the request's verb, item by item."""
    _check_shape(request)
    verb = request.verb
    ids: list[object] = cast("list[object]", request.ids)
    answers = Answers([], COMPLETED if verb == SETTLE_COMPLETE else -1)
    count: i64 = len(ids)
    at: i64 = 0
    if verb == SETTLE_COMPLETE and request.followups is None:
        at = _complete_plain(w, context, request, answers)
    while at < count:
        outcome = _settle_one(w, context, request, ids[at], int(at))
        answers.ids.append(outcome.id)
        if outcome.error is not None or outcome.state != answers.state:
            if answers.other is None:
                answers.other = {}
            answers.other[int(at)] = outcome
        if outcome.error is None:
            answers.count += 1
        at += 1
    return answers


def _check_shape(request: Settle) -> None:
    count = len(request.ids)
    if count > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("ids", count, f"at most {bound.BATCH_ITEMS_MAX} jobs are settled at once")
    if not SETTLE_COMPLETE <= request.verb <= SETTLE_CANCEL:
        raise InvalidRequest("verb", request.verb, "it must be complete, fail, release, snooze or cancel")
    if request.tokens is not None:
        _check_column("tokens", len(request.tokens), count)
    if request.results is not None:
        _check_column("results", len(request.results), count)
    if request.failures is not None:
        _check_column("failures", len(request.failures), count)
    if request.followups is not None:
        _check_column("followups", len(request.followups), count)
    if request.pause_key:
        bound.key_text("pause_key", request.pause_key)
    if not 0 <= request.delay_ms <= bound.DELAY_MS_MAX:
        raise InvalidRequest("delay_ms", request.delay_ms, f"it must be from 0 to {bound.DELAY_MS_MAX}")


def _check_column(name: str, length: int, count: int) -> None:
    if length != count:
        raise InvalidRequest(name, length, f"it must have one entry per job ({count})")


def _complete_plain(w: World, context: Context, request: Settle, answers: Answers) -> i64:
    """The hot path: jobs that run under the token given and have nothing else about them. Stops at the first other."""
    anyone = ANY_TENANT in context.tenants
    if request.tokens is None or request.results is not None or (context.tenants and not anyone):
        return 0
    tokens: list[object] = cast("list[object]", request.tokens)
    tenant = context.tenant
    ids: list[object] = cast("list[object]", request.ids)
    index = w.index
    done = answers.ids
    at: i64 = 0
    count: i64 = len(ids)
    known: Lease | None = None  # the last lease and token that were found to match
    token: object = None
    spec = NO_SPEC  # the last one that was found to be the tenant's
    while at < count:
        id = ids[at]
        if not isinstance(id, int) or not 0 < id <= bound.ID_MAX:
            break
        job = index.get(id)
        if job is None or job.state != RUNNING or job.side is not None:
            break
        lease = job.lease
        assert lease is not None
        if lease is not known or tokens[at] is not token:
            token = tokens[at]
            if not isinstance(token, bytes) or lease.token != token or lease_due(w, lease) <= w.served_ms:
                break
            known = lease
        if job.spec is not spec:
            if not anyone and job.spec.tenant_name != tenant:
                break
            spec = job.spec
        _complete(w, w.queues[spec.queue], job, None)
        done.append(id)
        at += 1
    if known is not None:
        shorten(w, known)
    answers.count = at
    return at


def _complete(w: World, q: Queue, job: Job, result: bytes | Blob | None) -> None:
    size: i64 = 0
    if result is not None:
        put_result(w, side_of(job), result)
        size = content_bytes(result)
    transition(w, q, job, COMPLETE, COMPLETED, "", NO_FAILURE, -1, size)
    end_lease(w, q, job, SETTLE_COMPLETE)
    finish(w, q, job, "")


def _settle_one(w: World, context: Context, request: Settle, id: object, at: int) -> Outcome:
    if not isinstance(id, int) or isinstance(id, bool):
        return Outcome(0, READY, error=InvalidRequest("id", id, "it must be a job id"))
    tokens: list[object] | None = None if request.tokens is None else cast("list[object]", request.tokens)
    token = None if tokens is None else tokens[at]
    if token is not None and not isinstance(token, bytes):
        return Outcome(0, READY, error=InvalidRequest("token", token, "it must be the bytes that the claim answered"))
    checked = check(w, context, id, token, request.verb)
    job = checked.job
    if job is None:
        return Outcome(id, READY, error=checked.error)
    if checked.repeat:
        return _first_answer(job, request.verb)
    lease = job.lease
    error = _apply(w, context, job, request, at)
    if lease is not None:
        shorten(w, lease)
    if error is not None:
        return Outcome(id, int(job.state), error=error)
    if request.verb == SETTLE_FAIL or request.verb == SETTLE_RELEASE or request.verb == SETTLE_SNOOZE:
        side = side_of(job)
        side.answer_state = i64(job.state)
        side.answer_run_at = shown_run_at(w, job)
        side.settled_verb = request.verb
        side.settled_token = lease.token if lease is not None else b""
    return _first_answer(job, request.verb)


def _first_answer(job: Job, verb: int) -> Outcome:
    if verb == SETTLE_COMPLETE:
        return Outcome(int(job.id), COMPLETED)
    if verb == SETTLE_CANCEL:
        return Outcome(int(job.id), CANCELLED)
    side = side_of(job)
    return Outcome(int(job.id), int(side.answer_state), run_at=int(side.answer_run_at))


def _apply(w: World, context: Context, job: Job, request: Settle, at: int) -> Error | None:
    q = w.queue_of(job)
    verb = request.verb
    if verb == SETTLE_COMPLETE:
        results: list[object] | None = None if request.results is None else cast("list[object]", request.results)
        result = None if results is None else results[at]
        followups = None if request.followups is None else request.followups[at]
        error = _accept_output(w, job, context.queues, result, followups)
        if error is None:
            assert result is None or isinstance(result, (bytes, Blob))
            _complete(w, q, job, result)
        return error
    if verb == SETTLE_FAIL:
        failure = Failure() if request.failures is None else request.failures[at]
        fail(w, q, job, failure)
        return None
    if verb == SETTLE_CANCEL:
        transition(w, q, job, CANCEL, CANCELLED)
        end_lease(w, q, job, SETTLE_CANCEL)
        finish(w, q, job, "")
        return None
    if request.pause_key:
        pause_key(w, context, w.tenant_of(job), request.pause_key, request.delay_ms)
    release(w, q, job, request.delay_ms, verb == SETTLE_SNOOZE)
    return None


def _accept_output(w: World, job: Job, reach: tuple[str, ...], result: object, followups: Batch | None) -> Error | None:
    """Check a completion's result and store its follow-ups: all of them, or none and the lease stays."""
    if result is not None:
        error = check_content(w, result, "result")
        if error is not None:
            return error
    if followups is None:
        return None
    if len(followups.payloads) > bound.FOLLOWUPS_MAX:
        return InvalidRequest("followups", len(followups.payloads), f"at most {bound.FOLLOWUPS_MAX} follow-ups")
    batch = Batch(followups.options, followups.payloads, followups.extras, followups.each, keys=followups.keys)
    try:
        return enqueue_followups(w, job, reach, batch)
    except Error as error:
        return error


# Failing.


def fail(w: World, q: Queue, job: Job, failure: Failure) -> None:
    """The handler failed: again after a while, or a dead letter."""
    error = Failed(failure.type, failure.message, failure.trace, fingerprint(failure.type, failure.message))
    if failure.undecodable:
        _end_attempt(w, q, job, SETTLE_FAIL, REFUSE, REASON_UNDECODABLE, error, -1, True)
    elif not failure.retryable:
        _end_attempt(w, q, job, SETTLE_FAIL, FAIL, REASON_PERMANENT, error, -1, True)
    else:
        _end_attempt(w, q, job, SETTLE_FAIL, FAIL, REASON_ATTEMPTS, error, failure.delay_ms, False)


def expire_lease(w: World, q: Queue, job: Job) -> None:
    error = Failed("LeaseExpired", "the lease ran out", "", fingerprint("LeaseExpired", "the lease ran out"))
    _end_attempt(w, q, job, SETTLE_EXPIRED, EXPIRE_LEASE, REASON_LEASE, error, -1, False)


def time_out(w: World, q: Queue, job: Job) -> None:
    error = Failed("TimedOut", "the attempt took too long", "", fingerprint("TimedOut", "the attempt took too long"))
    _end_attempt(w, q, job, SETTLE_TIMED_OUT, TIME_OUT, REASON_TIMEOUT, error, -1, False)


def _end_attempt(
    w: World, q: Queue, job: Job, settled: i32, cause: i64, reason: str, error: Failed, delay: i64, final: bool
) -> None:
    remember(w, job, i64(job.attempt), cause, error)
    if final or (job.spec.attempts_max and i64(job.attempt) >= job.spec.attempts_max):
        transition(w, q, job, cause, FAILED, reason, error)
        end_lease(w, q, job, settled)
        finish(w, q, job, reason)
        return
    if delay < 0:
        delay = delay_ms(job.spec.options.backoff, int(job.id), int(job.attempt))
    # The event comes before the job is let into line, so that its start, if it is immediate, comes after.
    run_after(w, job, delay)
    why = "" if reason == REASON_ATTEMPTS else reason  # it has some left
    transition(w, q, job, cause, RETRYING if delay > 0 else READY, why, error)
    end_lease(w, q, job, settled)
    try_again(w, q, job, delay)


def release(w: World, q: Queue, job: Job, delay: i64, snoozed: bool) -> None:
    """The attempt is given back: ready in its old place, or scheduled."""
    side = side_of(job)
    cause = SNOOZE if snoozed else RELEASE
    settled: i32 = SETTLE_SNOOZE if snoozed else SETTLE_RELEASE
    attempt = i64(job.attempt)
    job.attempt -= 1
    if snoozed:
        side.snoozes += 1
    elif job.spec.deliveries_max and i64(job.delivery) - side.snoozes >= job.spec.deliveries_max:
        transition(w, q, job, cause, FAILED, REASON_DELIVERIES, NO_FAILURE, attempt)
        end_lease(w, q, job, settled)
        finish(w, q, job, REASON_DELIVERIES)
        return
    run_after(w, job, delay)
    transition(w, q, job, cause, SCHEDULED if delay > 0 else READY, "", NO_FAILURE, attempt)
    end_lease(w, q, job, settled)
    watch_expiry(w, job)
    keep_or_give_up_slot(w, q, job)
    if delay > 0:
        wait_for_run(w, job)
    else:
        make_ready(w, q, job, False)


# Extending.


def extend(w: World, context: Context, request: Extend) -> Extended:
    count = len(request.ids)
    if count > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest("ids", count, f"at most {bound.BATCH_ITEMS_MAX} leases are renewed at once")
    if request.tokens is not None and len(request.tokens) != count:
        raise InvalidRequest("tokens", len(request.tokens), f"it must have one entry per job ({count})")
    if request.lease_ms and not bound.LEASE_MS_MIN <= request.lease_ms <= bound.LEASE_MS_MAX:
        raise InvalidRequest("lease_ms", request.lease_ms, f"from {bound.LEASE_MS_MIN} to {bound.LEASE_MS_MAX}")
    until: list[int] = []
    left_ms: list[int] = []
    errors: dict[int, Error] = {}
    fresh: dict[tuple[int, int], Lease] = {}
    ids: list[object] = cast("list[object]", request.ids)
    tokens: list[object] | None = None if request.tokens is None else cast("list[object]", request.tokens)
    for at in range(count):
        id = ids[at]
        token = None if tokens is None else tokens[at]
        if not isinstance(id, int) or not (token is None or isinstance(token, bytes)):
            errors[at] = InvalidRequest("id", id, "it must be a job id, and the token bytes")
            until.append(0)
            left_ms.append(0)
            continue
        checked = check(w, context, id, token, SETTLE_NONE)
        job = checked.job
        if job is None:
            assert checked.error is not None
            errors[at] = checked.error
            until.append(0)
            left_ms.append(0)
        else:
            lease = _renew(w, job, request.lease_ms, fresh)
            until.append(int(shown_lease_until(w, lease)))
            left_ms.append(int(lease_due(w, lease) - w.served_ms))
    return Extended(until, left_ms, errors or None)


def _renew(w: World, job: Job, lease_ms: i64, fresh: dict[tuple[int, int], Lease]) -> Lease:
    """Move the job to a lease with a later deadline; jobs of one old lease and deadline share the new one. Answers the
    lease that it has now."""
    old = job.lease
    assert old is not None
    due: i64 = w.served_ms + (lease_ms or old.length_ms)
    if job.alarm is not None and job.alarm.due_ms < due:
        due = job.alarm.due_ms  # no renewal goes past the timeout
    if due <= lease_due(w, old):
        return old
    key = (int(old.id), int(due))
    lease = fresh.get(key)
    if lease is None:
        lease = Lease(due, w.next_alarm_id(), old.token, old.worker, old.length_ms, old.connection, old.principal)
        w.served.add(lease)
        fresh[key] = lease
    lease.add(int(job.id))
    job.lease = lease
    w.journal.touch(job)
    drop_from_lease(w, old)
    return lease


# Output of a running job.


def append(w: World, context: Context, request: Append) -> int:
    if not ask.PROGRESS <= request.kind <= ask.EMIT:
        raise InvalidRequest("kind", request.kind, "it must be progress, log or emit")
    checked = check(w, context, request.id, request.token, SETTLE_NONE)
    if checked.error is not None:
        raise checked.error
    job = checked.job
    assert job is not None
    if request.kind == ask.PROGRESS:
        return _progress(w, job, request.percent, request.text)
    side = side_of(job)
    if request.kind == ask.LOG:
        line = bound.clip("text", request.text, bound.LOG_LINE_BYTES_MAX)
        if side.log is None:
            side.log = []
        offset = int(side.log_first) + len(side.log)
        item = StreamItem(offset, int(w.at_ms), line.encode())
        side.log.append(item)
        w.journal.append(job, ask.LOG, item)
        if len(side.log) > bound.LOG_LINES_MAX:
            del side.log[0]
            side.log_first += 1
            w.journal.trim(job, side.log_first)
        return offset
    size = len(request.data)
    if size > bound.STREAM_ITEM_BYTES_MAX:
        raise PayloadTooLarge(size, bound.STREAM_ITEM_BYTES_MAX, "stream item")
    if side.stream_bytes + size > bound.STREAM_BYTES_MAX:
        raise PayloadTooLarge(int(side.stream_bytes) + size, bound.STREAM_BYTES_MAX, "stream")
    if side.stream is None:
        side.stream = []
    item = StreamItem(len(side.stream), int(w.at_ms), request.data)
    side.stream.append(item)
    side.stream_bytes += size
    w.journal.append(job, ask.EMIT, item)
    return len(side.stream) - 1


def _progress(w: World, job: Job, percent: int, text: str) -> int:
    if not 0 <= percent <= 100:
        raise InvalidRequest("percent", percent, "it must be from 0 to 100")
    message = bound.clip("text", text, bound.LOG_LINE_BYTES_MAX)
    side = side_of(job)
    last = side.progress
    if last is not None and percent < 100 and w.at_ms - last.at < PROGRESS_MS:
        return last.percent
    side.progress = Progress(percent, message, int(w.at_ms))
    job.seq += 1
    worker = job.lease.worker if job.lease is not None else ""
    detail: dict[str, object] = {"percent": percent, "message": message[:256]}
    w.log.notice(job, event.PROGRESS, UPDATE, job.spec, worker, detail)
    return percent
