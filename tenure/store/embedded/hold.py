"""While a backup reads blobs none is deleted: it holds `<name>-mark` locked, and the store looks before it deletes.

A backup locks first and copies the file then. The store deletes what has no holder on disk, if it finds no lock. So
either the deletion waits until the backup is done, or the copy is the younger one and does not name the blob. The lock
goes with the process that has it.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.core.error import Unavailable

TRIES = 500
PAUSE_S = 0.01  # a store that looks is done in less


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Of the store whose file that is. Several may."""
    try:
        mark = os.open(f"{path}-mark", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{path}-mark cannot be opened: {error.strerror}; check its owner and mode") from error
    try:
        _lock(path, mark)
        yield
    finally:
        os.close(mark)


def _lock(path: Path, mark: int) -> None:
    for _ in range(TRIES):
        try:
            return fcntl.flock(mark, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE_S)
    raise Unavailable(f"{path}-mark is locked; a process that has {path} open is stopped: let it go on, or end it")


def is_held(mark: int) -> bool:
    """Whether a backup reads the blobs."""
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(mark, fcntl.LOCK_UN)
    return False
