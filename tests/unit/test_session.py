"""Operations that outlive their engine: a change by filter that was going on when it was lost."""

import sys

import pytest

from tenure.core.answer import Answers
from tenure.core.bound import ID_MAX, make_claim
from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import CANCEL, REMOVE, Batch, Change, Filter, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context, OpId
from tenure.engine.engine import Engine
from tenure.engine.restore import Restore
from tenure.engine.session import pack_ids, unpack_ids

SECRET = b"s" * 32
NOW = Now(1_800_000_000_000, 5_000)
ASKED = Context("acme", op=OpId("s", 1))
JOBS = 3_500
DAY_MS = 24 * 60 * 60 * 1_000


def cancel_all(engine: Engine) -> Answers:
    return engine.change(ASKED, Change(CANCEL, None, Filter(queue="default")), NOW)


def restarted(records: list[bytes], engine: Engine) -> Engine:
    restore = Restore(SECRET, 2)
    for record in records:
        restore.record(record)
    return restore.finish(NOW, engine.last_event())


def test_repeat_of_a_sweep_after_a_restart_waits_for_it_and_answers_its_count() -> None:
    engine = Engine(SECRET, 1, NOW)
    engine.keep_journal()
    engine.enqueue(Context("acme"), Batch(Options(), [b"x"] * JOBS), NOW)
    first = cancel_all(engine)
    records = [engine.take()]
    engine = restarted(records, engine)
    again = cancel_all(engine)
    assert again.ticket == first.ticket > 0
    for _ in range(JOBS):
        engine.tick(NOW)
        again = cancel_all(engine)
        if not again.ticket:
            break
    assert (again.ticket, again.count, engine.drain_outbox()) == (0, JOBS, [(first.ticket, JOBS)])
    records.append(engine.take())
    late = cancel_all(restarted(records, engine))
    assert (late.ticket, late.count) == (0, JOBS)


def push(engine: Engine, tenant: str, session: int, counter: int = 1) -> int:
    op = OpId(f"s{session}", counter)
    return engine.enqueue(Context(tenant, op=op), Batch(Options(), [b"x"]), NOW).ids[0]


def test_remembered_claim_keeps_no_payload() -> None:
    """A client that claims by the thousand has a thousand claims remembered, for two minutes."""
    engine = Engine(SECRET, 1, NOW)
    payload = bytes(range(200))
    engine.enqueue(Context("acme"), Batch(Options(), [payload]), NOW)
    held = sys.getrefcount(payload)
    claim = make_claim(("default",), 1)
    claimed = engine.claim(ASKED, claim, NOW)
    again = engine.claim(ASKED, claim, NOW)
    assert (again.ids, again.payloads, again.token) == (claimed.ids, [payload], claimed.token)
    complete = Settle(SETTLE_COMPLETE, claimed.ids, [claimed.token])
    assert engine.settle(Context("acme"), complete, NOW).errors() == {}
    engine.change(Context("acme"), Change(REMOVE, claimed.ids), NOW)
    del claimed, again
    assert sys.getrefcount(payload) < held
    assert len(engine._w.sessions["acme"]["acme\ns"].answers) == 1


@pytest.mark.parametrize(
    "ids", [[], [7], [0, 0, 1, 2, 3, 0, 9, 8], list(range(500, 1_500)), [ID_MAX - 1, ID_MAX], list(range(2, 3_000, 2))]
)
def test_ids_are_remembered_in_few_bytes(ids: list[int]) -> None:
    packed = pack_ids(ids)
    assert unpack_ids(packed) == ids
    assert len(packed) <= 9 * len(ids)
    assert unpack_ids(pack_ids([*ids, -1, 2**70])) == [*ids, 0, 0]


def test_sessions_of_a_tenant_push_out_none_of_another() -> None:
    engine = Engine(SECRET, 1, NOW)
    engine._w.sessions_per_tenant_max = 5
    first = push(engine, "acme", 0)
    others = [push(engine, "globex", n) for n in range(20)]
    assert push(engine, "acme", 0) == first
    assert [push(engine, "globex", n) for n in range(15, 20)] == others[15:]
    assert push(engine, "globex", 0) != others[0]
    day_later = Now(NOW.wall_ms + 2 * DAY_MS, NOW.elapsed_ms + 2 * DAY_MS)
    engine.tick(day_later)
    assert (engine._w.sessions, engine._w.session_names) == ({}, {})


def test_sessions_of_the_store_are_bounded_at_the_cost_of_who_has_most() -> None:
    engine = Engine(SECRET, 1, NOW)
    engine._w.sessions_max = 10
    large = [push(engine, "large", n) for n in range(10)]
    small = [push(engine, "small", n) for n in range(3)]
    assert len(engine._w.session_names) == 10
    assert [push(engine, "small", n) for n in range(3)] == small
    assert [push(engine, "large", n) for n in range(3, 10)] == large[3:]
    records = [push(engine, f"tenant{n}", 0) for n in range(5)]
    assert [push(engine, f"tenant{n}", 0) for n in range(5)] == records
    assert [push(engine, "small", n) for n in range(1, 3)] == small[1:]


def test_sessions_are_there_after_a_restart() -> None:
    engine = Engine(SECRET, 1, NOW)
    engine.keep_journal()
    made = {(tenant, n): push(engine, tenant, n) for tenant in ("acme", "globex") for n in range(3)}
    engine = restarted([engine.take()], engine)
    assert {name: push(engine, *name) for name in made} == made
    assert engine.verify() == []
