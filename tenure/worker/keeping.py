"""The worker's side of its keeper: the table that they share, and the process that renews leases."""

import asyncio
import logging
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec

from tenure.core.tenant import OpId
from tenure.worker.attempt import Attempt
from tenure.worker.table import CANCELLED, TOKEN_MAX, Table

log = logging.getLogger("tenure.worker")

RESTART_S = 1.0
STOP_S = 2.0
CLAIMS = 64  # under way at once that can be withdrawn


class Told(msgspec.Struct):
    """What a keeper has to know; by its input, since others can read its arguments."""

    url: str
    token: str
    tenant: str
    tenants: list[str]
    worker: str
    descriptor: int
    records: int
    claims: int
    session: str  # of the operation ids of claims
    queues: list[str]  # that they name


class Claiming(msgspec.Struct, frozen=True):
    """A claim under way."""

    place: int
    op: OpId


class Keeping:
    def __init__(
        self, url: str, token: str, tenant: str, tenants: list[str], worker: str, records: int, queues: list[str]
    ) -> None:
        self._table = Table.make(records, CLAIMS)
        self._session = secrets.token_hex(8)
        descriptor = self._table.descriptor
        self._told = Told(url, token, tenant, tenants, worker, descriptor, records, CLAIMS, self._session, queues)
        self._free = list(range(records - 1, -1, -1))  # the first ones first: the keeper reads up to the last one used
        self._places = list(range(CLAIMS))
        self._counter = 0
        self._uses = 0
        self._held: dict[int, Attempt] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether it runs; if it has ended, another one is started."""
        if self._process is not None and self._process.poll() is None:
            return True
        now = asyncio.get_running_loop().time()
        if now - self._started_at > RESTART_S:
            if self._process is not None:
                log.warning("the keeper of leases ended with %s; another one is started", self._process.returncode)
            try:
                self.start()
            except OSError as error:
                log.warning("the keeper of leases cannot be started: %s", error)
        return False

    @property
    def is_ready(self) -> bool:
        """Whether it has begun to renew."""
        return self.is_alive and self._table.rounds > 0

    def start(self) -> None:
        self._started_at = asyncio.get_running_loop().time()
        self._table.forget_rounds()
        self.beat()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tenure.worker.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._table.descriptor,),
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(self._told) + b"\n")
        self._process.stdin.flush()

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.to_thread(process.wait, STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                await asyncio.to_thread(process.wait)
        self._table.close()

    def beat(self) -> None:
        """The loop runs: what is claimed can be taken."""
        self._table.beat(time.monotonic())

    def hold(self, attempt: Attempt) -> None:
        if not self._free or len(attempt.token) > TOKEN_MAX:
            return  # more than were foreseen: the loop renews them
        attempt.slot = self._free.pop()
        self._uses += 1
        self._held[attempt.slot] = attempt
        self._table.take(attempt.slot, attempt.id, attempt.lease_ms, self._uses, attempt.renewed_at, attempt.token)

    def drop(self, attempt: Attempt) -> None:
        if attempt.slot >= 0:
            self._table.leave(attempt.slot)
            del self._held[attempt.slot]
            self._free.append(attempt.slot)
            attempt.slot = -1

    def lost(self) -> Iterator[tuple[Attempt, bool]]:
        """Leases that could not be renewed, and whether that is because the job was cancelled."""
        for at, attempt in list(self._held.items()):
            why = self._table.lost(at)
            if why:
                yield attempt, why == CANCELLED

    def begin_claim(self) -> Claiming | None:
        """From now on the keeper withdraws it, should the loop not run. None when there are too many of them."""
        if not self._places:
            return None
        place = self._places.pop()
        self._counter += 1
        self._table.begin_claim(place, self._counter)
        return Claiming(place, OpId(self._session, self._counter))

    def end_claim(self, claiming: Claiming) -> bool:
        """Whether it was withdrawn: what it was given is not this worker's any more."""
        self._places.append(claiming.place)
        return self._table.end_claim(claiming.place, claiming.op.counter)
