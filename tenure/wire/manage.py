"""Commands that change jobs and settings."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tenure.core import bound, request, state
from tenure.core.answer import Answers
from tenure.core.error import InvalidRequest
from tenure.core.limit import Rate
from tenure.core.request import Change, Configure, Filter, Settle
from tenure.wire import command as c
from tenure.wire.format import kept
from tenure.wire.speech import Call, Fields, Speech, packed_answers


def _change(action: int, m: Any, s: Speech, **more: Any) -> Call:
    if (m.id is not UNSET) + (m.ids is not None) + (m.filter is not None) > 1:
        raise InvalidRequest("filter", "given", "either id, ids or filter says which jobs are meant")
    if m.id is not UNSET:
        change = Change(action, [m.id], None, reason=m.reason, **more)
        return Call("change", (change,), packed_answers if m.packed else s.one)
    if m.ids is not None:
        change = Change(action, m.ids, None, reason=m.reason, **more)
        return Call("change", (change,), packed_answers if m.packed else s.each)
    if m.filter is None:
        raise InvalidRequest("id", None, "a job's id is needed, or ids, or a filter")
    bound.count("limit", m.limit)
    change = Change(action, None, s.filter(m.filter), limit=m.limit, reason=m.reason, **more)
    return Call("change", (change,), packed_answers if m.packed else _say_count)


def _say_count(answers: Answers) -> Fields:
    return {"count": answers.count}


def simple(action: int) -> Callable[[Speech, Any], Call]:
    return lambda s, m: _change(action, m, s)


def cancel(s: Speech, m: c.Cancel) -> Call:
    if m.token is not None:
        if m.id is UNSET:
            raise InvalidRequest("id", None, "a worker cancels its own job by id and token")
        return Call("settle", (Settle(state.SETTLE_CANCEL, [m.id], [m.token]),), s.one)
    return _change(request.CANCEL, m, s)


def priority(s: Speech, m: c.ChangePriority) -> Call:
    return _change(request.PRIORITY, m, s, priority=bound.priority("priority", m.priority))


def _rewritten(s: Speech, m: Any) -> Fields:
    more: Fields = {}
    if s.is_given(m.data):
        more["payload"] = kept(m.data, m.codec, s.form)
    if m.metadata is not None:
        more["metadata"] = bound.metadata("metadata", m.metadata)
    if m.tags is not None:
        more["tags"] = bound.tags("tags", m.tags)
    return more


def rewrite(action: int) -> Callable[[Speech, Any], Call]:
    return lambda s, m: _change(action, m, s, **_rewritten(s, m))


def delay(s: Speech, m: c.MoveToDelayed) -> Call:
    if (m.delay is UNSET) == (m.run_at is UNSET):
        raise InvalidRequest("run_at", None, "either delay or run_at is needed")
    if m.run_at is not UNSET:
        return _change(request.DELAY, m, s, run_at=bound.instant_ms("run_at", m.run_at))
    return _change(request.DELAY, m, s, run_at=s.now_ms + bound.as_int(bound.duration_ms("delay", m.delay)))


def _dead(queue: str, fingerprint: str, before: int) -> Filter:
    bound.instant_ms("before", before)
    return Filter(queue, 1 << state.FAILED, fingerprint=fingerprint, ended_before=before)


def retry_dead(s: Speech, m: c.RetryDead) -> Call:
    more = _rewritten(s, m)
    if m.id is not UNSET or m.ids is not None or m.filter is not None:
        return _change(request.REPLAY, m, s, rate_per_s=_rate_per_s(m.rate), **more)
    filter = _dead(m.queue, m.fingerprint, m.before)
    bound.count("count", m.count)
    change = Change(
        request.REPLAY, None, filter, limit=m.count, rate_per_s=_rate_per_s(m.rate), reason=m.reason, **more
    )
    return Call("change", (change,), _say_count)


def _rate_per_s(rate: int) -> int:
    return bound.as_int(bound.count("rate", rate))


def list_dead(s: Speech, m: c.Dead) -> Call:
    say = lambda found: {"jobs": [s.record(job) for job in found.jobs], "cursor": found.cursor}  # noqa: E731
    return Call("find", (_dead(m.queue, m.fingerprint, m.before), m.count, m.cursor), say)


def purge(s: Speech, m: c.PurgeDead) -> Call:
    if m.id is not UNSET:
        return Call("change", (Change(request.REMOVE, [m.id]),), s.one)
    bound.count("count", m.count)
    change = Change(request.REMOVE, None, _dead(m.queue, m.fingerprint, m.before), limit=m.count)
    return Call("change", (change,), _say_count)


WAITING = sum(1 << code for code in (state.READY, state.SCHEDULED, state.RETRYING, state.BLOCKED))
ENDED = sum(1 << code for code in state.TERMINAL)


def drain(s: Speech, m: c.Drain) -> Call:
    """What has not begun is removed."""
    bound.name("queue", m.queue)
    change = Change(request.REMOVE, None, Filter(m.queue, WAITING), reason="drained")
    return Call("change", (change,), _say_count)


def clean(s: Speech, m: c.Clean) -> Call:
    """What ended longer than `grace` ago is removed; of what waits, what was made longer ago."""
    bound.name("queue", m.queue)
    filter = s.filter(c.Which(queue=m.queue, state=m.state))
    before = s.now_ms - bound.as_int(bound.duration_ms("grace", m.grace)) + 1
    if not filter.states & ~ENDED:
        filter.ended_before = before
    elif not filter.states & ~WAITING:
        filter.created_to = before
    else:
        raise InvalidRequest("state", m.state, "it must be a state of jobs that wait, or of jobs that have ended")
    bound.count("limit", m.limit)
    return Call("change", (Change(request.REMOVE, None, filter, limit=m.limit),), _say_count)


def obliterate(s: Speech, m: c.Obliterate) -> Call:
    bound.name("queue", m.queue)
    return Call("obliterate", (m.queue, m.force), lambda found: {"count": found})


# Settings.

RATES = ("rate", "enqueue_rate")


def setting(name: str, value: object) -> object:
    """Rates come as maps."""
    if value is None or name not in RATES:
        return value
    try:
        rate = msgspec.convert(value, c.WireRate)
    except msgspec.ValidationError as error:
        raise InvalidRequest(name, value, f"it must have tokens, period and burst ({error})") from error
    return _rate(rate.tokens, rate.period, rate.burst)


def _rate(tokens: int, period: int, burst: int | UnsetType) -> Rate:
    return Rate(tokens, period, tokens if burst is UNSET else burst)


def shown_settings(found: Fields) -> Fields:
    """As they would be set: a store answers a rate as its three numbers."""
    shown: Fields = {}
    for name, value in found.items():
        if name in RATES and value is not None:
            shown[name] = dict(zip(("tokens", "period", "burst"), value, strict=True))
        else:
            shown[name] = shown_settings(value) if isinstance(value, dict) else value
    return shown


def configure(subject: int, name: str, m: c.Configuring) -> Call:
    made = {field: setting(field, given) for field, given in m.changes.items()}
    say: Callable[[Fields], Fields] = dict if m.packed else shown_settings
    return Call("configure", (Configure(subject, name, made),), lambda found: {"settings": say(found)})


def workers(m: c.Workers) -> Call:
    if not m.task:
        return configure(request.WORKER, m.name, m)
    if m.name != "*":
        raise InvalidRequest("task", m.task, "either a worker's name or a task")
    return configure(request.TASK, m.task, m)


def set_queue(**changes: Any) -> Callable[[Speech, Any], Call]:
    def translate(s: Speech, m: Any) -> Call:
        return Call("configure", (Configure(request.QUEUE, m.queue, dict(changes)),), lambda _: {})

    return translate


def is_paused(s: Speech, m: c.IsPaused) -> Call:
    configure = Configure(request.QUEUE, m.queue, {})
    return Call("configure", (configure,), lambda found: {"paused": bool(found.get("paused"))})


def rate_limit(s: Speech, m: c.RateLimit) -> Call:
    configure = Configure(request.QUEUE, m.queue, {"rate": _rate(m.limit, m.period, m.burst)})
    return Call("configure", (configure,), lambda _: {})


def set_concurrency(s: Speech, m: c.SetConcurrency) -> Call:
    return Call("configure", (Configure(request.QUEUE, m.queue, {"concurrency": m.limit}),), lambda _: {})
