"""The durable store shows every behaviour; and what it leaves in its file is what it had in memory."""

import asyncio
import functools
from pathlib import Path
from typing import cast

import msgspec
import pytest

from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Error
from tenure.core.record import JobRecord
from tenure.core.request import Batch, Claim, Extend, Settle
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.store.conformance import BEHAVIOURS, Behaviour, check, name_of
from tenure.store.embedded.file import StoreFile
from tenure.store.embedded.sqlite import SqliteStore

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
def test_behaviour(behaviour: Behaviour, tmp_path: Path) -> None:
    check(behaviour, functools.partial(RestoredStore, tmp_path / "jobs.db", "write"), skips=False)


def settle(told: "asyncio.Future[Claimed]", claimed: Claimed | None, error: Error | None) -> None:
    if claimed is not None:
        told.set_result(claimed)
    elif error is not None:
        told.set_exception(error)


class PromptStore(RestoredStore):
    """Answers at once whatever it can."""

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        found = self.at_once(context, batch, now)
        return await super().enqueue(context, batch, now) if found is None else cast("Answers", found)

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        told: asyncio.Future[Claimed] = asyncio.get_running_loop().create_future()
        found = self.claim_or_wait(context, claim, now, lambda claimed, error: settle(told, claimed, error))
        if found is None or isinstance(found, Claimed):
            return await super().claim(context, claim, now) if found is None else found
        try:
            return await told
        except asyncio.CancelledError:
            if told.done() and not told.cancelled():
                self._untaken(told.result())
            found.give_up()
            raise

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        found = self.at_once(context, settle, now)
        return await super().settle(context, settle, now) if found is None else cast("Answers", found)

    async def extend(self, context: Context, extend: Extend, now: Now) -> Extended:
        found = self.at_once(context, extend, now)
        return await super().extend(context, extend, now) if found is None else cast("Extended", found)


@pytest.mark.slow  # all together: what answers at once is not compiled
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=name_of)
def test_behaviour_at_once(behaviour: Behaviour, tmp_path: Path) -> None:
    check(behaviour, functools.partial(PromptStore, tmp_path / "jobs.db", "relaxed"), skips=False)
