"""After a crash numbers are skipped: a scan up to the last one comes to its end all the same."""

import shutil
from pathlib import Path

from tenure.core.bound import make_options
from tenure.core.clock import Now
from tenure.core.request import Batch, Scan
from tenure.core.table import rows_of_events
from tenure.core.tenant import Context
from tenure.store.embedded.sqlite import SqliteStore

NOW = Now(1_700_000_000_000, 0)
LATER = Now(NOW.wall_ms + 60_000, 60_000)


async def scanned(store: SqliteStore, limit: int) -> list[object]:
    bounds = await store.scan(Context(), Scan("events"), LATER)
    found: list[object] = []
    at = bounds.first - 1
    for _ in range(1_000):
        if at >= bounds.last:
            return found
        page = await store.scan(Context(), Scan("events", at, bounds.last, limit), LATER)
        found += [row["seq"] for row in rows_of_events(page.columns, page.rows)]
        at = page.next
    raise AssertionError("the pages have no end")


async def test_scan_ends_where_numbers_were_skipped(tmp_path: Path) -> None:
    path, image = tmp_path / "jobs.db", tmp_path / "image"
    store = SqliteStore(path, "fsync")
    await store.open(NOW)
    await store.enqueue(Context(), Batch(make_options(), [b"1"] * 5), NOW)
    image.mkdir()
    for file in tmp_path.glob("jobs.db*"):
        shutil.copy(file, image)
    await store.close()
    crashed = SqliteStore(image / "jobs.db", "fsync")
    await crashed.open(LATER)
    bounds = await crashed.scan(Context(), Scan("events"), LATER)
    assert bounds.last > 5
    assert await scanned(crashed, 2) == [1, 2, 3, 4, 5]
    for upto in (6, bounds.last // 2):  # a part that ends among the numbers that were skipped
        page = await crashed.scan(Context(), Scan("events", 5, upto, 2), LATER)
        assert (page.rows, page.next) == (0, upto)
    await crashed.enqueue(Context(), Batch(make_options(), [b"1"] * 2), LATER)
    numbers = await scanned(crashed, 2)
    assert numbers[:5] == [1, 2, 3, 4, 5]
    assert len(numbers) == 7
    await crashed.close()
