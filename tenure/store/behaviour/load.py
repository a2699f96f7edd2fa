"""Section 4: loads. Staged out of sight, published whole and once, or gone."""

from tenure.core.error import Conflict, Error, InvalidRequest, Overloaded
from tenure.core.packed import pack, pack_texts
from tenure.core.record import LoadReport
from tenure.core.request import ABORT, PUBLISH, READ, STAGE, STORE, Filter, Load
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import DAY, GLOBEX, HOUR, Rig

NEEDS = ("loads",)


async def stage(
    rig: Rig, names: list[bytes], part: int = 0, writing: str = "w", chunk: int = 0, **fields: object
) -> LoadReport:
    batch = rig.batch(names, each=None, atomic=False, **fields)
    return await rig.load(Load(STAGE, "load", part, writing, chunk, batch))


async def publish(rig: Rig, parts: dict[int, str], tenant: str = "acme") -> LoadReport:
    """Publishes, and asks again when all is done: the first answer may come before."""
    first = await rig.load(Load(PUBLISH, "load", parts=parts), tenant)
    assert first.published
    await rig.tick()
    report = await rig.load(Load(PUBLISH, "load", parts=parts), tenant)
    assert (report.rows, report.published, report.done) == (first.rows, True, True)
    return report


@behaviour(4, needs=NEEDS)
async def staged_jobs_are_out_of_sight(rig: Rig) -> None:
    report = await stage(rig, [b"a", b"b"])
    assert (report.rows, report.published) == (2, False)
    assert await rig.claim(9) == []
    assert await rig.count() == {}
    assert await rig.find(Filter()) == []
    assert [event for event in await rig.events() if event.job] == []


@behaviour(4, needs=NEEDS)
async def published_load_is_there_whole(rig: Rig) -> None:
    await stage(rig, [b"a", b"b"], chunk=0)
    await stage(rig, [b"c"], chunk=1)
    await stage(rig, [b"d"], part=1)
    report = await publish(rig, {0: "w", 1: "w"})
    assert (report.rows, report.new, report.duplicates, report.published) == (4, 4, 0, True)
    assert await rig.line() == [b"a", b"b", b"c", b"d"]


@behaviour(4, needs=NEEDS)
async def published_jobs_emit_what_enqueued_ones_do(rig: Rig) -> None:
    await stage(rig, [b"a"], delay_ms=HOUR)
    await publish(rig, {0: "w"})
    id = (await rig.find(Filter()))[0]
    assert [(event.type, event.state) for event in await rig.events_of(id)] == [("enqueued", "scheduled")]


@behaviour(4, needs=NEEDS)
async def keys_of_a_load_may_stand_in_a_column(rig: Rig) -> None:
    taken = await rig.enqueue(idempotency_key="b")
    batch = rig.batch([b"a", b"b", b"c", b"d"])
    batch.keys = ["a", "b", "a", "d"]
    await rig.load(Load(STAGE, "load", 0, "w", 0, batch))
    report = await publish(rig, {0: "w"})
    assert (report.rows, report.new, report.duplicates, report.refused) == (4, 2, 2, 0)
    told = (await rig.load(Load(READ, "load", 0, "w", 0))).outcomes
    assert [row.duplicate for row in told] == [False, True, True, False]
    assert (told[1].id, told[2].id) == (taken, told[0].id)
    assert (await rig.submit(idempotency_key="d")).id == told[3].id
    assert await rig.line() == [b"x", b"a", b"d"]


@behaviour(4, needs=NEEDS)
async def columns_of_a_load_may_be_in_one_piece(rig: Rig) -> None:
    taken = await rig.enqueue(idempotency_key="key 1")
    payloads = [b"row %d" % row for row in range(500)]
    keys = ["é", *(f"key {row}" for row in range(1, 498)), "", "key 2"]
    batch = rig.batch([])
    batch.payloads = pack(payloads)
    batch.keys = pack_texts(keys)
    assert (await rig.load(Load(STAGE, "load", 0, "w", 0, batch))).rows == 500
    report = await publish(rig, {0: "w"})
    assert (report.rows, report.new, report.duplicates, report.refused) == (500, 498, 2, 0)
    told = (await rig.load(Load(READ, "load", 0, "w", 0))).outcomes
    assert [at for at, row in enumerate(told) if row.duplicate] == [1, 499]
    assert (told[1].id, told[499].id) == (taken, told[2].id)
    assert (await rig.submit(idempotency_key="é")).id == told[0].id
    assert await rig.line() == [b"x", payloads[0], *payloads[2:499]]


@behaviour(4, needs=NEEDS)
async def last_come_of_a_load_in_one_piece_are_first(rig: Rig) -> None:
    batch = rig.batch([], lifo=True)
    batch.payloads = pack([b"a", b"", b"c"])
    batch.keys = pack_texts(["1", "2", "3"])
    await rig.load(Load(STAGE, "load", 0, "w", 0, batch))
    await publish(rig, {0: "w"})
    assert await rig.line() == [b"c", b"", b"a"]


@behaviour(4, needs=NEEDS)
async def chunk_staged_again_counts_once(rig: Rig) -> None:
    for _ in range(3):
        report = await stage(rig, [b"a", b"b"])
    assert report.rows == 2
    await publish(rig, {0: "w"})
    assert await rig.count() == {"ready": 2}


@behaviour(4, needs=NEEDS)
async def only_the_writing_that_was_named_is_published(rig: Rig) -> None:
    await stage(rig, [b"crashed"], writing="try 1")
    await stage(rig, [b"good"], writing="try 2")
    await stage(rig, [b"unnamed"], part=1)
    report = await publish(rig, {0: "try 2"})
    assert (report.rows, report.new) == (1, 1)
    assert await rig.line() == [b"good"]


@behaviour(4, needs=NEEDS)
async def publishing_again_changes_nothing(rig: Rig) -> None:
    await stage(rig, [b"a", b"b"])
    first = await publish(rig, {0: "w"})
    for leased in await rig.claim(2):
        await rig.complete(leased)
    again = await publish(rig, {0: "w"})
    assert (again.rows, again.new, again.duplicates) == (first.rows, first.new, first.duplicates)
    await rig.advance(7 * DAY - HOUR)
    late = await publish(rig, {0: "w"})
    assert (late.rows, late.new, late.published, late.done) == (2, 2, True, True)
    assert await rig.claim() == []


@behaviour(4, needs=NEEDS)
async def load_counts_its_duplicates(rig: Rig) -> None:
    await rig.enqueue(b"there", unique_key="k")
    await stage(rig, [b"a"], unique_key="k", chunk=0)
    await stage(rig, [b"b"], unique_key="other", chunk=1)
    await publish(rig, {0: "w"})
    report = await publish(rig, {0: "w"})
    assert (report.rows, report.new, report.duplicates) == (2, 1, 1)
    assert await rig.line() == [b"there", b"b"]


@behaviour(4, needs=NEEDS)
async def limit_on_jobs_of_a_queue_holds_for_a_load(rig: Rig) -> None:
    await rig.set_queue(jobs_max=3)
    await stage(rig, [b"a", b"b"])
    error = await refused(Overloaded, stage(rig, [b"c", b"d"], chunk=1))
    assert error.retryable
    await stage(rig, [b"c", b"d"], chunk=1, queue="other")
    await rig.enqueue()
    await refused(Overloaded, rig.enqueue())
    report = await publish(rig, {0: "w"})
    assert (report.new, report.refused) == (4, 0)
    assert await rig.count() == {"ready": 3}
    await refused(Overloaded, rig.enqueue())


@behaviour(4, needs=NEEDS)
async def limit_on_jobs_of_a_tenant_holds_for_a_load(rig: Rig) -> None:
    await rig.set_tenant(jobs_max=3)
    await stage(rig, [b"a", b"b"], queue="one")
    await refused(Overloaded, stage(rig, [b"c", b"d"], chunk=1, queue="two"))
    await rig.enqueue(queue="three")
    await refused(Overloaded, rig.enqueue(queue="three"))
    await rig.enqueue(tenant=GLOBEX)
    assert (await publish(rig, {0: "w"})).new == 2


@behaviour(4, needs=NEEDS)
async def limit_on_bytes_holds_for_a_load(rig: Rig) -> None:
    await rig.set_queue("narrow", bytes_max=2_000)
    await rig.set_tenant(bytes_max=5_000)
    await rig.configure(STORE, "", bytes_max=8_000)
    thousand = b"x" * 1_000
    await refused(Overloaded, stage(rig, [thousand] * 3, queue="narrow"))
    await stage(rig, [thousand] * 2, queue="narrow")
    await refused(Overloaded, rig.enqueue(thousand, queue="narrow"))
    await refused(Overloaded, stage(rig, [thousand] * 4, chunk=1))
    await stage(rig, [thousand] * 3, chunk=1)
    await refused(Overloaded, rig.enqueue(thousand))
    batch = rig.batch([thousand] * 4, each=None, atomic=False)
    await refused(Overloaded, rig.load(Load(STAGE, "load", batch=batch), tenant=GLOBEX))
    await refused(Overloaded, rig.enqueue(b"x" * 4_000, tenant=GLOBEX))
    await rig.enqueue(b"x" * 3_000, tenant=GLOBEX)
    assert (await publish(rig, {0: "w"})).new == 5
    await refused(Overloaded, rig.enqueue(thousand))


@behaviour(4, needs=NEEDS)
async def what_is_not_let_in_makes_room(rig: Rig) -> None:
    await rig.set_queue(jobs_max=3)
    await stage(rig, [b"a", b"b", b"c"])
    await stage(rig, [b"a", b"b"])  # in its place
    await stage(rig, [b"c"], writing="other")
    await refused(Overloaded, rig.enqueue())
    await rig.load(Load(ABORT, "load"))
    await rig.enqueue_ids([b"x"])
    await stage(rig, [b"a"])
    await stage(rig, [b"a"], writing="other")
    await refused(Overloaded, rig.enqueue())
    assert (await publish(rig, {0: "w"})).new == 1
    await rig.enqueue()
    await refused(Overloaded, rig.enqueue())


@behaviour(4, needs=NEEDS)
async def load_that_is_left_makes_room(rig: Rig) -> None:
    await rig.set_queue(jobs_max=1)
    await stage(rig, [b"a"])
    await refused(Overloaded, rig.enqueue())
    await rig.advance(DAY)
    await rig.enqueue()


@behaviour(4, needs=NEEDS)
async def load_is_readied_in_bounded_steps(rig: Rig) -> None:
    names = [b"%d" % at for at in range(4_500)]
    await stage(rig, names)
    await rig.store.load(rig.context(), Load(PUBLISH, "load", parts={0: "w"}), rig.now())
    assert await rig.count_by_steps("ready", 4_500) >= 2
    assert [one.payload for one in await rig.claim(4_500)] == names


@behaviour(4, needs=NEEDS)
async def aborted_load_is_gone(rig: Rig) -> None:
    await stage(rig, [b"a", b"b"])
    await rig.load(Load(ABORT, "load"))
    await rig.load(Load(ABORT, "load"))
    await rig.tick()
    try:
        report = await publish(rig, {0: "w"})
    except Error:
        report = None
    assert report is None or report.new == 0
    assert await rig.count() == {}


@behaviour(4, needs=NEEDS)
async def load_left_for_a_day_is_removed(rig: Rig) -> None:
    await stage(rig, [b"a", b"b"])
    await rig.advance(DAY)
    try:
        report = await publish(rig, {0: "w"})
    except Error:
        report = None
    assert report is None or report.new == 0
    assert await rig.count() == {}


@behaviour(4, needs=NEEDS)
async def load_is_published_within_its_day(rig: Rig) -> None:
    await stage(rig, [b"a"])
    await rig.advance(DAY - 1)
    assert (await publish(rig, {0: "w"})).new == 1


@behaviour(2, needs=NEEDS)
async def loads_of_tenants_are_apart(rig: Rig) -> None:
    await stage(rig, [b"a"])
    try:
        report = await publish(rig, {0: "w"}, GLOBEX)
    except Error:
        report = None
    assert report is None or report.new == 0
    assert await rig.count(tenant=GLOBEX) == {}
    assert (await publish(rig, {0: "w"})).new == 1


@behaviour(4, needs=NEEDS)
async def bad_row_of_a_load_is_not_dropped_silently(rig: Rig) -> None:
    await stage(rig, [b"good"], chunk=0)
    try:
        staged = await stage(rig, [b"bad"], chunk=1, expires_at=1)
    except Error:
        return
    assert staged.rows == 2
    report = await publish(rig, {0: "w"})
    assert (report.rows, report.new, report.duplicates, report.refused) == (2, 1, 0, 1)


@behaviour(4, needs=NEEDS)
async def counts_of_a_load_are_read_without_a_chunk(rig: Rig) -> None:
    await refused(InvalidRequest, rig.load(Load(READ, "load")), field="load_id")
    await stage(rig, [b"a", b"b"], part=3)
    staged = await rig.load(Load(READ, "load"))
    assert (staged.rows, staged.new, staged.published, staged.outcomes) == (2, 0, False, ())
    published = await publish(rig, {3: "w"})
    assert await rig.load(Load(READ, "load")) == published


@behaviour(4, needs=NEEDS)
async def load_published_again_with_another_digest_is_a_conflict(rig: Rig) -> None:
    await stage(rig, [b"a", b"b"])
    await rig.load(Load(PUBLISH, "load", parts={0: "w"}, digest="one"))
    await rig.tick()
    for parts in ({0: "w"}, {0: "other"}, {}):
        again = await rig.load(Load(PUBLISH, "load", parts=parts, digest="one"))
        assert (again.rows, again.published, again.digest) == (2, True, "one")
        await refused(Conflict, rig.load(Load(PUBLISH, "load", parts=parts, digest="two")))
    assert (await rig.load(Load(READ, "load"))).digest == "one"
    assert await rig.count() == {"ready": 2}


@behaviour(4, needs=NEEDS)
async def load_published_without_a_digest_is_told_by_its_parts(rig: Rig) -> None:
    await stage(rig, [b"a", b"b"])
    await publish(rig, {0: "w"})
    assert (await rig.load(Load(PUBLISH, "load", parts={0: "w"}, digest="one"))).digest == ""
    await refused(Conflict, rig.load(Load(PUBLISH, "load", parts={0: "other"}, digest="one")))
