"""One rule of units in Python: a datetime with a zone, a timedelta, text with a unit, or seconds."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.client.clock import read_clock
from tenure.core.error import InvalidRequest

PATIENCE_S = 30.0
HOUR_S = 3_600
LATER = datetime(2040, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone(timedelta(hours=2)))
LATER_MS = 2_209_079_045_678


@pytest.mark.parametrize("at", [LATER, LATER.astimezone(UTC), LATER_MS / 1_000])
async def test_client_and_tasks_read_a_time_alike(at: Any) -> None:
    app = tenure.App("memory://")

    @app.task
    def work() -> None: ...

    async with asyncio.timeout(PATIENCE_S), app:
        handle = await work.options(run_at=at, expires_at=LATER + timedelta(hours=1)).enqueue()
        named = await app.enqueue("work", run_at=at)
        low = await app.client.enqueue(b"{}", run_at=at, expires_at=LATER + timedelta(hours=1))
        many = await app.client.enqueue_many([b"{}"], run_at=at)
        for id in (handle.id, named.id, low.id, many[0].id):
            assert (await app.client.get(id)).run_at == LATER_MS
        for id in (handle.id, low.id):
            assert (await app.client.get(id)).expires_at == LATER_MS + HOUR_S * 1_000


def test_the_client_without_a_loop_has_the_same_rule() -> None:
    with tenure.connect_sync("memory://") as client:
        assert client.get(client.enqueue(b"", run_at=LATER).id).run_at == LATER_MS
        assert client.get(client.enqueue(b"", run_at=LATER_MS // 1_000).id).run_at == LATER_MS // 1_000 * 1_000


async def test_seconds_since_1970_do_not_run_at_once() -> None:
    """They did: a number was taken for milliseconds, which lay in January 1970."""
    async with tenure.connect("memory://") as client:
        soon = read_clock().wall_ms / 1_000 + HOUR_S
        assert (await client.enqueue(b"", run_at=soon)).state == "scheduled"


@pytest.mark.parametrize("field", ["run_at", "expires_at"])
@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (LATER_MS, "divide milliseconds by 1000"),
        (float(LATER_MS), "divide milliseconds by 1000"),
        (datetime(2040, 1, 1), "time zone"),
        (timedelta(hours=1), "delay and ttl"),
        ("1h", "delay and ttl"),
        ("2040-01-01", "delay and ttl"),
        (True, "seconds since 1970"),
        (None, "seconds since 1970"),
        (float("nan"), "seconds since 1970"),
        (float("inf"), "seconds since 1970"),
        (-1, "seconds since 1970"),
    ],
)
async def test_what_is_no_time_is_refused_with_the_fix(field: str, value: Any, fix: str) -> None:
    app = tenure.App("memory://")

    @app.task
    def work() -> None: ...

    async with tenure.connect("memory://") as client:
        with pytest.raises(InvalidRequest, match=fix) as said:
            await client.enqueue(b"", **{field: value})
        assert said.value.field == field
    with pytest.raises(InvalidRequest, match=fix):
        work.options(**{field: value})


@pytest.mark.parametrize("minute", [60, 60.0, "1m", "60s", "60000ms", timedelta(minutes=1)])
async def test_every_duration_is_read_alike(minute: Any) -> None:
    async with asyncio.timeout(PATIENCE_S), tenure.connect("memory://") as client:
        made = await client.enqueue(b"", delay=minute, ttl="1h", timeout=minute, lease=minute)
        found = await client.get(made.id)
        assert found.run_at - found.created_at == 60_000
        await client.promote(made.id)
        [job] = await client.claim(lease=minute)
        assert 50_000 < job.lease_until - read_clock().wall_ms < 70_000
        assert 50_000 < await client.extend(job, minute) - read_clock().wall_ms < 70_000
        settled = await client.fail(job, retry_after=minute)
        assert 50_000 < settled.run_at - read_clock().wall_ms < 70_000


async def test_records_answer_times_as_datetimes_too(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), tenure.connect(f"sqlite:///{tmp_path}/jobs.db") as client:
        made = await client.enqueue(b"", run_at=LATER)
        found = await client.get(made.id)
        assert found.time("run_at") == LATER
        assert found.time("created_at") == datetime.fromtimestamp(found.created_at / 1_000, UTC)
        assert found.time("ended_at") is None
        [event] = (await client.event_page()).events
        assert event.time("at") == datetime.fromtimestamp(event.at / 1_000, UTC)
        assert event.time("run_at") == LATER
        explained = await client.explain(made.id)
        assert explained.time("earliest") == LATER
        await client.promote(made.id)
        [job] = await client.claim()
        until = job.time("lease_until")
        assert until is not None
        assert until.tzinfo is UTC
        assert round(until.timestamp() * 1_000) == job.lease_until
        await client.log(job, "line")
        [line] = await client.logs(job.id)
        assert line.time("at") == datetime.fromtimestamp(line.at / 1_000, UTC)
        await client.progress(job, 10)
        progress = (await client.get(made.id)).progress
        assert progress is not None
        assert progress.time("at") is not None
        assert (await client.snooze(job, "1h")).time("run_at") is not None


@pytest.mark.parametrize("field", ["id", "queue", "attempt", "nothing", "created"])
async def test_what_is_no_time_of_a_record_is_refused(field: str) -> None:
    async with tenure.connect("memory://") as client:
        found = await client.get((await client.enqueue(b"")).id)
        with pytest.raises(InvalidRequest, match="created_at, run_at"):
            found.time(field)
