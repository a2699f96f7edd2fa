"""Pages of a store's tables as Arrow batches: bounds that are fixed once, and what lies between two keys.

The key of a row is `seq` for events and `id` for jobs. Everything else here that reads goes through `find_bounds` and
`read_page`.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from tenure.client.client import Client
from tenure.core.error import EventsLost
from tenure.core.record import Failed, JobRecord, Progress
from tenure.core.request import Filter
from tenure.core.state import STATE_NAMES
from tenure.lake.rows import batch_of
from tenure.lake.schema import EVENTS, JOBS

EVENTS_PER_PAGE: Final = 10_000
JOBS_PER_PAGE: Final = 1_000
ID_MAX: Final = 10**15
TIMES: Final = ("created_at", "run_at", "ready_at", "started_at", "ended_at", "expires_at", "lease_until")


class Bounds(NamedTuple):
    """Of the rows that there are: the key of the oldest, and of the newest. Equal to each other less one: none."""

    first: int
    last: int


class Wanted(NamedTuple):
    """Conditions that the server looks at by itself."""

    queue: str = ""
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class Page(NamedTuple):
    batch: pa.RecordBatch
    next: int  # everything up to this key was looked at


async def find_bounds(client: Client, kind: str) -> Bounds:
    """`kind` is events or jobs."""
    if kind == "events":
        last = int((await client.event_page("end", 1)).cursor[1:])
        try:
            await client.event_page("e0", 1)
            return Bounds(1, last)
        except EventsLost as error:
            return Bounds(error.oldest, last)
    return Bounds(1, await _newest_job(client))


async def _newest_job(client: Client) -> int:
    async def is_over(after: int) -> bool:
        page = await client.find(Filter(), 1, str(after))
        return bool(page.jobs or page.cursor)

    low, high = 0, 1
    while high < ID_MAX and await is_over(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if await is_over(middle) else (low, middle)
    return high if await is_over(high - 1) else low


async def read_page(client: Client, kind: str, after: int, upto: int, wanted: Wanted, columns: tuple[str, ...]) -> Page:
    """Rows with after < key <= upto in rising order, of the columns that were named (all, if none was)."""
    page = await (_events if kind == "events" else _jobs)(client, after, upto, wanted)
    batch = page.batch.select(list(columns)) if columns else page.batch
    return Page(batch, page.next)


async def _events(client: Client, after: int, upto: int, wanted: Wanted) -> Page:
    page = await client.event_page(f"e{after}", min(EVENTS_PER_PAGE, upto - after))
    found = [event for event in page.events if event.seq <= upto]
    if wanted.queue:
        found = [event for event in found if event.queue == wanted.queue]
    if wanted.types:
        found = [event for event in found if event.type in wanted.types]
    seen = int(page.cursor[1:])
    is_over = seen == after  # nothing is there any more: the numbers up to the bound were skipped
    return Page(batch_of(found), upto if is_over else min(seen, upto))


async def _jobs(client: Client, after: int, upto: int, wanted: Wanted) -> Page:
    states = sum(1 << STATE_NAMES.index(state) for state in wanted.states)
    page = await client.find(Filter(wanted.queue, states), JOBS_PER_PAGE, str(after))
    found = [job for job in page.jobs if job.id <= upto]
    is_over = len(found) < len(page.jobs) or not page.cursor
    return Page(_batch_of_jobs(found), upto if is_over else min(int(page.cursor), upto))


def _batch_of_jobs(jobs: list[JobRecord]) -> pa.RecordBatch:
    rows = [_row_of_job(job) for job in jobs]
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in JOBS]
    return pa.RecordBatch.from_arrays(columns, schema=JOBS)


def _row_of_job(job: JobRecord) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(job, name) or None for name in JOBS.names if hasattr(job, name)}
    for name in ("id", "priority", "payload", "schema_version", "attempt", "delivery", "replays", "result"):
        row[name] = getattr(job, name)
    for name in TIMES:
        row[name] = getattr(job, name) * 1_000 or None
    row["progress"] = _progress(job.progress)
    row["error"] = _error(job.error)
    row["metadata"] = list(job.metadata.items()) or None
    row["history"] = [
        {
            "attempt": ended.attempt,
            "delivery": ended.delivery,
            "worker": ended.worker,
            "started_at": ended.started_at * 1_000,
            "ended_at": ended.ended_at * 1_000,
            "cause": ended.cause,
            "error": _error(ended.error),
        }
        for ended in job.history
    ] or None
    return row


def _progress(progress: Progress | None) -> dict[str, object] | None:
    if progress is None:
        return None
    return {"percent": progress.percent, "message": progress.message, "at": progress.at * 1_000}


def _error(error: Failed | None) -> dict[str, object] | None:
    if error is None:
        return None
    return {"type": error.type, "message": error.message, "trace": error.trace, "fingerprint": error.fingerprint}


SCHEMAS: Final = {"events": EVENTS, "jobs": JOBS}
