"""Tasks at the top of a module, where another process finds them."""

import asyncio
import ctypes
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import tenure

app = tenure.App("memory://")


@app.task(run="process")
def square(n: int) -> int:
    return n * n


@app.task(run="process")
async def square_later(n: int) -> int:
    return n * n


@app.task(run="process")
def speak(ctx: tenure.Context) -> list[Any]:
    ctx.log("from a process")
    logging.getLogger("mine").warning("too")
    ctx.progress(10)
    ctx.emit(1)
    ctx.enqueue(square.bind(3))
    return [ctx.job.id, ctx.job.tags, ctx.attempt, os.getpid()]


@app.task(run="process", max_attempts=1)
def raises(kind: str) -> None:
    raise {"value": ValueError, "exit": SystemExit, "permanent": tenure.Permanent}[kind]("said")


@app.task(run="process", max_attempts=1)
def dies(how: str) -> None:
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    ctypes.string_at(0)


@app.task(run="process", max_attempts=1)
def forks() -> int:
    """Leaves a child behind that holds everything that it inherited."""
    if os.fork() == 0:
        time.sleep(5)
        os._exit(0)
    return 1


@app.task(run="process")
def runs_long(file: str) -> None:
    try:
        Path(file).write_text("started")
        time.sleep(3600)
    finally:
        Path(file).write_text("stopped")


@app.task(run="process")
def stubborn(file: str) -> None:
    while True:
        try:
            Path(file).write_text("started")
            time.sleep(3600)
        except BaseException:
            pass


kept: list[bytes] = []


@app.task(run="process")
def leaks(megabytes: int) -> int:
    kept.append(bytes(1024 * 1024) * megabytes)
    return os.getpid()


def session() -> Iterator[str]:
    yield f"session of {os.getpid()}"


@app.task(run="process")
def depends(db: str = tenure.Depends(session)) -> tuple[str, int]:
    return db, os.getpid()


@app.task(run="process")
def odd_result() -> Any:
    return object()


@app.task(lease="1s")
async def blocks_the_loop(seconds: float) -> str:
    """Nothing else runs in this loop meanwhile."""
    time.sleep(seconds)
    return "done"


@app.task(lease="1s")
def holds_the_interpreter(seconds: float) -> str:
    """Nothing else runs in this process meanwhile: `PyDLL` keeps the lock of the interpreter."""
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return "done"


@app.task(lease="1s", max_attempts=2, backoff=tenure.Backoff.fixed(0))
def sleeps_in_a_thread(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


@app.task(queue="count", lease="1s", remove_on_complete=True, max_attempts=5)
async def count(number: int, file: str) -> None:
    """Notes that it ran, in one write that nobody else's can come between."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, b"%d\n" % number)
    finally:
        os.close(handle)
    await asyncio.sleep(0)


@app.task(run="process", max_attempts=1)
def odd_progress(ctx: tenure.Context) -> str:
    ctx.progress(33.3)  # type: ignore[arg-type]
    return "odd"


@app.task(run="process", max_attempts=1)
def forks_and_returns() -> str:
    """Both come back from here."""
    os.fork()
    return "forked"


@app.task(run="process", max_attempts=1)
def dies_and_leaves_a_child() -> None:
    """The child holds the socket of its parent open."""
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


opened: list[str] = []


async def opening() -> AsyncIterator[list[str]]:
    opened.append("open")
    yield opened
    opened.append("closed")


@app.task(run="process")
def depends_on_generator(found: list[str] = tenure.Depends(opening)) -> list[str]:
    return list(found)


misnamed = tenure.App("memory://")


def plain() -> None: ...


another_name = misnamed.task(run="process")(plain)
