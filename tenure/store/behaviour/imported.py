"""Section 4: an admin's load of whole records. Everything a reader of the old store saw is there in the new one."""

from typing import Final

import msgspec

from tenure.core import bound
from tenure.core.error import AlreadySettled, Forbidden, InvalidRequest, LeaseLost, PayloadTooLarge
from tenure.core.past import row_of
from tenure.core.record import Ended, Failed, JobRecord, LoadedRow, LoadReport, Progress
from tenure.core.request import PUBLISH, READ, REPLAY, STAGE, STORE, Batch, Filter, Load
from tenure.core.state import SETTLE_COMPLETE
from tenure.core.tenant import ADMIN, ALL_ROLES, Context
from tenure.store.behaviour.expect import error_of, refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import ACME, DAY, HOUR, MINUTE, SECOND, WALL_MS, Rig

NEEDS = ("loads",)

OLD: Final = 7_000  # ids of the old store
ERROR: Final = Failed("Broken", "it broke", "line 1", "0123456789abcdef")
BEFORE: Final = WALL_MS - HOUR
TRIED: Final = Ended(1, 2, "old-worker", BEFORE + 10, BEFORE + 20, "fail", ERROR)


def record_of(state: str, id: int = OLD, **fields: object) -> JobRecord:
    """A job of the old store with something in every field that a job in this state can have."""
    ran = state not in ("scheduled", "blocked")
    record = JobRecord(
        id=id,
        custom_id=f"custom-{id}",
        tenant=ACME,
        queue="mail",
        task="send",
        state=state,
        priority=-3,
        payload=b"bytes %d" % id,
        codec="raw",
        schema_version=4,
        attempt=1 if ran else 0,
        delivery=2 if ran else 0,
        max_attempts=5,
        created_at=BEFORE,
        run_at=WALL_MS + HOUR if state in ("scheduled", "retrying") else BEFORE + 1,
        ready_at=BEFORE + 5 if ran else 0,
        started_at=BEFORE + 10 if ran else 0,
        expires_at=WALL_MS + DAY,
        worker="old-worker" if ran else "",
        progress=Progress(40, "half", BEFORE + 15) if ran else None,
        error=ERROR if ran else None,
        group="g",
        tags=("red", "blue"),
        metadata={"who": "me"},
        replays=1,
        trace="00-trace",
        history=(TRIED,) if ran else (),
    )
    if state in ("completed", "failed", "cancelled"):
        record = msgspec.structs.replace(record, ended_at=WALL_MS - MINUTE)
    if state == "completed":
        record = msgspec.structs.replace(record, result=b"done")
    if state == "failed":
        record = msgspec.structs.replace(record, reason="attempts_exhausted")
    return msgspec.structs.replace(record, **fields)


def chunk_of(records: list[JobRecord], **unseen: object) -> Batch:
    rows = [row_of(record, **unseen) for record in records]
    return Batch(
        rows[0][0],
        [record.payload for record in records],
        [extras for _, extras, _ in rows],
        [options for options, _, _ in rows],
        pasts=[past for _, _, past in rows],
    )


async def stage(rig: Rig, batch: Batch, chunk: int = 0) -> LoadReport:
    return await rig.load(Load(STAGE, "import", 0, "w", chunk, batch))


async def publish(rig: Rig) -> LoadReport:
    await rig.load(Load(PUBLISH, "import", parts={0: "w"}))
    await rig.tick()
    return await rig.load(Load(PUBLISH, "import", parts={0: "w"}))


async def read(rig: Rig, chunk: int = 0) -> tuple[LoadedRow, ...]:
    return (await rig.load(Load(READ, "import", 0, "w", chunk))).outcomes


async def bring(rig: Rig, *records: JobRecord, **unseen: object) -> list[int]:
    """Imports the records, of which each must be taken; answers the new ids."""
    await stage(rig, chunk_of(list(records), **unseen))
    report = await publish(rig)
    assert (report.rows, report.new, report.done) == (len(records), len(records), True), report
    rows = await read(rig)
    assert [row.source for row in rows] == [record.id for record in records]
    return [row.id for row in rows]


async def same_but_its_id(rig: Rig, id: int, record: JobRecord) -> None:
    assert await rig.job(id) == msgspec.structs.replace(record, id=id)


@behaviour(4, needs=NEEDS)
async def imported_job_is_as_it_was_in_every_state(rig: Rig) -> None:
    states = ("scheduled", "ready", "retrying", "completed", "failed", "cancelled")
    records = [record_of(state, OLD + at, group=f"g{at}") for at, state in enumerate(states)]
    for id, record in zip(await bring(rig, *records), records, strict=True):
        await same_but_its_id(rig, id, record)
    assert await rig.count("mail") == dict.fromkeys(states, 1)


@behaviour(4, needs=NEEDS)
async def running_job_is_imported_as_released_when_its_old_lease_is_over(rig: Rig) -> None:
    leased = record_of("running", OLD, attempt=2, lease_until=WALL_MS + MINUTE, group="")
    expired = record_of("running", OLD + 1, attempt=2, lease_until=WALL_MS, group="")
    ids = await bring(rig, leased, expired)
    waits = msgspec.structs.replace(leased, state="scheduled", attempt=1, run_at=WALL_MS + MINUTE, lease_until=0)
    await same_but_its_id(rig, ids[0], waits)
    await same_but_its_id(rig, ids[1], msgspec.structs.replace(expired, state="ready", attempt=1, lease_until=0))
    await rig.advance(MINUTE - 1)
    first = await rig.claim(9, queues="mail")
    assert [(one.id, one.attempt) for one in first] == [(ids[1], 2)]
    await rig.advance(1)
    assert [(one.id, one.attempt) for one in await rig.claim(9, queues="mail")] == [(ids[0], 2)]
    assert (await rig.job(ids[0])).delivery == 3


@behaviour(4, needs=NEEDS)
async def imported_job_has_the_attempts_it_had_left(rig: Rig) -> None:
    [id] = await bring(rig, record_of("ready", attempt=4, delivery=4, group=""))
    leased = await rig.claim_one(queues="mail")
    assert (leased.attempt, (await rig.job(id)).delivery) == (5, 5)
    await rig.fail(leased)
    job = await rig.job(id)
    assert (job.state, job.reason, len(job.history)) == ("failed", "attempts_exhausted", 2)


@behaviour(4, needs=NEEDS)
async def deliveries_in_the_old_store_bring_no_imported_job_to_its_limit(rig: Rig) -> None:
    [id] = await bring(rig, record_of("ready", attempt=0, delivery=900, group=""))
    await rig.release(await rig.claim_one(queues="mail"))
    assert (await rig.job(id)).state == "ready"


@behaviour(4, needs=NEEDS)
async def imported_jobs_become_ready_at_their_times(rig: Rig) -> None:
    later = record_of("scheduled", OLD, run_at=WALL_MS + MINUTE, group="")
    past = record_of("retrying", OLD + 1, run_at=WALL_MS - MINUTE, group="")
    ids = await bring(rig, later, past)
    await rig.tick()
    assert await rig.states(*ids) == ["scheduled", "ready"]
    await rig.advance(MINUTE)
    assert await rig.states(*ids) == ["ready", "ready"]


@behaviour(4, needs=NEEDS)
async def imported_jobs_stand_in_the_order_of_their_rows(rig: Rig) -> None:
    records = [record_of("ready", OLD + at, group="", priority=at % 2) for at in range(6)]
    ids = await bring(rig, *records)
    own = await rig.enqueue(queue="mail", priority=1)
    leased = [one.id for one in await rig.claim(9, queues="mail")]
    assert leased == [ids[1], ids[3], ids[5], own, ids[0], ids[2], ids[4]]


@behaviour(4, needs=NEEDS)
async def imported_dependencies_are_those_of_the_load(rig: Rig) -> None:
    await rig.enqueue_ids([b"x"] * 3, queue="other")
    needed = record_of("ready", OLD, group="")
    ended = record_of("completed", OLD + 1, group="")
    blocked = record_of("blocked", OLD + 2, depends_on=(OLD, OLD + 1), run_at=BEFORE)
    over = record_of("failed", OLD + 3, depends_on=(OLD,), reason="discarded", parent=OLD + 1)
    ids = await bring(rig, needed, ended, blocked, over)
    await same_but_its_id(rig, ids[2], msgspec.structs.replace(blocked, depends_on=(ids[0], ids[1])))
    await same_but_its_id(rig, ids[3], msgspec.structs.replace(over, depends_on=(ids[0],), parent=ids[1]))
    await rig.complete(await rig.claim_one(queues="mail"))
    assert await rig.states(*ids) == ["completed", "completed", "ready", "failed"]


@behaviour(12, needs=NEEDS)
async def imported_dependency_stays_while_a_live_job_depends_on_it(rig: Rig) -> None:
    ended = record_of("completed", OLD, group="")
    needed = record_of("scheduled", OLD + 1, run_at=WALL_MS + 3 * DAY, group="", expires_at=0)
    blocked = record_of("blocked", OLD + 2, depends_on=(OLD, OLD + 1), expires_at=0)
    ids = await bring(rig, ended, needed, blocked)
    await rig.advance(2 * DAY)
    assert await rig.states(*ids) == ["completed", "scheduled", "blocked"]


@behaviour(12, needs=NEEDS)
async def blocked_import_whose_dependency_has_failed_fails(rig: Rig) -> None:
    failed = record_of("failed", OLD, group="")
    ids = await bring(rig, failed, record_of("blocked", OLD + 1, depends_on=(OLD,)))
    job = await rig.job(ids[1])
    assert (job.state, job.reason) == ("failed", "dependency_failed")


@behaviour(4, needs=NEEDS)
async def row_that_depends_on_none_before_it_is_refused_alone(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 3)
    blocked = record_of("blocked", OLD, depends_on=(ids[0],))
    await stage(rig, chunk_of([blocked, record_of("ready", OLD + 1)]))
    report = await publish(rig)
    assert (report.new, report.refused) == (1, 1)
    rows = await read(rig)
    assert (rows[0].id, rows[0].source, rows[0].code) == (0, OLD, "DependencyNotFound")
    assert str(ids[0]) in rows[0].message
    assert (rows[1].source, rows[1].code) == (OLD + 1, "")


@behaviour(4, needs=NEEDS)
async def imported_ended_jobs_go_by_their_own_end(rig: Rig) -> None:
    own = await rig.enqueue(queue="mail")
    await rig.complete(await rig.claim_one(queues="mail"))
    old = record_of("completed", OLD, created_at=BEFORE - DAY, ended_at=WALL_MS - DAY + MINUTE)
    older = record_of("completed", OLD + 1, created_at=BEFORE - DAY, ended_at=WALL_MS - DAY + SECOND)
    ids = await bring(rig, old, older)
    await rig.advance(SECOND)
    assert await rig.states(own, *ids) == ["completed", "completed", "gone"]
    await rig.advance(MINUTE - SECOND)
    assert await rig.states(own, *ids) == ["completed", "gone", "gone"]
    await rig.advance(DAY - MINUTE)
    assert await rig.states(own) == ["gone"]


@behaviour(4, needs=NEEDS)
async def oldest_of_imported_and_own_ended_jobs_go_first(rig: Rig) -> None:
    own = await rig.enqueue(queue="mail")
    await rig.complete(await rig.claim_one(queues="mail"))
    await rig.advance(MINUTE)
    records = [record_of("completed", OLD + at, ended_at=WALL_MS - (at + 1) * MINUTE) for at in range(3)]
    ids = await bring(rig, *records)
    await rig.set_queue("mail", keep_completed_count=2)
    await rig.tick()
    assert await rig.states(own, *ids) == ["completed", "completed", "gone", "gone"]


@behaviour(14, needs=NEEDS)
async def store_cap_takes_the_oldest_though_they_were_imported_last(rig: Rig) -> None:
    own = await rig.enqueue(queue="mail")
    await rig.complete(await rig.claim_one(queues="mail"))
    await rig.advance(SECOND)
    ids = await bring(rig, *(record_of("cancelled", OLD + at, queue=f"q{at}") for at in range(3)))
    await rig.configure(STORE, "", terminal_jobs_max=1)
    await rig.tick()
    assert await rig.states(own, *ids) == ["completed", "gone", "gone", "gone"]


@behaviour(4, needs=NEEDS)
async def imported_job_past_its_expiry_fails(rig: Rig) -> None:
    [id] = await bring(rig, record_of("ready", expires_at=WALL_MS - 1))
    assert await rig.claim(9, queues="mail") == []
    job = await rig.job(id)
    assert (job.state, job.reason) == ("failed", "expired")


@behaviour(4, needs=NEEDS)
async def imported_keys_follow_the_ordinary_rules(rig: Rig) -> None:
    there = await rig.enqueue(queue="mail", task="send", custom_id=f"custom-{OLD}")
    await stage(rig, chunk_of([record_of("ready", OLD, group="")]), 0)
    await stage(rig, chunk_of([record_of("ready", OLD + 1)], unique_key="u"), 1)
    await stage(rig, chunk_of([record_of("ready", OLD + 2)], unique_key="u"), 2)
    await stage(rig, chunk_of([record_of("completed", OLD + 3)], unique_key="u", idempotency_key="i"), 3)
    await stage(rig, chunk_of([record_of("ready", OLD + 4, depends_on=(OLD,))], on_conflict="error"), 4)
    report = await publish(rig)
    assert (report.new, report.duplicates, report.refused) == (3, 2, 0)
    rows = [(await read(rig, chunk))[0] for chunk in range(5)]
    assert (rows[0].id, rows[0].duplicate) == (there, True)
    assert (rows[2].id, rows[2].duplicate) == (rows[1].id, True)
    assert (await rig.job(rows[4].id)).depends_on == (there,)
    again = await rig.submit(queue="mail", task="send", idempotency_key="i")
    assert (again.id, again.duplicate) == (rows[3].id, True)


@behaviour(11, needs=NEEDS)
async def imported_idempotency_key_holds_from_the_first_enqueue(rig: Rig) -> None:
    record = record_of("completed", OLD, created_at=WALL_MS - DAY + MINUTE)
    [id] = await bring(rig, record, idempotency_key="i")
    await rig.advance(MINUTE - 1)
    assert (await rig.submit(queue="mail", task="send", idempotency_key="i")).id == id
    await rig.advance(1)
    assert (await rig.submit(queue="mail", task="send", idempotency_key="i")).duplicate is False


@behaviour(9, needs=(*NEEDS, "groups"))
async def imported_job_that_is_to_be_tried_again_keeps_its_strict_group(rig: Rig) -> None:
    waiting = record_of("ready", OLD, attempt=0, delivery=0, started_at=0, replays=0)
    head = record_of("retrying", OLD + 1, run_at=WALL_MS + MINUTE)
    ids = await bring(rig, waiting, head)
    assert await rig.claim(9, queues="mail") == []
    await rig.advance(MINUTE)
    leased = await rig.claim(9, queues="mail")
    assert [one.id for one in leased] == [ids[1]]
    await rig.complete(leased[0])
    assert [one.id for one in await rig.claim(9, queues="mail")] == [ids[0]]


@behaviour(4, needs=NEEDS)
async def imported_dead_letter_is_replayed(rig: Rig) -> None:
    [id] = await bring(rig, record_of("failed", group="", error=Failed("Broken", "code 7")), unique_key="u")
    [letters] = await rig.store.groups(rig.context(), "mail", rig.now())
    assert (letters.type, letters.count, len(letters.fingerprint)) == ("Broken", 1, 16)
    await rig.change_one(REPLAY, id)
    job = await rig.job(id)
    assert (job.state, job.attempt, job.delivery, job.replays) == ("ready", 0, 2, 2)
    assert (await rig.submit(queue="mail", unique_key="u")).id == id


@behaviour(15, needs=NEEDS)
async def imported_job_has_one_event_that_says_its_state(rig: Rig) -> None:
    ids = await bring(rig, record_of("failed", OLD), record_of("retrying", OLD + 1, group="h"))
    told = [await rig.events_of(id) for id in ids]
    assert [len(events) for events in told] == [1, 1]
    seen = [(one.type, one.cause, one.state, one.attempt, one.delivery, one.job_seq) for [one] in told]
    assert seen == [("enqueued", "import", "failed", 1, 2, 1), ("enqueued", "import", "retrying", 1, 2, 1)]
    [first] = told[0]
    assert (first.at, first.enqueued_at, first.reason, first.group) == (WALL_MS, BEFORE, "attempts_exhausted", "g")


@behaviour(6, needs=NEEDS)
async def token_of_the_old_store_settles_nothing(rig: Rig) -> None:
    ids = await bring(rig, record_of("ready", OLD, group=""), record_of("completed", OLD + 1))
    answers = await rig.settle(SETTLE_COMPLETE, ids, [b"t" * 32] * 2)
    for at in range(2):
        error_of(answers, at, LeaseLost)
    leased = await rig.claim_one(queues="mail")
    await rig.complete(leased)
    await refused(AlreadySettled, rig.fail(leased))


@behaviour(4, needs=NEEDS)
async def import_needs_the_role_admin(rig: Rig) -> None:
    context = Context(ACME, roles=ALL_ROLES & ~ADMIN)
    load = Load(STAGE, "import", 0, "w", 0, chunk_of([record_of("ready")]))
    await refused(Forbidden, rig.store.load(context, load, rig.now()))
    await rig.store.load(Context(ACME, roles=ADMIN), load, rig.now())


@behaviour(4, needs=NEEDS)
async def staged_import_is_out_of_sight_and_published_once(rig: Rig) -> None:
    await stage(rig, chunk_of([record_of("ready", OLD), record_of("completed", OLD + 1)]))
    await stage(rig, chunk_of([record_of("ready", OLD), record_of("completed", OLD + 1)]))
    assert (await rig.find(Filter()), await rig.count(), await rig.events()) == ([], {}, [])
    assert await read(rig) == ()
    first = await publish(rig)
    again = await publish(rig)
    assert (again, first.new) == (first, 2)
    assert len(await rig.find(Filter())) == 2


@behaviour(4, needs=NEEDS)
async def records_are_imported_in_bounded_steps(rig: Rig) -> None:
    for chunk in range(3):
        first = OLD + chunk * 1_500
        records = [
            record_of("ready", first + at, group="", depends_on=(first + at - 1,) if at else ()) for at in range(1_500)
        ]
        await stage(rig, chunk_of(records), chunk)
    await rig.store.load(rig.context(), Load(PUBLISH, "import", parts={0: "w"}), rig.now())
    assert await rig.count_by_steps("ready", 4_500, queue="mail") >= 2
    report = await publish(rig)
    assert (report.rows, report.new, report.done) == (4_500, 4_500, True)
    assert [len(await read(rig, chunk)) for chunk in range(3)] == [1_500] * 3


@behaviour(4, needs=NEEDS)
async def old_id_is_imported_once(rig: Rig) -> None:
    twice = chunk_of([record_of("ready", OLD), record_of("failed", OLD)])
    await refused(InvalidRequest, stage(rig, twice), field="pasts[1].id")
    await stage(rig, chunk_of([record_of("ready", OLD)]), 0)
    await stage(rig, chunk_of([record_of("failed", OLD, custom_id="")]), 1)
    report = await publish(rig)
    assert (report.new, report.refused) == (1, 1)
    assert (await read(rig, 1))[0].code == "InvalidRequest"


@behaviour(4, needs=NEEDS)
async def ordinary_load_says_what_became_of_each_row(rig: Rig) -> None:
    there = await rig.enqueue(unique_key="k")
    each: list[dict[str, object]] = [{}, {"unique_key": "k"}, {"expires_at": 1}, {}]
    await stage(rig, rig.batch([b"a", b"b", b"c", b"d"], each=each))
    await publish(rig)
    rows = await read(rig)
    assert [(row.duplicate, row.code) for row in rows] == [
        (False, ""),
        (True, ""),
        (False, "InvalidRequest"),
        (False, ""),
    ]
    assert (rows[1].id, rows[2].id, [row.source for row in rows]) == (there, 0, [0] * 4)
    assert [(await rig.job(row.id)).payload for row in (rows[0], rows[3])] == [b"a", b"d"]


WRONG: Final[dict[str, tuple[str, list[object]]]] = {
    "id": ("ready", [-1, 2**53, "7", True, 1.5, None]),
    "state": ("ready", ["new", "gone", "", 2, None]),
    "attempt": ("ready", [-1, bound.ATTEMPTS_MAX + 1, "1", True, None]),
    "delivery": ("ready", [0, -1, 2**31, "1", True, None]),
    "created_at": ("ready", [0, -1, WALL_MS + 1, "1", True, None]),
    "run_at": ("scheduled", [0, -1, bound.TIME_MS_MAX + 1, "1", None]),
    "ready_at": ("ready", [-1, WALL_MS + 1, "1", None]),
    "started_at": ("ready", [-1, WALL_MS + 1, "1", None]),
    "ended_at": ("completed", [0, -1, BEFORE - 1, WALL_MS + 1, "1", None]),
    "lease_until": ("running", [-1, WALL_MS + bound.LEASE_MS_MAX + 1, "1", None]),
    "worker": ("ready", ["w" * 257, 1, None]),
    "progress": ("ready", [5, "half", []]),
    "progress.percent": ("ready", [Progress(-1), Progress(101)]),
    "progress.message": ("ready", [Progress(1, "m" * 4_097)]),
    "progress.at": ("ready", [Progress(1, "", WALL_MS + 1)]),
    "result": ("completed", ["done", 5]),
    "error": ("failed", ["broken", 5]),
    "error.type": ("failed", [Failed("t" * 257)]),
    "error.message": ("failed", [Failed("t", "m" * 4_097)]),
    "error.trace": ("failed", [Failed("t", "m", "t" * 32_769)]),
    "error.fingerprint": ("failed", [Failed("t", "m", "", "f" * 65)]),
    "reason": ("failed", ["", "because", None, 5]),
    "parent": ("ready", [-1, 2**53, "7", None]),
    "replays": ("ready", [-1, 2**31, "1", None]),
    "history": ("ready", [5, (TRIED,) * 101, None]),
    "history[0]": ("ready", [(5,)]),
    "history[0].cause": ("ready", [(msgspec.structs.replace(TRIED, cause="because"),)]),
    "history[0].ended_at": ("ready", [(msgspec.structs.replace(TRIED, ended_at=WALL_MS + 1),)]),
    "history[0].error.type": ("ready", [(msgspec.structs.replace(TRIED, error=Failed("t" * 257)),)]),
}


@behaviour(20, needs=NEEDS)
async def wrong_field_of_a_record_is_refused_by_name(rig: Rig) -> None:
    """By place, field and rule; nothing of its chunk is staged."""
    for field, (state, values) in WRONG.items():
        for value in values:
            batch = chunk_of([record_of("ready", OLD - 1), record_of(state)])
            assert batch.pasts is not None
            name = field.partition(".")[0].partition("[")[0]
            batch.pasts[1] = msgspec.structs.replace(batch.pasts[1], **{name: value})
            await refused(InvalidRequest, stage(rig, batch), field=f"pasts[1].{field}")
    await refused(InvalidRequest, rig.load(Load(PUBLISH, "import", parts={0: "w"})), field="load_id")


MISFITS: Final[list[tuple[str, str, dict[str, object]]]] = [
    ("attempt", "completed", {"attempt": 0}),
    ("attempt", "running", {"attempt": 0}),
    ("attempt", "ready", {"attempt": 5, "delivery": 5}),
    ("attempt", "failed", {"attempt": 6, "delivery": 6}),
    ("delivery", "retrying", {"attempt": 0, "delivery": 0}),
    ("ended_at", "ready", {"ended_at": BEFORE}),
    ("lease_until", "ready", {"lease_until": WALL_MS}),
    ("reason", "completed", {"reason": "discarded"}),
    ("result", "failed", {"result": b"done"}),
    ("depends_on", "blocked", {}),
]


@behaviour(20, needs=NEEDS)
async def record_that_no_job_can_have_is_refused_by_name(rig: Rig) -> None:
    for field, state, fields in MISFITS:
        batch = chunk_of([msgspec.structs.replace(record_of(state), **fields)])
        await refused(InvalidRequest, stage(rig, batch), field=f"pasts[0].{field}")
    for field, value in (("delay_ms", 5), ("ttl_ms", 5), ("debounce_ms", 5)):
        batch = chunk_of([record_of("ready")], **{field: value})
        await refused(InvalidRequest, stage(rig, batch), field=f"pasts[0].{field}")
    batch = chunk_of([record_of("completed")])
    batch.pasts = []
    await refused(InvalidRequest, stage(rig, batch), field="pasts")
    batch = chunk_of([record_of("completed", result=b"x" * (bound.PAYLOAD_BYTES_DEFAULT + 1))])
    await refused(PayloadTooLarge, stage(rig, batch))
    error = Failed("t", "m", "t" * 32_768)
    history = (msgspec.structs.replace(TRIED, error=error),) * 100
    batch = chunk_of([record_of("ready", OLD + at, history=history) for at in range(6)])
    await refused(InvalidRequest, stage(rig, batch), field="batch")


@behaviour(20, needs=NEEDS)
async def record_at_its_bounds_is_imported(rig: Rig) -> None:
    history = (msgspec.structs.replace(TRIED, worker="w" * 256),) * bound.HISTORY_MAX
    most = record_of(
        "running",
        2**53 - 1,
        attempt=5,
        delivery=2**31 - 1,
        created_at=1,
        lease_until=WALL_MS + bound.LEASE_MS_MAX,
        worker="w" * 256,
        progress=Progress(100, "m" * 4_096, WALL_MS),
        error=Failed("t" * 256, "m" * 4_096, "t" * 32_768, "f" * 64),
        replays=2**31 - 1,
        history=history,
        expires_at=0,
    )
    [id] = await bring(rig, most)
    job = await rig.job(id)
    assert (job.state, job.attempt, job.history, job.error) == ("scheduled", 4, history, most.error)
