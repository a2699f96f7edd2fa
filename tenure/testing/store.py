"""The memory store, whose jobs outlive its connections: a test may go from a thread to a loop and find them there."""

import secrets

from tenure.core.clock import Now
from tenure.core.token import SECRET_BYTES
from tenure.engine.engine import Engine
from tenure.store.embedded.memory import MemoryStore


class KeptStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self._kept: Engine | None = None

    async def open(self, now: Now) -> None:
        if self._kept is None:
            await super().open(now)
            self._kept = self._opened
        else:
            self._serve(self._kept)

    def clear(self, now: Now) -> None:
        """Nothing was ever enqueued. What still runs is refused when it ends: its token is of another engine."""
        fresh = Engine(secrets.token_bytes(SECRET_BYTES), self._epoch, now)
        self._kept = fresh
        if self._opened is not None:
            self._opened = fresh
