"""Output that is not kept any more leaves the disk, too."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tenure.client.clock import read_clock
from tenure.core import bound
from tenure.core.clock import Now
from tenure.core.request import EMIT, LOG, Append
from tenure.store.embedded.content import output_checksum
from tenure.store.embedded.sqlite import CHECKPOINT_MS, SqliteStore
from tests.kill.test_crash import CONTEXT, crash, enqueue, opened, save

KEPT = bound.LOG_LINES_MAX


def rows_of(path: Path) -> list[tuple[int, int, int]]:
    with closing(apsw.Connection(str(path))) as db:
        return [(job, kind, item) for job, kind, item in db.execute("SELECT job, kind, item FROM output")]


async def running_job(store: SqliteStore) -> tuple[int, bytes]:
    [id] = await enqueue(store, b"x")
    claimed = await store.claim(CONTEXT, bound.make_claim(("work",), 1, 0, "worker", None), read_clock())
    return id, claimed.token


async def write_lines(store: SqliteStore, job: tuple[int, bytes], lines: range) -> None:
    for line in lines:
        await store.append(CONTEXT, Append(LOG, *job, text=f"line {line}"), read_clock())


async def lines_of(store: SqliteStore, id: int) -> list[str]:
    return [item.data.decode() for item in await store.stream(CONTEXT, id, LOG, 0, 1_000, 0, read_clock())]


@pytest.mark.parametrize("lines_per_checkpoint", [7, KEPT - 1, KEPT, KEPT + 1, 250])
async def test_lines_beyond_those_kept_leave_the_disk(lines_per_checkpoint: int, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    store = await opened(path)
    job = await running_job(store)
    await store.append(CONTEXT, Append(EMIT, *job, data=b"stays"), read_clock())
    for first in range(0, 500, lines_per_checkpoint):
        await write_lines(store, job, range(first, min(first + lines_per_checkpoint, 500)))
        await save(store)
    kept = [(job[0], LOG, line) for line in range(400, 500)]
    assert rows_of(path) == [*kept, (job[0], EMIT, 0)]
    await store.close()
    again = await opened(path)
    assert await lines_of(again, job[0]) == [f"line {line}" for line in range(400, 500)]
    await again.close()


async def test_lines_that_a_crash_left_in_the_journal_leave_the_disk(tmp_path: Path) -> None:
    store = await opened(tmp_path / "1.db")
    job = await running_job(store)
    await write_lines(store, job, range(80))
    await save(store)
    await write_lines(store, job, range(80, 250))
    path = crash(tmp_path / "1.db", tmp_path / "2.db")
    await store.close()
    again = await opened(path)
    assert await lines_of(again, job[0]) == [f"line {line}" for line in range(150, 250)]
    await save(again)
    assert rows_of(path) == [(job[0], LOG, line) for line in range(150, 250)]
    await again.close()


async def test_lines_that_an_older_version_left_are_removed(tmp_path: Path) -> None:
    """Nobody has to do anything for it: the first tick begins a checkpoint."""
    path = tmp_path / "jobs.db"
    store = await opened(path)
    job = await running_job(store)
    await write_lines(store, job, range(1_000))
    await save(store)
    await store.close()
    with closing(apsw.Connection(str(path))) as db, db:
        left = [(job[0], LOG, item, output_checksum(job[0], LOG, item, 5, b"old"), 5, b"old") for item in range(900)]
        db.executemany("INSERT INTO output (job, kind, item, checksum, at, data) VALUES (?, ?, ?, ?, ?, ?)", left)
    assert len(rows_of(path)) == 1_000
    again = await opened(path)
    assert (await lines_of(again, job[0]))[0] == "line 900"
    now = read_clock()
    await again.tick(Now(now.wall_ms + CHECKPOINT_MS, now.elapsed_ms + CHECKPOINT_MS))
    assert again._checkpoint is not None
    assert again._checkpoint._task is not None
    await again._checkpoint._task
    assert rows_of(path) == [(job[0], LOG, line) for line in range(900, 1_000)]
    await again.close()


async def test_output_of_a_job_that_left_amid_a_checkpoint_leaves_the_disk(tmp_path: Path) -> None:
    """Its page is gone, and the crash came before its output was."""
    path = tmp_path / "jobs.db"
    store = await opened(path)
    job = await running_job(store)
    await write_lines(store, job, range(3))
    await save(store)
    await store.close()
    with closing(apsw.Connection(str(path))) as db, db:
        db.execute("DELETE FROM pages")
    again = await opened(path)
    await enqueue(again, b"another")
    await save(again)
    assert rows_of(path) == []
    await again.close()
