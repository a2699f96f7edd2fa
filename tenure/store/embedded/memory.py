"""The engine in memory as a store: `memory://`. Nothing survives the process.

The engine is synchronous; this adds what waiting needs: a future per ticket, resolved when a step leaves an answer in
the engine's outbox. Nothing here keeps time: whoever owns the store calls `tick`.
"""

import asyncio
import secrets

from tenure.core import bound
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Timeout, Unavailable
from tenure.core.record import DeadLetterGroup, EventPage, Explanation, JobPage, JobRecord, LoadReport, StreamItem
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Filter, Load, Settle
from tenure.core.tenant import Context
from tenure.core.token import SECRET_BYTES
from tenure.engine.engine import Engine
from tenure.store.contract import Capabilities

CAPABILITIES = Capabilities(name="memory", shared=False, durability=())
WAITERS_MAX = 100_000


class MemoryStore:
    def __init__(self, secret: bytes | None = None, epoch: int = 1) -> None:
        self._secret = secret or secrets.token_bytes(SECRET_BYTES)
        self._epoch = epoch
        self._opened: Engine | None = None
        self._now = Now(0, 0)
        self._waiting: dict[int, asyncio.Future[object]] = {}
        self._listeners: list[asyncio.Future[None]] = []

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def _engine(self) -> Engine:
        if self._opened is None:
            raise Unavailable("the store is not open; open it first")
        return self._opened

    async def open(self, now: Now) -> None:
        self._opened = Engine(self._secret, self._epoch, now)
        self._now = now

    async def close(self) -> None:
        self._opened = None
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unavailable("the store was closed"))
        for listener in self._listeners:
            if not listener.done():
                listener.set_exception(Unavailable("the store was closed"))
        self._waiting.clear()
        self._listeners.clear()

    async def tick(self, now: Now) -> Now | None:
        return self.tick_now(now)

    def tick_now(self, now: Now) -> Now | None:
        next_at = self._engine.tick(now)
        self._deliver(now)
        return next_at

    def _deliver(self, now: Now) -> None:
        """Hand out what the step left behind; whoever owns the store may need to tick again soon."""
        self._now = now
        for ticket, answer in self._engine.drain_outbox():
            future = self._waiting.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(answer)
            elif isinstance(answer, Claimed) and answer.ids:
                self._engine.give_back(answer, now)
        if self._listeners:
            listeners, self._listeners = self._listeners, []
            for listener in listeners:
                if not listener.done():
                    listener.set_result(None)

    def _expect(self, ticket: int) -> asyncio.Future[object]:
        """A place for the ticket's answer; it must be there before the outbox is read."""
        if len(self._waiting) >= WAITERS_MAX:
            self._engine.withdraw(ticket, self._now)
            raise Unavailable(f"{WAITERS_MAX} calls are waiting already; try again later")
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        return future

    async def _wait(self, ticket: int, now: Now) -> object:
        future = self._expect(ticket)
        self._deliver(now)
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(ticket, future)
            raise

    def _abandon(self, ticket: int, future: asyncio.Future[object]) -> None:
        """The caller is gone: withdraw the wait, or give back what it was answered and never took."""
        if self._waiting.pop(ticket, None) is not None and self._opened is not None:
            self._engine.withdraw(ticket, self._now)
        elif future.done() and not future.cancelled() and future.exception() is None:
            answer = future.result()
            if isinstance(answer, Claimed) and answer.ids and self._opened is not None:
                self._engine.give_back(answer, self._now)
        if self._opened is not None:
            self._deliver(self._now)

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        answers = self._engine.enqueue(context, batch, now)
        self._deliver(now)
        return answers

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        answer = self._engine.claim(context, claim, now)
        if not answer.ticket:
            self._deliver(now)
            return answer
        found = await self._wait(answer.ticket, now)
        assert isinstance(found, Claimed)
        self._engine.claim_answered(context, found)
        return found

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        answers = self._engine.settle(context, settle, now)
        self._deliver(now)
        return answers

    async def extend(self, context: Context, extend: Extend, now: Now) -> Extended:
        answer = self._engine.extend(context, extend, now)
        self._deliver(now)
        return answer

    async def change(self, context: Context, change: Change, now: Now) -> Answers:
        answers = self._engine.change(context, change, now)
        if not answers.ticket:
            self._deliver(now)
            return answers
        count = await self._wait(answers.ticket, now)
        assert isinstance(count, int)
        return Answers([], -1, None, count)

    async def get(self, context: Context, ids: list[int], custom_ids: list[str], now: Now) -> list[JobRecord | None]:
        found = self._engine.get(context, ids, custom_ids, now)
        self._deliver(now)
        return found

    async def find(self, context: Context, filter: Filter, limit: int, cursor: str, now: Now) -> JobPage:
        page = self._engine.find(context, filter, limit, cursor, now)
        self._deliver(now)
        return page

    async def count(self, context: Context, queue: str, now: Now) -> dict[str, dict[str, int]]:
        counts = self._engine.count(context, queue, now)
        self._deliver(now)
        return counts

    async def groups(self, context: Context, queue: str, now: Now) -> list[DeadLetterGroup]:
        found = self._engine.groups(context, queue, now)
        self._deliver(now)
        return found

    async def explain(self, context: Context, id: int, now: Now) -> Explanation:
        explanation = self._engine.explain(context, id, now)
        self._deliver(now)
        return explanation

    async def configure(self, context: Context, configure: Configure, now: Now) -> dict[str, object]:
        settings = self._engine.configure(context, configure, now)
        self._deliver(now)
        return settings

    async def watch(self, context: Context, id: int, wait_ms: int, now: Now) -> JobRecord:
        ticket = self._engine.watch(context, id, wait_ms, now)
        if ticket:
            found = await self._wait(ticket, now)
            if found is None:
                raise Timeout(f"job {id} did not end within {wait_ms} ms; it goes on")
            assert isinstance(found, JobRecord)
            return found
        record = self._engine.get(context, [id], [], now)[0]
        self._deliver(now)
        assert record is not None
        return record

    async def events(self, context: Context, cursor: str, limit: int, wait_ms: int, now: Now) -> EventPage:
        bound.wait_ms("wait_ms", wait_ms)
        page = self._engine.events(context, cursor, limit, now)
        self._deliver(now)
        deadline = now.elapsed_ms + wait_ms
        if not page.events and wait_ms:
            self._engine.come_again(wait_ms, now)
        while not page.events and self._now.elapsed_ms < deadline:
            await self._change()
            page = self._engine.events(context, page.cursor, limit, self._now)
        return page

    async def append(self, context: Context, append: Append, now: Now) -> int:
        offset = self._engine.append(context, append, now)
        self._deliver(now)
        return offset

    async def stream(
        self, context: Context, id: int, kind: int, offset: int, limit: int, wait_ms: int, now: Now
    ) -> list[StreamItem]:
        bound.wait_ms("wait_ms", wait_ms)
        items = self._engine.stream(context, id, kind, offset, limit, now)
        self._deliver(now)
        deadline = now.elapsed_ms + wait_ms
        if not items and wait_ms:
            self._engine.come_again(wait_ms, now)
        while not items and self._now.elapsed_ms < deadline:
            await self._change()
            items = self._engine.stream(context, id, kind, offset, limit, self._now)
        return items

    async def load(self, context: Context, load: Load, now: Now) -> LoadReport:
        report = self._engine.load(context, load, now)
        self._deliver(now)
        return report

    async def _change(self) -> None:
        """Wait for the next step of the engine."""
        listener: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners.append(listener)
        await listener
