"""What a crash leaves, moment by moment: the files are copied as they are, and the copy is opened."""

import shutil
from pathlib import Path

from tenure.client.clock import read_clock
from tenure.core import bound
from tenure.core.record import JobRecord
from tenure.core.request import LOG, Append, Batch, Configure
from tenure.core.tenant import Context
from tenure.store.embedded.sqlite import SqliteStore

CONTEXT = Context()
OPTIONS = bound.make_options(queue="work")


def crash(path: Path, to: Path) -> Path:
    """The files as a kill at this moment would leave them."""
    for suffix in ("", "-wal"):
        if (found := Path(f"{path}{suffix}")).exists():
            shutil.copyfile(found, f"{to}{suffix}")
    return to


async def opened(path: Path, mode: str = "write") -> SqliteStore:
    store = SqliteStore(path, mode)
    await store.open(read_clock())
    return store


async def enqueue(store: SqliteStore, *payloads: bytes) -> list[int]:
    return (await store.enqueue(CONTEXT, Batch(OPTIONS, list(payloads)), read_clock())).ids


async def save(store: SqliteStore) -> None:
    """A whole checkpoint."""
    store._begin_checkpoint(store._now)
    assert store._checkpoint is not None
    assert store._checkpoint._task is not None
    await store._checkpoint._task


async def get(store: SqliteStore, id: int) -> JobRecord | None:
    return (await store.get(CONTEXT, [id], [], read_clock()))[0]


async def test_checkpoint_after_a_crash_keeps_what_the_journal_had(tmp_path: Path) -> None:
    first = await opened(tmp_path / "1.db")
    [id] = await enqueue(first, b"kept")
    claim = bound.make_claim(("work",), 1, 0, "worker", None)
    token = (await first.claim(CONTEXT, claim, read_clock())).token
    await first.append(CONTEXT, Append(LOG, id, token, text="a line"), read_clock())
    await first.configure(CONTEXT, Configure(0, "work", {"concurrency": 7}), read_clock())
    second = await opened(crash(tmp_path / "1.db", tmp_path / "2.db"))
    await first.close()
    await enqueue(second, b"later")
    await save(second)
    third = await opened(crash(tmp_path / "2.db", tmp_path / "3.db"))
    await second.close()
    job = await get(third, id)
    assert job is not None
    assert (job.state, job.payload) == ("running", b"kept")
    assert [item.data for item in await third.stream(CONTEXT, id, LOG, 0, 10, 0, read_clock())] == [b"a line"]
    assert (await third.configure(CONTEXT, Configure(0, "work", {}), read_clock()))["concurrency"] == 7
    assert third._engine.verify() == []
    await third.close()
