"""The engine's clocks over a restart: what the journal says of them is enough."""

from tenure.core import bound
from tenure.core.answer import Claimed
from tenure.core.clock import Now
from tenure.core.job import Extras
from tenure.core.record import JobRecord
from tenure.core.request import Batch, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.engine.redo import head
from tenure.engine.restore import Restore

SECRET = bytes(32)
HOUR = 3_600_000
LEASE = 30_000


class Life:
    """An engine, its records and its clocks; a restart goes through the records alone."""

    def __init__(self) -> None:
        self.wall, self.elapsed, self.left_out = 1_700_000_000_000, 5_000, 0
        self.engine = Engine(SECRET, 1, self.now())
        self.engine.keep_journal()
        self.records: list[bytes] = []

    def now(self) -> Now:
        return Now(self.wall, self.elapsed, self.left_out)

    def write_down(self) -> None:
        self.records.append(self.engine.take())

    def pass_time(self, ms: int) -> None:
        self.wall += ms
        self.elapsed += ms

    def tick(self) -> None:
        self.engine.tick(self.now())
        self.write_down()

    def enqueue(self, extras: Extras | None = None, **options: object) -> int:
        batch = Batch(bound.make_options(**options), [b"x"], None if extras is None else [extras])
        answers = self.engine.enqueue(Context(), batch, self.now())
        assert not answers.errors()
        self.write_down()
        return answers.item(0).id

    def claim(self) -> Claimed:
        found = self.engine.claim(Context(), bound.make_claim(("default",), 1, 0, "w", None), self.now())
        self.write_down()
        return found

    def complete(self, claimed: Claimed) -> bool:
        """Whether it was accepted."""
        answers = self.engine.settle(Context(), Settle(SETTLE_COMPLETE, claimed.ids, [claimed.token]), self.now())
        self.write_down()
        return not answers.errors()

    def job(self, id: int) -> JobRecord:
        [found] = self.engine.get(Context(), [id], [], self.now())
        assert found is not None
        return found

    def restart(self) -> None:
        """At the time it is now: what passed since the last record is time in which the store was down."""
        restore = Restore(SECRET, 2)
        for record in self.records:
            if record:
                restore.record(record)
        self.engine = restore.finish(self.now(), self.engine.last_event())
        self.left_out = self.engine.left_out()


def test_time_of_events_does_not_fall_over_a_restart() -> None:
    life = Life()
    latest = life.wall
    life.enqueue()
    life.wall -= HOUR
    life.enqueue()
    life.restart()
    id = life.enqueue()
    assert life.job(id).created_at == latest
    times = [event.at for event in life.engine.events(Context(), "e2", 10, life.now()).events]
    assert times == [latest]


def test_clock_that_is_set_back_while_the_store_is_down_holds_up_no_delay() -> None:
    life = Life()
    delayed = life.enqueue(delay_ms=10_000)
    planned = life.enqueue(Extras(run_at=life.wall + 10_000))
    life.wall -= HOUR
    life.restart()
    assert life.job(delayed).run_at == life.wall + 10_000
    life.pass_time(10_000)
    life.tick()
    assert [life.job(id).state for id in (delayed, planned)] == ["ready", "scheduled"]
    life.pass_time(HOUR)
    life.tick()
    assert life.job(planned).state == "ready"


def test_delay_that_was_asked_while_the_clock_was_ahead_is_as_long_after_a_restart() -> None:
    life = Life()
    life.wall += HOUR
    life.tick()
    id = life.enqueue(delay_ms=10_000)
    life.wall -= HOUR
    life.tick()
    life.restart()
    life.pass_time(9_999)
    life.tick()
    assert life.job(id).state == "scheduled"
    life.pass_time(1)
    life.tick()
    assert life.job(id).state == "ready"


def test_retention_is_as_long_after_a_restart_though_the_clock_was_set() -> None:
    life = Life()
    early = life.enqueue(keep_completed_ms=120_000)
    assert life.complete(life.claim())
    life.wall += HOUR
    life.tick()
    late = life.enqueue(keep_completed_ms=120_000)
    assert life.complete(life.claim())
    life.restart()
    life.pass_time(119_999)
    life.tick()
    assert [life.job(id).state for id in (early, late)] == ["completed", "completed"]
    life.pass_time(1)
    life.tick()
    assert life.engine.get(Context(), [early, late], [], life.now()) == [None, None]


def test_down_time_ends_no_lease_and_no_timeout() -> None:
    life = Life()
    id = life.enqueue(timeout_ms=20_000, lease_ms=LEASE)
    claimed = life.claim()
    life.pass_time(5_000)
    life.tick()
    life.pass_time(HOUR)
    life.restart()
    life.pass_time(14_999)
    life.tick()
    assert life.job(id).state == "running"
    assert life.complete(claimed)


def test_time_that_was_left_out_is_remembered_over_a_restart() -> None:
    """A lease that outlives a stop of its owner only because that time does not count."""
    life = Life()
    id = life.enqueue(lease_ms=LEASE)
    claimed = life.claim()
    life.pass_time(LEASE - 1)
    life.tick()
    life.pass_time(HOUR)
    life.left_out += HOUR
    life.tick()
    life.enqueue()  # a record of a later time
    life.restart()
    life.pass_time(LEASE - 1)
    life.tick()
    assert life.job(id).state == "running"
    assert life.complete(claimed)


def test_lease_outlives_a_store_that_was_opened_and_closed_without_a_change() -> None:
    """The head of the last checkpoint is all that was written then."""
    life = Life()
    id = life.enqueue(lease_ms=LEASE)
    claimed = life.claim()
    until = life.job(id).lease_until
    for _ in range(3):
        life.pass_time(HOUR)
        life.restart()
        life.records.append(head(life.engine._w))
    assert life.job(id).lease_until == until + 3 * HOUR
    assert life.complete(claimed)


def test_a_call_that_is_late_does_not_set_the_clock_back() -> None:
    life = Life()
    early = life.now()
    life.pass_time(10_000)
    life.tick()
    life.engine.get(Context(), [], [], early)
    assert (life.engine._w.stepped_ms, life.engine._w.stepped_at) == (0, 0)
