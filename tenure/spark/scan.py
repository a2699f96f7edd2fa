"""Pages of a store's tables as Arrow batches: bounds that are fixed once, and what lies between two keys.

The key of a row is `seq` for events and `id` for jobs. Everything else here that reads goes through `find_bounds` and
`read_page`.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from tenure.client.client import Client
from tenure.core.error import EventsLost
from tenure.lake.arrow import batch_of_events, batch_of_jobs, needed_for
from tenure.lake.schema import EVENTS, JOBS

ROWS_PER_PAGE: Final = 20_000
PAGES_COUNTED_MAX: Final = 1_000  # to find the end of a micro-batch


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
    found = await client.scan_bounds(kind)
    return Bounds(found.first, found.last)


async def read_page(
    client: Client,
    kind: str,
    after: int,
    upto: int,
    wanted: Wanted,
    columns: tuple[str, ...],
    limit: int = ROWS_PER_PAGE,
) -> Page:
    """Rows with after < key <= upto in rising order, of the columns that were named (all, if none was)."""
    page = await client.scan_page(
        kind,
        after=after,
        upto=upto,
        limit=limit,
        queue=wanted.queue,
        states=wanted.states,
        types=wanted.types,
        columns=needed_for(columns) if kind == "events" else columns,
    )
    make = batch_of_events if kind == "events" else batch_of_jobs
    return Page(make(page, columns), page.next)


async def find_nth(client: Client, after: int, upto: int, rows: int, wanted: Wanted) -> int:
    """The number of the event with which there are so many rows after a number; `upto` when there are fewer.

    Numbers that a crash skipped, and events that are not wanted, do not count. It looks at a bounded number of pages,
    so the answer may be an earlier one, though always later than `after`.
    """
    for _ in range(PAGES_COUNTED_MAX):
        if rows <= 0 or after >= upto:
            break
        try:
            page = await client.scan_page(
                "events",
                after=after,
                upto=upto,
                limit=min(rows, ROWS_PER_PAGE),
                queue=wanted.queue,
                types=wanted.types,
                columns=("seq",),
            )
        except EventsLost as error:  # retention went on meanwhile
            after = error.oldest - 1
            continue
        rows -= page.rows
        after = page.next
    return min(after, upto)


async def find_seq_before(client: Client, bounds: Bounds, at_ms: int) -> int:
    """A seq: all events up to it are from before that time, all after it are not. Times of events never fall, so it is
    found by halving; a half without an event that the caller may see counts as one that is too late."""
    low, high = bounds.first - 1, bounds.last
    while low < high:
        middle = (low + high) // 2
        try:
            found = await _first_event(client, middle, high)
        except EventsLost as error:  # retention goes on meanwhile
            low = max(low, error.oldest - 1)
            continue
        if found is None or found[1] >= at_ms:
            high = middle
        else:
            low = found[0]
    return low


async def _first_event(client: Client, after: int, upto: int) -> tuple[int, int] | None:
    """The seq and the time of the first one that there is."""
    while after < upto:
        page = await read_page(client, "events", after, upto, Wanted(), ("seq", "at"), 1)
        if page.batch.num_rows:
            at_ms = page.batch.column("at").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())[0].as_py()
            return page.batch.column("seq")[0].as_py(), at_ms
        after = page.next
    return None


SCHEMAS: Final = {"events": EVENTS, "jobs": JOBS}
