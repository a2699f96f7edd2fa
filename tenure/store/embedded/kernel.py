"""Syncs that the kernel does by itself, and tells the loop of: no thread of ours waits for the disk, or is waited for.

Linux has this for any file (`io_submit` with FDSYNC). Where there is no such thing, or it must not be asked for, there
is the writer's thread.
"""

import asyncio
import os
from collections.abc import Callable

from tenure.store.embedded.log import Log

try:
    from caio.linux_aio import Context, Operation
except ImportError:  # another system, or one that forbids it
    HAS_KERNEL = False
else:
    HAS_KERNEL = True

Done = Callable[[OSError | None], None]

# To give a context back to the system takes 30 ms, and as long as its sync.
_free: list["Context"] = []
_hung: list["Context"] = []

if HAS_KERNEL:
    os.register_at_fork(after_in_child=_free.clear)  # they are the parent's


class Kernel:
    """One sync at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = _free.pop() if _free else Context(max_requests=1)
        self._done: Done | None = None  # whom to tell
        loop.add_reader(self._context.fileno, self._look)

    def sync(self, log: Log, done: Done) -> None:
        """Begin one; `done` is called by the loop. Raises when it cannot be begun."""
        operation = Operation.fdsync(log.handle())
        operation.set_callback(self._tell)
        self._context.submit(operation)
        self._done = done

    def _look(self) -> None:
        self._context.poll()
        self._context.process_events(1)

    def _tell(self, result: int) -> None:
        done, self._done = self._done, None
        if done is not None:
            code = (1 << 64) - result if result else 0  # a negative number, read as if it had no sign
            done(OSError(code, os.strerror(code)) if code else None)

    def close(self) -> None:
        self._loop.remove_reader(self._context.fileno)
        (_free if self._done is None else _hung).append(self._context)
        self._done = None


def kernel(loop: asyncio.AbstractEventLoop, log: Log) -> Kernel | None:
    """None where the kernel cannot be asked."""
    if not HAS_KERNEL or not log.is_plain:
        return None
    try:
        return Kernel(loop)
    except (OSError, SystemError, NotImplementedError):  # the system has given out all of them; the loop has no readers
        return None
