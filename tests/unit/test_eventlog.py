"""The event log: what is written is read, from any place, as long as it is kept."""

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core import event, state
from tenure.core.error import EventsLost
from tenure.core.job import Extras, Options
from tenure.core.record import Event, Failed
from tenure.engine import eventlog
from tenure.engine.eventlog import CHUNK_BYTES, NO_FAILURE, EventLog
from tenure.engine.job import Job, Side, Spec
from tenure.engine.journal import Journal

AT = 1_700_000_000_000
ID_MAX = 2**53 - 1
RUNS = 10**9


def make_spec(tenant: str = "acme", queue: str = "mail", task: str = "send", **options: object) -> Spec:
    made = Options(queue=queue, task=task)
    for field, value in options.items():
        setattr(made, field, value)
    return Spec(made, 0, tenant, 0)


SPEC = make_spec()


def make_job(id: int = 1, spec: Spec = SPEC, payload: bytes = b"", side: Side | None = None) -> Job:
    job = Job(id, spec, payload, AT, 0, 0)
    job.side = side
    return job


def make_log(events_max: int = 1_000_000, at: int = AT) -> EventLog:
    log = EventLog(events_max, Journal())
    log.begin(at)
    return log


def read_all(log: EventLog, tenant: str = "", after: int = 0) -> list[Event]:
    return log.read(after, 10**9, tenant, RUNS)[0]


def read_one(log: EventLog) -> Event:
    [found] = read_all(log)
    return found


def size_of(log: EventLog) -> int:
    return sum(len(chunk.data) for chunk in log._chunks) + len(log._out)


# Round trips, one layout after the other.


def test_plain_enqueue_is_read_as_written() -> None:
    log = make_log()
    log.enqueued(make_job(7, payload=b"hello"), event.ENQUEUED, state.ENQUEUE)
    assert read_one(log) == Event(
        seq=1,
        job_seq=1,
        at=AT,
        type="enqueued",
        tenant="acme",
        queue="mail",
        task="send",
        job=7,
        state="ready",
        cause="enqueue",
        run_at=AT,
        max_attempts=3,
        payload_bytes=5,
    )


texts = st.text(max_size=8)
names = st.text("abcXYZ019_.-", min_size=1, max_size=8)
numbers = st.integers(0, 2**31 - 1)
spans_ms = st.integers(0, 3_653 * 86_400_000)
job_ids = st.integers(1, ID_MAX)


@given(
    st.tuples(names, names, names),
    job_ids,
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 1_000_000),
    st.lists(texts, max_size=8),
    spans_ms,
    spans_ms,
    st.integers(0, 300),
    st.tuples(texts, texts, st.lists(job_ids, max_size=5)),
    st.sampled_from(["scheduled", "blocked", "ready"]),
)
def test_every_field_of_an_enqueue_is_read_as_written(
    names: tuple[str, str, str],
    id: int,
    priority: int,
    max_attempts: int,
    limit_keys: list[str],
    delay_ms: int,
    ttl_ms: int,
    size: int,
    keys: tuple[str, str, list[int]],
    name: str,
) -> None:
    group, unique_key, depends_on = keys
    spec = make_spec(*names, priority=priority, max_attempts=max_attempts, limit_keys=tuple(limit_keys))
    side = Side(Extras(group=group, unique_key=unique_key, depends_on=tuple(depends_on)))
    side.expires_at = AT + ttl_ms if ttl_ms else 0
    job = make_job(id, spec, b"x" * size, side)
    job.run_at = AT + delay_ms
    job.state = state.STATE_NAMES.index(name)
    log = make_log()
    log.enqueued(job, event.ENQUEUED, state.ENQUEUE)
    assert read_one(log) == Event(
        seq=1,
        job_seq=1,
        at=AT,
        type="enqueued",
        tenant=names[0],
        queue=names[1],
        task=names[2],
        job=id,
        state=name,
        cause="enqueue",
        run_at=AT + delay_ms,
        expires_at=AT + ttl_ms if ttl_ms else 0,
        priority=priority,
        max_attempts=max_attempts or None,
        group=group,
        limit_keys=tuple(limit_keys),
        depends_on=tuple(depends_on),
        unique_hash=sha256(unique_key.encode()).digest()[:8].hex() if unique_key else "",
        payload_bytes=size,
    )


def test_expiry_without_other_extras_is_read_as_written() -> None:
    log = make_log()
    side = Side(None)
    side.expires_at = AT + 60_000
    log.enqueued(make_job(1, side=side), event.ENQUEUED, state.ENQUEUE)
    assert read_one(log).expires_at == AT + 60_000


def running_job(id: int, seq: int, attempt: int, delivery: int) -> Job:
    job = make_job(id)
    job.seq = seq
    job.attempt = attempt
    job.delivery = delivery
    job.state = state.RUNNING
    return job


@given(job_ids, numbers, numbers, numbers, spans_ms, texts)
def test_every_field_of_a_start_is_read_as_written(
    id: int, seq: int, attempt: int, delivery: int, wait_ms: int, worker: str
) -> None:
    job = running_job(id, seq, attempt, delivery)
    job.ready_at = AT - wait_ms
    log = make_log()
    log.started(job, worker, state.CLAIM)
    assert read_one(log) == Event(
        seq=1,
        job_seq=seq,
        at=AT,
        type="started",
        tenant="acme",
        queue="mail",
        task="send",
        job=id,
        state="running",
        attempt=attempt,
        delivery=delivery,
        worker=worker,
        cause="claim",
        ready_at=AT - wait_ms,
        started_at=AT,
        wait_ms=wait_ms,
    )


@given(
    job_ids,
    st.tuples(numbers, numbers, numbers, numbers),
    st.lists(spans_ms, min_size=3, max_size=3).map(sorted),
    spans_ms,
    st.tuples(texts, texts, texts, texts),
    texts,
)
def test_every_field_of_an_ended_attempt_is_read_as_written(
    id: int,
    counts: tuple[int, int, int, int],
    ago: list[int],
    delay_ms: int,
    failure: tuple[str, str, str, str],
    worker: str,
) -> None:
    seq, attempt, delivery, result_bytes = counts
    run_ms, ready_ago, created_ago = ago
    reason, type, message, fingerprint = failure
    job = running_job(id, seq, 0, delivery)
    job.created_at = AT - created_ago
    job.ready_at = AT - ready_ago
    job.started_at = AT - run_ms
    job.run_at = AT + delay_ms
    job.state = state.RETRYING
    failed = Failed(type, message, "a trace is not part of it", fingerprint)
    log = make_log()
    log.ended(job, event.RETRYING, state.FAIL, worker, reason, failed, attempt, result_bytes)
    assert read_one(log) == Event(
        seq=1,
        job_seq=seq,
        at=AT,
        type="retrying",
        tenant="acme",
        queue="mail",
        task="send",
        job=id,
        state="retrying",
        attempt=attempt,
        delivery=delivery,
        worker=worker,
        cause="fail",
        run_at=AT + delay_ms,
        enqueued_at=AT - created_ago,
        ready_at=AT - ready_ago,
        started_at=AT - run_ms,
        wait_ms=ready_ago - run_ms,
        run_ms=run_ms,
        result_bytes=result_bytes,
        reason=reason,
        error_type=type,
        message=message,
        fingerprint=fingerprint,
    )


@given(job_ids, numbers, numbers, numbers, st.integers(-(10**11), 10**11), st.tuples(texts, texts, texts, texts))
def test_every_field_of_a_plain_event_is_read_as_written(
    id: int, seq: int, attempt: int, delivery: int, off_ms: int, failure: tuple[str, str, str, str]
) -> None:
    reason, type, message, fingerprint = failure
    job = running_job(id, seq, attempt, delivery)
    job.run_at = AT + off_ms
    log = make_log()
    log.plain(job, event.FAILED, state.EXPIRE, state.FAILED, reason, Failed(type, message, "", fingerprint))
    assert read_one(log) == Event(
        seq=1,
        job_seq=seq,
        at=AT,
        type="failed",
        tenant="acme",
        queue="mail",
        task="send",
        job=id,
        state="failed",
        attempt=attempt,
        delivery=delivery,
        cause="expire",
        run_at=AT + off_ms,
        reason=reason,
        error_type=type,
        message=message,
        fingerprint=fingerprint,
    )


details = st.dictionaries(texts, st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), texts), max_size=4)


@given(details, texts)
def test_notice_without_a_job_is_read_as_written(detail: dict[str, object], worker: str) -> None:
    log = make_log()
    log.notice(None, event.LIMITS_CHANGED, state.ENQUEUE, SPEC, worker, detail)
    found = read_one(log)
    assert (found.type, found.job, found.state, found.job_seq) == ("limits_changed", 0, "", 0)
    assert (found.tenant, found.queue, found.worker, found.detail) == ("acme", "mail", worker, detail)


@given(job_ids, numbers, numbers, numbers, details)
def test_notice_about_a_job_is_read_as_written(
    id: int, seq: int, attempt: int, delivery: int, detail: dict[str, object]
) -> None:
    log = make_log()
    log.notice(running_job(id, seq, attempt, delivery), event.PROGRESS, state.UPDATE, SPEC, "w", detail)
    assert read_one(log) == Event(
        seq=1,
        job_seq=seq,
        at=AT,
        type="progress",
        tenant="acme",
        queue="mail",
        task="send",
        job=id,
        state="running",
        attempt=attempt,
        delivery=delivery,
        worker="w",
        cause="update",
        detail=detail,
    )


def test_every_type_cause_and_state_is_read_by_its_name() -> None:
    log = make_log()
    job = make_job()
    for type in range(len(event.EVENT_NAMES)):
        log.plain(job, type, state.UPDATE, state.READY, "", NO_FAILURE)
    for cause in range(len(state.CAUSE_NAMES)):
        log.plain(job, event.UPDATED, cause, state.READY, "", NO_FAILURE)
    for code in range(10):
        log.plain(job, event.UPDATED, state.UPDATE, code, "", NO_FAILURE)
    found = read_all(log)
    types, causes = len(event.EVENT_NAMES), len(state.CAUSE_NAMES)
    assert tuple(one.type for one in found[:types]) == event.EVENT_NAMES
    assert tuple(one.cause for one in found[types : types + causes]) == state.CAUSE_NAMES
    assert [one.state for one in found[types + causes :]] == [*state.STATE_NAMES, "", ""]


def test_message_is_cut_to_256_bytes_between_characters() -> None:
    log = make_log()
    log.plain(make_job(), event.FAILED, state.FAIL, state.FAILED, "permanent", Failed("E", "é" * 200))
    assert read_one(log).message == "é" * 128


def test_text_that_cannot_be_encoded_is_replaced() -> None:
    log = make_log()
    log.started(running_job(1, 1, 1, 1), "w\ud800", state.CLAIM)
    assert read_one(log).worker == "w?"


# Reading from anywhere.

TENANTS = ("acme", "globex", "initech")
SPECS = {tenant: make_spec(tenant) for tenant in TENANTS}

writings = st.lists(
    st.tuples(st.sampled_from(TENANTS), st.sampled_from(["enqueued", "started", "removed"]), st.integers(1, 30)),
    max_size=12,
)


def write(log: EventLog, writings: list[tuple[str, str, int]]) -> list[tuple[int, str, str, int]]:
    """Appends runs of events; answers the seq, tenant, type and job of each."""
    written: list[tuple[int, str, str, int]] = []
    id = 0
    for at, (tenant, type, count) in enumerate(writings):
        log.begin(AT + at)
        for _ in range(count):
            id += 1
            job = make_job(id, SPECS[tenant])
            job.ready_at = AT
            if type == "enqueued":
                log.enqueued(job, event.ENQUEUED, state.ENQUEUE)
            elif type == "started":
                log.started(job, "w", state.CLAIM)
            else:
                log.plain(job, event.REMOVED, state.REMOVE, state.GONE, "age", NO_FAILURE)
            written.append((len(written) + 1, tenant, type, id))
    return written


def seen(events: list[Event]) -> list[tuple[int, str, str, int]]:
    return [(one.seq, one.tenant, one.type, one.job) for one in events]


@given(writings, st.integers(0, 400), st.integers(1, 50))
def test_reading_starts_at_any_cursor_and_stops_at_any_limit(
    writings: list[tuple[str, str, int]], after: int, limit: int
) -> None:
    log = make_log()
    written = write(log, writings)
    assert log.seq == len(written)
    found, upto = log.read(after, limit, "", RUNS)
    assert seen(found) == written[after : after + limit]
    assert upto == (found[-1].seq if found else after)


@given(writings, st.integers(1, 20), st.integers(1, 3))
def test_pages_of_a_tenant_have_all_that_is_its_own(
    writings: list[tuple[str, str, int]], limit: int, runs_max: int
) -> None:
    log = make_log()
    written = write(log, writings)
    for tenant in (*TENANTS, "nobody"):
        found: list[Event] = []
        cursor = 0
        while True:
            page, upto = log.read(cursor, limit, tenant, runs_max)
            assert len(page) <= limit
            found += page
            if upto == cursor:
                break
            assert upto > cursor
            cursor = upto
        assert cursor == len(written)
        assert seen(found) == [one for one in written if one[1] == tenant]


@given(writings, writings)
def test_reading_changes_nothing_for_what_is_written_next(
    first: list[tuple[str, str, int]], second: list[tuple[str, str, int]]
) -> None:
    log = make_log()
    early = write(log, first)
    assert seen(read_all(log)) == early
    late = [(seq + len(early), *rest) for seq, *rest in write(log, second)]
    assert seen(read_all(log)) == early + late
    assert seen(read_all(log, after=len(early))) == late


def test_empty_log_has_nothing_and_no_holes_are_left() -> None:
    log = make_log()
    assert log.read(0, 10, "", RUNS) == ([], 0)
    assert (log.seq, log.oldest()) == (0, 1)
    write(log, [("acme", "enqueued", 3)])
    assert [one.seq for one in read_all(log)] == [1, 2, 3]
    assert log.read(3, 10, "", RUNS) == ([], 3)
    assert log.read(99, 10, "", RUNS) == ([], 99)


# Retention.


def fill(log: EventLog, runs: int, per_run: int, first: int = 0) -> None:
    for run in range(first, first + runs):
        log.begin(AT + run)
        for at in range(per_run):
            log.enqueued(make_job(run * per_run + at + 1), event.ENQUEUED, state.ENQUEUE)
    log.begin(AT + first + runs)


@settings(max_examples=30)
@given(st.integers(1, 2_000), st.integers(1, 40), st.integers(1, 60))
def test_the_last_events_are_kept_and_little_more(events_max: int, runs: int, per_run: int) -> None:
    log = make_log(events_max)
    fill(log, runs, per_run)
    total = runs * per_run
    kept = total - int(log.oldest()) + 1
    assert kept >= min(total, events_max)
    assert kept <= events_max + events_max // 64 + per_run + 1
    found = read_all(log, after=int(log.oldest()) - 1)
    assert [one.seq for one in found] == list(range(int(log.oldest()), total + 1))


def test_retention_drops_whole_chunks_and_names_the_oldest_left() -> None:
    log = make_log(640)
    fill(log, 200, 10)
    oldest = int(log.oldest())
    assert oldest > 1
    assert oldest == log._chunks[0].first
    assert (oldest - 1) % 10 == 0
    for after in (0, 1, oldest - 2):
        with pytest.raises(EventsLost) as lost:
            log.read(after, 10, "", RUNS)
        assert lost.value.oldest == oldest
    assert read_all(log, after=oldest - 1)[0].seq == oldest


def test_cursor_that_was_good_is_told_when_its_events_are_gone() -> None:
    log = make_log(64)
    fill(log, 10, 10)
    cursor = log.read(int(log.oldest()) - 1, 5, "", RUNS)[1]
    fill(log, 100, 10, first=10)
    with pytest.raises(EventsLost):
        log.read(cursor, 5, "", RUNS)


def test_reader_at_the_oldest_event_misses_none_without_being_told() -> None:
    """Whatever is still open when it reads: it gets the next event, or hears that it is lost."""
    log = make_log(64)
    for id in range(1, 400):
        job = make_job(id)
        log.enqueued(job, event.ENQUEUED, state.ENQUEUE)
        log.plain(job, event.CANCELLED, state.CANCEL, state.CANCELLED, "", NO_FAILURE)
        cursor = int(log.oldest()) - 1
        try:
            found, _ = log.read(cursor, 10, "", RUNS)
        except EventsLost:
            continue
        assert found[0].seq == cursor + 1


def test_chunks_follow_each_other_without_a_hole() -> None:
    log = make_log()
    fill(log, 40, 1_000)
    log.begin(AT + 1_000)
    chunks = log._chunks
    assert len(chunks) > 1
    assert chunks[0].first == 1
    for one, next_one in pairwise(chunks):
        assert next_one.first == one.last + 1
        assert len(one.data) >= CHUNK_BYTES
    assert log._out_first == chunks[-1].last + 1


def test_reader_gets_past_more_chunks_than_one_call_looks_at() -> None:
    log = make_log()
    for at in range(300):
        log.begin(AT + at)
        log.enqueued(make_job(at + 1, side=Side(Extras(group="g" * CHUNK_BYTES))), event.ENQUEUED, state.ENQUEUE)
    log.begin(AT + 300)
    assert len(log._chunks) == 300
    for tenant in ("acme", "nobody"):
        found: list[int] = []
        cursor = 0
        while (page := log.read(cursor, 1_000, tenant, RUNS))[1] != cursor:
            found += [one.seq for one in page[0]]
            cursor = page[1]
        assert cursor == 300
        assert found == (list(range(1, 301)) if tenant == "acme" else [])


# Cost.


def test_ten_thousand_plain_enqueues_cost_under_eight_bytes_each() -> None:
    log = make_log()
    for id in range(1_000_000, 1_010_000):
        log.enqueued(make_job(id, payload=b"x" * 100), event.ENQUEUED, state.ENQUEUE)
    assert len(read_all(log)) == 10_000
    assert size_of(log) < 8 * 10_000


def test_events_that_differ_only_in_their_job_are_one_run() -> None:
    log = make_log()
    log.enqueued(make_job(1), event.ENQUEUED, state.ENQUEUE)
    one = size_of(log)
    log.enqueued(make_job(2), event.ENQUEUED, state.ENQUEUE)
    assert size_of(log) - one < 8
    log.enqueued(make_job(3, SPECS["globex"]), event.ENQUEUED, state.ENQUEUE)
    assert size_of(log) - one > 30


def test_claim_of_many_jobs_costs_little_per_job() -> None:
    log = make_log()
    for id in range(1, 1_001):
        job = running_job(id, 2, 1, 1)
        job.ready_at = AT - 5
        log.started(job, "worker-1", state.CLAIM)
    assert len(read_all(log)) == 1_000
    assert size_of(log) < 8 * 1_000


def write_some(log: EventLog, jobs: range) -> None:
    for id in jobs:
        log.enqueued(make_job(id), event.ENQUEUED, state.ENQUEUE)


@pytest.mark.parametrize("events_max", [1_000_000, 64])
def test_reading_does_not_change_the_log(events_max: int) -> None:
    looked_at, left_alone = make_log(events_max), make_log(events_max)
    for log in (looked_at, left_alone):
        log._journal.on = True
        write_some(log, range(1, 5))
    assert looked_at.oldest() == 1
    assert looked_at.newest_kept() == 4
    assert [found.seq for found in read_all(looked_at)] == [1, 2, 3, 4]
    for log in (looked_at, left_alone):
        write_some(log, range(5, 9))
    assert [found.job for found in read_all(looked_at, after=2)] == [3, 4, 5, 6, 7, 8]
    assert looked_at.take() == left_alone.take()
    assert read_all(looked_at) == read_all(left_alone)


def test_chunks_are_made_many_at_a_time() -> None:
    """Each alone would keep the memory in use that the jobs around it have left."""
    log = make_log()
    job = make_job()
    made: set[int] = set()
    for step in range(40):
        while len(log._chunks) <= step:
            log.enqueued(job, event.ENQUEUED, state.ENQUEUE)
            log.begin(AT + log.seq)
        made.update(map(id, log._chunks))
        made.update(map(id, log._spare))
    assert len(made) == eventlog.CHUNKS_MADE
    assert len(log.read(0, 10, "", RUNS)[0]) == 10
