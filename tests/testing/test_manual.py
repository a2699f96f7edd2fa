"""Manual mode: jobs are stored, looked at, and run when the test says so."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import tenure
from tenure.core.error import InvalidRequest, JobFailed, Unavailable
from tenure.testing import (
    Clock,
    advance,
    advance_sync,
    assert_enqueued,
    assert_not_enqueued,
    clear,
    clock_of,
    enqueued,
    manual,
    run_all,
    run_all_sync,
)


class Shop:
    def __init__(self) -> None:
        self.app = app = tenure.App("tenure://nowhere:1")
        self.sent: list[str] = []

        @app.task(queue="email", max_attempts=2, backoff=tenure.Backoff.fixed("1m"), unique_key=lambda to, **_: to)
        async def send(to: str, subject: str = "hi") -> str:
            self.sent.append(to)
            if to == "nobody":
                raise ValueError("there is nobody")
            return f"sent {subject}"

        @app.task
        def other(n: int) -> int:
            return n

        self.send = send
        self.other = other


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_nothing_runs_until_it_is_told_to(shop: Shop) -> None:
    with manual(shop.app):
        job = shop.send.enqueue_sync("ada")
        assert (job.state_sync(), shop.sent) == ("ready", [])
        assert run_all_sync(shop.app) == 1
        assert (job.result_sync(), shop.sent) == ("sent hi", ["ada"])
        assert run_all_sync(shop.app) == 0


def test_time_passes_only_when_it_is_moved(shop: Shop) -> None:
    clock = Clock()
    with manual(shop.app, clock=clock):
        assert clock_of(shop.app) is clock
        job = shop.send.options(delay="1h").enqueue_sync("nobody")
        assert run_all_sync(shop.app) == 0
        advance_sync(shop.app, "59m")
        assert run_all_sync(shop.app) == 0
        clock.advance("1m")
        assert run_all_sync(shop.app) == 1
        assert job.state_sync() == "retrying"
        advance_sync(shop.app, "1m")
        with pytest.raises(JobFailed, match="nobody"):
            run_all_sync(shop.app, raises=True)
        assert job.state_sync() == "failed"


async def test_everything_is_there_for_loops_too(shop: Shop) -> None:
    async with manual(shop.app):
        job = await shop.send.options(delay="1h").enqueue("ada")
        assert await run_all(shop.app) == 0
        await advance(shop.app, "1h")
        assert await run_all(shop.app) == 1
        assert await job.result() == "sent hi"


async def test_plain_with_works_inside_a_loop(shop: Shop) -> None:
    with manual(shop.app):
        job = await shop.send.enqueue("ada")
        assert await run_all(shop.app) == 1
        assert await job.result() == "sent hi"


def test_jobs_are_there_whichever_loop_looks(shop: Shop) -> None:
    with manual(shop.app):
        first = shop.send.enqueue_sync("ada")

        async def serve() -> str:
            async with shop.app.lifespan():
                await shop.send.enqueue("ben")
                assert await run_all(shop.app) == 2
                return await first.state()

        assert asyncio.run(serve()) == "completed"
        assert first.result_sync() == "sent hi"
        assert run_all_sync(shop.app) == 0


def test_what_was_enqueued_can_be_looked_at(shop: Shop) -> None:
    with manual(shop.app):
        shop.send.options(priority="high", tags=["x"]).enqueue_sync("ada", subject="news")
        shop.send.enqueue_sync("ada")  # a duplicate
        shop.other.enqueue_sync(5)
        [sent] = enqueued(shop.app, shop.send)
        assert (sent.task, sent.arguments, sent.queue) == ("send", {"to": "ada", "subject": "news"}, "email")
        assert sent.options.priority == 10
        assert sent.extras is not None
        assert sent.extras.tags == ("x",)
        assert [each.task for each in enqueued(shop.app)] == ["send", "other"]
        assert assert_enqueued(shop.send, to="ada") == [sent]
        run_all_sync(shop.app)
        assert_enqueued(shop.other, n=5)
        assert_not_enqueued(shop.other, n=6)
        clear(shop.app)
        assert enqueued(shop.app) == []
        assert not shop.send.enqueue_sync("ada").duplicate


def test_argument_that_was_not_given_has_its_default(shop: Shop) -> None:
    with manual(shop.app):
        shop.send.enqueue_sync("ada")
        assert_enqueued(shop.send, to="ada", subject="hi")
        assert_not_enqueued(shop.send, subject="news")
        assert_not_enqueued(shop.send, unknown=1)


def test_failure_shows_what_was_enqueued_instead(shop: Shop) -> None:
    with manual(shop.app):
        with pytest.raises(AssertionError, match=r"send\(to='ada'\) was not enqueued. Nothing was enqueued."):
            assert_enqueued(shop.send, to="ada")
        shop.other.enqueue_sync(5)
        shop.send.options(tenant="acme").enqueue_sync("ben", subject="x" * 200)
        with pytest.raises(AssertionError) as raised:
            assert_enqueued(shop.send, to="ada")
        first, *lines = str(raised.value).splitlines()
        assert first == "send(to='ada') was not enqueued. Enqueued were:"
        assert lines[0].startswith("  send(to='ben', subject='xxx")
        assert lines[0].endswith("…), queue email, tenant acme")
        assert lines[1] == "  other(n=5), queue default"
        with pytest.raises(AssertionError, match=r"other\(n=5\) was enqueued once."):
            assert_not_enqueued(shop.other, n=5)


def test_long_list_is_cut(shop: Shop) -> None:
    with manual(shop.app):
        for number in range(25):
            shop.other.enqueue_sync(number)
        with pytest.raises(AssertionError, match="and 5 more"):
            assert_enqueued(shop.send)


def test_jobs_by_name_are_seen_as_they_were_written(shop: Shop) -> None:
    with manual(shop.app):
        shop.app.enqueue_sync("elsewhere", {"x": 1})
        shop.app.enqueue_sync("other", {"n": 1})
        assert [(sent.task, sent.arguments) for sent in enqueued(shop.app)] == [
            ("elsewhere", {"x": 1}),
            ("other", {"n": 1}),
        ]
        assert run_all_sync(shop.app) == 1


async def test_worker_of_the_program_leaves_the_jobs_to_the_test(shop: Shop) -> None:
    async with manual(shop.app), shop.app.worker() as worker:
        job = await shop.send.enqueue("ada")
        assert await run_all(shop.app) == 1
        assert await job.result() == "sent hi"
        assert worker.started == 0


async def test_handler_that_waits_for_another_lets_it_run() -> None:
    app = tenure.App("memory://")

    @app.task
    async def inner() -> int:
        return 1

    @app.task
    async def outer() -> int:
        return 1 + await (await inner.enqueue()).result()

    async with manual(app):
        job = await outer.enqueue()
        assert await run_all(app) == 2
        assert await job.result() == 2


async def test_handler_that_waits_for_what_cannot_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.testing.client.PATIENCE_S", 0.01)
    app = tenure.App("memory://")

    @app.task
    async def inner() -> None: ...

    @app.task(max_attempts=1)
    async def outer() -> None:
        await (await inner.options(delay="1h").enqueue()).result()

    async with manual(app):
        job = await outer.enqueue()
        await run_all(app)
        with pytest.raises(JobFailed, match="nothing runs it"):
            await job.result()


async def test_several_may_run_at_once_when_they_need_each_other() -> None:
    app = tenure.App("memory://")
    met = asyncio.Event()

    @app.task
    async def first() -> None:
        await met.wait()

    @app.task
    async def second() -> None:
        met.set()

    async with manual(app):
        await first.enqueue()
        await second.enqueue()
        assert await run_all(app, concurrency=2) == 2


async def test_waiting_for_what_nothing_runs_ends_with_the_reason(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.testing.client.PATIENCE_S", 0.01)
    async with manual(shop.app):
        job = await shop.send.enqueue("ada")
        with pytest.raises(Unavailable, match=r"job 1 is ready .* run_all\(app\)"):
            await job.result()
        with pytest.raises(Unavailable, match="nothing runs it"):
            [item async for item in job.stream()]
        waiting = asyncio.create_task(job.result())
        await run_all(shop.app)
        assert await waiting == "sent hi"


def test_app_that_is_not_under_test_is_refused(shop: Shop) -> None:
    with pytest.raises(InvalidRequest, match="not under test"):
        run_all_sync(shop.app)
    with pytest.raises(InvalidRequest, match="not under test"):
        assert_enqueued(shop.send)


def test_clock_stands_where_it_is_put() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    clock = Clock(at)
    assert clock.time == at
    clock.advance("1h")
    clock.advance(1.5)
    assert clock.time == at + timedelta(hours=1, seconds=1.5)
    assert clock().elapsed_ms == 3_601_500
    assert repr(clock) == "<Clock 2030-01-01T01:00:01.500000+00:00>"
    clock.advance_to(0)
    assert clock().elapsed_ms == 3_601_500
    with pytest.raises(InvalidRequest, match="does not go back"):
        clock.advance(-1)
