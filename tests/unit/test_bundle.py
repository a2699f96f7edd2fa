"""Jobs that are made when somebody looks at them are in no way different from those that always were there."""

import random
from collections.abc import Callable
from typing import cast

import pytest

from tenure.core import bound
from tenure.core.blob import Blob
from tenure.core.clock import Now
from tenure.core.error import InvalidRequest, PayloadTooLarge
from tenure.core.job import Extras, Options
from tenure.core.limit import Rate
from tenure.core.packed import Packed, Texts
from tenure.core.request import (
    ABORT,
    CANCEL,
    DELAY,
    PRIORITY,
    PUBLISH,
    QUEUE,
    READ,
    REMOVE,
    STAGE,
    TENANT,
    UPDATE,
    Batch,
    Change,
    Configure,
    Filter,
    Load,
    Settle,
)
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.engine.page import sheet
from tenure.engine.restore import Restore
from tenure.engine.run import BUNDLE_MAX, BUNDLE_MIN
from tests.packing import CHUNK_FORMS, FORMS, gapped, in_form, in_one_piece

SECRET = bytes(32)
START = Now(1_700_000_000_000, 0)
CONTEXT = Context()
OPTIONS = Options(task="pay")


def batch(first: int, count: int) -> Batch:
    numbers = range(first, first + count)
    return Batch(OPTIONS, [b"%d" % number for number in numbers], keys=[f"k{number}" for number in numbers])


def load(engine: Engine, sizes: list[int], name: str = "load", first: int = 0) -> None:
    for chunk, size in enumerate(sizes):
        staged = in_form(batch(first, size), chunk % CHUNK_FORMS)
        engine.load(CONTEXT, Load(STAGE, name, 0, "w", chunk, staged), START)
        first += size
    publish(engine, name)


def publish(engine: Engine, name: str) -> None:
    engine.load(CONTEXT, Load(PUBLISH, name, parts={0: "w"}), START)
    while engine._w.owed:
        engine.tick(START)


def loaded(sizes: list[int]) -> Engine:
    engine = Engine(SECRET, 1, START)
    load(engine, sizes)
    return engine


def enqueued(sizes: list[int]) -> Engine:
    engine = Engine(SECRET, 1, START)
    first = 0
    for size in sizes:
        engine.enqueue(CONTEXT, batch(first, size), START)
        first += size
    return engine


def unmade(engine: Engine) -> int:
    return int(engine._w.index.bundled)


Step = Callable[[Engine], object]


def some_step(chance: random.Random, last: int, now: Now) -> Step:
    """Something that can be done to an engine, with what it answers."""
    id = chance.randint(1, last)
    count = chance.randint(1, 5)
    verb = chance.choice((SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_RELEASE))
    high = chance.choice((-1, 0, 5))

    def work(engine: Engine) -> object:
        found = engine.claim(CONTEXT, bound.make_claim(("default",), count, 0, "w"), now)
        engine.settle(CONTEXT, Settle(verb, found.ids, [found.token] * len(found.ids)), now)
        return found.ids, found.payloads, found.attempts

    def change(engine: Engine, request: Change) -> object:
        answers = engine.change(CONTEXT, request, now)
        return answers.ids, [str(outcome.error) for outcome in (answers.other or {}).values()]

    steps: list[Step] = [
        work,
        work,
        lambda engine: engine.get(CONTEXT, [id], [], now),
        lambda engine: engine.explain(CONTEXT, last, now),
        lambda engine: engine.enqueue(CONTEXT, Batch(Options(priority=high), [b"more"] * count), now).ids,
        lambda engine: engine.enqueue(CONTEXT, batch(id - 1, 1), now).ids,
        lambda engine: engine.enqueue(CONTEXT, Batch(Options(lifo=True), [b"last first"]), now).ids,
        lambda engine: change(engine, Change(CANCEL, [id])),
        lambda engine: change(engine, Change(REMOVE, [id])),
        lambda engine: change(engine, Change(UPDATE, [id], payload=b"changed")),
        lambda engine: change(engine, Change(PRIORITY, [id], priority=high)),
        lambda engine: change(engine, Change(DELAY, [id], run_at=now.wall_ms + 5_000)),
        lambda engine: engine.find(CONTEXT, Filter(), 7, f"{id}", now),
        lambda engine: engine.count(CONTEXT, "", now),
    ]
    return chance.choice(steps)


def all_jobs(engine: Engine, now: Now) -> list[object]:
    return [job for job in engine.get(CONTEXT, list(range(1, engine.last_id() + 1)), [], now) if job is not None]


@pytest.mark.parametrize("seed", range(8))
def test_bundled_jobs_do_what_single_ones_do(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice((BUNDLE_MIN - 1, BUNDLE_MIN, 40, 1_100)) for _ in range(3)]
    bundled, single = loaded(sizes), enqueued(sizes)
    assert unmade(bundled) > 0 or max(sizes) < BUNDLE_MIN
    now = START
    for _ in range(40):
        now = Now(now.wall_ms + 100, now.elapsed_ms + 100)
        step = some_step(chance, sum(sizes), now)
        outcomes = []
        for engine in (bundled, single):
            try:
                outcomes.append(step(engine))
            except Exception as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]
        assert bundled.verify() == single.verify() == []
    assert all_jobs(bundled, now) == all_jobs(single, now)


def test_check_makes_no_jobs() -> None:
    engine = loaded([100])
    assert engine.verify() == []
    assert unmade(engine) == 100


def test_only_jobs_that_are_looked_at_are_made() -> None:
    engine = loaded([100])
    engine.get(CONTEXT, [50], [], START)
    assert unmade(engine) == 99
    assert engine.verify() == []


def test_made_jobs_of_a_bundle_are_let_go_of_with_it() -> None:
    engine = loaded([2_000])
    while engine.claim(CONTEXT, bound.make_claim(("default",), 1_000, 0, "w"), START).ids:
        pass
    assert unmade(engine) == 0
    assert all(page.bundles is None for page in engine._w.index._pages.values())


class Written:
    """An engine with its records, and one that was made of them."""

    def __init__(self) -> None:
        self.engine = Engine(SECRET, 1, START)
        self.engine.keep_journal()
        self.records: list[bytes] = []

    def note(self) -> bytes:
        self.records.append(self.engine.take())
        return self.records[-1]

    def again(self) -> Engine:
        restore = Restore(SECRET, 2)
        for record in filter(None, self.records):
            restore.record(record)
        engine = restore.finish(START, self.engine.last_event(), self.engine.last_id())
        assert engine.verify() == []
        return engine


def plain(first: int, count: int) -> Batch:
    return Batch(OPTIONS, [b"%d" % number for number in range(first, first + count)])


@pytest.mark.parametrize("seed", range(6))
def test_jobs_of_a_batch_do_what_those_of_many_calls_do_also_from_the_journal(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [chance.choice((BUNDLE_MIN - 1, BUNDLE_MIN, 70, BUNDLE_MAX + 3, 2 * BUNDLE_MAX)) for _ in range(3)]
    many, single = Written(), Written()
    first = 0
    for form, size in enumerate(sizes, seed):
        many.engine.enqueue(CONTEXT, in_form(plain(first, size), form), START)
        for number in range(first, first + size):
            single.engine.enqueue(CONTEXT, plain(number, 1), START)
        first += size
        if chance.random() < 0.3:
            many.note()
            single.note()
    assert unmade(many.engine) > 0 or max(sizes) < BUNDLE_MIN
    now = START
    for _ in range(30):
        now = Now(now.wall_ms + 100, now.elapsed_ms + 100)
        step = some_step(chance, sum(sizes), now)
        outcomes = []
        for written in (many, single):
            try:
                outcomes.append(step(written.engine))
            except Exception as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]
        if chance.random() < 0.3:
            many.note()
            single.note()
        assert many.engine.verify() == single.engine.verify() == []
    many.note()
    single.note()
    assert many.engine._w.journal.is_empty()
    told = [written.engine.events(CONTEXT, "e0", 10_000, now).events for written in (many, single)]
    assert told[0] == told[1]
    restored = [all_jobs(written.again(), now) for written in (many, single)]
    assert restored[0] == restored[1] == all_jobs(many.engine, now)


def test_record_makes_no_jobs_and_those_made_later_are_written_when_they_change() -> None:
    written = Written()
    written.engine.enqueue(CONTEXT, plain(0, 100), START)
    written.note()
    assert unmade(written.engine) == 100
    written.engine.get(CONTEXT, [7], [], START)
    assert unmade(written.engine) == 99
    assert written.engine._w.journal.is_empty()
    written.engine.change(CONTEXT, Change(UPDATE, [7], payload=b"changed"), START)
    assert len(written.note()) < 300
    assert all_jobs(written.again(), START) == all_jobs(written.engine, START)


def test_batch_is_kept_as_it_was_given() -> None:
    engine = Engine(SECRET, 1, START)
    payloads: list[bytes | Blob] = [b"mine"] * 50
    ids = engine.enqueue(CONTEXT, Batch(OPTIONS, payloads), START).ids
    payloads[:] = [b"somebody else's"] * 50
    assert {job.payload for job in engine.get(CONTEXT, ids, [], START) if job is not None} == {b"mine"}


def test_payload_that_is_too_large_ends_a_bundle_and_no_more() -> None:
    engine = Engine(SECRET, 1, START)
    payloads: list[bytes | Blob] = [b"x"] * 60
    payloads[30] = b"x" * (bound.MIB + 1)
    answers = engine.enqueue(CONTEXT, Batch(OPTIONS, payloads), START)
    assert [at for at, id in enumerate(answers.ids) if not id] == [30]
    assert engine.verify() == []
    assert engine.count(CONTEXT, "default", START)["default"]["ready"] == 59


def test_record_that_quotes_a_chunk_is_small() -> None:
    written = Written()
    written.engine.load(CONTEXT, Load(STAGE, "load", 0, "w", 0, batch(0, 500)), START)
    written.note()
    written.engine.load(CONTEXT, Load(PUBLISH, "load", parts={0: "w"}), START)
    quoting = written.note()
    assert len(quoting) < 500
    assert all_jobs(written.again(), START) == all_jobs(written.engine, START)


def test_chunk_may_be_staged_and_quoted_in_one_record() -> None:
    written = Written()
    load(written.engine, [30, 40])
    written.note()
    assert all_jobs(written.again(), START) == all_jobs(written.engine, START)


def test_what_became_of_quoted_jobs_is_said_over_them() -> None:
    written = Written()
    load(written.engine, [30])
    written.engine.claim(CONTEXT, bound.make_claim(("default",), 3, 0, "w"), START)
    written.engine.change(CONTEXT, Change(REMOVE, [20]), START)
    written.note()
    written.engine.change(CONTEXT, Change(UPDATE, [25], payload=b"changed"), START)
    written.note()
    again = written.again()
    assert all_jobs(again, START) == all_jobs(written.engine, START)
    assert again.count(CONTEXT, "default", START) == written.engine.count(CONTEXT, "default", START)


def test_load_goes_on_where_it_was_and_its_chunks_stay_quoted() -> None:
    written = Written()
    for chunk in range(3):
        written.engine.load(CONTEXT, Load(STAGE, "load", 0, "w", chunk, batch(600 * chunk, 600)), START)
    written.engine.load(CONTEXT, Load(PUBLISH, "load", parts={0: "w"}), START)
    written.note()
    again = written.again()
    while again._w.owed:
        again.tick(START)
    assert again.count(CONTEXT, "default", START)["default"]["ready"] == 1_800
    assert again.has_spent_loads()
    again.take()
    again.drop_spent_loads()
    assert not again.has_spent_loads()
    assert again.verify() == []


@pytest.mark.slow
def test_what_was_quoted_is_taken_back_whatever_the_bound_of_queues_is() -> None:
    written = Written()
    many = bound.QUEUES_PER_TENANT_MAX + 1
    written.engine.configure(CONTEXT, Configure(TENANT, "default", {"queues_max": many}), START)
    for chunk in range(many):
        batch = Batch(Options(queue=f"q{chunk}"), [b"x"])
        written.engine.load(CONTEXT, Load(STAGE, "load", 0, "w", chunk, batch), START)
    written.engine.load(CONTEXT, Load(PUBLISH, "load", parts={0: "w"}), START)
    while written.engine._w.owed:
        written.engine.tick(START)
    written.note()
    assert len(written.again().count(CONTEXT, "", START)) == many


def test_chunk_that_is_gone_adds_nothing_to_what_pages_say() -> None:
    written = Written()
    load(written.engine, [30])
    written.note()
    unsaved = written.engine.take_unsaved()
    restore = Restore(SECRET, 2)
    for saved in unsaved.sheets(100):
        restore.page(saved.facts)
    quoting = Written()
    quoting.engine.load(CONTEXT, Load(STAGE, "load", 0, "w", 0, batch(0, 30)), START)
    quoting.engine.take()
    quoting.engine.load(CONTEXT, Load(PUBLISH, "load", parts={0: "w"}), START)
    restore.record(quoting.note())
    engine = restore.finish(START, 1_000, 1_000)
    assert engine.verify() == []
    assert engine.count(CONTEXT, "default", START)["default"]["ready"] == 30


@pytest.mark.parametrize("is_compressed", [False, True])
def test_payload_over_the_cap_is_named_also_in_one_piece(is_compressed: bool) -> None:
    engine = Engine(SECRET, 1, START)
    staged = in_one_piece(Batch(OPTIONS, [b"a", b"x" * (bound.MIB + 1), b"c"]), is_compressed)
    with pytest.raises(PayloadTooLarge, match=r"payloads\[1\]"):
        engine.load(CONTEXT, Load(STAGE, "load", 0, "w", 0, staged), START)
    assert engine.load(CONTEXT, Load(ABORT, "load"), START).rows == 0


def test_only_a_load_takes_keys_in_one_piece() -> None:
    engine = Engine(SECRET, 1, START)
    with pytest.raises(InvalidRequest, match="only a load"):
        engine.enqueue(CONTEXT, in_one_piece(batch(0, 3), False), START)


@pytest.mark.parametrize("form", range(FORMS))
def test_record_of_a_batch_has_its_payloads_in_one_piece(form: int) -> None:
    written = Written()
    written.engine.enqueue(CONTEXT, in_form(Batch(OPTIONS, [b"x" * 50] * 1_000), form), START)
    record = written.note()
    assert len(record) < 1_000 * (6 + 50 + 4) + 300
    written.engine.enqueue(CONTEXT, plain(0, BUNDLE_MIN - 1), START)
    written.note()
    assert all_jobs(written.again(), START) == all_jobs(written.engine, START)


@pytest.mark.parametrize("form", range(FORMS))
def test_jobs_of_a_batch_are_saved_by_the_checkpoint_after_a_restart(form: int) -> None:
    written = Written()
    written.engine.enqueue(CONTEXT, in_form(plain(0, 200), form), START)
    written.note()
    again = written.again()
    restore = Restore(SECRET, 3)
    for saved in again.take_unsaved().sheets(100):
        restore.page(saved.facts)
    assert all_jobs(restore.finish(START, 1_000, 1_000), START) == all_jobs(again, START)


def test_largest_batch_can_be_written() -> None:
    written = Written()
    size = bound.BATCH_BYTES_MAX // BUNDLE_MIN
    assert not written.engine.enqueue(CONTEXT, Batch(OPTIONS, [bytes(size)] * BUNDLE_MIN), START).other
    assert len(written.note()) > bound.BATCH_BYTES_MAX
    assert len(all_jobs(written.again(), START)) == BUNDLE_MIN


def test_payloads_of_a_list_rest_in_one_piece_once_they_are_written() -> None:
    written = Written()
    written.engine.enqueue(CONTEXT, plain(0, 2 * BUNDLE_MAX), START)
    written.note()
    bundles = [bundle for page in written.engine._w.index._pages.values() for bundle in page.bundles or ()]
    assert bundles
    assert all(isinstance(bundle.batch.payloads, Packed) for bundle in bundles)


@pytest.mark.parametrize("form", range(1, FORMS))
@pytest.mark.parametrize(
    "odd",
    [
        Batch(OPTIONS, [b"x"] * 20 + [b"x" * (bound.MIB + 1)] + [b"x"] * 20),
        Batch(OPTIONS, [b"x"] * (BUNDLE_MIN - 1)),
        Batch(OPTIONS, []),
        Batch(Options(task="pay", lifo=True), [b"a", b"b", b"c"] * 10),
        Batch(Options(task="pay", delay_ms=5), [b"a", b"b", b"c"] * 10),
        Batch(OPTIONS, [b"a", b"b"] * 10, [None, Extras(custom_id="c")] * 10),
        Batch(OPTIONS, [b"a", b"b"] * 10, each=[OPTIONS, Options(priority=3)] * 10),
        Batch(OPTIONS, [b"a", b"b"] * 10, atomic=True),
        Batch(OPTIONS, [b"a"] * 20 + [b"x" * (bound.MIB + 1)], atomic=True),
        Batch(OPTIONS, [b"x"] * (bound.BATCH_ITEMS_MAX + 1)),
        Batch(Options(queue="full"), [b"x"] * 20),
        Batch(Options(queue="paced"), [b"x"] * 20),
        Batch(OPTIONS, [b"a", b"b"] * 10, keys=["k", "", "other", "k"] * 5),
    ],
    ids=[
        "large",
        "few",
        "none",
        "lifo",
        "delay",
        "extras",
        "each",
        "atomic",
        "atomic-large",
        "many",
        "full",
        "paced",
        "keys",
    ],
)
def test_batch_in_one_piece_is_answered_as_a_list_is(odd: Batch, form: int) -> None:
    answers: list[object] = []
    for way in (0, form):
        engine = Engine(SECRET, 1, START)
        engine.configure(CONTEXT, Configure(QUEUE, "full", {"jobs_max": 17}), START)
        engine.configure(CONTEXT, Configure(QUEUE, "paced", {"enqueue_rate": Rate(30, 60_000, 30)}), START)
        given = in_form(odd, way)
        given.keys = odd.keys
        for _ in range(2):
            try:
                found = engine.enqueue(CONTEXT, given, START)
                refused = {at: (outcome.id, repr(outcome.error)) for at, outcome in (found.other or {}).items()}
                answers.append((found.ids, found.state, found.count, refused, all_jobs(engine, START)))
            except InvalidRequest as error:
                answers.append(repr(error))
        assert engine.verify() == []
    half = len(answers) // 2
    assert answers[:half] == answers[half:]


def test_staged_chunk_that_is_compressed_stays_so_until_it_is_looked_at() -> None:
    engine = Engine(SECRET, 1, START)
    kept = in_one_piece(batch(0, 100), True).payloads
    assert isinstance(kept, Packed)
    engine.load(CONTEXT, Load(STAGE, "load", 0, "w", 0, Batch(OPTIONS, kept)), START)
    publish(engine, "load")
    assert kept._plain is None
    record = engine.get(CONTEXT, [100], [], START)[0]
    assert record is not None
    assert record.payload == b"99"
    assert kept._plain is not None


def test_checkpoint_reads_jobs_and_makes_none() -> None:
    engine = loaded([40, 40, 40])
    before = unmade(engine)
    assert before == 120
    saved = sheet(engine._w, 0)
    assert saved.shown.count(b"[") == 1 + 63
    assert unmade(engine) == before
    assert engine.get(CONTEXT, [63], [], START)[0] is not None
    assert sheet(engine._w, 0).facts == saved.facts


def test_chunk_with_gaps_is_refused() -> None:
    engine = Engine(SECRET, 1, START)
    contents = [b"a", b"b"]
    keys = Texts(gapped(contents, 1))
    for name, staged in (
        ("payloads", Batch(OPTIONS, gapped(contents, 1))),
        ("keys", Batch(OPTIONS, cast("list[bytes | Blob]", contents), keys=keys)),
    ):
        with pytest.raises(InvalidRequest, match=f"{name}: 1 is not accepted; a chunk has no gap"):
            engine.load(CONTEXT, Load(STAGE, "load", 0, "w", 0, staged), START)
    assert engine._w.loads == {}


def held_bytes(engine: Engine) -> int:
    """Of payloads that are kept for jobs that are not made yet."""
    bundles = {bundle for page in engine._w.index._pages.values() for bundle in page.bundles or ()}
    held = [bundle.batch.payloads for bundle in bundles]
    return sum(
        len(each.content) if isinstance(each, Packed) else len(b"".join(cast("list[bytes]", each))) for each in held
    )


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("form", range(FORMS))
def test_payloads_of_a_batch_are_gone_with_their_jobs(form: int, is_written: bool) -> None:
    """However few of its jobs are left: the bounds on bytes count what is there."""
    written = Written()
    engine = written.engine
    payloads = [b"x" * 1_000] * BUNDLE_MAX + [b"y"] * BUNDLE_MIN
    engine.enqueue(CONTEXT, in_form(Batch(OPTIONS, payloads), form), START)
    if is_written:
        written.note()
    assert engine.claim(CONTEXT, bound.make_claim(("default",), 1, 0, "w"), START).ids
    assert held_bytes(engine) <= BUNDLE_MIN * (1 + 6)
    assert unmade(engine) == BUNDLE_MIN


def kept(engine: Engine) -> dict[tuple[str, str], tuple[int, int, int]]:
    return {name: (int(share.jobs), int(share.bytes), int(share.held)) for name, share in engine._w.kept.items()}


def test_room_that_is_kept_for_a_load_is_kept_after_a_restart() -> None:
    written = Written()
    engine = written.engine
    mixed = [OPTIONS, Options(queue="other")] * 5
    engine.load(CONTEXT, Load(STAGE, "waits", 0, "w", 0, Batch(OPTIONS, [b"xyz"] * 10, each=mixed)), START)
    for chunk, size in enumerate((1_500, 40)):
        engine.load(CONTEXT, Load(STAGE, "goes", 0, "w", chunk, in_form(batch(0, size), chunk)), START)
    tenant = CONTEXT.tenant
    before = kept(engine)
    assert before[tenant, "other"] == (5, 15, 15)
    assert before[tenant, ""][0] == 10 + 1_500 + 40
    written.note()
    assert kept(written.again()) == before
    engine.load(CONTEXT, Load(PUBLISH, "goes", parts={0: "w"}), START)
    assert engine._w.owed, "a part of it is to be let in yet"
    written.note()
    going = kept(engine)
    assert going[tenant, ""][0] in (10 + 1_500 + 40, 10 + 40)
    assert kept(written.again()) == going
    while engine._w.owed:
        engine.tick(START)
    written.note()
    for each in (engine, written.again()):
        assert kept(each) == {
            (tenant, ""): (10, 30, 30),
            (tenant, "default"): (5, 15, 15),
            (tenant, "other"): (5, 15, 15),
        }
        assert each._w.kept_held == 30
        each.load(CONTEXT, Load(ABORT, "waits"), START)
        assert (kept(each), each._w.kept_held) == ({}, 0)
        assert each.verify() == []


@pytest.mark.parametrize("form", range(CHUNK_FORMS))
def test_key_of_a_job_that_is_gone_is_met_in_a_load(form: int) -> None:
    engine = Engine(SECRET, 1, START)
    gone = engine.enqueue(CONTEXT, batch(30, 1), START).ids[0]
    engine.change(CONTEXT, Change(CANCEL, [gone]), START)
    engine.change(CONTEXT, Change(REMOVE, [gone]), START)
    assert engine.get(CONTEXT, [gone], [], START)[0] is None
    engine.load(CONTEXT, Load(STAGE, "load", 0, "w", 0, in_form(batch(0, 60), form)), START)
    publish(engine, "load")
    told = engine.load(CONTEXT, Load(READ, "load", 0, "w", 0), START)
    assert (told.new, told.duplicates) == (59, 1)
    assert (told.outcomes[30].duplicate, told.outcomes[30].id) == (True, gone)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_keys_of_a_load_are_held_for_their_time_also_when_the_clock_was_set_back(is_restarted: bool) -> None:
    engine = Engine(SECRET, 1, START)
    engine.keep_journal()
    engine.tick(Now(START.wall_ms + 3_600_000, 1_000))  # an hour ahead, and then back: event times do not fall
    now = Now(START.wall_ms + 2_000, 2_000)
    options = Options(task="pay", idempotency_ttl_ms=60_000)
    rows = Batch(options, [b"x"] * BUNDLE_MIN, keys=[f"k{number}" for number in range(BUNDLE_MIN)])
    engine.load(CONTEXT, Load(STAGE, "load", 0, "w", 0, rows), now)
    engine.load(CONTEXT, Load(PUBLISH, "load", parts={0: "w"}), now)
    assert unmade(engine) == BUNDLE_MIN
    if is_restarted:
        restore = Restore(SECRET, 2)
        restore.record(engine.take())
        engine = restore.finish(now, engine.last_event())
    claimed = engine.claim(CONTEXT, bound.make_claim(("default",), BUNDLE_MIN), now)
    engine.settle(CONTEXT, Settle(SETTLE_COMPLETE, claimed.ids, [claimed.token] * BUNDLE_MIN), now)
    held = engine.enqueue(CONTEXT, rows, Now(now.wall_ms + 59_000, now.elapsed_ms + 59_000))
    free = engine.enqueue(CONTEXT, rows, Now(now.wall_ms + 60_000, now.elapsed_ms + 60_000))
    assert [held.ids, free.ids] == [claimed.ids, [id + BUNDLE_MIN for id in claimed.ids]]
