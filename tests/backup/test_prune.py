"""Pruning a place, and that no backup made meanwhile is harmed by it."""

import os
import shutil
from pathlib import Path

import pytest

from tenure.client.clock import read_clock
from tenure.core.error import Unavailable
from tenure.ops.backup import Run, back_up
from tenure.ops.catalog import list_backups, list_chunks, object_of
from tenure.ops.manifest import GONE
from tenure.ops.place import Place, open_place
from tenure.ops.prune import prune
from tenure.ops.retention import GRACE_MS, Rules
from tenure.ops.verify import verify_place
from tests.backup.rig import Clock, FailingFolder, fill

KEEP_ONE = Rules(keep=1)


def clock_of_now() -> Clock:
    """Objects get the real time from their place."""
    return Clock(read_clock().wall_ms)


async def make_backups(place: Place, path: Path, clock: Clock, count: int) -> list[str]:
    names: list[str] = []
    for number in range(count):
        await fill(path, 300, seed=number)
        names.append(back_up(Run(path, place, clock)).manifest.name)
        clock.pass_time(1_000)
    return names


async def test_backups_go_at_once_and_their_chunks_after_the_grace_time(place: Place, tmp_path: Path) -> None:
    clock = clock_of_now()
    names = await make_backups(place, tmp_path / "jobs.db", clock, 3)
    chunks = len(list_chunks(place))
    pruned = prune(place, KEEP_ONE, clock.now.wall_ms)
    assert (pruned.backups, pruned.objects) == (names[:2], 0)
    assert [entry.name for entry in list_backups(place)] == names[2:]
    assert len(list_chunks(place)) == chunks
    clock.pass_time(GRACE_MS + 60_000)
    pruned = prune(place, KEEP_ONE, clock.now.wall_ms)
    assert pruned.backups == []
    assert pruned.objects > 0
    assert len(list_chunks(place)) == chunks - pruned.objects
    assert place.list(GONE) == []
    assert verify_place(place).findings == []


async def test_backup_that_goes_on_while_others_prune_is_whole(tmp_path: Path) -> None:
    """It counts on chunks of a backup that is pruned under it, and takes as long as it may."""
    path, later, root = tmp_path / "jobs.db", tmp_path / "later.db", tmp_path / "backups"
    place = open_place(str(root), create=True)
    clock = clock_of_now()
    await make_backups(place, path, clock, 1)
    shutil.copyfile(path, later)
    await fill(later, 3_000, seed=9)
    for chunk in (root / "chunks").iterdir():
        os.utime(chunk, (1, 1))

    def interfere(what: str, done_bytes: int, total_bytes: int) -> None:
        if what == "copying" and done_bytes == total_bytes:
            assert back_up(Run(later, place, clock)).new_chunks > 0
            assert len(prune(place, KEEP_ONE, clock.now.wall_ms).backups) == 1
            clock.pass_time(GRACE_MS // 2)
            prune(place, KEEP_ONE, clock.now.wall_ms)

    made = back_up(Run(path, place, clock, progress=interfere))
    assert made.new_chunks == 0
    assert len(list_backups(place)) == 2
    assert verify_place(place).findings == []


async def test_what_a_cut_off_backup_left_goes_after_the_grace_time(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    clock = clock_of_now()
    await make_backups(place, tmp_path / "jobs.db", clock, 1)
    await fill(tmp_path / "jobs.db", 3_000, seed=9)
    with pytest.raises(Unavailable, match="takes nothing more"):
        back_up(Run(tmp_path / "jobs.db", FailingFolder(tmp_path / "backups", 3), clock))
    (tmp_path / "backups" / "partial" / "0123456789abcdef").write_bytes(b"half")
    assert prune(place, KEEP_ONE, clock.now.wall_ms).objects == 0
    assert prune(place, KEEP_ONE, clock.now.wall_ms + GRACE_MS + 60_000).objects == 4
    assert verify_place(place).findings == []


async def test_newest_whole_backup_survives_newer_ones_that_lost_a_chunk(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    clock = clock_of_now()
    path = tmp_path / "jobs.db"
    names = await make_backups(place, path, clock, 2)
    await fill(path, 3_000, seed=9)
    last = back_up(Run(path, place, clock))
    place.delete([last.manifest.chunks[-1].object])
    assert prune(place, KEEP_ONE, clock.now.wall_ms).backups == names[:1]
    assert [entry.name for entry in list_backups(place)] == [names[1], last.manifest.name]


async def test_no_chunk_goes_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    place = open_place(str(tmp_path / "backups"), create=True)
    clock = clock_of_now()
    names = await make_backups(place, tmp_path / "jobs.db", clock, 3)
    place.put(object_of(names[0]), b"{}")
    clock.pass_time(2 * GRACE_MS)
    chunks = list_chunks(place).keys()
    for _ in range(2):
        pruned = prune(place, KEEP_ONE, clock.now.wall_ms)
        assert pruned.objects == 0
        assert len(pruned.unreadable) == 1
        assert names[0] in pruned.unreadable[0]
        assert list_chunks(place).keys() == chunks
    place.delete([object_of(names[0])])
    clock.pass_time(2 * GRACE_MS)
    assert prune(place, KEEP_ONE, clock.now.wall_ms).objects > 0
