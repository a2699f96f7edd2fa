"""The client of an app under test: notes what is enqueued, runs it in inline mode, and never waits for the clock."""

import asyncio
from collections.abc import Callable, Iterable

from tenure.client.client import Client
from tenure.client.driver import Driver
from tenure.core.answer import Answers
from tenure.core.bound import WAIT_MS_MAX
from tenure.core.duration import Duration, milliseconds
from tenure.core.error import Timeout, Unavailable
from tenure.core.record import JobRecord, StreamItem
from tenure.core.request import Batch
from tenure.core.tenant import Context
from tenure.task.context import find_current
from tenure.testing.runner import Runner

PATIENCE_S = 5.0  # of real time, for a job that nothing seems to run

Note = Callable[[Batch, str, Answers], None]


class ModeClient(Client):
    def __init__(
        self, driver: Driver, context: Context, runner: Runner, note: Note, inline: bool, raises: bool = False
    ) -> None:
        super().__init__(driver, context)
        self.runner = runner
        self._note = note
        self._inline = inline
        self._raises = raises

    def as_tenant(self, tenant: str, tenants: Iterable[str] = ()) -> Client:
        context = Context(tenant=tenant, tenants=tuple(tenants))
        return ModeClient(self._driver, context, self.runner, self._note, self._inline, self._raises)

    async def close(self) -> None:
        await self.runner.stop()
        await super().close()

    def beat(self, goes_on: bool = True) -> None:
        """Nothing: a clock that jumps was moved, and no loop was blocked."""

    async def enqueue_batch(self, batch: Batch, durability: str = "") -> Answers:
        answers = await super().enqueue_batch(batch, durability)
        self._note(batch, self._context.tenant, answers)
        if self._inline:
            await self._run(answers)
        return answers

    async def _run(self, answers: Answers) -> None:
        """In a handler no time passes: it would pass for the handler too."""
        if find_current() is None:
            await self.runner.run_through(self._raises)
        else:
            await self.runner.run_due()
        await self.runner.until_ended({id for at, id in enumerate(answers.ids) if not answers.item(at).duplicate})

    async def watch(self, id: int, timeout: Duration = 30) -> JobRecord:
        """Waits by the real clock: the fake one stands still. In a handler, others get their turn first."""
        wait_s = milliseconds("timeout", timeout) / 1000
        if find_current() is not None:
            await self.runner.run_due()
        if wait_s <= 0:
            return await super().watch(id, 0)
        try:
            return await asyncio.wait_for(super().watch(id, WAIT_MS_MAX / 1000), min(wait_s, PATIENCE_S))
        except TimeoutError:
            if wait_s <= PATIENCE_S:
                raise Timeout(f"job {id} did not end within {wait_s:g} s; it goes on") from None
        await self._refuse_to_wait(id)
        return await self.watch(id, wait_s - PATIENCE_S)

    async def stream(self, id: int, offset: int = 0, limit: int = 1_000, wait: Duration = 0) -> list[StreamItem]:
        wait_s = min(milliseconds("wait", wait) / 1000, PATIENCE_S)
        try:
            if wait_s > 0:
                return await asyncio.wait_for(super().stream(id, offset, limit, WAIT_MS_MAX / 1000), wait_s)
        except TimeoutError:
            await self._refuse_to_wait(id)
        return await super().stream(id, offset, limit)

    async def _refuse_to_wait(self, id: int) -> None:
        """Unless something runs that may end or enqueue it; a handler that waits itself does not count."""
        if self.runner.is_running(id) or (find_current() is None and self.runner.is_busy):
            return
        found = await self.explain(id)
        raise Unavailable(
            f"job {id} is {found.state} ({found.detail}) and nothing runs it; "
            "in a test, jobs run when run_all(app) is called, and time passes by advance(app, …)"
        )
