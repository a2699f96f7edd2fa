"""Events are read whole whether they are in their own table or in the journal, whatever a page may hold."""

from pathlib import Path
from unittest import mock

import pytest

from tenure.client.clock import read_clock
from tenure.core.request import Scan
from tenure.core.table import rows_of_events
from tenure.core.tenant import Context
from tenure.store.embedded import history
from tenure.store.embedded.sqlite import SqliteStore
from tests.kill.test_crash import enqueue, opened, save

COMMITS = 12
PAGES_MAX = 10_000
SPARK_ROWS_PER_PAGE = 20_000


async def store_with_an_unmoved_row(path: Path, commits: int) -> SqliteStore:
    """Opened anew, so that memory has no event: each commit is a row of the table but the last one, of the journal."""
    store = await opened(path)
    for _ in range(commits):
        await enqueue(store, b"x")
    await save(store)
    await enqueue(store, b"x")
    await store.close()
    return await opened(path)


async def scanned(store: SqliteStore, limit: int) -> list[object]:
    bounds = await store.scan(Context(), Scan("events"), read_clock())
    found: list[object] = []
    at = bounds.first - 1
    for _ in range(PAGES_MAX):
        if at >= bounds.last:
            return found
        page = await store.scan(Context(), Scan("events", at, bounds.last, limit), read_clock())
        found += [row["seq"] for row in rows_of_events(page.columns, page.rows)]
        at = page.next
    raise AssertionError("the pages have no end")


async def read(store: SqliteStore, limit: int) -> list[int]:
    found: list[int] = []
    cursor = ""
    for _ in range(PAGES_MAX):
        page = await store.events(Context(), cursor, limit, 0, read_clock())
        if page.cursor == cursor:
            return found
        found += [event.seq for event in page.events]
        cursor = page.cursor
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("rows", range(1, COMMITS + 3))
async def test_every_page_size_reads_every_event(rows: int, tmp_path: Path) -> None:
    store = await store_with_an_unmoved_row(tmp_path / "jobs.db", COMMITS)
    everything = list(range(1, COMMITS + 2))
    with mock.patch.object(history, "ROWS", rows):
        for limit in range(1, COMMITS + 3):
            assert await scanned(store, limit) == everything
            assert await read(store, limit) == everything
    await store.close()


async def test_more_commits_than_a_page_reads_rows(tmp_path: Path) -> None:
    commits = history.ROWS + 5
    store = await store_with_an_unmoved_row(tmp_path / "jobs.db", commits)
    for limit in (history.ROWS, history.ROWS + 1, SPARK_ROWS_PER_PAGE):
        assert await scanned(store, limit) == list(range(1, commits + 2))
    await store.close()
