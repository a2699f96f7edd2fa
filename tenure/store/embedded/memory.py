"""The engine in memory as a store: `memory://`. Nothing survives the process."""

import secrets

from tenure.core.clock import Now
from tenure.core.token import SECRET_BYTES
from tenure.engine.engine import Engine
from tenure.store.contract import Capabilities, Identity
from tenure.store.embedded.home import identity_of
from tenure.store.embedded.store import EmbeddedStore

CAPABILITIES = Capabilities(name="memory", shared=False, durability=())


class MemoryStore(EmbeddedStore):
    def __init__(self, secret: bytes | None = None, epoch: int = 1) -> None:
        super().__init__()
        self._secret = secret or secrets.token_bytes(SECRET_BYTES)
        self._epoch = epoch

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    async def open(self, now: Now) -> None:
        self._serve(Engine(self._secret, self._epoch, now))
        self._now = now

    async def identity(self) -> Identity:
        return identity_of(self._secret)
