"""What a worker says of a job it holds, or held: settle, extend, append."""

from tenure.core import retry, state
from tenure.core.answer import Outcome
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
from tenure.core.job import ATTEMPTS_UNLIMITED, DELIVERIES_EXTRA
from tenure.core.record import StreamItem
from tenure.core.request import EMIT, LOG, Append, Batch, Extend, Failure, Settle
from tenure.core.state import (
    CANCEL,
    CANCELLED,
    COMPLETE,
    COMPLETED,
    FAIL,
    FAILED,
    READY,
    REFUSE,
    RELEASE,
    RETRYING,
    SCHEDULED,
    SETTLE_CANCEL,
    SETTLE_CANCELLED,
    SETTLE_COMPLETE,
    SETTLE_EXPIRED,
    SETTLE_FAIL,
    SETTLE_NAMES,
    SETTLE_RELEASE,
    SETTLE_SNOOZE,
    SETTLE_TIMED_OUT,
    SNOOZE,
    TIME_OUT,
)
from tenure.core.tenant import Context
from tenure.core.token import Mint
from tests.model.ending import end_lease, finish, free
from tests.model.enqueue import enqueue, item_of
from tests.model.line import keep_slot
from tests.model.turn import forget_aside, make_ready, refresh_turns
from tests.model.world import Job, World, sees

NO_FAILURE = Failure()


def settle(world: World, mint: Mint, context: Context, order: Settle) -> list[Outcome]:
    answers: list[Outcome] = []
    for at, id in enumerate(order.ids):
        try:
            answers.append(settle_one(world, mint, context, order, at, id))
        except Error as error:
            answers.append(Outcome(0, error=error))
    return answers


def settle_one(world: World, mint: Mint, context: Context, order: Settle, at: int, id: int) -> Outcome:
    given = order.tokens[at] if order.tokens is not None else None
    if given is not None and id not in world.jobs:
        confirm(world, context, id, given, order.verb)
    job, token = holder(world, mint, context, id, given)
    if job.lease is None or job.lease.token != token:
        confirm(world, context, id, token, order.verb)
        return answer_late(mint, job, token, order.verb)
    apply(world, job, order, at)
    assert job.last is not None
    job.last.state = job.state
    job.last.run_at = world.shown_run_at(job) if job.state in (SCHEDULED, RETRYING) else 0
    return Outcome(job.id, job.state, run_at=job.last.run_at)


def holder(world: World, mint: Mint, context: Context, id: int, token: bytes | None) -> tuple[Job, bytes]:
    """The job and the token that is meant."""
    job = world.visible(context, id)
    if job is None:
        if token is not None and mint.is_genuine(token):
            raise AlreadySettled(id, "unknown")
        raise JobNotFound(id)
    if token is not None:
        return job, token
    is_same_connection = context.connection != 0 and job.last_connection == context.connection
    is_same_principal = context.tokenless and context.principal != "" and job.last_principal == context.principal
    if not job.tokens or not (is_same_connection or is_same_principal):
        if context.tokenless:
            raise LeaseLost(id, TOKEN_NOT_HELD)
        raise InvalidRequest("token", None, "only the connection that claimed the job may leave it out")
    if job.was_lost:
        raise LeaseLost(id, TOKEN_AMBIGUOUS)
    return job, job.tokens[-1]


def confirm(world: World, context: Context, id: int, token: bytes, verb: int) -> None:
    """The first complete, fail or release with the token of a lease that was taken away frees what it still holds,
    also when its job was removed since."""
    if verb not in (SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE):
        return
    for hold in [hold for hold in world.holdovers if hold.job.id == id and hold.token == token]:
        if sees(context, hold.job.tenant):
            free(world, hold)
    refresh_turns(world)


def answer_late(mint: Mint, job: Job, token: bytes, verb: int) -> Outcome:
    """What a token hears that is not the live one. How the last lease ended is kept, a worker's word also while another
    lease runs."""
    last = job.last
    is_latest = bool(job.tokens) and job.tokens[-1] == token
    if last is None or last.token != token or not (is_latest or last.verb <= SETTLE_CANCEL):
        raise LeaseLost(job.id, "superseded" if mint.is_genuine(token) else "unknown")
    if last.verb == SETTLE_CANCELLED:
        raise JobCancelled(job.id)
    if last.verb in (SETTLE_EXPIRED, SETTLE_TIMED_OUT):
        raise LeaseLost(job.id, SETTLE_NAMES[last.verb])
    if last.verb != verb:
        raise AlreadySettled(job.id, SETTLE_NAMES[last.verb])
    return Outcome(job.id, last.state, run_at=last.run_at)


def apply(world: World, job: Job, order: Settle, at: int) -> None:
    if order.verb == SETTLE_COMPLETE:
        result = order.results[at] if order.results is not None else None
        assert result is None or isinstance(result, bytes)
        complete(world, job, result, order.followups[at] if order.followups is not None else None)
    elif order.verb == SETTLE_FAIL:
        fail(world, job, order.failures[at] if order.failures is not None else NO_FAILURE)
    elif order.verb == SETTLE_CANCEL:
        end_lease(world, job, SETTLE_CANCEL, confirmed=True)
        finish(world, job, CANCEL, CANCELLED, "cancelled")
    else:
        give_back(world, job, order.verb, order.delay_ms)
    if order.pause_key and order.delay_ms:
        pause(world, job.tenant, order.pause_key, order.delay_ms)
    refresh_turns(world)


def pause(world: World, tenant: str, key: str, delay_ms: int) -> None:
    name = (tenant, key, False)
    world.pauses[name] = max(world.pauses.get(name, 0), world.elapsed + delay_ms)


def complete(world: World, job: Job, result: bytes | None, followups: Batch | None) -> None:
    largest = world.of_store("payload_bytes_max")
    assert isinstance(largest, int)
    if result is not None and len(result) > largest:
        raise PayloadTooLarge(len(result), largest, "result")
    if followups is not None:
        follow_up(world, job, followups)
    job.result = result
    end_lease(world, job, SETTLE_COMPLETE, confirmed=True)
    finish(world, job, COMPLETE, COMPLETED, "completed")


def follow_up(world: World, job: Job, followups: Batch) -> None:
    """All of them or none: a bad one refuses the completion."""
    before = world.copy()
    for at, payload in enumerate(followups.payloads):
        options, extras = item_of(followups, at)
        try:
            enqueue(world, job.tenant, options, extras, payload, above_limits=True)
        except Error:
            world.restore(before)
            raise


def fail(world: World, job: Job, failure: Failure) -> None:
    job.error = (failure.type, failure.message)
    end_lease(world, job, SETTLE_FAIL, confirmed=True)
    if failure.undecodable:
        finish(world, job, REFUSE, FAILED, "failed", state.REASON_UNDECODABLE)
    elif not failure.retryable:
        finish(world, job, FAIL, FAILED, "failed", state.REASON_PERMANENT)
    else:
        try_again(world, job, FAIL, state.REASON_ATTEMPTS, failure.delay_ms)


def try_again(world: World, job: Job, cause: int, reason: str, delay_ms: int = -1) -> None:
    """An attempt was spent: wait for the next, or be a dead letter when it was the last."""
    most = job.options.max_attempts
    if most != ATTEMPTS_UNLIMITED and job.attempt >= most:
        finish(world, job, cause, FAILED, "failed", reason)
        return
    if delay_ms < 0:
        delay_ms = retry.delay_ms(job.options.backoff, job.id, job.attempt)
    if cause != TIME_OUT:
        keep_slot(world, job)
    world.run_after(job, delay_ms)
    if delay_ms == 0:
        make_ready(world, job, cause, "retrying")
    else:
        world.move(job, cause, RETRYING, "retrying")


def give_back(world: World, job: Job, verb: int, delay_ms: int) -> None:
    """Release and snooze: the attempt does not count."""
    cause = SNOOZE if verb == SETTLE_SNOOZE else RELEASE
    end_lease(world, job, verb, confirmed=True)
    job.attempt -= 1
    job.snoozes += verb == SETTLE_SNOOZE
    most = job.options.max_attempts
    is_bounded = verb == SETTLE_RELEASE and most != ATTEMPTS_UNLIMITED
    if is_bounded and job.delivery - job.snoozes >= most + DELIVERIES_EXTRA:
        finish(world, job, cause, FAILED, "failed", state.REASON_DELIVERIES)
        return
    keep_slot(world, job)
    if delay_ms:
        world.run_after(job, delay_ms)
        world.move(job, cause, SCHEDULED, "released")
    else:
        forget_aside(job)
        world.move(job, cause, READY, "released")


# Leases that go on.


def extend(world: World, mint: Mint, context: Context, order: Extend) -> list[int | Error]:
    """Per job the new deadline in wall time, or why there is none."""
    answers: list[int | Error] = []
    renewed: dict[tuple[int, int], int] = {}
    for at, id in enumerate(order.ids):
        given = order.tokens[at] if order.tokens is not None else None
        try:
            answers.append(extend_one(world, live_job(world, mint, context, id, given), order.lease_ms, renewed))
        except Error as error:
            answers.append(error)
    return answers


def live_job(world: World, mint: Mint, context: Context, id: int, given: bytes | None) -> Job:
    job, token = holder(world, mint, context, id, given)
    if job.lease is None or job.lease.token != token:
        answer_late(mint, job, token, -1)
    return job


def extend_one(world: World, job: Job, lease_ms: int, renewed: dict[tuple[int, int], int]) -> int:
    """Jobs of one lease that get the same new deadline go on sharing one."""
    lease = job.lease
    assert lease is not None
    wanted = world.served + (lease_ms or lease.length_ms)
    if lease.timeout_at is not None:
        wanted = min(wanted, lease.timeout_at)
    if wanted > lease.deadline:
        if (lease.order, wanted) not in renewed:
            world.last_lease += 1
            renewed[lease.order, wanted] = world.last_lease
        lease.order = renewed[lease.order, wanted]
        lease.deadline = wanted
    return world.shown_deadline(lease)


def append(world: World, mint: Mint, context: Context, order: Append) -> int:
    job = live_job(world, mint, context, order.id, order.token)
    if order.kind == LOG:
        job.log.append(StreamItem(len(job.log), world.at, order.text.encode()))
        return len(job.log) - 1
    if order.kind == EMIT:
        job.stream.append(StreamItem(len(job.stream), world.at, order.data))
        return len(job.stream) - 1
    return report_progress(world, job, order.percent, order.text)


def report_progress(world: World, job: Job, percent: int, text: str) -> int:
    """Kept at most once a second, 100 always."""
    if not 0 <= percent <= 100:
        raise InvalidRequest("percent", percent, "it must be a whole number from 0 to 100")
    if job.progress is not None and percent != 100 and world.at - job.progress[2] < 1000:
        return job.progress[0]
    job.progress = (percent, text, world.at)
    world.note(job, "progress", state.UPDATE)
    return percent
