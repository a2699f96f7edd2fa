"""The worker's side of its keeper: the table of leases, and the process that renews them."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator

import msgspec

from tenure.worker.attempt import Attempt
from tenure.worker.table import TOKEN_MAX, Table

log = logging.getLogger("tenure.worker")

RESTART_S = 1.0
STOP_S = 2.0


class Told(msgspec.Struct):
    """What a keeper has to know; by its input, since others can read its arguments."""

    url: str
    token: str
    tenant: str
    tenants: list[str]
    worker: str
    descriptor: int
    records: int


class Keeping:
    def __init__(self, url: str, token: str, tenant: str, tenants: list[str], worker: str, records: int) -> None:
        self._table = Table.make(records)
        self._told = Told(url, token, tenant, tenants, worker, self._table.descriptor, records)
        self._free = list(range(records))
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

    def hold(self, attempt: Attempt) -> None:
        if not self._free or len(attempt.token) > TOKEN_MAX:
            return  # more than were foreseen: the loop renews them
        attempt.slot = self._free.pop()
        self._uses += 1
        self._held[attempt.slot] = attempt
        self._table.take(attempt.slot, attempt.id, attempt.lease_ms, self._uses, attempt.token)

    def drop(self, attempt: Attempt) -> None:
        if attempt.slot >= 0:
            self._table.leave(attempt.slot)
            del self._held[attempt.slot]
            self._free.append(attempt.slot)
            attempt.slot = -1

    def lost(self) -> Iterator[Attempt]:
        for at, attempt in list(self._held.items()):
            if self._table.is_lost(at):
                yield attempt
