"""Commands of producers and workers: enqueue, claim, settle, and what a running job says."""

from collections.abc import Callable, Sized
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tenure.core import bound, request, state
from tenure.core.answer import Claimed, Extended
from tenure.core.error import InvalidRequest, JobCancelled
from tenure.core.record import LoadReport, StreamItem
from tenure.core.request import Append, Batch, Claim, Extend, Failure, Load, Settle
from tenure.wire import command as c
from tenure.wire import value
from tenure.wire.format import kept, shown
from tenure.wire.option import asked
from tenure.wire.speech import Call, Fields, Speech, error_fields, merged, packed_answers

SETTLE_VERBS = {
    "complete": state.SETTLE_COMPLETE,
    "fail": state.SETTLE_FAIL,
    "release": state.SETTLE_RELEASE,
    "snooze": state.SETTLE_SNOOZE,
    "cancel": state.SETTLE_CANCEL,
}
LOAD_STEPS = {"stage": request.STAGE, "publish": request.PUBLISH, "abort": request.ABORT, "read": request.READ}
FOLLOWUPS_MAX = 100_000  # of all jobs that a message settles
CLAIMS_KEPT = 100
ORDERS = ("weighted", "strict")


def push(s: Speech, m: c.Push) -> Call:
    options, extras = s.job(asked(m), m.queue)
    return Call("enqueue", (Batch(options, [s.payload(m.data, m.codec)], None if extras is None else [extras]),), s.one)


def push_many(s: Speech, m: c.PushMany | c.PushManyItems) -> Call:
    return _push_many(s, m, m.jobs)


def push_column(s: Speech, m: c.PushColumn) -> Call:
    batch = s.column(m, m.jobs)
    if batch is None:
        return _push_many(s, m, s.reader.jobs(m.jobs))
    batch.atomic = m.atomic
    return Call("enqueue", (batch,), packed_answers if m.packed else s.each)


def _push_many(s: Speech, m: c.Pushing, jobs: list[Any]) -> Call:
    batch, wrong = s.batch(m, jobs)
    if m.atomic and wrong:
        raise next(iter(wrong.values()))
    batch.atomic = m.atomic
    say = packed_answers if m.packed else s.each
    if not wrong:
        return Call("enqueue", (batch,), say)
    count = len(jobs)
    return Call("enqueue", (batch,), lambda answers: say(merged(answers, wrong, count)))


def load(s: Speech, m: c.LoadJobs | c.LoadItems) -> Call:
    step = LOAD_STEPS.get(m.step)
    if step is None:
        raise InvalidRequest("step", m.step, "it must be one of " + ", ".join(LOAD_STEPS))
    batch = None
    if m.columns is not None:
        if m.jobs is not None or m.pasts is not None:
            raise InvalidRequest("columns", "given", "jobs are said in columns or one after the other, not both")
        batch = s.columns(m, m.columns)
    elif m.jobs is not None:
        batch, wrong = s.batch(m, m.jobs)
        if wrong:
            raise next(iter(wrong.values()))
        if m.pasts is not None:
            need_few("pasts", m.pasts)
            batch.pasts = [value.unpack_past(past, s.form.decode) for past in m.pasts]
    load = Load(step, m.load_id, m.part, m.writing, m.chunk, batch, m.parts, m.digest)
    return Call("load", (load,), _report)


def _report(found: LoadReport) -> Fields:
    return {"load": found}


def plain_claim(s: Speech, queue: str, worker: str) -> Claim:
    """Of a pull that asks for nothing but a queue, and does not wait."""
    key = (queue, worker)
    found = s.claims.get(key)
    return _keep_claim(s, key, c.Pull(queue=queue, worker=worker, timeout=0), 1) if found is None else found


def _claim_of(s: Speech, m: c.Pull, n: int) -> Claim:
    """The same object for the same wish: a worker asks for the same again and again."""
    if m.queues or m.tasks is not None or m.withdraw:
        return _new_claim(m, n)
    key = (m.queue, n, m.timeout, m.worker, m.max_bytes, m.lease, m.order)
    found = s.claims.get(key)
    return _keep_claim(s, key, m, n) if found is None else found


def _keep_claim(s: Speech, key: tuple[object, ...], m: c.Pull, n: int) -> Claim:
    found = _new_claim(m, n)
    if len(s.claims) >= CLAIMS_KEPT:
        s.claims.clear()
    s.claims[key] = found
    return found


def _new_claim(m: c.Pull, n: int) -> Claim:
    queues: list[Any] = [m.queue] if m.queue else []
    queues += m.queues or []
    if m.order not in ORDERS:
        raise InvalidRequest("order", m.order, "it must be weighted or strict")
    return bound.make_claim(
        queues or ("default",),
        n,
        m.timeout,
        m.worker,
        m.tasks,
        request.CLAIM_BYTES_MAX if m.max_bytes is UNSET else m.max_bytes,
        m.lease,
        m.order == "strict",
        m.withdraw,
    )


class LeasedJob(Struct, omit_defaults=True, gc=False):
    """One of the jobs of a claim."""

    id: int
    queue: str
    task: str
    data: object
    codec: str
    attempt: int
    token: bytes
    lease_until: int
    lease_ms: int  # left of it when this is said
    tenant: str
    schema_version: int = 0
    timeout: int = 0
    custom_id: str = ""
    trace: str = ""


def leased(s: Speech, found: Claimed, at: int) -> LeasedJob:
    options = found.options[at]
    job = LeasedJob(
        found.ids[at],
        options.queue,
        options.task,
        shown(found.payloads[at], options.codec, s.form),
        options.codec,
        found.attempts[at],
        found.token,
        found.lease_until[at],
        found.lease_ms[at],
        found.tenants[at],
        options.schema_version,
        options.timeout_ms,
    )
    extras = found.extras[at]
    if extras is not None:
        job.custom_id, job.trace = extras.custom_id, extras.trace
    return job


def pull(s: Speech, m: c.Pull) -> Call:
    claim = _claim_of(s, m, 1)
    return Call("claim", (claim,), lambda found: {"job": leased(s, found, 0) if found.ids else None})


def pull_many(s: Speech, m: c.PullMany) -> Call:
    claim = _claim_of(s, m, m.count)
    if m.packed:
        return Call("claim", (claim,), lambda found: {"claimed": value.pack_claimed(found)})
    return Call("claim", (claim,), lambda found: {"jobs": [leased(s, found, at) for at in range(len(found))]})


def _tokens(items: list[Any]) -> list[bytes] | None:
    """All of them or none: a batch is settled on the connection that claimed it, or from anywhere."""
    tokens = [item.token for item in items]
    if all(token is None for token in tokens):
        return None
    return [b"" if token is None else token for token in tokens]


def need_few(field: str, items: Sized) -> None:
    """Before each is looked at: a message of 16 MiB has room for millions."""
    if len(items) > bound.BATCH_ITEMS_MAX:
        raise InvalidRequest(field, len(items), f"at most {bound.BATCH_ITEMS_MAX} at once")


def need_few_followups(count: int) -> None:
    if count > FOLLOWUPS_MAX:
        raise InvalidRequest("followups", count, f"a message has at most {FOLLOWUPS_MAX} of them")


def _all_followups(s: Speech, several: list[c.Followups | None]) -> list[Batch | None]:
    need_few_followups(sum(len(each.jobs) for each in several if each is not None))
    return [_followups(s, each) for each in several]


def _followups(s: Speech, m: c.Followups | None) -> Batch | None:
    if m is None:
        return None
    batch, wrong = s.batch(m, m.jobs)
    if wrong:
        raise next(iter(wrong.values()))
    return batch


def _result(s: Speech, result: Raw | UnsetType, codec: str | UnsetType = UNSET) -> bytes | None:
    return kept(result, codec, s.form, "result") if isinstance(result, Raw) and s.is_given(result) else None


def ack(s: Speech, m: c.Ack) -> Call:
    followups = _followups(s, m.followups)
    settle = Settle(
        state.SETTLE_COMPLETE,
        [m.id],
        _tokens([m]),
        [_result(s, m.result, m.codec)],
        None,
        None if followups is None else [followups],
    )
    return Call("settle", (settle,), s.one)


def ack_many(s: Speech, m: c.AckMany) -> Call:
    need_few("items", m.items)
    if m.ids:
        tokens = m.tokens if m.token is None else [m.token] * len(m.ids)
        say = s.settled if s.is_old else packed_answers
        return Call("settle", (Settle(state.SETTLE_COMPLETE, m.ids, tokens),), say)
    results = [_result(s, item.result) for item in m.items]
    settle = Settle(state.SETTLE_COMPLETE, [item.id for item in m.items], _tokens(m.items), results)
    return Call("settle", (settle,), s.settled)


def _failure(s: Speech, m: Any) -> Failure:
    delay = -1 if m.retry_after is UNSET else bound.duration_ms("retry_after", m.retry_after)
    if m.retry_at is not UNSET:
        delay = max(bound.as_int(bound.instant_ms("retry_at", m.retry_at)) - s.now_ms, 0)
    return bound.make_failure(m.type, m.error or m.reason, m.trace, m.retryable, False, delay)


def fail(s: Speech, m: c.Fail) -> Call:
    return Call("settle", (Settle(state.SETTLE_FAIL, [m.id], _tokens([m]), None, [_failure(s, m)]),), s.one)


def fail_many(s: Speech, m: c.FailMany) -> Call:
    need_few("items", m.items)
    failures = [_failure(s, item) for item in m.items]
    settle = Settle(state.SETTLE_FAIL, [item.id for item in m.items], _tokens(m.items), None, failures)
    return Call("settle", (settle,), s.settled)


def release(verb: int) -> Callable[[Speech, Any], Call]:
    def translate(s: Speech, m: c.Release) -> Call:
        delay = bound.as_int(bound.duration_ms("delay", m.delay))
        if m.pause_key:
            bound.key_text("pause_key", m.pause_key)
        return Call("settle", (Settle(verb, [m.id], _tokens([m]), delay_ms=delay, pause_key=m.pause_key),), s.one)

    return translate


def settle(s: Speech, m: c.SettleMany) -> Call:
    verb = SETTLE_VERBS.get(m.verb)
    if verb is None:
        raise InvalidRequest("verb", m.verb, "it must be one of " + ", ".join(SETTLE_VERBS))
    need_few("ids", m.ids)
    count = len(m.ids)
    for field in ("tokens", "results", "failures", "followups"):
        column = getattr(m, field)
        if column is not None and len(column) != count:
            raise InvalidRequest(field, len(column), f"there must be one for each of the {count} ids")
    failures = None
    if m.failures is not None:
        failures = [bound.make_failure(*msgspec.structs.astuple(failure)) for failure in m.failures]
    followups = None if m.followups is None else _all_followups(s, m.followups)
    delay = bound.as_int(bound.duration_ms("delay", m.delay))
    if m.pause_key:
        bound.key_text("pause_key", m.pause_key)
    settle = Settle(verb, m.ids, m.tokens, m.results, failures, followups, delay, m.pause_key)
    return Call("settle", (settle,), packed_answers)


def _lease(lease: int) -> int:
    return 0 if lease == 0 else bound.as_int(bound.lease_ms("lease", lease))


def heartbeat(s: Speech, m: c.Heartbeat) -> Call:
    def say(found: Extended) -> Fields:
        if not found.errors:
            return {"lease_until": found.lease_until[0], "lease_ms": found.lease_ms[0], "cancelled": False}
        if isinstance(found.errors[0], JobCancelled):
            return {"lease_until": 0, "lease_ms": 0, "cancelled": True}
        raise found.errors[0]

    return Call("extend", (Extend([m.id], _tokens([m]), _lease(m.lease)),), say)


def heartbeat_many(s: Speech, m: c.HeartbeatMany) -> Call:
    if m.packed:
        extend = Extend(m.ids, m.tokens, _lease(m.lease))
        return Call("extend", (extend,), lambda found: {"extended": value.pack_extended(found)})

    def say(found: Extended) -> Fields:
        results: list[Fields] = []
        for at, until in enumerate(found.lease_until):
            error = (found.errors or {}).get(at)
            if error is None:
                results.append({"ok": True, "lease_until": until, "lease_ms": found.lease_ms[at], "cancelled": False})
            else:
                results.append({**error_fields(error), "cancelled": isinstance(error, JobCancelled)})
        return {"results": results}

    ids = [item.id for item in m.items]
    return Call("extend", (Extend(ids, _tokens(m.items), _lease(m.lease)),), say)


# What a running job says.


def set_progress(s: Speech, m: c.SetProgress) -> Call:
    append = Append(request.PROGRESS, m.id, m.token, m.progress, m.message)
    return Call("append", (append,), lambda found: {"progress": found})


def write_log(s: Speech, m: c.WriteLog) -> Call:
    return Call("append", (Append(request.LOG, m.id, m.token, text=m.message),), lambda found: {"offset": found})


def partial(s: Speech, m: c.Partial) -> Call:
    append = Append(request.EMIT, m.id, m.token, data=kept(m.data, m.codec, s.form))
    return Call("append", (append,), lambda found: {"offset": found})


def read_output(kind: int, name: str) -> Callable[[Speech, Any], Call]:
    def translate(s: Speech, m: c.GetLogs) -> Call:
        def say(found: list[StreamItem]) -> Fields:
            if m.packed:
                return {"items": found}
            if kind == request.LOG:
                return {
                    name: [
                        {"offset": i.offset, "at": i.at, "message": i.data.decode("utf-8", "replace")} for i in found
                    ]
                }
            return {name: [{"offset": i.offset, "at": i.at, "data": _emitted(s, i.data)} for i in found]}

        wait_ms = bound.as_int(bound.wait_ms("timeout", m.timeout))
        return Call("stream", (m.id, kind, m.offset, m.limit, wait_ms), say)

    return translate


def _emitted(s: Speech, data: bytes) -> object:
    """Items carry no codec: what reads as the reader's format is shown as that."""
    own = s.form.own(data)
    return s.form.of_bytes(data) if own is None else own
