"""Many jobs at once: awaiting sends all and answers a report, iterating answers each, nothing is silently unsent."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator, Iterator

import pytest

import tenure
from tenure.app.many import ERRORS_MAX
from tenure.core.error import PayloadTooLarge

PATIENCE_S = 60.0


@pytest.fixture
def app() -> tenure.App:
    return tenure.App("memory://")


def task_of(app: tenure.App) -> tenure.Task[[str], None]:
    @app.task(queue="email")
    def send(to: str) -> None: ...

    return send


async def count(app: tenure.App) -> int:
    return sum((await app.client.count("email")).get("email", {}).values())


async def test_awaiting_sends_all_and_answers_a_report(app: tenure.App) -> None:
    send = task_of(app)
    async with asyncio.timeout(PATIENCE_S), app:
        report = await app.enqueue_many(send.bind(str(n)) for n in range(2_500))
        assert (report.sent, report.new, report.duplicates, report.refused, report.errors) == (2_500, 2_500, 0, 0, {})
        assert await count(app) == 2_500


async def test_report_counts_duplicates_and_names_errors_by_their_place(app: tenure.App) -> None:
    send = task_of(app)
    calls = [
        send.bind("a"),
        send.options(custom_id="x").bind("b"),
        send.options(custom_id="x").bind("c"),
        send.bind("d" * 2_000_000),
        send.bind("e"),
    ]
    async with asyncio.timeout(PATIENCE_S), app:
        report = await app.enqueue_many(calls)
        assert (report.sent, report.new, report.duplicates, report.refused) == (5, 3, 1, 1)
        assert list(report.errors) == [3]
        assert isinstance(report.errors[3], PayloadTooLarge)
        assert await count(app) == 3


async def test_errors_of_a_report_are_bounded(app: tenure.App) -> None:
    send = task_of(app)
    async with asyncio.timeout(PATIENCE_S), app:
        taken = await send.options(custom_id="x").enqueue("a")
        assert taken.id
        again = send.options(custom_id="x", on_conflict="error")
        report = await app.enqueue_many(again.bind("b") for _ in range(ERRORS_MAX + 500))
        assert (report.refused, len(report.errors), report.new) == (ERRORS_MAX + 500, ERRORS_MAX, 0)


async def test_iterating_answers_each_under_both_names(app: tenure.App) -> None:
    send = task_of(app)

    async def people() -> AsyncIterator[tenure.Bound[None]]:
        for n in range(3):
            yield send.bind(str(n))

    async with asyncio.timeout(PATIENCE_S), app:
        ids = [job.id async for job in app.enqueue_many(people())]
        ids += [job.id async for job in app.enqueue_each(people())]
        ids += [job.id async for job in app.enqueue_each([send.bind("x")])]
        assert len(set(ids)) == 7 == await count(app)
        assert (await app.enqueue_many(people())).new == 3


def test_twin_sends_all_without_being_iterated(app: tenure.App) -> None:
    send = task_of(app)
    report = app.enqueue_many_sync(send.bind(str(n)) for n in range(1_500))
    assert (report.sent, report.new, report.refused) == (1_500, 1_500, 0)
    jobs = list(app.enqueue_each_sync(send.bind(str(n)) for n in range(3)))
    assert [job.duplicate for job in jobs] == [False] * 3
    assert len({job.id for job in jobs}) == 3
    app.close_sync()


@pytest.mark.parametrize("name", ["enqueue_many", "enqueue_each", "enqueue_each_sync"])
def test_what_is_dropped_unsent_warns(app: tenure.App, name: str) -> None:
    send = task_of(app)
    sending = [getattr(app, name)([send.bind("a")])]
    with pytest.warns(RuntimeWarning, match=f"{name}.*nothing was sent"):
        sending.clear()


async def test_what_was_sent_warns_of_nothing(app: tenure.App) -> None:
    send = task_of(app)
    async with asyncio.timeout(PATIENCE_S), app:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            await app.enqueue_many([send.bind("a")])
            async for _ in app.enqueue_many([send.bind("a")]):
                pass
            gc.collect()
        assert [str(each.message) for each in said if each.category is RuntimeWarning] == []


async def test_it_sends_once(app: tenure.App) -> None:
    send = task_of(app)
    async with asyncio.timeout(PATIENCE_S), app:
        sending = app.enqueue_many([send.bind("a")])
        assert (await sending).sent == 1
        with pytest.raises(RuntimeError, match="once"):
            await sending
        with pytest.raises(RuntimeError, match="once"):
            async for _ in sending:
                pass
        assert await count(app) == 1


async def test_error_of_the_iterable_is_raised(app: tenure.App) -> None:
    send = task_of(app)

    def people() -> Iterator[tenure.Bound[None]]:
        yield send.bind("a")
        raise ZeroDivisionError

    async with asyncio.timeout(PATIENCE_S), app:
        with pytest.raises(ZeroDivisionError):
            await app.enqueue_many(people())
