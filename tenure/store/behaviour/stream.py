"""Section 14: a job's log lines and its stream of emitted items."""

from tenure.core.bound import LOG_LINE_BYTES_MAX, LOG_LINES_MAX, STREAM_BYTES_MAX, STREAM_ITEM_BYTES_MAX
from tenure.core.error import JobNotFound, PayloadTooLarge
from tenure.core.request import EMIT, LOG
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import GLOBEX, MINUTE, Rig

NEEDS = ("streams",)
UNKNOWN_ID = 2**53 - 1


@behaviour(14, needs=NEEDS)
async def log_lines_are_kept_in_order(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    offsets = []
    for line in ("one", "two", "drei ü"):
        offsets.append(await rig.log(leased, line))
        await rig.advance(10)
    assert offsets == [offsets[0], offsets[0] + 1, offsets[0] + 2]
    items = await rig.stream(leased.id, LOG)
    assert [item.data for item in items] == [b"one", b"two", "drei ü".encode()]
    assert [item.offset for item in items] == offsets
    assert [item.at for item in items] == [rig.wall_ms - 30, rig.wall_ms - 20, rig.wall_ms - 10]


@behaviour(14, needs=NEEDS)
async def last_hundred_log_lines_are_kept(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for at in range(LOG_LINES_MAX + 50):
        await rig.log(leased, f"{at}")
    lines = [item.data for item in await rig.stream(leased.id, LOG)]
    assert lines == [b"%d" % at for at in range(50, LOG_LINES_MAX + 50)]


@behaviour(20, needs=NEEDS)
async def long_log_line_is_cut_not_refused(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    await rig.log(leased, "x" * LOG_LINE_BYTES_MAX)
    await rig.log(leased, "x" * (LOG_LINE_BYTES_MAX + 1))
    await rig.log(leased, "é" * LOG_LINE_BYTES_MAX)
    lines = [item.data for item in await rig.stream(leased.id, LOG)]
    assert [len(line) for line in lines] == [LOG_LINE_BYTES_MAX] * 3
    assert lines[2].decode() == "é" * (LOG_LINE_BYTES_MAX // 2)


@behaviour(14, needs=NEEDS)
async def emitted_items_have_dense_offsets_from_zero(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    assert [await rig.emit(leased, b"%d" % at) for at in range(5)] == [0, 1, 2, 3, 4]
    items = await rig.stream(leased.id)
    assert [(item.offset, item.data) for item in items] == [(at, b"%d" % at) for at in range(5)]


@behaviour(14, needs=NEEDS)
async def stream_is_read_from_any_offset(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for at in range(10):
        await rig.emit(leased, b"%d" % at)
    assert [item.data for item in await rig.stream(leased.id, EMIT, 7)] == [b"7", b"8", b"9"]
    assert [item.data for item in await rig.stream(leased.id, EMIT, 2, limit=3)] == [b"2", b"3", b"4"]
    assert await rig.stream(leased.id, EMIT, 10) == []


@behaviour(14, needs=NEEDS)
async def stream_is_read_live(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    task = await rig.start(rig.stream(id, EMIT, 0, wait_ms=MINUTE))
    assert await rig.waits(task)
    await rig.emit(leased, b"first")
    assert [item.data for item in await rig.answer(task)] == [b"first"]
    task = await rig.start(rig.stream(id, EMIT, 1, wait_ms=5_000))
    await rig.advance(4_999)
    assert await rig.waits(task)
    await rig.advance(1)
    assert await rig.answer(task) == []


@behaviour(14, needs=NEEDS)
async def reader_of_a_stream_waits_no_longer_than_its_job_goes_on(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.emit(leased, b"last")
    task = await rig.start(rig.stream(id, EMIT, 1, wait_ms=MINUTE))
    assert await rig.waits(task)
    await rig.complete(leased)
    assert await rig.answer(task) == []
    assert await rig.stream(id, EMIT, 1, wait_ms=MINUTE) == []


@behaviour(14, needs=NEEDS)
async def stream_outlives_the_attempt(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.emit(leased, b"a")
    await rig.log(leased, "line")
    await rig.complete(leased)
    assert [item.data for item in await rig.stream(id)] == [b"a"]
    assert [item.data for item in await rig.stream(id, LOG)] == [b"line"]


@behaviour(14, needs=NEEDS)
async def offsets_go_on_in_the_next_attempt(rig: Rig) -> None:
    id = await rig.enqueue()
    leased = await rig.claim_one()
    await rig.emit(leased, b"a")
    await rig.fail(leased, delay_ms=0)
    assert await rig.emit(await rig.claim_one(), b"b") == 1
    assert [item.data for item in await rig.stream(id)] == [b"a", b"b"]


@behaviour(20, needs=NEEDS)
async def stream_item_is_bounded(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    size = STREAM_ITEM_BYTES_MAX + 1
    await refused(PayloadTooLarge, rig.emit(leased, b"x" * size), size=size, max=STREAM_ITEM_BYTES_MAX)
    assert await rig.emit(leased, b"x" * STREAM_ITEM_BYTES_MAX) == 0


@behaviour(20, needs=NEEDS)
async def stream_is_bounded(rig: Rig) -> None:
    await rig.enqueue()
    leased = await rig.claim_one()
    for _ in range(STREAM_BYTES_MAX // STREAM_ITEM_BYTES_MAX):
        await rig.emit(leased, b"x" * STREAM_ITEM_BYTES_MAX)
    await refused(PayloadTooLarge, rig.emit(leased, b"x"))
    await rig.complete(leased)


@behaviour(2, needs=NEEDS)
async def stream_of_an_unknown_or_foreign_job_is_not_found(rig: Rig) -> None:
    id = await rig.enqueue()
    for kind in (LOG, EMIT):
        await refused(JobNotFound, rig.stream(UNKNOWN_ID, kind), job=UNKNOWN_ID)
        await refused(JobNotFound, rig.stream(id, kind, tenant=GLOBEX), job=id)
