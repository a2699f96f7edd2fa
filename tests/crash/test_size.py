"""The file becomes small again when the jobs are gone."""

import asyncio
from pathlib import Path
from unittest import mock

from tenure.core.clock import Now
from tenure.core.job import Options
from tenure.core.request import Batch, Claim, Pick, Settle
from tenure.core.state import SETTLE_COMPLETE
from tenure.store.embedded import checkpoint, sqlite
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.account import EVERYBODY
from tests.crash.workload import START

JOBS = 3_000
PASSES_MAX = 20


async def passes(store: SqliteStore, now: Now) -> Now:
    """Checkpoints, until the store asks for no more."""
    for _ in range(PASSES_MAX):
        now = Now(now.wall_ms + sqlite.CHECKPOINT_MS, now.elapsed_ms + sqlite.CHECKPOINT_MS)
        last = store._checkpoint
        await store.tick(now)
        if store._checkpoint is last:
            return now
        while store._checkpoint is not None and not store._checkpoint.is_done():
            await asyncio.sleep(0)
    raise AssertionError("the store never comes to rest")


async def test_the_file_shrinks_when_the_jobs_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with mock.patch.object(checkpoint, "FREE_PAGES_MIN", 10), mock.patch.object(checkpoint, "QUIET_PAGES", 20):
        store = SqliteStore(path)
        await store.open(START)
        await store.enqueue(EVERYBODY, Batch(Options("q", keep_completed_ms=0), [bytes(500)] * JOBS), START)
        now = await passes(store, START)
        await store.close()
        full = path.stat().st_size
        assert full > 500 * JOBS
        store = SqliteStore(path)
        await store.open(now)
        leased = await store.claim(EVERYBODY, Claim((Pick("q"),), n=JOBS), now)
        await store.settle(EVERYBODY, Settle(SETTLE_COMPLETE, leased.ids, [leased.token] * JOBS), now)
        await passes(store, now)
        await store.close()
    assert path.stat().st_size < full / 3
