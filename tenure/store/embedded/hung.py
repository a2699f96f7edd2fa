"""Ending a process that hangs in the middle of a commit.

An owner that hangs is passed over by raising the epoch. That needs SQLite's lock, and a process that was stopped, or
frozen, while it held it never gives it back; nor would its half of a commit be safe to overtake. Then, and only then,
it is ended. Nothing that it answered is lost, for that was committed.
"""

import logging
import os
import select
import signal
from contextlib import suppress

WAIT_MS = 5_000

log = logging.getLogger("tenure")


def end_process(pid: int, lock: str) -> bool:
    """End the process if it is the one that has the file of owners open; whether it is gone."""
    if not hasattr(os, "pidfd_open") or pid in (0, os.getpid()):
        return False
    try:
        handle = os.pidfd_open(pid)  # from here on the number means this process and no later one
    except OSError:
        return True
    try:
        if not _has_open(pid, lock):
            return False
        log.warning("process %d has not answered and holds the lock on %s: it is ended", pid, lock)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        return bool(poll.poll(WAIT_MS))
    except PermissionError:
        return False
    finally:
        os.close(handle)


def _has_open(pid: int, path: str) -> bool:
    wanted = os.stat(path)
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return True
    return False
