"""Obliterating a queue: all its jobs and its settings go. The one way, for the server and for clients of a file.

It takes several steps, each of them a verb of the contract, so that whoever makes them can check and note each. While
jobs run it is refused, unless it is forced; then it has changed nothing.
"""

from typing import Protocol

from tenure.core import bound
from tenure.core.answer import Answers
from tenure.core.error import InvalidRequest
from tenure.core.request import CANCEL, REMOVE, Change, Filter
from tenure.core.state import RUNNING, STATE_NAMES

REASON = "obliterated"
RUNNING_STATE = 1 << RUNNING
OTHER_STATES = (1 << len(STATE_NAMES)) - 1 - RUNNING_STATE


class Steps(Protocol):
    async def count(self, queue: str) -> dict[str, int]:
        """Jobs of the queue by state."""

    async def configure(self, queue: str, changes: dict[str, object]) -> dict[str, object]:
        """The settings of the queue after the changes."""

    async def change(self, change: Change) -> Answers: ...


async def obliterate(steps: Steps, queue: str, force: bool) -> int:
    """How many jobs were removed. What waits or has ended is removed, as by drain and purge; what runs is cancelled
    first, if it is forced."""
    if not force:
        await _need_idle(steps, queue)
    was_paused = (await steps.configure(queue, {})).get("paused")
    await steps.configure(queue, {"paused": True})  # so that nothing starts meanwhile
    try:
        if not force:
            await _need_idle(steps, queue)
        await steps.change(Change(CANCEL, None, Filter(queue, RUNNING_STATE), reason=REASON))
        removed = await steps.change(Change(REMOVE, None, Filter(queue, OTHER_STATES), reason=REASON))
    except BaseException:
        await steps.configure(queue, {"paused": was_paused})
        raise
    await steps.configure(queue, dict.fromkeys(bound.QUEUE_RULES))
    return removed.count


async def _need_idle(steps: Steps, queue: str) -> None:
    running = (await steps.count(queue)).get("running", 0)
    if running:
        jobs = "1 job" if running == 1 else f"{running:,} jobs"
        rule = f"{jobs} of {queue} still running: wait until none is, or say force to cancel them"
        raise InvalidRequest("force", False, rule)
