"""A checkpoint is written in portions of a bounded size, whatever there is to save."""

from contextlib import closing
from pathlib import Path
from unittest import mock

import apsw
import msgspec
import pytest

from tenure.core.job import Options
from tenure.core.request import CANCEL, EMIT, REMOVE, Append, Batch, Change, Claim, Pick
from tenure.core.tenant import Context
from tenure.store.embedded import checkpoint
from tenure.store.embedded.file import one
from tenure.store.embedded.sqlite import SqliteStore
from tenure.store.embedded.writer import Job, Portion
from tests.crash.account import EVERYBODY
from tests.crash.workload import START

QUEUES = 5_000
ITEMS = 100
ITEM_BYTES = 60_000
AT_ONCE = Context(tenants=("*",), durability="relaxed")


class Portions:
    """Notes how much the writer is given at once."""

    def __init__(self, store: SqliteStore) -> None:
        self.bytes: list[int] = []  # of output
        self.rows: list[int] = []  # of queues, and of removed jobs
        self._put = store._writer.put

    def put(self, job: Job) -> None:
        portion = getattr(job.write_to, "__self__", None) if isinstance(job, Portion) else None
        if isinstance(portion, checkpoint._Output):
            self.bytes.append(sum(len(item.data) for _, _, item in portion._output))
        elif isinstance(portion, checkpoint._Statement):
            self.rows += [len(msgspec.json.decode(value)) for value in portion._values]
        self._put(job)


@pytest.mark.slow
async def test_output_and_queues_are_saved_in_portions(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open(START)
    await store.enqueue(EVERYBODY, Batch(Options("talker"), [b"x"]), START)
    claimed = await store.claim(EVERYBODY, Claim((Pick("talker"),)), START)
    for _ in range(ITEMS):
        await store.append(AT_ONCE, Append(EMIT, 1, claimed.token, data=bytes(ITEM_BYTES)), START)
    for number in range(QUEUES):
        await store.enqueue(AT_ONCE, Batch(Options(f"q{number}"), [b"x"]), START)
    portions = Portions(store)
    with mock.patch.object(store._writer, "put", portions.put):
        await store.close()
    assert sum(portions.bytes) == ITEMS * ITEM_BYTES
    assert max(portions.bytes) < checkpoint.PORTION_BYTES + ITEM_BYTES
    assert sum(portions.rows) == QUEUES + 1
    assert max(portions.rows) <= checkpoint.ROWS_PER_PORTION
    with closing(apsw.Connection(str(path))) as db:
        assert one(db, "SELECT count(*) FROM queues") == QUEUES + 1
        assert one(db, "SELECT count(*) FROM output") == ITEMS
    again = SqliteStore(path)
    await again.open(START)
    found = await again.stream(EVERYBODY, 1, EMIT, 0, ITEMS, 0, START)
    assert [item.offset for item in found] == list(range(ITEMS))
    await again.change(EVERYBODY, Change(REMOVE, list(range(2, QUEUES + 2))), START)
    await again.close()


async def test_output_of_a_removed_job_is_not_written_after_it(tmp_path: Path) -> None:
    """It was said and its job removed since the last checkpoint."""
    path = tmp_path / "jobs.db"
    store = SqliteStore(path)
    await store.open(START)
    await store.enqueue(EVERYBODY, Batch(Options("talker"), [b"x"] * 2), START)
    claimed = await store.claim(EVERYBODY, Claim((Pick("talker"),), 2), START)
    for id in claimed.ids:
        await store.append(EVERYBODY, Append(EMIT, id, claimed.token, data=b"said"), START)
    await store.change(EVERYBODY, Change(CANCEL, [1]), START)
    await store.change(EVERYBODY, Change(REMOVE, [1]), START)
    await store.close()
    with closing(apsw.Connection(str(path))) as db:
        assert db.execute("SELECT job FROM output").fetchall() == [(2,)]
