"""Tells the store how attempts ended, in groups: what ended while the last group was on its way is the next one.

Whoever gave an attempt is told when the store has answered: until then its lease has to be kept.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from tenure.client.client import Client
from tenure.core.answer import Answers
from tenure.core.error import Error, JobCancelled
from tenure.core.request import Batch, Failure, Settle
from tenure.core.state import SETTLE_COMPLETE, SETTLE_FAIL, SETTLE_NAMES, SETTLE_RELEASE
from tenure.worker.attempt import Attempt
from tenure.worker.ended import LOST, Ended, failed

log = logging.getLogger("tenure.worker")

GROUPS_IN_FLIGHT = 2
GROUP_MAX = 1_000
PAUSE_FIRST_S = 0.1
PAUSE_MOST_S = 5.0
GROUP_BYTES = 4 * 1024 * 1024  # of results, follow-ups and errors in one group
Row = tuple[Attempt, Ended, Batch | None]
# The attempt, what the store was told of it, the state that its job has by that, or why it was not taken.
Answered = Callable[[Attempt, Ended, int, Error | None], None]


class Settler:
    def __init__(self, client: Client, answered: Answered, eased: Callable[[], None] = lambda: None) -> None:
        """`answered` is told of each attempt, once; `eased` each time that fewer are unsettled."""
        self._client = client
        self._answered = answered
        self._eased = eased
        self._is_hurried = False
        self._done: deque[Row] = deque()
        self._others: deque[Row] = deque()
        self._in_flight = 0
        self._is_due = False
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.unsettled = 0  # told to this one and not answered yet

    def put(self, attempt: Attempt, ended: Ended, followups: Batch | None = None) -> None:
        self.unsettled += 1
        line = self._done if ended.verb == SETTLE_COMPLETE else self._others
        line.append((attempt, ended, followups))
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
            line = self._others or self._done
            if not line:
                return
            self._in_flight += 1
            task = asyncio.get_running_loop().create_task(self._send(_group(line)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, rows: list[Row]) -> None:
        try:
            await self._tell(rows)
        finally:
            self._in_flight -= 1
            self.unsettled -= len(rows)
            self._eased()
            self._flush()
            if not self.unsettled:
                idle, self._idle = self._idle, []
                for future in idle:
                    if not future.done():
                        future.set_result(None)

    async def _tell(self, rows: Sequence[Row]) -> None:
        """As often as nobody answers: the store knows what it has heard before. What it refuses as a whole is told in
        halves, so that one that is wrong harms no other."""
        pause_s = PAUSE_FIRST_S
        settle = _settle(rows)
        while True:
            try:
                self._note(rows, await self._client.settle_batch(settle))
                return
            except Error as error:
                if error.retryable and not self._is_hurried:
                    log.warning("%d jobs could not be settled yet: %s", len(rows), error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, PAUSE_MOST_S)
                    continue
                if len(rows) == 1 or error.retryable:
                    for row in rows:
                        self._note_refused(row, error)
                    return
                middle = len(rows) // 2
                await self._tell(rows[:middle])
                await self._tell(rows[middle:])
                return

    def _note(self, rows: Sequence[Row], answers: Answers) -> None:
        answered, state = self._answered, answers.state
        if answers.other is None:
            for attempt, ended, _ in rows:
                answered(attempt, ended, state, None)
            return
        for at, row in enumerate(rows):
            outcome = answers.item(at)
            if outcome.error is None:
                answered(row[0], row[1], outcome.state, None)
            else:
                self._note_refused(row, outcome.error)

    def _note_refused(self, row: Row, error: Error) -> None:
        attempt, ended, _ = row
        said = SETTLE_NAMES[ended.verb]
        if not isinstance(error, LOST):
            log.warning("job %d could not be settled (%s): %s", attempt.id, said, error)
            if ended.verb != SETTLE_FAIL and not error.retryable:
                # A result that is too large, or a follow-up that is none: it would be the same the next time.
                self.put(attempt, failed(error, retryable=False))
                return
        elif attempt.stop or ended.verb == SETTLE_RELEASE or isinstance(error, JobCancelled):
            log.info("job %d was not settled (%s): %s", attempt.id, said, error)
        else:
            log.warning(
                "job %d ended (%s), but its lease was lost before the store was told, and it may run again: %s",
                attempt.id,
                said,
                error,
            )
        self._answered(attempt, ended, 0, error)


def _group(line: deque[Row]) -> list[Row]:
    """What goes into the next request: of one verb, with one delay."""
    row = line.popleft()
    group, first, size = [row], row[1], _size(row)
    while line and len(group) < GROUP_MAX and size < GROUP_BYTES and _go_together(first, line[0][1]):
        row = line.popleft()
        size += _size(row)
        group.append(row)
    return group


def _size(row: Row) -> int:
    """In bytes, about."""
    _, ended, followups = row
    size = len(ended.message) + len(ended.trace)
    if ended.result is not None:
        size += len(ended.result)
    if followups is not None:
        size += sum(len(payload) for payload in followups.payloads if isinstance(payload, bytes))
    return size


def _go_together(one: Ended, other: Ended) -> bool:
    if one.verb != other.verb:
        return False
    if one.verb in (SETTLE_COMPLETE, SETTLE_FAIL):
        return True
    return one.delay_ms == other.delay_ms and one.pause_key == other.pause_key


def _settle(rows: Sequence[Row]) -> Settle:
    ended = rows[0][1]
    ids = [attempt.id for attempt, _, _ in rows]
    tokens = [attempt.token for attempt, _, _ in rows]
    if ended.verb == SETTLE_COMPLETE:
        results = [each.result for _, each, _ in rows]
        followups = [each for _, _, each in rows]
        has_results = any(result is not None for result in results)
        has_followups = any(each is not None for each in followups)
        return Settle(
            ended.verb, ids, tokens, results if has_results else None, None, followups if has_followups else None
        )
    if ended.verb == SETTLE_FAIL:
        failures = [
            Failure(each.type, each.message, each.trace, each.retryable, each.undecodable, each.delay_ms)
            for _, each, _ in rows
        ]
        return Settle(ended.verb, ids, tokens, failures=failures)
    return Settle(ended.verb, ids, tokens, delay_ms=ended.delay_ms, pause_key=ended.pause_key)
