"""A history that is tampered with must be noticed: a checker that cannot fail is worthless.

A run is recorded, one thing in it is made wrong, and the checker is shown the result. Sequence numbers are made to fit
again, so that it is the wrong itself that has to be found.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import msgspec
import pytest

from tenure.core import request
from tenure.core.answer import Answers, Claimed, Outcome
from tenure.core.error import LeaseLost
from tenure.core.limit import Rate
from tenure.core.record import Event
from tenure.core.request import Configure, Settle
from tenure.core.state import COMPLETED
from tenure.core.tenant import Context
from tests.simulation.checker import Checker
from tests.simulation.record import Record
from tests.simulation.run import Failed, run

SEED = 11

History = list[Record]
Tampering = Callable[[History], None]
TAMPERINGS: list[tuple[str, str, Tampering]] = []


@cache
def recorded() -> tuple[Record, ...]:
    """A sound history: the whole run, or all of it before its first finding."""
    try:
        return tuple(run(SEED, keep=True)[1].history)
    except Failed as failed:
        return tuple(failed.world.history[:-1])


def findings(history: History) -> list[str]:
    checker = Checker()
    found: list[str] = []
    for record in history:
        found += checker.feed(record)
    return found + checker.leftovers()


def tampering(finding: str) -> Callable[[Tampering], Tampering]:
    def note(tamper: Tampering) -> Tampering:
        TAMPERINGS.append((tamper.__name__, finding, tamper))
        return tamper

    return note


def renumber(history: History) -> None:
    """Make all sequence numbers dense again."""
    seq = 0
    job_seqs: dict[int, int] = {}
    for at, record in enumerate(history):
        events: list[Event] = []
        for event in record.events:
            seq += 1
            job_seqs[event.job] = job_seqs.get(event.job, 0) + 1
            job_seq = job_seqs[event.job] if event.job else 0
            events.append(msgspec.structs.replace(event, seq=seq, job_seq=job_seq))
        history[at] = replace(record, events=tuple(events))


def first(history: History, suits: Callable[[Record, Event], bool]) -> tuple[int, int]:
    """Where the first such event is: the record and the place in it."""
    for at, record in enumerate(history):
        for place, event in enumerate(record.events):
            if suits(record, event):
                return at, place
    raise AssertionError("the recorded history has no such event")


def set_events(history: History, at: int, events: list[Event]) -> None:
    history[at] = replace(history[at], events=tuple(events))


def drop(history: History, suits: Callable[[Record, Event], bool]) -> None:
    at, place = first(history, suits)
    events = list(history[at].events)
    del events[place]
    set_events(history, at, events)
    renumber(history)


def insert(history: History, at: int, place: int, event: Event) -> None:
    events = list(history[at].events)
    events.insert(place, event)
    set_events(history, at, events)
    renumber(history)


def edit(history: History, suits: Callable[[Record, Event], bool], **fields: object) -> None:
    at, place = first(history, suits)
    events = list(history[at].events)
    events[place] = msgspec.structs.replace(events[place], **fields)
    set_events(history, at, events)


def settled_by(record: Record, event: Event) -> bool:
    settle = record.request
    return isinstance(settle, Settle) and settle.tokens is not None and event.cause == "complete"


def like(answer: object, token: bytes, longer_ms: int) -> Claimed:
    """The same leases under another token, or for longer."""
    assert isinstance(answer, Claimed)
    found = Claimed(token)
    for name in ("ids", "payloads", "options", "tenants", "attempts", "extras"):
        setattr(found, name, list(getattr(answer, name)))
    found.lease_until = [until + longer_ms for until in answer.lease_until]
    return found


def limit_all(history: History, changes: dict[str, object]) -> None:
    """As if every queue had been set so before the first start."""
    at, _ = first(history, lambda record, event: event.type == "started")
    model = history[at]
    queues = dict.fromkeys((event.tenant, event.queue) for record in history for event in record.events if event.job)
    for tenant, queue in queues:
        configure = Configure(request.QUEUE, queue, dict(changes))
        done = replace(model, verb="configure", context=Context(tenant=tenant), request=configure, answer={}, events=())
        history.insert(at, replace(done, sent=()))


# What was done to the events.


@tampering("came where")
def gap_in_seq(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "completed")
    events = list(history[at].events)
    del events[place]
    set_events(history, at, events)


@tampering("job_seq")
def gap_in_job_seq(history: History) -> None:
    edit(history, lambda record, event: event.type == "started", job_seq=7)


@tampering("is left")
def job_that_is_never_removed(history: History) -> None:
    removed = [(at, event) for at, record in enumerate(history) for event in record.events if event.type == "removed"]
    at, last = removed[-1]
    set_events(history, at, [event for event in history[at].events if event is not last])


@tampering("which is not there")
def job_that_goes_on_after_it_was_removed(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "removed")
    insert(history, at, place + 1, msgspec.structs.replace(history[at].events[place], type="ready", state="ready"))


@tampering("was leased while it was leased")
def job_that_starts_twice(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "started")
    insert(history, at, place + 1, history[at].events[place])


@tampering("given to nobody")
def start_without_a_claim(history: History) -> None:
    at, place = first(history, lambda record, event: event.state == "ready" and record.verb == "enqueue")
    fields = {"type": "started", "state": "running", "cause": "claim", "attempt": 1, "delivery": 1}
    insert(history, at, place + 1, msgspec.structs.replace(history[at].events[place], **fields))


@tampering("claim led from cancelled to running")
def start_after_cancel(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "cancelled")
    fields = {"type": "started", "state": "running", "cause": "claim"}
    insert(history, at, place + 1, msgspec.structs.replace(history[at].events[place], **fields))


@tampering("came from nowhere")
def job_that_nobody_asked_for(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "enqueued")
    insert(history, at, place, msgspec.structs.replace(history[at].events[place], job=1_000_000))


@tampering("was accepted and never appeared")
def job_that_is_lost_at_once(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "enqueued" and record.verb == "enqueue")
    lost = history[at].events[place].job
    for at, record in enumerate(history):
        set_events(history, at, [event for event in record.events if event.job != lost])
    renumber(history)


@tampering("the events say")
def end_that_nobody_saw(history: History) -> None:
    drop(history, lambda record, event: event.type == "failed")


@tampering("were spent")
def attempt_that_is_counted_twice(history: History) -> None:
    edit(history, lambda record, event: event.type == "started", attempt=2)


@tampering("was due")
def delivery_that_is_counted_twice(history: History) -> None:
    edit(history, lambda record, event: event.type == "started", delivery=2)


@tampering("is tried again at 1 ")
def retry_at_another_time(history: History) -> None:
    edit(history, lambda record, event: event.state == "retrying", run_at=1)


@tampering("before its time")
def job_that_is_ready_before_its_time(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "ready" and event.cause == "due")
    job = history[at].events[place].job
    far = history[at].wall + 10_000_000_000
    for seen in range(at):
        events = [
            msgspec.structs.replace(event, run_at=far) if event.job == job and event.run_at else event
            for event in history[seen].events
        ]
        set_events(history, seen, events)


@tampering("before its dependencies")
def job_that_does_not_wait_for_another(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "started")
    job = history[at].events[place].job
    others = [event.job for record in history[:at] for event in record.events if event.type == "enqueued"]
    other = next(id for id in others if id != job)
    edit(history, lambda record, event: event.type == "enqueued" and event.job == job, depends_on=(other,))


@tampering("both hold the unique key")
def unique_key_that_two_hold(history: History) -> None:
    at, place = first(history, lambda record, event: event.type == "enqueued" and len(record.events) > 3)
    tenant, queue = history[at].events[place].tenant, history[at].events[place].queue
    for at, record in enumerate(history):
        events = [
            msgspec.structs.replace(event, unique_hash="00" * 8)
            if event.type == "enqueued" and (event.tenant, event.queue) == (tenant, queue)
            else event
            for event in record.events
        ]
        set_events(history, at, events)


@tampering("and nobody asked for it")
def cancel_that_nobody_asked_for(history: History) -> None:
    at, place = first(history, lambda record, event: event.state == "ready" and record.verb == "enqueue")
    fields = {"type": "cancelled", "state": "cancelled", "cause": "cancel"}
    insert(history, at, place + 1, msgspec.structs.replace(history[at].events[place], **fields))


# What was done to requests and answers.


@tampering("without the live token")
def settlement_with_an_old_token(history: History) -> None:
    at, _ = first(history, settled_by)
    settle = history[at].request
    assert isinstance(settle, Settle)
    forged = Settle(settle.verb, settle.ids, [bytes(20)] * len(settle.ids))
    history[at] = replace(history[at], request=forged)


@tampering("the live token of job")
def live_token_that_is_refused(history: History) -> None:
    at, place = first(history, settled_by)
    job = history[at].events[place].job
    settle = history[at].request
    assert isinstance(settle, Settle)
    refused = {settle.ids.index(job): Outcome(job, error=LeaseLost(job, "expired"))}
    history[at] = replace(history[at], answer=Answers(settle.ids, COMPLETED, refused))


@tampering("was given twice")
def token_that_is_given_twice(history: History) -> None:
    granted = [at for at, record in enumerate(history) if isinstance(record.answer, Claimed) and record.answer.ids]
    one = history[granted[0]].answer
    assert isinstance(one, Claimed)
    history[granted[1]] = replace(history[granted[1]], answer=like(history[granted[1]].answer, one.token, 0))


@tampering("may not see it")
def claim_that_takes_from_a_stranger(history: History) -> None:
    granted = [at for at, record in enumerate(history) if isinstance(record.answer, Claimed) and record.answer.ids]
    history[granted[0]] = replace(history[granted[0]], context=Context(tenant="stranger"))


@tampering("are its own")
def tenant_that_reads_a_strangers_event(history: History) -> None:
    at = next(at for at, record in enumerate(history) if record.verb == "events")
    read = history[at].answer
    assert isinstance(read, list)
    strange = next(event for record in history for event in record.events if event.job)
    history[at] = replace(history[at], answer=[*read, msgspec.structs.replace(strange, tenant="stranger")])


@tampering("which allows 0")
def more_running_than_allowed(history: History) -> None:
    limit_all(history, {"concurrency": 0})


@tampering("was paused")
def start_in_a_paused_queue(history: History) -> None:
    limit_all(history, {"paused": True})


@tampering("is over its rate")
def starts_above_the_rate(history: History) -> None:
    limit_all(history, {"rate": Rate(1, 1_000_000_000, 1)})


@tampering("first Answers")
def repeat_that_is_executed(history: History) -> None:
    seen: dict[tuple[str, str], Context] = {}
    for at, record in enumerate(history):
        op = record.context.op
        if record.verb != "enqueue" or op is None or not record.events:
            continue
        session = (record.context.tenant, op.session)
        if session in seen:
            history[at] = replace(record, context=seen[session])
            return
        seen[session] = record.context
    raise AssertionError("no producer sent twice")


@tampering("(unknown) was answered")
def ticket_that_is_answered_twice(history: History) -> None:
    at = next(at for at, record in enumerate(history) if record.sent)
    history[at] = replace(history[at], sent=(*history[at].sent, history[at].sent[0]))


@tampering("lost its lease")
def lease_that_ends_early(history: History) -> None:
    at, place = first(history, lambda record, event: event.cause == "expire_lease")
    job = history[at].events[place].job
    for seen in range(at - 1, -1, -1):
        answer = history[seen].answer
        if isinstance(answer, Claimed) and job in answer.ids:
            history[seen] = replace(history[seen], answer=like(answer, answer.token, 10_000_000))
            return
    raise AssertionError("the lease came from nowhere")


def test_sound_history_is_found_sound() -> None:
    checker = Checker()
    assert [text for record in recorded() for text in checker.feed(record)] == []


@pytest.mark.parametrize(("finding", "tamper"), [pytest.param(text, how, id=name) for name, text, how in TAMPERINGS])
def test_tampering_is_found(finding: str, tamper: Tampering) -> None:
    history = list(recorded())
    tamper(history)
    found = findings(history)
    assert any(finding in text for text in found), found[:10]
