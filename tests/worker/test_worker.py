"""What a worker does with a job, whatever store it comes from."""

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import tenure
from tenure.core.error import InvalidRequest, JobCancelled, JobFailed
from tenure.core.request import Filter
from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore
from tests.worker.places import place

WAIT = 20


async def test_result_comes_back_as_the_type_that_was_promised(url: str) -> None:
    app = tenure.App(url)

    @app.task
    async def add(a: int, b: int = 2) -> int:
        return a + b

    @app.task
    def join(words: list[str]) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return " ".join(words)

    async with app.worker():
        assert await (await add.enqueue(1)).result(WAIT) == 3
        assert await (await join.enqueue(["a", "b"])).result(WAIT) == "a b"


async def test_context_says_what_runs_and_takes_what_the_handler_says(url: str) -> None:
    app = tenure.App(url)

    @app.task(queue="q", max_attempts=4)
    async def report(ctx: tenure.Context, n: int) -> list[Any]:
        ctx.progress(50, "half")
        ctx.log("first")
        logging.getLogger("mine").warning("second")
        for number in range(n):
            ctx.emit({"number": number})
        assert tenure.current() is ctx
        return [ctx.job.id, ctx.job.queue, ctx.job.task, ctx.attempt, ctx.tenant, ctx.job.max_attempts, ctx.job.tags]

    async with app.worker():
        job = await report.options(tags=["a"], metadata={"k": "v"}).enqueue(3)
        assert await job.result(WAIT) == [job.id, "q", "report", 1, "default", 4, ["a"]]
        assert await job.logs() == ["first", "WARNING mine: second"]
        assert [item async for item in job.stream()] == [{"number": 0}, {"number": 1}, {"number": 2}]
        assert [item async for item in job.stream(2)] == [{"number": 2}]
        found = (await job.info()).progress
        assert found is not None
        assert (found.percent, found.message) == (50, "half")


async def test_context_speaks_from_a_thread_too(url: str) -> None:
    app = tenure.App(url)

    @app.task
    def report(ctx: tenure.Context) -> int:
        ctx.log("from a thread")
        ctx.emit(1)
        return tenure.current().job.id

    async with app.worker():
        job = await report.enqueue()
        assert await job.result(WAIT) == job.id
        assert await job.logs() == ["from a thread"]
        assert [item async for item in job.stream()] == [1]


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [
        (ValueError("wrong"), "failed", "attempts_exhausted"),
        (tenure.Permanent("never"), "failed", "permanent"),
        (tenure.Cancel(), "cancelled", ""),
        (KeyError("boom"), "failed", "permanent"),
        (SystemExit(3), "failed", "attempts_exhausted"),
        (KeyboardInterrupt(), "failed", "attempts_exhausted"),
        (GeneratorExit(), "failed", "attempts_exhausted"),
        (asyncio.CancelledError(), "failed", "attempts_exhausted"),
        (StopIteration(), "failed", "attempts_exhausted"),
    ],
)
@pytest.mark.parametrize("in_thread", [False, True])
async def test_exception_ends_the_attempt_and_not_the_worker(
    outcome: BaseException, state: str, reason: str, in_thread: bool
) -> None:
    app = tenure.App("memory://")

    async def raises() -> None:
        raise outcome

    def raises_in_thread() -> None:
        raise outcome

    options = {"max_attempts": 1, "permanent": KeyError}
    task = app.add_task(raises_in_thread if in_thread else raises, options)

    @app.task
    async def fine() -> str:
        return "fine"

    async with app.worker():
        job = await task.enqueue()
        with pytest.raises((JobFailed, JobCancelled)):
            await job.result(WAIT)
        found = await job.info()
        assert (found.state, found.reason) == (state, reason)
        assert await (await fine.enqueue()).result(WAIT) == "fine"


async def test_outcomes_may_be_returned(url: str) -> None:
    app = tenure.App(url)
    runs: list[int] = []

    @app.task(max_attempts=2)
    async def later(ctx: tenure.Context) -> str | tenure.Snooze:
        runs.append(ctx.attempt)
        return tenure.Snooze("10ms") if len(runs) < 3 else "done"

    @app.task
    async def never() -> tenure.Permanent | None:
        return tenure.Permanent("no")

    async with app.worker():
        assert await (await later.enqueue()).result(WAIT) == "done"
        assert runs == [1, 1, 1]
        with pytest.raises(JobFailed, match="no"):
            await (await never.enqueue()).result(WAIT)


async def test_retry_says_the_delay(url: str) -> None:
    app = tenure.App(url)
    runs: list[int] = []

    @app.task(max_attempts=3, backoff=tenure.Backoff.fixed("1h"))
    async def flaky(ctx: tenure.Context) -> str:
        runs.append(ctx.attempt)
        if ctx.attempt < 3:
            raise tenure.Retry(after="10ms")
        return "done"

    async with app.worker():
        assert await (await flaky.enqueue()).result(WAIT) == "done"
    assert runs == [1, 2, 3]


async def test_only_what_is_named_is_tried_again() -> None:
    app = tenure.App("memory://")

    @app.task(max_attempts=5, retry_on=OSError, backoff=tenure.Backoff.fixed("1ms"))
    async def flaky(ctx: tenure.Context) -> None:
        raise OSError if ctx.attempt < 3 else ValueError("other")

    async with app.worker():
        job = await flaky.enqueue()
        with pytest.raises(JobFailed, match="other"):
            await job.result(WAIT)
        found = await job.info()
        assert (found.attempt, found.reason) == (3, "permanent")


async def test_failure_has_type_message_and_the_trace_of_the_handler() -> None:
    app = tenure.App("memory://")

    @app.task(max_attempts=1)
    async def broken() -> None:
        try:
            raise ValueError("inner")
        except ValueError as error:
            raise RuntimeError("outer") from error

    async with app.worker():
        with pytest.raises(JobFailed) as raised:
            await (await broken.enqueue()).result(WAIT)
    assert raised.value.fields["type"] == "RuntimeError"
    trace = str(raised.value.fields["trace"])
    assert "ValueError: inner" in trace
    assert "RuntimeError: outer" in trace
    assert "in broken" in trace
    assert "/tenure/worker/" not in trace


async def test_limit_that_a_handler_meets_pauses_its_key(url: str) -> None:
    app = tenure.App(url)
    runs: list[str] = []

    @app.task(limit_keys=lambda customer, **_: [f"api:{customer}"])
    async def call(customer: str) -> None:
        runs.append(customer)
        if len(runs) == 1:
            raise tenure.RateLimited(f"api:{customer}", "50ms")

    async with app.worker(concurrency=1):
        first = await call.enqueue("acme")
        other = await call.enqueue("other")
        await other.result(WAIT)
        await first.result(WAIT)
        assert (await first.info()).attempt == 1
    assert runs == ["acme", "other", "acme"]


async def test_payload_that_cannot_be_decoded_is_parked_with_its_bytes(url: str) -> None:
    app = tenure.App(url)

    @app.task
    async def strict(a: int) -> None: ...

    async with app.worker():
        client = app.home.here
        assert client is not None
        sent = await client.enqueue(b'{"a": "text"}', task="strict")
        with pytest.raises(JobFailed):
            await client.wait(sent.id, WAIT)
        found = await client.get(sent.id)
        assert (found.state, found.reason, found.payload) == ("failed", "undecodable", b'{"a": "text"}')


async def test_result_that_cannot_be_written_fails_at_once(url: str) -> None:
    app = tenure.App(url)

    @app.task(max_attempts=5)
    async def odd() -> Any:
        return object()

    async with app.worker():
        with pytest.raises(JobFailed, match="cannot be written as json") as raised:
            await (await odd.enqueue()).result(WAIT)
        assert raised.value.fields["reason"] == "permanent"


async def test_job_of_an_unknown_task_waits_for_a_worker_that_knows_it(url: str) -> None:
    app, newer = tenure.App(url), tenure.App(url)

    @app.task
    async def old() -> str:
        return "old"

    @newer.task(name="new")
    async def new() -> str:
        return "new"

    async with app.worker():
        waiting = await app.enqueue("new")
        assert await (await old.enqueue()).result(WAIT) == "old"
        assert await waiting.state() == "ready"
        if url == "memory://":
            return
        async with newer.worker():
            assert await waiting.result(WAIT) == "new"


async def test_renamed_task_takes_jobs_of_its_older_name(url: str) -> None:
    app = tenure.App(url)

    @app.task(aliases=["old_name"])
    async def new_name() -> str:
        return "here"

    async with app.worker():
        assert await (await app.enqueue("old_name")).result(WAIT) == "here"


async def test_cancelled_job_stops_its_handler(url: str) -> None:
    app = tenure.App(url)
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> None:
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.set()

    async with app.worker():
        job = await long.enqueue()
        await started.wait()
        assert await job.cancel() == "cancelled"
        async with asyncio.timeout(WAIT):
            await stopped.wait()
        with pytest.raises(JobCancelled):
            await job.result(WAIT)


async def test_cancelled_job_stops_its_thread(url: str) -> None:
    app = tenure.App(url)
    loop = asyncio.get_running_loop()
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.task
    def long(ctx: tenure.Context) -> None:
        try:  # it may be stopped as soon as it has said that it runs
            loop.call_soon_threadsafe(started.set)
            while True:
                ctx.cancelled  # noqa: B018 - any instruction will do
        finally:
            loop.call_soon_threadsafe(stopped.set)

    async with app.worker():
        job = await long.enqueue()
        await started.wait()
        await job.cancel()
        async with asyncio.timeout(WAIT):
            await stopped.wait()
        with pytest.raises(JobCancelled):
            await job.result(WAIT)


async def test_handler_may_wait_for_its_cancellation(url: str) -> None:
    app = tenure.App(url)
    started = asyncio.Event()
    seen: list[bool] = []

    @app.task
    async def polite(ctx: tenure.Context) -> None:
        started.set()
        try:
            await ctx.until_cancelled()
        finally:
            seen.append(ctx.cancelled)

    async with app.worker():
        job = await polite.enqueue()
        await started.wait()
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(WAIT)
    assert seen == [True]


async def test_timeout_stops_the_handler_and_spends_the_attempt(url: str) -> None:
    app = tenure.App(url)
    stopped: list[int] = []

    @app.task(timeout="50ms", max_attempts=2, backoff=tenure.Backoff.fixed("1ms"))
    async def slow(ctx: tenure.Context) -> str:
        if ctx.attempt == 2:
            return "second"
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(ctx.attempt)
        return "never"

    async with app.worker():
        assert await (await slow.enqueue()).result(WAIT) == "second"
        async with asyncio.timeout(WAIT):
            while not stopped:
                await asyncio.sleep(0.01)
    assert stopped == [1]


async def test_stop_lets_handlers_end(url: str) -> None:
    app = tenure.App(url)
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> str:
        started.set()
        await go_on.wait()
        return "done"

    async with app, app.worker() as worker:
        job = await work.enqueue()
        await started.wait()
        stopping = asyncio.ensure_future(worker.stop())
        await asyncio.sleep(0)
        go_on.set()
        await stopping
        assert await job.result(WAIT) == "done"


async def test_stop_releases_what_does_not_end_and_spends_no_attempt(url: str) -> None:
    app = tenure.App(url)
    started = asyncio.Event()

    @app.task
    async def work() -> str:
        started.set()
        await asyncio.sleep(3600)
        return "done"

    async with app:
        async with app.worker(stop=0):
            job = await work.enqueue()
            await started.wait()
        found = await job.info()
        assert (found.state, found.attempt) == ("ready", 0)


async def test_worker_claims_no_more_than_it_can_start(url: str) -> None:
    app = tenure.App(url)
    running, most = 0, 0

    @app.task
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with app.worker(concurrency=9) as worker:
        jobs = [job async for job in app.enqueue_many(work.bind() for _ in range(100))]
        for job in jobs:
            await job.result(WAIT)
        assert worker.ended == 100
    assert most == 9


async def test_worker_that_has_nothing_to_do_goes_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.worker.CLAIM_WAIT_MS", 1)
    app = tenure.App(url)

    @app.task
    async def work() -> str:
        return "done"

    async with app.worker() as worker:
        claimed: set[float] = set()
        async with asyncio.timeout(WAIT):
            while len(claimed) < 5:  # came back with nothing, and went on
                claimed.add(worker._claimed_at)
                await asyncio.sleep(0.001)
        assert await (await work.enqueue()).result(WAIT) == "done"


async def test_follow_ups_are_stored_with_the_completion(url: str) -> None:
    app = tenure.App(url)

    @app.task
    async def child(n: int) -> int:
        return n

    @app.task(max_attempts=1)
    async def parent(ctx: tenure.Context, fails: bool) -> str:
        ctx.enqueue(child.bind(1))
        ctx.enqueue(child.options(custom_id=f"child-{fails}").bind(2))
        if fails:
            raise ValueError
        return "done"

    async with app.worker():
        await (await parent.enqueue(False)).result(WAIT)
        client = app.home.here
        assert client is not None
        assert await client.wait((await client.get("child-False")).id, WAIT) == b"2"
        with pytest.raises(JobFailed):
            await (await parent.enqueue(True)).result(WAIT)
        found = await client.find(Filter(task="child"))
        assert len(found.jobs) == 2


async def test_batch_handler_works_on_many_jobs_in_one_call(url: str) -> None:
    app = tenure.App(url)
    sizes: list[int] = []

    @app.batch(10, max_attempts=1)
    async def double(numbers: list[int]) -> list[int]:
        sizes.append(len(numbers))
        return [ValueError("odd one") if number == 13 else 2 * number for number in numbers]  # type: ignore[misc]

    async with app:
        jobs = [job async for job in app.enqueue_many(double.bind(number) for number in range(25))]
        async with app.worker():
            for number, job in enumerate(jobs):
                if number == 13:
                    with pytest.raises(JobFailed, match="odd one"):
                        await job.result(WAIT)
                else:
                    assert await job.result(WAIT) == 2 * number
    assert sizes == [10, 10, 5]


async def test_batch_handler_that_waits_gets_company(url: str) -> None:
    app = tenure.App(url)
    sizes: list[int] = []

    @app.batch(2, wait="10s")
    def both(numbers: list[int]) -> list[int]:
        sizes.append(len(numbers))
        return numbers

    async with app.worker():
        first = await both.enqueue(1)
        second = await both.enqueue(2)
        assert [await first.result(WAIT), await second.result(WAIT)] == [1, 2]
    assert sizes == [2]


@pytest.mark.parametrize("values", [[1], [1, 2, 3], None, "text"])
async def test_batch_handler_that_returns_something_else_fails_its_jobs(values: Any) -> None:
    app = tenure.App("memory://")

    @app.batch(2, max_attempts=1)
    async def odd(numbers: list[int]) -> list[int]:
        found: list[int] = values
        return found

    async with app:
        jobs = [job async for job in app.enqueue_many(odd.bind(number) for number in range(2))]
        async with app.worker():
            for job in jobs:
                with pytest.raises(JobFailed, match="a batch handler of 2 items returns a list"):
                    await job.result(WAIT)


async def test_middleware_goes_around_every_handler() -> None:
    app = tenure.App("memory://")
    seen: list[str] = []

    @app.middleware
    async def outer(ctx: tenure.Context, call: Any) -> Any:
        seen.append(f"before {ctx.job.task}")
        try:
            return await call()
        except ValueError as error:
            seen.append(f"caught {error}")
            raise tenure.Permanent("translated") from error
        finally:
            seen.append("after")

    @app.middleware
    async def inner(ctx: tenure.Context, call: Any) -> Any:
        return [await call()]

    @app.task
    async def one() -> int:
        return 1

    @app.task
    def two(fail: bool) -> int:
        if fail:
            raise ValueError("in a thread")
        return 2

    async with app.worker(concurrency=1):
        assert await app.job((await one.enqueue()).id).result(WAIT) == [1]
        assert await app.job((await two.enqueue(False)).id).result(WAIT) == [2]
        with pytest.raises(JobFailed, match="translated"):
            await (await two.enqueue(True)).result(WAIT)
    assert seen == ["before one", "after", "before two", "after", "before two", "caught in a thread", "after"]


async def test_dependencies_are_made_once_per_job_and_undone() -> None:
    app = tenure.App("memory://")
    seen: list[str] = []

    async def settings() -> dict[str, int]:
        seen.append("settings")
        return {"n": 1}

    async def session(ctx: tenure.Context, given: dict[str, int] = tenure.Depends(settings)) -> AsyncIterator[str]:
        seen.append(f"open {given['n']} {ctx.job.task}")
        yield "session"
        seen.append("close")

    def plain() -> Iterator[str]:
        yield "plain"
        seen.append("plain closed")

    @app.task
    async def work(
        a: int,
        db: str = tenure.Depends(session),
        again: dict[str, int] = tenure.Depends(settings),
        other: str = tenure.Depends(plain),
    ) -> list[Any]:
        return [a, db, again, other]

    @app.task
    def work_in_thread(db: str = tenure.Depends(session), other: str = tenure.Depends(plain)) -> list[Any]:
        return [db, other]

    async with app.worker(concurrency=1):
        assert await (await work.enqueue(1)).result(WAIT) == [1, "session", {"n": 1}, "plain"]
        assert seen == ["settings", "open 1 work", "plain closed", "close"]
        seen.clear()
        assert await (await work_in_thread.enqueue()).result(WAIT) == ["session", "plain"]
        assert seen == ["settings", "open 1 work_in_thread", "plain closed", "close"]


async def test_hooks_are_told_of_success_and_of_the_last_failure() -> None:
    app = tenure.App("memory://")
    told: list[Any] = []

    async def on_success(ctx: tenure.Context, result: int) -> None:
        told.append((ctx.job.task, result))

    def on_failure(ctx: tenure.Context, error: JobFailed) -> None:
        told.append((ctx.job.task, ctx.attempt, str(error)))
        raise RuntimeError("a hook that fails harms nobody")

    @app.task(on_success=on_success, on_failure=on_failure, max_attempts=2, backoff=tenure.Backoff.fixed("1ms"))
    async def work(n: int) -> int:
        if not n:
            raise ValueError("zero")
        return n

    async with app.worker():
        assert await (await work.enqueue(5)).result(WAIT) == 5
        with pytest.raises(JobFailed):
            await (await work.enqueue(0)).result(WAIT)
    assert told == [("work", 5), ("work", 2, "ValueError: zero")]


async def test_hooks_are_called_when_the_store_has_taken_the_settlement(url: str) -> None:
    app = tenure.App(url)
    seen: list[Any] = []

    async def look(ctx: tenure.Context, _told: Any) -> None:
        client = app.home.here
        assert client is not None
        seen.append((await client.get(ctx.job.id)).state)
        with pytest.raises(InvalidRequest, match="the job is settled"):
            ctx.enqueue(work.bind(1))

    @app.task(on_success=look, on_failure=look, max_attempts=1)
    async def work(n: int) -> None:
        if not n:
            raise ValueError("zero")

    async with app.worker():
        await (await work.enqueue(1)).result(WAIT)
        with pytest.raises(JobFailed):
            await (await work.enqueue(0)).result(WAIT)
    assert seen == ["completed", "failed"]


@pytest.mark.parametrize(
    ("how", "level"), [("discard", logging.WARNING), ("cancel", logging.INFO)], ids=["lease lost", "cancelled"]
)
async def test_no_hook_is_called_for_a_settlement_that_was_refused(
    how: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that has finished and whose lease is gone is something to hear of; a job that somebody cancelled is
    not."""
    app = tenure.App("memory://")
    told: list[Any] = []
    note = lambda _ctx, value: told.append(value)  # noqa: E731

    @app.task(on_success=note, on_failure=note)
    async def work(ctx: tenure.Context) -> str:
        client = app.home.here
        assert client is not None
        await getattr(client, how)(ctx.job.id)
        return "done"

    caplog.set_level(logging.INFO, "tenure.worker")
    async with app.worker() as worker:
        job = await work.enqueue()
        with pytest.raises((JobFailed, JobCancelled)):
            await job.result(WAIT)
        while worker.running:
            await worker.until_one_ends()
    assert told == []
    [record] = [each for each in caplog.records if f"job {job.id} " in each.getMessage()]
    assert record.levelno == level


async def test_timeout_of_the_last_attempt_calls_the_hook(url: str) -> None:
    """The store has ended the attempt by itself, and refuses what the worker says of it."""
    app = tenure.App(url)
    told: list[str] = []

    @app.task(on_failure=lambda _ctx, error: told.append(error.type), max_attempts=1, timeout="100ms")
    async def work() -> None:
        await asyncio.Event().wait()

    async with app.worker() as worker:
        job = await work.enqueue()
        with pytest.raises(JobFailed):
            await job.result(WAIT)
        while worker.running:
            await worker.until_one_ends()
    assert told == ["TimeoutError"]


async def test_hook_that_does_not_end_leaves_its_place_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    app = tenure.App("memory://")
    entered = asyncio.Event()
    monkeypatch.setattr("tenure.worker.worker.HOOK_S", 0.05)

    async def waits(_ctx: tenure.Context, _value: Any) -> None:
        entered.set()
        await asyncio.Event().wait()

    @app.task(on_success=waits)
    async def hooked() -> None: ...

    @app.task
    async def other() -> str:
        return "done"

    async with app.worker(concurrency=1, stop="1s"):
        await hooked.enqueue()
        await entered.wait()
        assert await (await other.enqueue()).result(WAIT) == "done"


async def test_worker_without_tasks_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="import the modules"):
        async with tenure.App("memory://").worker():
            pass


async def test_burst_ends_when_the_queue_is_empty(url: str) -> None:
    app = tenure.App(url)

    @app.task
    async def work(n: int) -> None: ...

    async with app:
        jobs = [job async for job in app.enqueue_many(work.bind(n) for n in range(50))]
        async with app.worker(concurrency=4) as worker:
            await worker.until_idle()
            assert worker.ended == 50
        assert {await job.state() for job in jobs} == {"completed"}


async def test_result_that_the_store_does_not_take_fails_at_once(url: str) -> None:
    """Not when its lease is over, and not as often as there are attempts."""
    app = tenure.App(url)
    runs: list[int] = []

    @app.task(max_attempts=5)
    async def huge(ctx: tenure.Context) -> str:
        runs.append(ctx.attempt)
        return "x" * 2 * 1024 * 1024

    @app.task
    async def small() -> str:
        return "small"

    async with app.worker():
        job, other = await huge.enqueue(), await small.enqueue()
        with pytest.raises(JobFailed, match="bytes, 1048576 are accepted") as raised:
            await job.result(WAIT)
        assert raised.value.fields["reason"] == "permanent"
        assert await other.result(WAIT) == "small"
    assert runs == [1]


async def test_follow_up_of_another_tenant_is_refused() -> None:
    app = tenure.App("memory://")

    @app.task(max_attempts=1)
    async def parent(ctx: tenure.Context) -> None:
        ctx.enqueue(parent.options(tenant="other").bind())

    async with app.worker():
        with pytest.raises(JobFailed, match="belongs to the tenant of its job"):
            await (await parent.enqueue()).result(WAIT)


async def test_threads_outlive_cancellations_at_any_moment() -> None:
    """A thread that dies of an exception that came too late would take its place with it."""
    app = tenure.App("memory://")

    @app.task
    def quick(n: int) -> int:
        return n

    async with app.worker(concurrency=4) as worker:
        for _ in range(300):
            jobs = [await quick.enqueue(n) for n in range(4)]
            for job in jobs:
                with contextlib.suppress(tenure.Error):
                    await job.cancel()
            for attempt in list(worker.running):
                worker.lose(attempt)
        async with asyncio.timeout(WAIT):
            assert await (await quick.enqueue(7)).result(WAIT) == 7
            while worker.running:
                await asyncio.sleep(0.001)
        assert worker.here.running == 0
        assert [await (await quick.enqueue(n)).result(WAIT) for n in range(8)] == list(range(8))


async def test_one_settlement_that_is_refused_harms_no_other(url: str) -> None:
    """They go to the store together."""
    app = tenure.App(url)

    @app.task(max_attempts=1)
    async def work(n: int) -> str:
        return "x" * 17 * 1024 * 1024 if n == 3 else "fine"

    async with app:
        jobs = [job async for job in app.enqueue_many(work.bind(n) for n in range(8))]
        async with app.worker(concurrency=8):
            for n, job in enumerate(jobs):
                if n == 3:
                    with pytest.raises(JobFailed):
                        await job.result(WAIT)
                else:
                    assert await job.result(WAIT) == "fine"


@pytest.mark.parametrize(
    "outcome",
    [lambda: tenure.Snooze("40000d"), lambda: tenure.Retry(after="40000d"), lambda: tenure.RateLimited("", "1s")],
)
async def test_outcome_that_no_store_takes_is_a_failure_with_its_reason(outcome: Any) -> None:
    app = tenure.App("memory://")

    @app.task(max_attempts=1)
    async def work() -> None:
        raise outcome()

    async with app.worker():
        with pytest.raises(JobFailed, match="is not accepted"):
            await (await work.enqueue()).result(WAIT)


async def test_lease_of_a_queue_is_renewed_in_time(url: str) -> None:
    app = tenure.App(url)

    @app.task(queue="short", max_attempts=3)
    async def long() -> str:
        await asyncio.sleep(2.5)
        return "done"

    async with app:
        client = app.home.here
        assert client is not None
        await client.configure("queue", "short", lease_ms=1_000)
        async with app.worker():
            job = await long.enqueue()
            assert await job.result(WAIT) == "done"
            assert (await job.info()).delivery == 1


async def test_those_who_wait_for_results_do_not_hold_up_the_work() -> None:
    """More of them than a connection has calls."""
    async with place("server", Path()) as url:
        app = tenure.App(url)

        @app.task
        async def work(n: int) -> int:
            return n

        async with app:
            jobs = [job async for job in app.enqueue_many(work.bind(n) for n in range(700))]
            waiting = [asyncio.ensure_future(job.result(WAIT)) for job in jobs]
            await asyncio.sleep(0.1)
            async with app.worker():
                assert await asyncio.gather(*waiting) == list(range(700))


async def test_worker_goes_on_when_its_settlements_have_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.worker.UNSETTLED_MAX", 5)
    app = tenure.App("memory://")

    @app.task
    async def work() -> None: ...

    async with app:
        jobs = [job async for job in app.enqueue_many(work.bind() for _ in range(500))]
        async with app.worker(concurrency=50):
            for job in jobs:
                await job.result(WAIT)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_job_of_a_batch_that_is_cancelled_harms_no_other(in_thread: bool, url: str) -> None:
    app = tenure.App(url)
    loop = asyncio.get_running_loop()
    started, go_on = asyncio.Event(), threading.Event()

    def work_in_thread(numbers: list[int]) -> list[int]:
        loop.call_soon_threadsafe(started.set)
        go_on.wait(WAIT)
        return numbers

    async def work(numbers: list[int]) -> list[int]:
        started.set()
        while not go_on.is_set():
            await asyncio.sleep(0.001)
        return numbers

    task = app.add_task(work_in_thread if in_thread else work, {"name": "work", "batch": 3})
    async with app:
        jobs = [job async for job in app.enqueue_many(task.bind(n) for n in range(3))]
        async with app.worker() as worker:
            await started.wait()
            await jobs[0].cancel()
            async with asyncio.timeout(WAIT):
                while not any(attempt.stop for attempt in worker.running):
                    await asyncio.sleep(0.001)
            go_on.set()
            assert [await job.result(WAIT) for job in jobs[1:]] == [1, 2]
            with pytest.raises(JobCancelled):
                await jobs[0].result(WAIT)


async def test_stop_ends_though_the_server_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.worker.worker.DRAIN_S", 0.2)
    monkeypatch.setattr("tenure.worker.worker.GOODBYE_S", 0.2)
    server = Server(Settings(tcp_port=0, http=False, grpc=False), MemoryStore())
    await server.start()
    app = tenure.App(f"tenure://127.0.0.1:{server.tcp_port}")
    started, go_on = asyncio.Event(), asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await go_on.wait()

    async with asyncio.timeout(WAIT), app, app.worker(stop="1s"):
        await work.enqueue()
        await started.wait()
        await server.stop()
        go_on.set()


async def test_middleware_that_gives_up_stops_the_thread(url: str) -> None:
    app = tenure.App(url)
    ended = threading.Event()

    @app.middleware
    async def impatient(ctx: tenure.Context, call: Any) -> Any:
        async with asyncio.timeout(0.05):
            return await call()

    @app.task(max_attempts=1)
    def slow() -> None:
        try:
            while True:
                pass
        finally:
            ended.set()

    async with app.worker(concurrency=1):
        with pytest.raises(JobFailed, match="Timeout"):
            await (await slow.enqueue()).result(WAIT)
        assert ended.is_set()


async def test_result_that_is_not_what_was_promised_is_an_error_of_tenure(url: str) -> None:
    app = tenure.App(url)

    @app.task
    async def lie() -> list[str]:
        return cast("list[str]", 3)

    async with app.worker():
        job = await lie.enqueue()
        with pytest.raises(tenure.Error, match="promised"):
            await job.result(WAIT)


async def test_two_workers_of_one_program_write_a_line_once(url: str) -> None:
    app = tenure.App(url)

    @app.task
    async def speak() -> None:
        logging.getLogger("mine").warning("once")

    async with app.worker(), app.worker(name="second"):
        job = await speak.enqueue()
        await job.result(WAIT)
        assert await job.logs() == ["WARNING mine: once"]


async def test_what_is_no_function_is_refused_as_a_task() -> None:
    app = tenure.App("memory://")

    class Doubler:
        def __call__(self) -> int:
            return 1

    for wrong in (functools.partial(int, "3"), Doubler()):
        with pytest.raises(InvalidRequest, match="a def"):
            app.task(wrong)
