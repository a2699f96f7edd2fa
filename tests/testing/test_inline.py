"""Inline mode: a job runs in the call that enqueues it, and nothing about it is pretended."""

import asyncio
import logging
import threading
from typing import Any

import pytest

import tenure
from tenure.core.error import InvalidRequest, JobFailed, Timeout
from tenure.testing import Clock, advance, advance_sync, assert_enqueued, clock_of, enqueued, inline


def test_plain_test_gets_the_result_at_once() -> None:
    app = tenure.App("tenure://nowhere:1")

    @app.task
    async def add(a: int, b: int) -> int:
        return a + b

    @app.task
    def join(words: list[str]) -> str:
        return " ".join(words)

    with inline(app):
        job = add.enqueue_sync(1, 2)
        assert job.state_sync() == "completed"
        assert job.result_sync() == 3
        assert join.enqueue_sync(["a", "b"]).result_sync() == "a b"


async def test_handlers_run_in_the_loop_of_an_async_test() -> None:
    app = tenure.App("tenure://nowhere:1")
    loop = asyncio.get_running_loop()

    @app.task
    async def where() -> bool:
        return asyncio.get_running_loop() is loop

    async with inline(app):
        assert await (await where.enqueue()).result()
    with inline(app):
        assert not await (await where.enqueue()).result()
        async with app:
            assert await (await where.enqueue()).result()


def test_app_has_its_own_store_again_afterwards() -> None:
    app = tenure.App("memory://")
    home = app.home
    with inline(app) as outer:
        with inline(app):
            assert app.home is not outer.home
        assert app.home is outer.home
    assert app.home is home
    assert app.url == "memory://"


def test_arguments_go_through_the_codec() -> None:
    app = tenure.App("memory://")
    given: list[Any] = []

    @app.task
    def take(pair: tuple[int, int], names: list[str]) -> None:
        given.append((pair, names))

    with inline(app):
        names = ["a"]
        take.enqueue_sync((1, 2), names)
        assert given == [((1, 2), ["a"])]
        assert given[0][1] is not names
        with pytest.raises(InvalidRequest):
            take.enqueue_sync((1, 2), [object()])  # type: ignore[list-item]


def test_retries_run_and_their_delay_passes_on_the_clock() -> None:
    app = tenure.App("memory://")
    at: list[float] = []

    @app.task(max_attempts=3, backoff=tenure.Backoff.fixed("1h"))
    async def flaky(ctx: tenure.Context) -> int:
        at.append(clock.time.timestamp())
        if ctx.attempt < 3:
            raise OSError("not yet")
        return ctx.attempt

    clock = Clock()
    with inline(app, clock=clock):
        assert flaky.enqueue_sync().result_sync() == 3
    assert [round(later - at[0]) for later in at] == [0, 3600, 7200]


def test_snooze_and_a_limit_that_was_met_are_waited_for() -> None:
    app = tenure.App("memory://")
    runs: list[str] = []

    @app.task
    async def later() -> str | tenure.Snooze:
        runs.append("later")
        return tenure.Snooze("1d") if len(runs) < 3 else "done"

    @app.task(limit_keys=["api"])
    async def call() -> None:
        runs.append("call")
        if runs.count("call") == 1:
            raise tenure.RateLimited("api", "1h")

    with inline(app):
        assert later.enqueue_sync().result_sync() == "done"
        call.enqueue_sync().result_sync()
    assert runs == ["later"] * 3 + ["call"] * 2


def test_failure_is_the_jobs_and_is_raised_only_when_asked() -> None:
    app = tenure.App("memory://")

    @app.task(max_attempts=2, backoff=tenure.Backoff.fixed("1s"))
    async def broken() -> None:
        raise ValueError("no good")

    with inline(app):
        job = broken.enqueue_sync()
        assert job.info_sync().attempt == 2
        with pytest.raises(JobFailed, match="no good"):
            job.result_sync()
    with inline(app, raises=True), pytest.raises(JobFailed, match="no good"):
        broken.enqueue_sync()


def test_delay_is_kept_until_the_clock_is_moved() -> None:
    app = tenure.App("memory://")
    ran: list[tuple[str, int]] = []

    @app.task
    async def remind(who: str) -> None:
        ran.append((who, clock().wall_ms - start))

    clock = Clock()
    start = clock().wall_ms
    with inline(app, clock=clock):
        job = remind.options(delay="1h").enqueue_sync("ada")
        remind.options(delay="2h").enqueue_sync("ben")
        assert job.state_sync() == "scheduled"
        advance_sync(app, "3h")
        assert ran == [("ada", 3_600_000), ("ben", 7_200_000)]
        assert clock().wall_ms - start == 3 * 3_600_000


async def test_handler_may_enqueue_and_wait_for_the_other() -> None:
    app = tenure.App("memory://")

    @app.task
    async def inner(n: int) -> int:
        return 2 * n

    @app.task
    async def outer(n: int) -> int:
        return 1 + await (await inner.enqueue(n)).result()

    @app.task
    def outer_in_thread(n: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return 1 + inner.enqueue_sync(n).result_sync()

    async with inline(app):
        assert await (await outer.enqueue(3)).result() == 7
        assert await (await outer_in_thread.enqueue(4)).result() == 9


async def test_followups_dependents_and_duplicates_are_the_stores() -> None:
    app = tenure.App("memory://")
    ran: list[str] = []

    @app.task(unique_key=lambda name: name)
    async def step(ctx: tenure.Context, name: str) -> None:
        ran.append(name)
        if name == "first":
            ctx.enqueue(step.bind("follow-up"))
            assert (await step.enqueue("first")).duplicate

    async with inline(app):
        held = await step.options(delay="1h").enqueue("held")
        await step.options(depends_on=[held]).enqueue("dependent")
        await step.enqueue("first")
        assert ran == ["first", "follow-up"]
        await advance(app, "1h")
        assert ran == ["first", "follow-up", "held", "dependent"]
        assert [sent.arguments["name"] for sent in enqueued(app, step)] == ["held", "dependent", "first", "follow-up"]
        assert_enqueued(step, name="follow-up")


async def test_middleware_dependencies_and_hooks_run() -> None:
    app = tenure.App("memory://")
    said: list[str] = []

    @app.middleware
    async def around(ctx: tenure.Context, call: Any) -> Any:
        said.append(f"before {ctx.job.task}")
        try:
            return await call()
        finally:
            said.append("after")

    def session() -> str:
        return "session"

    @app.task(on_success=lambda ctx, value: said.append(f"told {value}"))
    def work(name: str, db: str = tenure.Depends(session)) -> str:
        said.append(f"{name} with {db}")
        return "done"

    async with inline(app):
        job = await work.enqueue("a")
        assert await job.result() == "done"
    assert said == ["before work", "a with session", "after", "told done"]


async def test_other_queues_tenants_and_batches_run_too() -> None:
    app = tenure.App("memory://")
    calls: list[list[int]] = []

    @app.task
    async def whose(ctx: tenure.Context) -> str:
        return f"{ctx.tenant} {ctx.job.queue}"

    @app.batch(size=3, wait="1h")
    async def double(numbers: list[int]) -> list[int]:
        calls.append(numbers)
        return [2 * number for number in numbers]

    async with inline(app):
        assert await (await whose.options(tenant="acme", queue="far").enqueue()).result() == "acme far"
        jobs = [job async for job in app.enqueue_many(double.bind(n) for n in range(4))]
        assert [await job.result() for job in jobs] == [0, 2, 4, 6]
        assert calls == [[0, 1, 2], [3]]


async def test_many_at_once_each_get_their_own() -> None:
    app = tenure.App("memory://")

    @app.task
    async def slow(n: int) -> int:
        await asyncio.sleep(0)
        logging.getLogger("mine").warning("slow")
        return n

    async with inline(app):
        jobs = await asyncio.gather(*(slow.enqueue(n) for n in range(20)))
        assert [await job.logs() for job in jobs] == [["WARNING mine: slow"]] * 20
        assert [await job.state() for job in jobs] == ["completed"] * 20
        assert [await job.result() for job in jobs] == list(range(20))


async def test_task_that_enqueues_itself_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.testing.runner.RUNS_MAX", 20)
    app = tenure.App("memory://")

    @app.task
    async def again(ctx: tenure.Context) -> None:
        ctx.enqueue(again.bind())

    @app.task
    async def sleepy() -> tenure.Snooze:
        return tenure.Snooze("1s")

    async with inline(app):
        with pytest.raises(RuntimeError, match="for ever"):
            await again.enqueue()
    async with inline(app):
        with pytest.raises(RuntimeError, match="for ever"):
            await sleepy.enqueue()


async def test_time_that_a_handler_takes_costs_no_lease_but_counts_for_its_timeout() -> None:
    app = tenure.App("memory://")

    @app.task(max_attempts=1)
    async def slow() -> str:
        clock_of(app).advance("1h")
        return "done"

    @app.batch(max_attempts=1)
    async def slow_together(numbers: list[int]) -> list[int]:
        clock_of(app).advance("1h")
        return numbers

    @app.task(max_attempts=1, timeout="10s")
    async def too_slow() -> str:
        clock_of(app).advance("11s")
        return "done"

    async with inline(app):
        assert await (await slow.enqueue()).result() == "done"
        assert await (await slow_together.enqueue(5)).result() == 5
        with pytest.raises(JobFailed):
            await (await too_slow.enqueue()).result()


async def test_task_defined_later_is_known() -> None:
    app = tenure.App("memory://")

    @app.task
    async def one() -> int:
        return 1

    async with inline(app):
        assert await (await one.enqueue()).result() == 1

        @app.task
        async def two() -> int:
            return 2

        assert await (await two.enqueue()).result() == 2


async def test_result_of_a_held_job_times_out_by_the_real_clock() -> None:
    app = tenure.App("memory://")

    @app.task
    async def one() -> int:
        return 1

    async with inline(app):
        job = await one.options(delay="1h").enqueue()
        with pytest.raises(Timeout):
            await job.result(0.01)
        with pytest.raises(Timeout):
            await job.result(0)


async def test_rate_of_a_tenant_that_has_not_begun_is_waited_for() -> None:
    app = tenure.App("memory://")

    @app.task(queue="calls")
    async def call() -> None: ...

    async with inline(app) as mode:
        await app.client.as_tenant("acme").configure("queue", "calls", rate=tenure.Rate(1, 60_000))
        started = mode.clock().elapsed_ms
        for _ in range(3):
            job = await call.options(tenant="acme").enqueue()
            assert await job.state() == "completed"
        assert mode.clock().elapsed_ms - started == 120_000


async def test_payload_that_nobody_can_read_is_stored_and_shown() -> None:
    app = tenure.App("memory://")

    @app.task
    async def one() -> None: ...

    async with inline(app):
        await app.client.enqueue(b"\xff", task="one")
        await app.client.enqueue(b"hello", queue="raw")
        assert [sent.arguments for sent in enqueued(app)] == [{"payload": b"\xff"}, {"payload": b"hello"}]
