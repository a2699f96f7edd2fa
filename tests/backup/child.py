"""`python -m tests.backup.child FOLDER`: restores over a store, killed at each of its steps on the disk in turn.

FOLDER has `backups`, and in `before` the store (`jobs.db`, `blobs`) that is replaced. After every kill the store is
opened, and a line says which one it was: the contents of its jobs, in order. If it was the old one, the next restore
leaves no blobs but those it needs. Each part is a process of its own.
"""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tenure.client.client import connect
from tenure.client.clock import read_clock
from tenure.ops.place import open_place
from tenure.ops.restore import restore
from tenure.ops.verify import verify_file
from tenure.store.blob.folder import Folder

STEPS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.truncate"})
STEPS_MAX = 500


def in_a_process(work: Callable[[], None]) -> int:
    """How it ended: 0, or less than that for a signal."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            sys.stdout.flush()
            os._exit(0)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_at(step: int, folder: Path) -> None:
    """At the step of this number that has to do with the folder."""
    left = step
    prefix = str(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in STEPS and str(arguments[0]).startswith(prefix):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def restore_in(folder: Path, step: int) -> None:
    work = folder / "work"
    place = open_place(str(folder / "backups"))
    kill_at(step, work)
    restore(place, work / "jobs.db", read_clock, force=True, blobs=Folder(work / "blobs"))


def restore_again(folder: Path) -> None:
    restore_in(folder, 0)
    homes = {path.parent for path in (folder / "work" / "blobs").glob("restored-*/*")}
    assert len(homes) == 1, homes


def look(path: Path) -> None:
    asyncio.run(_look(path))
    assert verify_file(path / "jobs.db").findings == []


async def _look(path: Path) -> None:
    async with connect(f"sqlite:///{path / 'jobs.db'}?blobs={path / 'blobs'}") as client:
        found = await client.claim("work", n=10)
        print(" ".join(sorted(held.payload.split()[0].decode() for held in found)))


def run(folder: Path) -> None:
    for step in range(1, STEPS_MAX):
        shutil.rmtree(folder / "work", ignore_errors=True)
        shutil.copytree(folder / "before", folder / "work")
        old = (folder / "work" / "jobs.db").stat().st_ino
        ended = in_a_process(partial(restore_in, folder, step))
        assert ended in (0, -signal.SIGKILL), ended
        is_old = (folder / "work" / "jobs.db").stat().st_ino == old
        assert in_a_process(lambda: look(folder / "work")) == 0
        if is_old:
            assert in_a_process(lambda: restore_again(folder)) == 0
        if ended == 0:
            return
    raise AssertionError("it does not end")


if __name__ == "__main__":
    run(Path(sys.argv[1]))
