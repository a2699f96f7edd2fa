"""Tells the store what handlers say while they run: progress, logs, items of their streams."""

import asyncio
import logging
from collections import deque

from tenure.client.client import Client
from tenure.core.error import Error
from tenure.core.request import Append
from tenure.worker.ended import LOST

log = logging.getLogger("tenure.worker")


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
