"""The engine is its loop's: threads that read the file beside it change nothing, and none calls the engine."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tenure.client.clock import read_clock
from tenure.core.clock import Now
from tenure.core.request import STORE, Configure, Scan
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.store.embedded.guard import IS_COMPILED, owned_here
from tenure.store.embedded.history import History
from tests.crash.test_unmoved import read
from tests.kill.test_crash import enqueue, opened

READERS = 4
COMMITS = 150
MANY = 10_000  # events a page


@contextmanager
def hasty_threads() -> Iterator[None]:
    """The interpreter goes from thread to thread as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


async def test_reading_events_beside_enqueues_harms_none(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    is_over = False

    async def look() -> None:
        while not is_over:
            await store.events(Context(), "", 1, 0, read_clock())
            await store.scan(Context(), Scan("events"), read_clock())

    with hasty_threads():
        readers = [asyncio.create_task(look()) for _ in range(READERS)]
        for _ in range(COMMITS):
            await enqueue(store, *[b"x"] * 20)
        is_over = True
        await asyncio.gather(*readers)
    await store.close()
    again = await opened(tmp_path / "jobs.db")
    assert await read(again, MANY) == list(range(1, COMMITS * 20 + 1))
    await again.close()


async def test_served_engine_refuses_another_thread(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    for call in (store._engine.oldest_event, store._engine.last_event, store._engine.is_taken):
        with nullcontext() if IS_COMPILED else pytest.raises(AssertionError, match="called by another thread"):
            await asyncio.to_thread(call)
    assert store._engine.last_event() == 0
    await store.close()


async def test_engine_made_in_a_thread_is_served_by_the_loop() -> None:
    now = Now(1_000, 0)
    made = await asyncio.to_thread(Engine, bytes(16), 1, now)
    await asyncio.to_thread(made.tick, now)
    served = owned_here(made)
    assert served is made
    assert served.tick(now) is None
    with nullcontext() if IS_COMPILED else pytest.raises(AssertionError):
        await asyncio.to_thread(served.tick, now)
    await asyncio.to_thread(owned_here, served)  # and given away again
    with nullcontext() if IS_COMPILED else pytest.raises(AssertionError):
        served.tick(now)


async def test_what_a_thread_reads_has_no_engine(tmp_path: Path) -> None:
    store = await opened(tmp_path / "jobs.db")
    await store.configure(Context(), Configure(STORE, "", {"events_max": 7}), read_clock())
    history = store._history()
    assert isinstance(history, History)
    assert not any(isinstance(value, Engine) for value in vars(history).values())
    assert (history._in_memory.oldest, history._in_memory.kept) == (1, 7)
    await store.close()
