"""A server as people start it: `python -m tenure serve`, in a process of its own."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

START_S: Final = 60.0
LISTENING: Final = re.compile(r"listening on (\S+):(\d+)")
QUIET: Final = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
# Beside other servers, and read by a program.
ALONE = {"TENURE_HTTP_PORT": "0", "TENURE_GRPC_PORT": "0", "COLUMNS": "200", "TERM": "dumb"}


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []
        self.port = 0

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self.port)

    @property
    def output(self) -> str:
        return "\n".join(self.said)

    async def until_listening(self) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(START_S):
            while line := (await self.process.stdout.readline()).decode():
                self.said.append(line.rstrip())
                found = LISTENING.search(line)
                if found:
                    self.port = int(found[2])
                    return
        raise AssertionError(self.output)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        """Its exit code, when it ends by itself or was told to: told twice, it may die of it in its last moment."""
        async with asyncio.timeout(START_S):
            rest, _ = await self.process.communicate()
        self.said += rest.decode().splitlines()
        assert self.process.returncode is not None
        return self.process.returncode

    def memory_kb(self) -> int:
        """What it has in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1])


async def start(
    *arguments: str, folder: Path, store: str = "sqlite:///jobs.db", environment: dict[str, str] | None = None
) -> Process:
    given = ["--store", store] if store else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tenure", "serve", *given, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**QUIET, **ALONE, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
    )
    return Process(process)


@asynccontextmanager
async def running(
    folder: Path,
    *arguments: str,
    store: str = "sqlite:///jobs.db",
    environment: dict[str, str] | None = None,
    port: str = "0",
) -> AsyncIterator[Process]:
    """A port of the system's choice, unless it is given otherwise."""
    where = ("--tcp-port", port) if port else ()
    process = await start(*where, *arguments, folder=folder, store=store, environment=environment)
    try:
        await process.until_listening()
        yield process
    finally:
        if process.process.returncode is None:
            await process.stop(signal.SIGKILL)
