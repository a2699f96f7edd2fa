"""Pages of a scan become the same tables as records that were read one by one."""

import pyarrow as pa
import pytest

import tenure
from tenure.client.client import Client
from tenure.lake.arrow import batch_of_events, batch_of_jobs, needed_for
from tenure.lake.rows import batch_of
from tenure.lake.schema import EVENTS, JOBS


async def busy(client: Client) -> None:
    """A little of everything, with and without what few have."""
    await client.enqueue_many([b"1"] * 3, queue="mail", task="send", max_attempts=2)
    await client.enqueue(
        b"2",
        queue="image",
        custom_id="c",
        group="g",
        unique_key="u",
        limit_keys=("api:",),
        priority="high",
        tags=("t",),
        metadata={"k": "v"},
        ttl="1h",
        max_attempts=None,
    )
    first, second, _third = await client.claim("mail", n=3, worker="w")
    await client.complete(first, b"result")
    await client.fail(second, "OSError", "gone 17", "trace")
    waits = await client.enqueue(b"3", depends_on=[first.id, second.id])
    await client.cancel(waits.id)
    await client.configure("queue", "mail", concurrency=4)


async def scanned(client: Client) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    bounds = await client.scan_bounds("events")
    page = await client.scan_page("events", after=bounds.first - 1, upto=bounds.last)
    assert page.next == bounds.last
    events = (await client.event_page("", 1_000)).events
    return batch_of_events(page), batch_of([event for event in events if event.seq <= bounds.last])


async def test_events_are_the_same_by_columns_and_by_rows() -> None:
    async with tenure.connect("memory://") as client:
        await busy(client)
        by_columns, by_rows = await scanned(client)
    assert by_columns.schema == EVENTS
    assert by_columns.num_rows > 8
    assert by_columns.to_pylist() == by_rows.to_pylist()


@pytest.mark.parametrize("names", [("seq", "wait_ms"), ("run_ms",), ("attempt", "at", "detail")])
async def test_columns_need_what_they_are_made_of(names: tuple[str, ...]) -> None:
    async with tenure.connect("memory://") as client:
        await busy(client)
        whole, _ = await scanned(client)
        page = await client.scan_page("events", after=0, upto=10_000, columns=needed_for(names))
        assert batch_of_events(page, names).to_pylist() == whole.select(list(names)).to_pylist()


async def test_jobs_have_their_options_and_none_where_there_is_nothing() -> None:
    async with tenure.connect("memory://") as client:
        await busy(client)
        page = await client.scan_page("jobs", after=0, upto=10_000)
    batch = batch_of_jobs(page)
    assert batch.schema == JOBS
    rows = {row["id"]: row for row in batch.to_pylist()}
    done, failed, special = rows[1], rows[2], rows[4]
    assert (done["state"], done["result"], done["error"], done["custom_id"]) == ("completed", b"result", None, None)
    assert failed["history"][0]["error"]["type"] == "OSError"
    assert (special["limit_keys"], special["metadata"], special["unique_key"]) == (["api:"], [("k", "v")], "u")
    assert special["max_attempts"] is None
    assert done["ended_at"] is not None
    assert special["ended_at"] is None
    assert special["keep_failed_ms"] is None


async def test_an_empty_page_is_an_empty_batch() -> None:
    async with tenure.connect("memory://") as client:
        page = await client.scan_page("jobs", after=0, upto=10_000)
        assert batch_of_jobs(page).num_rows == 0
        events = await client.scan_page("events", after=0, upto=10_000)
        assert batch_of_events(events).num_rows == 0
        assert batch_of_events(events).schema == EVENTS
