"""What a store that came through a crash leaves for the audit: its events, its jobs, and what had been answered.

With `TENURE_HISTORIES=FOLDER` the tests that kill stores and cut their power leave one folder for each store that they
looked at. `tests/spark/test_audit_crash.py` does the same for itself, and audits what is there.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tenure.core.clock import Now
from tenure.core.record import Event, JobRecord
from tenure.core.request import Filter
from tenure.core.tenant import Context
from tenure.lake.rows import batch_of
from tenure.store.contract import Store

EVERYBODY: Final = Context(tenants=("*",))
ASKED_BY: Final = "TENURE_HISTORIES"


def place_for(name: str) -> Path | None:
    """Where the history of this name is to be left, if anybody asked for it."""
    folder = os.environ.get(ASKED_BY)
    return Path(folder) / name if folder else None


async def leave_history(store: Store, now: Now, answered: Iterable[int], to: Path) -> None:
    """Everything is read at one moment, so that no lease ends between the jobs and the events."""
    to.mkdir(parents=True, exist_ok=True)
    events = await _events(store, now)
    jobs = await _jobs(store, now)
    pq.write_table(pa.Table.from_batches([batch_of(events)]), to / "events.parquet")
    table = pa.table({"id": pa.array([job.id for job in jobs], pa.int64()), "state": [job.state for job in jobs]})
    pq.write_table(table, to / "jobs.parquet")
    pq.write_table(pa.table({"job": pa.array(sorted(set(answered)), pa.int64())}), to / "ledger.parquet")


async def _events(store: Store, now: Now) -> list[Event]:
    found: list[Event] = []
    cursor = ""
    while True:
        page = await store.events(EVERYBODY, cursor, 10_000, 0, now)
        found += page.events
        if not page.events and page.cursor == cursor:
            return found
        cursor = page.cursor


async def _jobs(store: Store, now: Now) -> list[JobRecord]:
    found: list[JobRecord] = []
    cursor = ""
    while True:
        page = await store.find(EVERYBODY, Filter(), 1_000, cursor, now)
        found += page.jobs
        cursor = page.cursor
        if not cursor:
            return found
