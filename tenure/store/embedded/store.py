"""An engine as a store: what waiting needs, and where durability comes in.

The engine is synchronous; this adds a future per ticket, resolved when a step leaves an answer in the engine's outbox.
Nothing here keeps time: whoever owns the store calls `tick`. A store that survives its process says when a change may
begin (`_admit`), when the answer of a change may leave (`_sure`), what of a read may be shown (`_shown`), and hands out
the outbox when it is safe (`_deliver`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar, cast

from tenure.core import bound
from tenure.core.answer import Answers, Claimed, Extended
from tenure.core.clock import Now
from tenure.core.error import Error, Timeout, Unavailable
from tenure.core.record import (
    DeadLetterGroup,
    EventPage,
    Explanation,
    JobPage,
    JobRecord,
    LoadReport,
    Scanned,
    StreamItem,
)
from tenure.core.request import Append, Batch, Change, Claim, Configure, Extend, Filter, Load, Scan, Settle
from tenure.core.tenant import Context
from tenure.engine.engine import Engine
from tenure.store.contract import Told, Wait
from tenure.store.embedded.doubt import Doubt
from tenure.store.embedded.guard import owned_here

WAITERS_MAX = 100_000
FIND_STEPS_MAX = 1_100  # of 20,000 jobs each: all that a store may hold, ended ones included

T = TypeVar("T")

log = logging.getLogger("tenure")


def _tell(told: Told, answer: object, error: Error | None) -> bool:
    """Whether that went well; if not, others are told all the same."""
    try:
        told(answer, error)
    except Exception:
        log.exception("who waited for an answer could not be told")
        return False
    return True


class _Wait(Wait):
    """A claim that waits, with a function in place of a future."""

    __slots__ = ("_store", "_ticket", "_told")

    def __init__(self, store: "EmbeddedStore", ticket: int, told: Told) -> None:
        self._store = store
        self._ticket = ticket
        self._told: Told | None = told

    def done(self) -> bool:
        return self._told is None

    def tell(self, answer: object) -> bool:
        """Whether somebody has the answer now."""
        told, self._told = self._told, None
        return told is not None and _tell(told, answer, None)

    def set_exception(self, error: Error) -> None:
        told, self._told = self._told, None
        if told is not None:
            _tell(told, None, error)

    def give_up(self) -> None:
        if self._told is not None:
            self._told = None
            self._store.withdraw(self._ticket)


class Soon(Wait):
    """An answer that is there and must be safe before it leaves, with a function in place of a future."""

    __slots__ = ("_answer", "_is_done", "_is_given_up", "_store", "_told")

    def __init__(self, store: "EmbeddedStore", answer: object, told: Told) -> None:
        self._store = store
        self._answer = answer
        self._told = told
        self._is_done = False
        self._is_given_up = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, _: None) -> None:
        self._is_done = True
        if self._is_given_up or not _tell(self._told, self._answer, None):
            self._store.give_back(self._answer)

    def set_exception(self, error: Error) -> None:
        self._is_done = True
        self._store.give_back(self._answer)
        if not self._is_given_up:
            _tell(self._told, None, error)

    def give_up(self) -> None:
        self._is_given_up = True


class EmbeddedStore:
    def __init__(self) -> None:
        self._opened: Engine | None = None
        self._now = Now(0, 0)
        self._waiting: dict[int, asyncio.Future[object] | _Wait] = {}
        self._listeners: list[asyncio.Future[None]] = []

    def _serve(self, engine: Engine) -> None:
        """From now on, in this thread alone."""
        self._opened = owned_here(engine)

    @property
    def _engine(self) -> Engine:
        if self._opened is None:
            raise Unavailable("the store is not open; open it first")
        return self._opened

    async def _admit(self) -> None:
        """Wait until a change may begin; raises when none can."""

    def _check_owned(self) -> None:
        """Raises when another process has the store."""

    async def _sure(self, context: Context) -> None:
        """Wait until what was done is as safe as the context asks for."""

    async def _shown(self, _context: Context, answer: T, _part: Callable[[Doubt], T]) -> T:
        """The answer of a read once everything it shows is as safe as the context asks for; `part` says what of it may
        be shown sooner."""
        return answer

    async def _surer(self, context: Context) -> None:
        """After a wait, whose answer is as safe as the store's mode: until it is as safe as the context asks for."""

    async def close(self) -> None:
        self._opened = None
        self._refuse_waiting(Unavailable("the store was closed"))

    def _refuse_waiting(self, error: Unavailable) -> None:
        waiting, self._waiting = self._waiting, {}
        listeners, self._listeners = self._listeners, []
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
        for listener in listeners:
            if not listener.done():
                listener.set_exception(error)

    def _at(self, now: Now) -> Now:
        """The store's time at the caller's."""
        return now

    async def tick(self, now: Now) -> Now | None:
        next_at = self._engine.tick(now)
        self._deliver(now)
        return next_at

    def _deliver(self, now: Now) -> None:
        """Hand out what the step left behind; whoever owns the store may need to tick again soon."""
        self._now = now
        self._hand_out(self._drain_outbox())

    def _drain_outbox(self) -> list[tuple[int, object]]:
        return self._engine.drain_outbox()

    def _untaken(self, answer: object) -> None:
        """Nobody waits for this answer any more; somebody else may, and is told when this step is over."""
        if isinstance(answer, Claimed) and answer.ids and self._opened is not None:
            self._opened.give_back(answer, self._now)
            asyncio.get_running_loop().call_soon(self._deliver_rest)

    def _deliver_rest(self) -> None:
        if self._opened is not None:
            self._deliver(self._now)

    def _hand_out(self, outbox: list[tuple[int, object]]) -> None:
        for ticket, answer in outbox:
            waiting = self._waiting.pop(ticket, None)
            if isinstance(waiting, _Wait):
                if not waiting.tell(answer):
                    self._untaken(answer)
            elif waiting is not None and not waiting.done():
                waiting.set_result(answer)
            else:
                self._untaken(answer)
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

    async def _share(self, ticket: int, now: Now) -> object:
        """As `_wait`, where a repeat of the request may wait too; whoever gives up changes nothing for the other."""
        future = cast("asyncio.Future[object] | None", self._waiting.get(ticket))
        if future is None:
            future = self._expect(ticket)
            future.add_done_callback(lambda done: done.exception())  # there may be nobody left to be told
        self._deliver(now)
        return await asyncio.shield(future)

    def _abandon(self, ticket: int, future: asyncio.Future[object]) -> None:
        """The caller is gone: withdraw the wait, or give back what it was answered and never took."""
        if self._waiting.pop(ticket, None) is not None and self._opened is not None:
            self._engine.withdraw(ticket, self._now)
        elif future.done() and not future.cancelled() and future.exception() is None:
            self._untaken(future.result())
        if self._opened is not None:
            self._deliver(self._now)

    @property
    def is_prompt(self) -> bool:
        return True

    def _is_prompt(self, durability: str) -> bool:
        """Whether a change may begin now, and its answer leave as soon as it was made."""
        return not durability

    def at_once(self, context: Context, asked: object, now: Now) -> object | None:
        if self._opened is None or not self._is_prompt(context.durability):
            return None
        now = self._at(now)
        answer = self._step(context, asked, now)
        if answer is not None:
            self._deliver_at_once(now)
        return answer

    def _step(self, context: Context, asked: object, now: Now) -> object | None:
        """None when it is no change that is made in one step."""
        engine = self._opened
        assert engine is not None
        if isinstance(asked, Batch):
            return engine.enqueue(context, asked, now)
        if isinstance(asked, Claim):
            return None if asked.wait_ms else engine.claim(context, asked, now)
        if isinstance(asked, Settle):
            return engine.settle(context, asked, now)
        if isinstance(asked, Extend):
            return engine.extend(context, asked, now)
        return None

    def _deliver_at_once(self, now: Now) -> None:
        """As `_deliver`, after a step for which `_is_prompt` was true."""
        self._deliver(now)

    def soon(self, context: Context, asked: object, now: Now, told: Told) -> Wait | None:
        if self._opened is None or isinstance(asked, Extend) or not self._can_be_soon(context.durability):
            return None
        now = self._at(now)
        answer = self._step(context, asked, now)
        if answer is None:
            return None
        soon = Soon(self, answer, told)
        self._answer_soon(soon, now)
        return soon

    def _can_be_soon(self, _durability: str) -> bool:
        """Whether a change may begin now, and is written without being asked to."""
        return False

    def _answer_soon(self, soon: Soon, now: Now) -> None:
        """Deliver, and have it told when it is safe."""
        raise NotImplementedError

    def claim_or_wait(self, context: Context, claim: Claim, now: Now, told: Told) -> Claimed | Wait | None:
        if self._opened is None or len(self._waiting) >= WAITERS_MAX:
            return None
        is_prompt = self._is_prompt(context.durability)
        if not is_prompt and not self._can_be_soon(context.durability):
            return None
        now = self._at(now)
        answer = self._opened.claim(context, claim, now)
        found: Claimed | Wait = answer
        if answer.ticket:
            found = self._waiting[answer.ticket] = _Wait(self, answer.ticket, told)
        elif not is_prompt:
            soon = Soon(self, answer, told)
            self._answer_soon(soon, now)
            return soon
        if is_prompt:
            self._deliver_at_once(now)
        else:
            self._deliver(now)
        return found

    def give_back(self, answer: object) -> None:
        """As `_untaken`, outside of a step."""
        if isinstance(answer, Claimed) and answer.ids and self._opened is not None:
            self._untaken(answer)
            self._deliver(self._now)

    def withdraw(self, ticket: int) -> None:
        if self._waiting.pop(ticket, None) is not None and self._opened is not None:
            self._opened.withdraw(ticket, self._now)
            self._deliver(self._now)

    async def enqueue(self, context: Context, batch: Batch, now: Now) -> Answers:
        now = self._at(now)
        await self._admit()
        answers = self._engine.enqueue(context, batch, now)
        self._deliver(now)
        await self._sure(context)
        return answers

    async def claim(self, context: Context, claim: Claim, now: Now) -> Claimed:
        now = self._at(now)
        await self._admit()
        answer = self._engine.claim(context, claim, now)
        try:
            if answer.ticket:
                found = await self._wait(answer.ticket, now)
                assert isinstance(found, Claimed)
                answer = found
                await self._surer(context)
            else:
                self._deliver(now)
                await self._sure(context)
        except (asyncio.CancelledError, Error):
            if answer.ids and self._opened is not None:
                self._engine.give_back(answer, self._now)
                self._deliver(self._now)
            raise
        return answer

    async def settle(self, context: Context, settle: Settle, now: Now) -> Answers:
        now = self._at(now)
        await self._admit()
        answers = self._engine.settle(context, settle, now)
        self._deliver(now)
        await self._sure(context)
        return answers

    async def extend(self, context: Context, extend: Extend, now: Now) -> Extended:
        """A renewal does not wait for the disk: after a crash every lease has time left (semantics, section 7)."""
        now = self._at(now)
        self._check_owned()
        answer = self._engine.extend(context, extend, now)
        self._deliver(now)
        if answer.errors is None:
            return answer
        over = [id for at, id in enumerate(extend.ids) if at in answer.errors]
        return await self._shown(context, answer, lambda doubt: doubt.extended(answer, over))

    async def change(self, context: Context, change: Change, now: Now) -> Answers:
        now = self._at(now)
        await self._admit()
        answers = self._engine.change(context, change, now)
        if not answers.ticket:
            self._deliver(now)
            await self._sure(context)
            return answers
        count = await self._share(answers.ticket, now)
        assert isinstance(count, int)
        await self._surer(context)
        return Answers([], -1, None, count)

    async def get(self, context: Context, ids: list[int], custom_ids: list[str], now: Now) -> list[JobRecord | None]:
        now = self._at(now)
        found = self._engine.get(context, ids, custom_ids, now)
        self._deliver(now)
        return await self._shown(context, found, lambda doubt: doubt.records(found, ids))

    async def find(self, context: Context, filter: Filter, limit: int, cursor: str, now: Now) -> JobPage:
        now = self._at(now)
        page = self._engine.find(context, filter, limit, cursor, now)
        self._deliver(now)
        jobs = page.jobs
        for _ in range(FIND_STEPS_MAX):
            if not page.cursor or len(jobs) >= limit:
                break
            await asyncio.sleep(0)  # a step looks at a bounded number of jobs; others have their turn between two
            page = self._engine.find(context, filter, limit - len(jobs), page.cursor, self._now)
            self._deliver(self._now)
            jobs += page.jobs
        found = JobPage(jobs, page.cursor)
        return await self._shown(context, found, lambda doubt: doubt.page(found))

    async def count(self, context: Context, queue: str, now: Now) -> dict[str, dict[str, int]]:
        now = self._at(now)
        counts = self._engine.count(context, queue, now)
        self._deliver(now)
        return await self._shown(context, counts, lambda doubt: doubt.counts(context, counts))

    async def groups(self, context: Context, queue: str, now: Now) -> list[DeadLetterGroup]:
        now = self._at(now)
        found = self._engine.groups(context, queue, now)
        self._deliver(now)
        return await self._shown(context, found, lambda doubt: doubt.whole(found, context, queue))

    async def explain(self, context: Context, id: int, now: Now) -> Explanation:
        now = self._at(now)
        explanation = self._engine.explain(context, id, now)
        self._deliver(now)
        return await self._shown(context, explanation, lambda doubt: doubt.of_job(explanation, id))

    async def configure(self, context: Context, configure: Configure, now: Now) -> dict[str, object]:
        now = self._at(now)
        if configure.changes:
            await self._admit()
        settings = self._engine.configure(context, configure, now)
        self._deliver(now)
        if not configure.changes:
            return await self._shown(context, settings, lambda doubt: doubt.settings(settings))
        await self._sure(context)
        return settings

    async def watch(self, context: Context, id: int, wait_ms: int, now: Now) -> JobRecord:
        now = self._at(now)
        ticket = self._engine.watch(context, id, wait_ms, now)
        if ticket:
            found = await self._wait(ticket, now)
            if found is None:
                raise Timeout(f"job {id} did not end within {wait_ms} ms; it goes on")
            assert isinstance(found, JobRecord)
            await self._surer(context)
            return found
        record = self._engine.get(context, [id], [], now)[0]
        self._deliver(now)
        assert record is not None
        return await self._shown(context, record, lambda doubt: doubt.of_job(record, id))

    async def events(self, context: Context, cursor: str, limit: int, wait_ms: int, now: Now) -> EventPage:
        now = self._at(now)
        bound.wait_ms("wait_ms", wait_ms)
        page = self._engine.events(context, cursor, limit, now)
        self._deliver(now)
        deadline = now.elapsed_ms + wait_ms
        if not page.events and wait_ms:
            self._engine.come_again(wait_ms, now)
        while not page.events and self._now.elapsed_ms < deadline:
            await self._change()
            page = self._engine.events(context, page.cursor, limit, self._now)
        return await self._shown(context, page, lambda doubt: doubt.events(page))

    async def append(self, context: Context, append: Append, now: Now) -> int:
        now = self._at(now)
        await self._admit()
        offset = self._engine.append(context, append, now)
        self._deliver(now)
        await self._sure(context)
        return offset

    async def stream(
        self, context: Context, id: int, kind: int, offset: int, limit: int, wait_ms: int, now: Now
    ) -> list[StreamItem]:
        now = self._at(now)
        bound.wait_ms("wait_ms", wait_ms)
        items = self._engine.stream(context, id, kind, offset, limit, now)
        self._deliver(now)
        deadline = now.elapsed_ms + wait_ms
        if not items and wait_ms:
            self._engine.come_again(wait_ms, now)
        while not items and self._now.elapsed_ms < deadline and not self._engine.has_ended(context, id):
            await self._change()
            items = self._engine.stream(context, id, kind, offset, limit, self._now)
        return await self._shown(context, items, lambda doubt: doubt.items(id, kind, items))

    async def load(self, context: Context, load: Load, now: Now) -> LoadReport:
        now = self._at(now)
        await self._admit()
        report = self._engine.load(context, load, now)
        self._deliver(now)
        await self._sure(context)
        return report

    async def scan(self, context: Context, scan: Scan, now: Now) -> Scanned:
        now = self._at(now)
        found = self._engine.scan(context, scan, now)
        self._deliver(now)
        return await self._shown(context, found, lambda doubt: doubt.scanned(found, scan.table, scan.after))

    async def _change(self) -> None:
        """Wait for the next step of the engine."""
        listener: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners.append(listener)
        await listener
