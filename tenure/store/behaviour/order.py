"""Section 9: the order of one line. Priority first, then the number that a job got when it became ready."""

from tenure.core.error import InvalidRequest
from tenure.core.request import CANCEL, DELAY, PRIORITY, PROMOTE, REPLAY
from tenure.core.retry import FIXED, Backoff
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import HOUR, Rig
from tenure.store.behaviour.trap import CYCLIC_LIFO, ONE_HEAP


@behaviour(9)
async def jobs_of_one_priority_go_first_in_first_out(rig: Rig) -> None:
    names = [b"%d" % at for at in range(50)]
    await rig.enqueue_ids(names[:25])
    for name in names[25:]:
        await rig.enqueue(name)
    assert await rig.line() == names


@behaviour(9)
async def higher_priority_goes_first(rig: Rig) -> None:
    for priority in (0, -10, 20, 10, 2**31 - 1, -(2**31), 1):
        await rig.enqueue(b"%d" % priority, priority=priority)
    assert await rig.line() == [b"2147483647", b"20", b"10", b"1", b"0", b"-10", b"-2147483648"]


@behaviour(4)
async def priorities_have_names(rig: Rig) -> None:
    for name in ("low", "normal", "high", "critical"):
        await rig.enqueue(name.encode(), priority=name)
    assert await rig.line() == [b"critical", b"high", b"normal", b"low"]


@behaviour(9)
async def batch_claim_keeps_the_order_of_the_line(rig: Rig) -> None:
    for at in range(30):
        await rig.enqueue(b"%d" % at, priority=at % 3)
    expected = [b"%d" % at for wanted in (2, 1, 0) for at in range(30) if at % 3 == wanted]
    assert payloads(await rig.claim(20)) == expected[:20]
    assert payloads(await rig.claim(20)) == expected[20:]


@behaviour(9, trap=ONE_HEAP)
async def delayed_job_of_high_priority_blocks_nobody(rig: Rig) -> None:
    await rig.enqueue(b"delayed", priority=100, delay_ms=HOUR)
    await rig.enqueue(b"ready", priority=-100)
    assert await rig.line() == [b"ready"]


@behaviour(9, trap=ONE_HEAP)
async def retrying_job_of_high_priority_blocks_nobody(rig: Rig) -> None:
    await rig.enqueue(b"retrying", priority=100, backoff=Backoff(FIXED, HOUR))
    await rig.fail(await rig.claim_one())
    await rig.enqueue(b"ready", priority=-100)
    assert await rig.line() == [b"ready"]


@behaviour(9)
async def place_in_line_is_given_when_a_job_becomes_ready(rig: Rig) -> None:
    await rig.enqueue(b"delayed", delay_ms=1_000)
    await rig.enqueue(b"before")
    await rig.advance(1_000)
    await rig.enqueue(b"after")
    assert await rig.line() == [b"before", b"delayed", b"after"]


@behaviour(16, rulings=(1,))
async def jobs_found_due_together_stand_in_the_order_of_their_times(rig: Rig) -> None:
    for name, delay_ms in ((b"c", 300), (b"a", 100), (b"d", 300), (b"b", 200)):
        await rig.enqueue(name, delay_ms=delay_ms)
    await rig.advance(HOUR)
    assert await rig.line() == [b"a", b"b", b"c", b"d"]


@behaviour(9)
async def lifo_goes_before_all_present(rig: Rig) -> None:
    await rig.enqueue(b"a")
    await rig.enqueue(b"b")
    await rig.enqueue(b"c", lifo=True)
    await rig.enqueue(b"d", lifo=True)
    await rig.enqueue(b"e")
    assert await rig.line() == [b"d", b"c", b"a", b"b", b"e"]


@behaviour(9)
async def lifo_does_not_pass_a_higher_priority(rig: Rig) -> None:
    await rig.enqueue(b"high", priority=1)
    await rig.enqueue(b"normal")
    await rig.enqueue(b"lifo", lifo=True)
    assert await rig.line() == [b"high", b"lifo", b"normal"]


@behaviour(9, trap=CYCLIC_LIFO)
async def lifo_counts_from_when_the_job_is_ready_whatever_its_run_time(rig: Rig) -> None:
    await rig.enqueue(b"lifo 200", lifo=True, delay_ms=200)
    await rig.enqueue(b"fifo 100", delay_ms=100)
    await rig.enqueue(b"fifo now")
    await rig.enqueue(b"lifo 300", lifo=True, delay_ms=300)
    await rig.enqueue(b"fifo 400", delay_ms=400)
    await rig.advance(1_000)
    await rig.enqueue(b"lifo last", lifo=True)
    order = [b"lifo last", b"lifo 300", b"lifo 200", b"fifo now", b"fifo 100", b"fifo 400"]
    assert await rig.line() == order


@behaviour(9)
async def batch_of_lifo_jobs_stands_in_reverse(rig: Rig) -> None:
    await rig.enqueue(b"old")
    await rig.enqueue_ids([b"1", b"2", b"3"], lifo=True)
    assert await rig.line() == [b"3", b"2", b"1", b"old"]


@behaviour(9, rulings=(18,))
async def job_that_retries_at_once_goes_to_the_end(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b", b"c"])
    await rig.fail(await rig.claim_one(), delay_ms=0)
    assert await rig.line() == [b"b", b"c", b"a"]


@behaviour(9)
async def job_that_retries_later_gets_a_new_place(rig: Rig) -> None:
    await rig.enqueue_ids([b"a", b"b"], backoff=Backoff(FIXED, 1_000))
    await rig.fail(await rig.claim_one())
    await rig.advance(1_000)
    await rig.enqueue(b"c")
    assert await rig.line() == [b"b", b"a", b"c"]


@behaviour(9)
async def promoted_job_gets_a_new_place(rig: Rig) -> None:
    id = await rig.enqueue(b"promoted", delay_ms=HOUR)
    await rig.enqueue(b"a")
    await rig.change_one(PROMOTE, id)
    await rig.enqueue(b"b")
    assert await rig.line() == [b"a", b"promoted", b"b"]


@behaviour(9)
async def replayed_job_gets_a_new_place(rig: Rig) -> None:
    id = await rig.enqueue(b"replayed")
    await rig.fail(await rig.claim_one(), retryable=False)
    await rig.enqueue(b"a")
    await rig.change_one(REPLAY, id)
    await rig.enqueue(b"b")
    assert await rig.line() == [b"a", b"replayed", b"b"]


@behaviour(9)
async def delayed_again_job_gets_a_new_place(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"])
    await rig.change_one(DELAY, ids[0], run_at=rig.wall_ms + 1_000)
    await rig.advance(1_000)
    await rig.enqueue(b"c")
    assert await rig.line() == [b"b", b"a", b"c"]


@behaviour(9, rulings=(31,))
async def changed_priority_moves_a_ready_job_and_keeps_its_number(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b", b"c", b"d"])
    await rig.change_one(PRIORITY, ids[3], priority=5)
    await rig.change_one(PRIORITY, ids[1], priority=5)
    await rig.change_one(PRIORITY, ids[0], priority=-5)
    assert [(await rig.job(id)).priority for id in ids] == [-5, 5, 0, 5]
    assert await rig.line() == [b"b", b"d", b"c", b"a"]


@behaviour(9, rulings=(31,))
async def priority_changed_there_and_back_leaves_the_place(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b", b"c"])
    await rig.change_one(PRIORITY, ids[1], priority=9)
    await rig.change_one(PRIORITY, ids[1], priority=0)
    assert await rig.line() == [b"a", b"b", b"c"]


@behaviour(9)
async def changed_priority_of_a_scheduled_job_counts_when_it_is_due(rig: Rig) -> None:
    id = await rig.enqueue(b"later", delay_ms=1_000)
    await rig.enqueue(b"now")
    await rig.change_one(PRIORITY, id, priority=1)
    assert await rig.types_of(id) == ["enqueued", "updated"]
    assert await rig.state(id) == "scheduled"
    await rig.advance(1_000)
    assert await rig.line() == [b"later", b"now"]


@behaviour(9, rulings=(31,))
async def changed_priority_of_a_running_job_counts_for_its_next_attempt(rig: Rig) -> None:
    id = await rig.enqueue(b"a")
    leased = await rig.claim_one()
    await rig.change_one(PRIORITY, id, priority=5)
    assert await rig.types_of(id) == ["enqueued", "started", "updated"]
    assert await rig.state(id) == "running"
    await rig.enqueue(b"b")
    await rig.fail(leased, delay_ms=0)
    assert await rig.line() == [b"a", b"b"]


@behaviour(9, needs=("ageing",))
async def ageing_lets_an_old_job_pass_a_younger_one_of_higher_priority(rig: Rig) -> None:
    await rig.set_queue(age_ms=1_000)
    await rig.enqueue(b"old")
    await rig.advance(10_001)
    await rig.enqueue(b"young", priority=10)
    assert await rig.line() == [b"old", b"young"]


@behaviour(9, needs=("ageing",))
async def ageing_lets_higher_priority_pass_within_its_head_start(rig: Rig) -> None:
    await rig.set_queue(age_ms=1_000)
    await rig.enqueue(b"old")
    await rig.advance(9_999)
    await rig.enqueue(b"young", priority=10)
    assert await rig.line() == [b"young", b"old"]


@behaviour(9, needs=("ageing",))
async def ageing_falls_back_on_the_ready_number(rig: Rig) -> None:
    await rig.set_queue(age_ms=1_000)
    await rig.enqueue(b"old")
    await rig.advance(10_000)
    await rig.enqueue(b"young", priority=10)
    assert await rig.line() == [b"old", b"young"]


@behaviour(9, needs=("ageing",), rulings=(5,))
async def lifo_is_refused_in_an_ageing_queue(rig: Rig) -> None:
    await rig.set_queue(age_ms=1_000)
    await refused(InvalidRequest, rig.enqueue(lifo=True), field="lifo")
    await rig.set_queue(age_ms=0)
    await rig.enqueue(lifo=True)


@behaviour(9)
async def long_line_keeps_its_order_through_every_change(rig: Rig) -> None:
    keys: dict[bytes, tuple[int, int]] = {}
    ids: dict[bytes, int] = {}
    for part in range(6):
        lifo = part in {2, 4}
        names = [b"%d.%d" % (part, at) for at in range(900)]
        priorities = [at * 7 % 5 for at in range(900)]
        each: list[dict[str, object]] = [{"priority": priority} for priority in priorities]
        answers = await rig.enqueue_many(names, each=each, lifo=lifo)
        for at, name in enumerate(names):
            number = part * 900 + at
            keys[name] = (-priorities[at], -number if lifo else number)
            ids[name] = answers.ids[at]
    for name in list(keys)[::11]:
        await rig.change_one(PRIORITY, ids[name], priority=3)
        keys[name] = (-3, keys[name][1])
    gone = list(keys)[::13]
    await rig.change(CANCEL, *(ids[name] for name in gone))
    for name in gone:
        del keys[name]
    line: list[bytes] = []
    while leased := await rig.claim(700):
        line += payloads(leased)
    assert line == sorted(keys, key=lambda name: keys[name])


@behaviour(9)
async def released_jobs_of_a_long_line_go_back_to_their_places(rig: Rig) -> None:
    names = [b"%d" % at for at in range(3_000)]
    await rig.enqueue_ids(names)
    leased = await rig.claim(2_500)
    for one in leased[::2]:
        await rig.release(one)
    expected = names[:2_500:2] + names[2_500:]
    assert payloads(await rig.claim(3_000)) == expected


@behaviour(9, rulings=(31,))
async def released_job_stands_by_the_priority_it_got_while_it_ran(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"a", b"b"])
    leased = await rig.claim(2)
    await rig.enqueue(b"c", priority=5)
    await rig.change_one(PRIORITY, ids[1], priority=9)
    for one in leased:
        await rig.release(one)
    assert await rig.line() == [b"b", b"c", b"a"]


@behaviour(9, needs=("ageing",), rulings=(31,))
async def released_job_of_an_ageing_queue_keeps_its_age_when_its_priority_changes(rig: Rig) -> None:
    await rig.set_queue(age_ms=1_000)
    old = await rig.enqueue(b"old")
    leased = await rig.claim_one()
    await rig.advance(5_000)
    await rig.enqueue(b"young", priority=5)
    await rig.release(leased)
    await rig.change_one(PRIORITY, old, priority=1)
    assert await rig.line() == [b"old", b"young"]
