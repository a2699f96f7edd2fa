"""Operations that outlive their engine: a change by filter that was going on when it was lost."""

from tenure.core.answer import Answers
from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import CANCEL, Batch, Change, Filter
from tenure.core.tenant import Context, OpId
from tenure.engine.engine import Engine
from tenure.engine.restore import Restore

SECRET = b"s" * 32
NOW = Now(1_800_000_000_000, 5_000)
ASKED = Context("acme", op=OpId("s", 1))
JOBS = 3_500


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
    while again.ticket:
        engine.tick(NOW)
    assert (again.count, engine.drain_outbox()) == (JOBS, [(first.ticket, JOBS)])
    records.append(engine.take())
    late = cancel_all(restarted(records, engine))
    assert (late.ticket, late.count) == (0, JOBS)
