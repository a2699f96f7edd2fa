"""The durable store shows every behaviour; and what it leaves in its file is what it had in memory."""

import functools
from pathlib import Path

import msgspec
import pytest

from tenure.core.clock import Now
from tenure.core.record import JobRecord
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.store.conformance import BEHAVIOURS, Behaviour, check, name_of
from tenure.store.embedded.file import StoreFile
from tenure.store.embedded.sqlite import SqliteStore
from tests.prompt import PromptStore

ALL = Context("operator", ("*",))


class RestoredStore(SqliteStore):
    """Closed, it opens its file once more and compares."""

    async def close(self) -> None:
        if self._opened is None:
            return
        engine, now = self._opened, self._now
        problems = engine.verify()
        await super().close()
        assert problems == []
        file = StoreFile(self._file.path)
        file.open()
        try:
            again = file.restore(now)
        finally:
            file.release()
        assert again.verify() == []
        assert records_of(again, now) == records_of(engine, now)


def records_of(engine: Engine, now: Now) -> list[JobRecord | None]:
    """But for the ends of leases, which are later in a store that was opened again."""
    found = engine.get(ALL, list(range(1, engine.last_id() + 1))[-2_000:], [], now)
    return [job and msgspec.structs.replace(job, lease_until=0) for job in found]


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour(behaviour: Behaviour, memory_path: Path) -> None:
    check(behaviour, functools.partial(RestoredStore, memory_path / "jobs.db", "write"), skips=False)


class PromptRestoredStore(PromptStore, RestoredStore):
    pass


@pytest.mark.slow  # all together: what answers at once is not compiled
@pytest.mark.parametrize("mode", ["relaxed", "fsync"])
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour_without_a_coroutine(behaviour: Behaviour, mode: str, memory_path: Path) -> None:
    if mode == "fsync" and name_of(behaviour) == "wait.what_was_leased_to_a_lost_answer_is_released_at_once":
        pytest.skip("a worker has its answer before the producer has: none is lost between the two")
    check(behaviour, functools.partial(PromptRestoredStore, memory_path / "jobs.db", mode), skips=False)
