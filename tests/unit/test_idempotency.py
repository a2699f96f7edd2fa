"""Idempotency keys across restarts: said by their job while it is there, written down by themselves when it is gone."""

import msgspec
import pytest

from tenure.core import bound
from tenure.core.clock import Now
from tenure.core.job import Extras
from tenure.core.request import REPLAY, Batch, Change, Settle
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.engine.journal import CLOCK
from tenure.engine.redo import Sections
from tenure.engine.restore import Restore

SECRET = bytes(32)
START_MS = 1_700_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
CONTEXT = Context()


class Life:
    """An engine and its records, at a time of its own."""

    def __init__(self) -> None:
        self.now = Now(START_MS, 0)
        self.engine = Engine(SECRET, 1, self.now)
        self.engine.keep_journal()
        self.records: list[bytes] = []

    def wait(self, ms: int) -> None:
        self.now = Now(self.now.wall_ms + ms, self.now.elapsed_ms + ms)

    def note(self) -> None:
        record = self.engine.take()
        if record:
            self.records.append(record)

    def push(self, key: str = "k", count: int = 1, **options: object) -> tuple[int, bool]:
        """The job, and whether it was there already."""
        extras: list[Extras | None] = [bound.make_extras(idempotency_key=f"{key}{at or ''}") for at in range(count)]
        batch = Batch(bound.make_options(idempotency_ttl_ms=HOUR, **options), [b"x"] * count, extras)
        answers = self.engine.enqueue(CONTEXT, batch, self.now)
        other = answers.other or {}
        return answers.ids[0], 0 in other and other[0].duplicate

    def end(self, verb: int = SETTLE_COMPLETE) -> int:
        found = self.engine.claim(CONTEXT, bound.make_claim(("default",), 1, 0, "w"), self.now)
        assert not self.engine.settle(CONTEXT, Settle(verb, found.ids, [found.token]), self.now).errors()
        return found.ids[0]

    def restart(self) -> None:
        self.note()
        restore = Restore(SECRET, 2)
        for record in self.records:
            restore.record(record)
        self.engine = restore.finish(self.now, self.engine.last_event())
        assert self.engine.verify() == []


@pytest.fixture
def life() -> Life:
    return Life()


def test_job_that_waits_has_its_key_however_long(life: Life) -> None:
    id, _ = life.push()
    life.restart()
    life.wait(2 * HOUR)
    assert life.push() == (id, True)
    life.restart()
    assert life.push() == (id, True)
    life.end()
    assert life.push() == (id + 1, False)


def test_ended_job_has_its_key_for_its_time(life: Life) -> None:
    id, _ = life.push(keep_completed_ms=24 * HOUR)
    life.end()
    life.restart()
    life.wait(HOUR - 1)
    assert life.push() == (id, True)
    life.restart()
    life.wait(1)
    assert life.push() == (id + 1, False)


def test_time_that_ends_while_the_store_is_closed_frees_the_key(life: Life) -> None:
    id, _ = life.push(keep_completed_ms=24 * HOUR)
    life.end()
    life.wait(HOUR)
    life.restart()
    assert life.push() == (id + 1, False)


def test_key_outlives_its_job(life: Life) -> None:
    id, _ = life.push(keep_completed_ms=0)
    life.note()
    life.end()
    life.wait(10 * MINUTE)
    life.restart()
    assert life.engine.get(CONTEXT, [id], [], life.now) == [None]
    assert life.push() == (id, True)
    life.wait(HOUR)
    life.restart()
    assert life.push() == (id + 1, False)


def test_key_that_was_freed_and_taken_again_is_of_the_new_job(life: Life) -> None:
    first, _ = life.push(keep_completed_ms=24 * HOUR)
    life.end()
    life.restart()
    life.wait(HOUR)
    second, _ = life.push(keep_completed_ms=24 * HOUR)
    assert second != first
    life.restart()
    assert life.push() == (second, True)
    life.end()
    life.wait(HOUR)
    life.restart()
    assert life.push() == (second + 1, False)


def test_key_of_a_job_that_is_gone_is_freed_and_taken_again_in_one_record(life: Life) -> None:
    life.push(keep_completed_ms=0)
    life.end()
    life.wait(10 * MINUTE)
    life.restart()
    life.wait(HOUR)
    second, _ = life.push(keep_completed_ms=0)
    life.restart()
    assert life.push() == (second, True)
    life.end()
    life.wait(2 * HOUR)
    life.restart()
    assert life.push() == (second + 1, False)


def test_replayed_job_takes_its_key_again_for_its_time(life: Life) -> None:
    id, _ = life.push(max_attempts=1)
    life.end(SETTLE_FAIL)
    life.wait(2 * HOUR)
    assert not life.engine.change(CONTEXT, Change(REPLAY, [id]), life.now).errors()
    life.restart()
    life.end()
    life.wait(HOUR - 1)
    assert life.push() == (id, True)
    life.restart()
    life.wait(1)
    assert life.push() == (id + 1, False)


def test_jobs_with_keys_cost_the_journal_no_entities(life: Life) -> None:
    life.push(count=1_000)
    record = life.engine.take()
    assert [name for name, _ in msgspec.msgpack.decode(Sections(record).entities)] == [
        [CLOCK]
    ]  # which the first record has
    assert len(record) < 30 * 1_000
