"""Section 12: jobs that wait for others. No dependent hangs, whatever becomes of what it waits for."""

from tenure.core.error import DependencyNotFound
from tenure.core.request import CANCEL, DISCARD, REMOVE, REPLAY
from tenure.core.retry import FIXED, Backoff
from tenure.core.state import BLOCKED, READY, SETTLE_COMPLETE
from tenure.store.behaviour.expect import refused
from tenure.store.behaviour.leased import payloads
from tenure.store.behaviour.registry import behaviour
from tenure.store.behaviour.rig import DAY, GLOBEX, HOUR, LEASE_MS, Rig
from tenure.store.behaviour.trap import BATCH_ACK, HANGING_DEPENDENT

NEEDS = ("dependencies",)


async def end(rig: Rig, *, succeed: bool) -> None:
    leased = await rig.claim_one()
    if succeed:
        await rig.complete(leased)
    else:
        await rig.fail(leased, retryable=False)


@behaviour(12, needs=NEEDS)
async def job_is_blocked_until_its_dependency_completes(rig: Rig) -> None:
    first = await rig.enqueue(b"first")
    second = await rig.submit(b"second", depends_on=[first])
    assert second.state == BLOCKED
    assert (await rig.job(second.id)).depends_on == (first,)
    leased = await rig.claim(9)
    assert payloads(leased) == [b"first"]
    await rig.advance(1_000)
    await rig.complete(leased[0])
    job = await rig.job(second.id)
    assert (job.state, job.ready_at) == ("ready", rig.wall_ms)
    event = await rig.last_event(second.id)
    assert (event.type, event.state, event.cause) == ("ready", "ready", "satisfy")


@behaviour(12, needs=NEEDS)
async def job_waits_for_all_its_dependencies(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 3)
    child = await rig.enqueue(b"child", depends_on=ids, priority=100)
    for _ in range(3):
        assert await rig.state(child) == "blocked"
        await end(rig, succeed=True)
    assert await rig.state(child) == "ready"


@behaviour(12, needs=NEEDS)
async def dependency_that_has_ended_counts_at_once(rig: Rig) -> None:
    first = await rig.enqueue()
    await end(rig, succeed=True)
    assert (await rig.submit(depends_on=[first])).state == READY


@behaviour(12, needs=NEEDS, trap=HANGING_DEPENDENT)
async def dependency_that_has_failed_fails_its_dependent_at_once(rig: Rig) -> None:
    first = await rig.enqueue()
    await end(rig, succeed=False)
    child = await rig.enqueue(depends_on=[first])
    await rig.tick()
    job = await rig.job(child)
    assert (job.state, job.reason) == ("failed", "dependency_failed")


@behaviour(12, needs=NEEDS, trap=HANGING_DEPENDENT)
async def failed_dependency_fails_its_dependent(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(depends_on=[first])
    await end(rig, succeed=False)
    job = await rig.job(child)
    assert (job.state, job.reason, job.ended_at, job.attempt) == ("failed", "dependency_failed", rig.wall_ms, 0)
    event = await rig.last_event(child)
    assert (event.type, event.cause, event.reason) == ("failed", "fail_dependency", "dependency_failed")


@behaviour(12, needs=NEEDS, trap=HANGING_DEPENDENT)
async def every_bad_end_of_a_dependency_fails_its_dependent(rig: Rig) -> None:
    for action in (CANCEL, DISCARD):
        first = await rig.enqueue()
        child = await rig.enqueue(depends_on=[first])
        await rig.change_one(action, first)
        assert (await rig.job(child)).reason == "dependency_failed"
    first = await rig.enqueue(ttl_ms=1_000)
    child = await rig.enqueue(depends_on=[first])
    await rig.advance(1_000)
    assert (await rig.job(child)).reason == "dependency_failed"
    first = await rig.enqueue(max_attempts=1)
    child = await rig.enqueue(depends_on=[first])
    await rig.claim_one()
    await rig.advance(LEASE_MS)
    assert (await rig.job(child)).reason == "dependency_failed"


@behaviour(12, needs=NEEDS)
async def retrying_dependency_keeps_its_dependent_blocked(rig: Rig) -> None:
    first = await rig.enqueue(backoff=Backoff(FIXED, 1_000))
    child = await rig.enqueue(depends_on=[first])
    await rig.fail(await rig.claim_one())
    assert await rig.state(child) == "blocked"
    await rig.advance(1_000)
    await end(rig, succeed=True)
    assert await rig.state(child) == "ready"


@behaviour(12, needs=NEEDS, trap=HANGING_DEPENDENT)
async def failure_runs_down_a_chain(rig: Rig) -> None:
    ids = [await rig.enqueue()]
    for _ in range(20):
        ids.append(await rig.enqueue(depends_on=[ids[-1]]))
    await end(rig, succeed=False)
    await rig.tick()
    assert [(await rig.job(id)).reason for id in ids[1:]] == ["dependency_failed"] * 20


@behaviour(12, needs=NEEDS)
async def all_done_goes_on_after_a_failure(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 3)
    child = await rig.enqueue(depends_on=ids, dependency_policy="all_done")
    await end(rig, succeed=False)
    await end(rig, succeed=True)
    assert await rig.state(child) == "blocked"
    await rig.change_one(CANCEL, ids[2])
    assert await rig.state(child) == "ready"


@behaviour(12, needs=NEEDS)
async def any_success_goes_on_after_the_first_success(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 3)
    child = await rig.enqueue(depends_on=ids, dependency_policy="any_success")
    await end(rig, succeed=False)
    assert await rig.state(child) == "blocked"
    await end(rig, succeed=True)
    assert await rig.state(child) == "ready"
    await end(rig, succeed=False)
    assert await rig.state(child) == "ready"


@behaviour(12, needs=NEEDS)
async def any_success_fails_when_none_is_left_to_succeed(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 2)
    child = await rig.enqueue(depends_on=ids, dependency_policy="any_success")
    await end(rig, succeed=False)
    assert await rig.state(child) == "blocked"
    await end(rig, succeed=False)
    assert (await rig.job(child)).reason == "dependency_failed"


@behaviour(12, needs=NEEDS, trap=HANGING_DEPENDENT)
async def unknown_dependency_is_refused(rig: Rig) -> None:
    known = await rig.enqueue()
    await refused(DependencyNotFound, rig.enqueue(depends_on=[known, 2**53 - 1]), job=2**53 - 1)
    assert await rig.count() == {"ready": 1}


@behaviour(2, needs=NEEDS)
async def dependency_of_another_tenant_is_refused_as_unknown(rig: Rig) -> None:
    foreign = await rig.enqueue(tenant=GLOBEX)
    await refused(DependencyNotFound, rig.enqueue(depends_on=[foreign]), job=foreign)


@behaviour(12, needs=NEEDS)
async def outcome_of_a_removed_dependency_counts_for_a_day(rig: Rig) -> None:
    first = await rig.enqueue(keep_completed_ms=0)
    await end(rig, succeed=True)
    failed = await rig.enqueue(keep_failed_ms=0)
    await end(rig, succeed=False)
    assert await rig.states(first, failed) == ["gone", "gone"]
    await rig.advance(DAY - 1)
    assert (await rig.submit(depends_on=[first])).state == READY
    child = await rig.enqueue(depends_on=[failed])
    await rig.tick()
    assert (await rig.job(child)).reason == "dependency_failed"
    await rig.advance(1)
    await refused(DependencyNotFound, rig.enqueue(depends_on=[first]), job=first)


@behaviour(12, needs=NEEDS)
async def terminal_job_stays_while_a_live_one_depends_on_it(rig: Rig) -> None:
    first = await rig.enqueue(keep_completed_ms=0)
    other = await rig.enqueue(b"other", queue="other")
    child = await rig.enqueue(depends_on=[first, other])
    await end(rig, succeed=True)
    await rig.advance(HOUR)
    assert (await rig.states(first, child)) == ["completed", "blocked"]
    await rig.complete(await rig.claim_one(queues="other"))
    await end(rig, succeed=True)
    await rig.tick()
    assert (await rig.states(first, child)) == ["gone", "completed"]


@behaviour(12, needs=NEEDS, trap=HANGING_DEPENDENT)
async def removed_dependency_does_not_leave_its_dependents_hanging(rig: Rig) -> None:
    first = await rig.enqueue(delay_ms=HOUR)
    strict = await rig.enqueue(depends_on=[first])
    patient = await rig.enqueue(depends_on=[first], dependency_policy="all_done")
    await rig.change_one(REMOVE, first)
    await rig.tick()
    assert await rig.states(strict, patient) == ["failed", "ready"]
    assert (await rig.job(strict)).reason == "dependency_failed"


@behaviour(12, needs=NEEDS, trap=BATCH_ACK)
async def batch_of_completions_resolves_the_dependents_of_each(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 5)
    children = [await rig.enqueue(depends_on=[id]) for id in ids]
    both = await rig.enqueue(depends_on=ids)
    leased = await rig.claim(5)
    await rig.settle(SETTLE_COMPLETE, [one.id for one in leased], [one.token for one in leased])
    await rig.tick()
    assert await rig.states(*children, both) == ["ready"] * 6


@behaviour(12, needs=NEEDS)
async def blocked_job_with_a_run_time_is_scheduled_when_satisfied(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(b"child", depends_on=[first], delay_ms=5_000)
    run_at = rig.wall_ms + 5_000
    await rig.advance(1_000)
    await end(rig, succeed=True)
    job = await rig.job(child)
    assert (job.state, job.run_at) == ("scheduled", run_at)
    event = await rig.last_event(child)
    assert (event.type, event.state, event.cause) == ("updated", "scheduled", "satisfy")
    await rig.advance(4_000)
    assert await rig.state(child) == "ready"


@behaviour(12, needs=NEEDS)
async def run_time_alone_does_not_unblock(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(depends_on=[first], delay_ms=5_000)
    await rig.advance(HOUR)
    assert await rig.state(child) == "blocked"
    await end(rig, succeed=True)
    assert await rig.state(child) == "ready"


@behaviour(12, needs=NEEDS)
async def blocked_job_expires(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(depends_on=[first], ttl_ms=5_000)
    grandchild = await rig.enqueue(depends_on=[child])
    await rig.advance(5_000)
    assert (await rig.job(child)).reason == "expired"
    assert (await rig.job(grandchild)).reason == "dependency_failed"
    await end(rig, succeed=True)
    assert await rig.state(child) == "failed"


@behaviour(12, needs=NEEDS)
async def dependency_named_twice_counts_once(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(depends_on=[first, first])
    await end(rig, succeed=True)
    assert await rig.state(child) == "ready"


@behaviour(3, needs=NEEDS)
async def no_step_resolves_more_than_a_thousand_dependents(rig: Rig) -> None:
    first = await rig.enqueue(b"first")
    children = await rig.enqueue_ids([b"child"] * 4_500, depends_on=[first], queue="children")
    await rig.complete(await rig.claim_one())
    assert await rig.count_by_steps("ready", 4_500, "children") >= 2
    leased = await rig.claim(4_500, queues="children")
    assert [one.id for one in leased] == children


@behaviour(3, needs=NEEDS)
async def owed_failures_of_dependents_reach_all_of_them(rig: Rig) -> None:
    first = await rig.enqueue(b"first")
    await rig.enqueue_ids([b"child"] * 4_500, depends_on=[first], queue="children")
    await rig.fail(await rig.claim_one(), retryable=False)
    assert await rig.count_by_steps("failed", 4_500, "children") >= 2


@behaviour(12, needs=NEEDS)
async def dependent_is_cancelled_alone(rig: Rig) -> None:
    first = await rig.enqueue()
    child = await rig.enqueue(depends_on=[first])
    await rig.change_one(CANCEL, child)
    assert await rig.states(first, child) == ["ready", "cancelled"]
    await end(rig, succeed=True)
    assert await rig.states(first, child) == ["completed", "cancelled"]


@behaviour(12, needs=NEEDS)
async def first_failure_fails_the_dependent_while_others_still_run(rig: Rig) -> None:
    ids = await rig.enqueue_ids([b"x"] * 3)
    child = await rig.enqueue(depends_on=ids)
    await end(rig, succeed=False)
    assert (await rig.job(child)).reason == "dependency_failed"
    await end(rig, succeed=True)
    await end(rig, succeed=True)
    assert (await rig.types_of(child)).count("failed") == 1


@behaviour(12, needs=NEEDS)
async def ended_dependencies_count_by_the_policy(rig: Rig) -> None:
    good, bad, open_ = await rig.enqueue_ids([b"x"] * 3)
    await end(rig, succeed=True)
    await end(rig, succeed=False)
    for policy, deps, state in (
        ("all_done", [good, bad], "ready"),
        ("all_done", [bad, open_], "blocked"),
        ("any_success", [good, bad], "ready"),
        ("any_success", [good, open_], "ready"),
        ("any_success", [bad, open_], "blocked"),
        ("any_success", [bad], "failed"),
        ("all_success", [good, open_], "blocked"),
        ("all_success", [bad, open_], "failed"),
    ):
        child = await rig.enqueue(queue="children", depends_on=deps, dependency_policy=policy)
        await rig.tick()
        assert (policy, await rig.state(child)) == (policy, state)


@behaviour(12, needs=NEEDS)
async def success_runs_down_a_chain_one_by_one(rig: Rig) -> None:
    ids = [await rig.enqueue()]
    for _ in range(10):
        ids.append(await rig.enqueue(depends_on=[ids[-1]]))
    for id in ids:
        leased = await rig.claim(99)
        assert [one.id for one in leased] == [id]
        await rig.complete(leased[0])


@behaviour(12, needs=NEEDS)
async def dependents_of_one_job_are_readied_in_the_order_of_their_ids(rig: Rig) -> None:
    first = await rig.enqueue()
    children = [await rig.enqueue(depends_on=[first]) for _ in range(20)]
    await end(rig, succeed=True)
    assert [one.id for one in await rig.claim(99)] == children


@behaviour(12, needs=NEEDS, trap=HANGING_DEPENDENT)
async def job_that_depends_on_a_removed_one_does_not_hang(rig: Rig) -> None:
    first = await rig.enqueue(queue="other")
    await rig.change_one(REMOVE, first)
    answers = await rig.enqueue_many([b"child"], each=[{"depends_on": [first]}])
    await rig.tick()
    error = answers.item(0).error
    if error is None:
        assert (await rig.job(answers.item(0).id)).reason == "dependency_failed"
    else:
        assert type(error) is DependencyNotFound


@behaviour(12, needs=NEEDS, rulings=(40,))
async def dependency_that_is_replayed_counts_as_it_ended_first(rig: Rig) -> None:
    bad, open_ = await rig.enqueue_ids([b"x"] * 2)
    waiting = await rig.enqueue(queue="children", depends_on=[bad, open_], dependency_policy="all_done")
    await end(rig, succeed=False)
    await rig.change_one(REPLAY, bad)
    late = await rig.enqueue(queue="children", depends_on=[bad, open_], dependency_policy="all_done")
    await end(rig, succeed=True)
    assert await rig.states(open_, waiting, late) == ["completed", "ready", "blocked"]
    await end(rig, succeed=True)
    assert await rig.states(bad, late) == ["completed", "ready"]
