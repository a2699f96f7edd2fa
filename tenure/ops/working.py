"""A working copy of a store's file, on a local disk for as long as it is needed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.core.error import Unavailable
from tenure.ops.error import Refused
from tenure.ops.progress import Progress
from tenure.store.embedded.copy import copy_file
from tenure.store.embedded.file import lock_file


@contextmanager
def working_copy(source: Path, purpose: str, scratch: Path | None, progress: Progress) -> Iterator[Path]:
    """The file as it is now, beside it or in the folder `scratch`.

    There is one for each purpose, under a fixed name: what a killed process left is written over by the next.
    """
    try:
        size_bytes = source.stat().st_size + _size_of(Path(f"{source}-wal"))
    except OSError as error:
        raise Unavailable(f"{source} cannot be read: {error.strerror}; name the store's file") from error
    path = (scratch or source.absolute().parent) / f"{source.name}-{purpose}"
    descriptor = _claim(path, source, purpose)
    try:
        os.ftruncate(descriptor, 0)
        free_bytes = shutil.disk_usage(path.parent).free
        if free_bytes < size_bytes:
            raise Unavailable(
                f"{path.parent} has {free_bytes} bytes free and a copy of {source} may need {size_bytes};"
                " free some, or name another folder with --scratch"
            )
        copy_file(source, path, lambda done, total: progress("copying", done, total))
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _claim(path: Path, source: Path, purpose: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"{path} cannot be made: {error.strerror}; name another folder with --scratch") from error
    # Without a name it is the one that another process has just done with.
    if not lock_file(descriptor) or os.fstat(descriptor).st_nlink == 0:
        os.close(descriptor)
        raise Refused(f"another process makes a copy of {source} ({purpose}); wait until it is done")
    return descriptor
