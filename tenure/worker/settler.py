"""Tells the store how attempts ended, in groups: what ended while the last group was on its way is the next one.

What a handler said meanwhile (progress, logs, items of its stream) goes first, in the order in which it said it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from tenure.client.client import Client
from tenure.core.error import AlreadySettled, Error, JobCancelled, JobNotFound, LeaseLost
from tenure.core.request import Append, Batch, Failure, Settle
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_NAMES
from tenure.worker.ended import Ended, failed

log = logging.getLogger("tenure.worker")

GROUPS_IN_FLIGHT = 2
GROUP_MAX = 1_000
PAUSE_FIRST_S = 0.1
PAUSE_MOST_S = 5.0
RESULT_BYTES = 4 * 1024 * 1024  # of results in one group
LOST = (JobCancelled, AlreadySettled, LeaseLost, JobNotFound)  # somebody else has ended the attempt
Row = tuple[int, bytes, Ended]


class Completions:
    """Jobs that are done, in the columns of a request."""

    __slots__ = ("followups", "has_followups", "has_results", "ids", "results", "size", "tokens")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.tokens: list[bytes] = []
        self.results: list[bytes | None] = []
        self.followups: list[Batch | None] = []
        self.has_results = False
        self.has_followups = False
        self.size = 0  # of the results, in bytes

    def settle(self) -> Settle:
        results = self.results if self.has_results else None
        followups = self.followups if self.has_followups else None
        return Settle(SETTLE_COMPLETE, self.ids, self.tokens, results, None, followups)


class Settler:
    def __init__(
        self,
        client: Client,
        eased: Callable[[], None] = lambda: None,
        refused: Callable[[int, Error], None] = lambda _verb, _error: None,
    ) -> None:
        """`eased` is told each time that fewer are unsettled; `refused` of each settlement that was not taken."""
        self._client = client
        self._eased = eased
        self._refused = refused
        self._is_hurried = False
        self._done: deque[Completions] = deque([Completions()])
        self._others: deque[Row] = deque()
        self._in_flight = 0
        self._is_due = False
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.unsettled = 0  # told to this one and not answered yet

    def put(self, id: int, token: bytes, ended: Ended, followups: Batch | None = None) -> None:
        self.unsettled += 1
        if ended.verb == SETTLE_COMPLETE:
            done = self._done[-1]
            done.ids.append(id)
            done.tokens.append(token)
            done.results.append(ended.result)
            done.followups.append(followups)
            if ended.result is not None:
                done.has_results = True
                done.size += len(ended.result)
            if followups is not None:
                done.has_followups = True
                done.size += sum(len(payload) for payload in followups.payloads if isinstance(payload, bytes))
            if done.size > RESULT_BYTES or len(done.ids) >= GROUP_MAX:
                self._done.append(Completions())
        else:
            self._others.append((id, token, ended))
        if not self._is_due and self._in_flight < GROUPS_IN_FLIGHT:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    async def drain(self, seconds: float | None = None) -> None:
        """Until everything has been told, or the time is over: then nothing more is tried."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while self.unsettled:
            idle = loop.create_future()
            self._idle.append(idle)
            await asyncio.wait([idle], timeout=None if until is None else max(until - loop.time(), 0))
            if until is not None and loop.time() >= until and self.unsettled:
                log.warning("%d jobs could not be settled before the end; their leases run out", self.unsettled)
                self._is_hurried = True
                for task in self._tasks:
                    task.cancel()
                return

    def _flush(self) -> None:
        self._is_due = False
        while self._in_flight < GROUPS_IN_FLIGHT:
            settle = self._take()
            if settle is None:
                return
            self._in_flight += 1
            task = asyncio.get_running_loop().create_task(self._send(settle))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> Settle | None:
        """What goes into the next request: of one verb, with one delay."""
        if self._others:
            return self._take_others()
        if not self._done[0].ids:
            return None
        done = self._done.popleft()
        if not self._done:
            self._done.append(Completions())
        return done.settle()

    def _take_others(self) -> Settle:
        group = [self._others.popleft()]
        kind = group[0][2]
        size = len(kind.message) + len(kind.trace)
        while self._others and len(group) < GROUP_MAX and size < RESULT_BYTES:
            ended = self._others[0][2]
            if not _go_together(kind, ended):
                break
            size += len(ended.message) + len(ended.trace)
            group.append(self._others.popleft())
        return _settle(group)

    async def _send(self, settle: Settle) -> None:
        try:
            await self._tell(settle)
        finally:
            self._in_flight -= 1
            self.unsettled -= len(settle.ids)
            self._eased()
            self._flush()
            if not self.unsettled:
                idle, self._idle = self._idle, []
                for future in idle:
                    if not future.done():
                        future.set_result(None)

    async def _tell(self, settle: Settle) -> None:
        """As often as nobody answers: the store knows what it has heard before. What it refuses as a whole is told in
        halves, so that one that is wrong harms no other."""
        pause_s = PAUSE_FIRST_S
        while True:
            try:
                answers = await self._client.settle_batch(settle)
                for at, error in answers.errors().items():
                    self._note(settle, at, error)
                return
            except Error as error:
                if error.retryable and not self._is_hurried:
                    log.warning("%d jobs could not be settled yet: %s", len(settle.ids), error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, PAUSE_MOST_S)
                    continue
                if len(settle.ids) == 1 or error.retryable:
                    self._note(settle, 0, error)
                    return
                middle = len(settle.ids) // 2
                await self._tell(_part(settle, 0, middle))
                await self._tell(_part(settle, middle, len(settle.ids)))
                return

    def _note(self, settle: Settle, at: int, error: Error) -> None:
        id, said = settle.ids[at], SETTLE_NAMES[settle.verb]
        self._refused(settle.verb, error)
        if isinstance(error, LOST):
            log.info("job %d was not settled (%s): %s", id, said, error)
            return
        log.warning("job %d could not be settled (%s): %s", id, said, error)
        if settle.verb != SETTLE_FAIL and settle.tokens is not None and not error.retryable:
            # A result that is too large, or a follow-up that is none: it would be the same the next time.
            self.put(id, settle.tokens[at], failed(error, retryable=False))


def _part(settle: Settle, first: int, last: int) -> Settle:
    def cut(column: Any) -> Any:
        return None if column is None else column[first:last]

    return Settle(
        settle.verb,
        settle.ids[first:last],
        cut(settle.tokens),
        cut(settle.results),
        cut(settle.failures),
        cut(settle.followups),
        settle.delay_ms,
        settle.pause_key,
    )


def _go_together(one: Ended, other: Ended) -> bool:
    if one.verb != other.verb:
        return False
    return one.verb == SETTLE_FAIL or (one.delay_ms == other.delay_ms and one.pause_key == other.pause_key)


def _settle(group: list[Row]) -> Settle:
    ended = group[0][2]
    ids, tokens = [id for id, _, _ in group], [token for _, token, _ in group]
    if ended.verb == SETTLE_FAIL:
        failures = [
            Failure(each.type, each.message, each.trace, each.retryable, each.undecodable, each.delay_ms)
            for _, _, each in group
        ]
        return Settle(ended.verb, ids, tokens, failures=failures)
    return Settle(ended.verb, ids, tokens, delay_ms=ended.delay_ms, pause_key=ended.pause_key)


class Speaker:
    """What handlers say while they run, to the store; per job in order, bounded, from any thread."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, said_max: int) -> None:
        self._client = client
        self._loop = loop
        self._max = said_max
        self._lines: dict[int, deque[Append]] = {}
        self._sending: dict[int, asyncio.Task[None]] = {}
        self.dropped = 0

    def say(self, append: Append) -> None:
        """In the loop."""
        line = self._lines.setdefault(append.id, deque())
        if len(line) >= self._max:
            self.dropped += 1
            return
        line.append(append)
        if append.id not in self._sending:
            self._sending[append.id] = self._loop.create_task(self._send(append.id))

    async def said(self, id: int) -> None:
        """Until everything that the job said has been taken, or refused."""
        task = self._sending.get(id)
        if task is not None:
            await asyncio.shield(task)

    async def _send(self, id: int) -> None:
        line = self._lines[id]
        try:
            while line:
                try:
                    await self._client.append(line.popleft())
                except LOST:
                    line.clear()
                except Error as error:
                    log.warning("what job %d said was not taken: %s", id, error)
                    if error.retryable:  # nobody answers: the job is not to wait for each of its words
                        line.clear()
        finally:
            self._lines.pop(id, None)
            self._sending.pop(id, None)
