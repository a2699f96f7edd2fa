"""The books find what is wrong: a store that answers before it is safe, and a disk that forgets."""

from pathlib import Path
from unittest import mock

from tenure.store.embedded.log import Log
from tests.crash.disk import Disk, DiskFile
from tests.crash.power import campaign

FSYNC_SEED = 0


def never_sync(_log: Log) -> None:
    """Answer all the same."""


async def test_answers_before_the_sync_are_found(tmp_path: Path) -> None:
    with mock.patch.object(Log, "sync", never_sync):
        total = await campaign(FSYNC_SEED, 60, tmp_path)
    assert total.lost > 0


def forget(_disk: Disk, _name: str, _file: DiskFile) -> None:
    """Say that it is on disk, and do nothing."""


async def test_a_disk_that_lies_is_found(tmp_path: Path) -> None:
    with mock.patch.object(Disk, "sync", forget):
        total = await campaign(FSYNC_SEED, 60, tmp_path)
    assert total.lost > 0
