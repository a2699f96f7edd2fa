"""Backups of stores whose large payloads and results are beside the file, and stores made of them."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from threading import Event
from uuid import uuid4

import pytest

import tenure
from tenure.client.clock import read_clock
from tenure.core.error import Unavailable
from tenure.ops.backup import Made, Run, back_up
from tenure.ops.catalog import list_backups, list_blobs, object_of
from tenure.ops.error import BackupDamaged, Refused
from tenure.ops.manifest import write
from tenure.ops.place import PART_BYTES, Place, open_place
from tenure.ops.prune import prune
from tenure.ops.restore import restore
from tenure.ops.retention import GRACE_MS, Rules
from tenure.ops.verify import verify_file, verify_place
from tenure.store.blob.folder import Folder
from tenure.store.blob.place import open_place as open_blobs
from tenure.store.embedded.home import OWNER
from tests.backup.rig import BUCKET, ROOT, Clock, FailingFolder, Wire, environment, run_command

CAP = 100
MINUTE_MS = 60_000


def content_of(word: str, size_bytes: int = 3_000) -> bytes:
    return (word.encode() + b" " + Random(word).randbytes(size_bytes))[:size_bytes]


class Yard:
    """Files of stores in one folder, the place of their blobs, and one for backups."""

    def __init__(self, folder: Path, blobs: str, place: Place) -> None:
        self.folder = folder
        self.blobs = blobs
        self.place = place
        self.clock = Clock(read_clock().wall_ms)

    def path(self, name: str = "jobs") -> Path:
        return self.folder / f"{name}.db"

    @asynccontextmanager
    async def open(self, name: str = "jobs") -> AsyncIterator[tenure.Client]:
        async with tenure.connect(f"sqlite:///{self.path(name)}?blobs={self.blobs}&durability=write") as client:
            await client.configure("store", "", payload_bytes_max=CAP)
            yield client

    async def add(self, *words: str, name: str = "jobs") -> list[int]:
        async with self.open(name) as client:
            return [(await client.enqueue(content_of(word), queue="work")).id for word in words]

    async def remove(self, *ids: int, name: str = "jobs") -> None:
        async with self.open(name) as client:
            for id in ids:
                await client.remove(id)

    async def payloads(self, name: str = "jobs") -> list[bytes]:
        async with self.open(name) as client:
            ids = [job.id for job in (await client.find()).jobs]
            return [(await client.get(id)).payload for id in ids]

    async def has(self, *words: str, name: str = "jobs") -> bool:
        return sorted(await self.payloads(name)) == sorted(map(content_of, words))

    def back_up(self, progress: Callable[[str, int, int], None] = lambda *told: None) -> Made:
        self.clock.pass_time(MINUTE_MS)
        run = Run(self.path(), self.place, self.clock, progress=progress, blobs=open_blobs(self.blobs))
        return back_up(run)

    def restore(self, name: str = "again", at_ms: int | None = None, force: bool = False) -> str:
        blobs = open_blobs(self.blobs)
        return restore(self.place, self.path(name), read_clock, at_ms, force, blobs=blobs).blobs_in


@pytest.fixture
def yard(request: pytest.FixtureRequest, tmp_path: Path, place: Place) -> Yard:
    """With blobs in the same kind of place as backups."""
    is_remote = place.title.startswith("s3:")
    return Yard(tmp_path, f"s3://{BUCKET}/{uuid4().hex}" if is_remote else str(tmp_path / "blobs"), place)


@pytest.fixture
def folders(tmp_path: Path) -> Yard:
    return Yard(tmp_path, str(tmp_path / "blobs"), open_place(str(tmp_path / "backups"), create=True))


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def grow_old(folder: Path) -> None:
    for path in files_in(folder):
        os.utime(path, (1, 1))


async def test_payloads_and_results_come_back(yard: Yard) -> None:
    await yard.add("a", "b")
    async with yard.open() as client:
        [held, _] = await client.claim("work", n=2)
        await client.complete(held, content_of("result"))
        made = yard.back_up()
    assert (made.new_blobs, made.manifest.lost) == (3, [])
    assert {blob.size_bytes for blob in made.manifest.blobs} == {3_000}
    assert verify_place(yard.place).findings == []
    assert "restored-" in yard.restore()
    assert verify_file(yard.path("again")).findings == []
    assert await yard.has("a", "b", name="again")
    async with yard.open("again") as client:
        assert (await client.get(held.id)).result == content_of("result")


async def test_blob_is_sent_once(yard: Yard) -> None:
    await yard.add("a", "b", "a")
    assert yard.back_up().new_blobs == 2
    assert yard.back_up().new_blobs == 0
    await yard.add("c")
    third = yard.back_up()
    assert (third.new_blobs, len(third.manifest.blobs)) == (1, 3)
    assert len(list_blobs(yard.place)) == 3


async def test_blob_that_only_an_older_backup_names_is_not_sent_again(folders: Yard) -> None:
    """Its content had left the store for a while."""
    [a, _] = await folders.add("a", "b")
    folders.back_up()
    await folders.remove(a)
    folders.back_up()
    grow_old(folders.folder / "backups" / "blobs")
    await folders.add("a")
    made = folders.back_up()
    assert (made.new_blobs, len(made.manifest.blobs)) == (0, 2)
    assert verify_place(folders.place).findings == []


async def test_restored_store_goes_on_with_the_blobs_of_its_backups(folders: Yard) -> None:
    await folders.add("a", "b")
    folders.back_up()
    for number in range(2):
        grow_old(folders.folder / "backups" / "blobs")
        folders.restore("jobs", force=True)
        await folders.add(f"more{number}")
        assert folders.back_up().new_blobs == 1
    folders.restore()
    assert await folders.has("a", "b", "more0", "more1", name="again")


async def test_point_in_time(yard: Yard) -> None:
    times: list[int] = []
    ids: list[int] = []
    for word in ("a", "b", "c"):
        ids += await yard.add(word)
        times.append(yard.back_up().manifest.at)
    await yard.remove(*ids)
    yard.back_up()
    for at_ms, words in zip(times, (["a"], ["a", "b"], ["a", "b", "c"]), strict=True):
        yard.restore("again", at_ms, force=True)
        assert await yard.has(*words, name="again")
    yard.restore("again", force=True)
    assert await yard.has(name="again")


async def test_neither_store_harms_the_blobs_of_the_other(yard: Yard) -> None:
    """Both are at work in the same place: the old one, and the one made of its backup, with jobs of the same names."""
    ids = await yard.add("a", "b", "c")
    yard.back_up()
    yard.restore()
    await yard.remove(ids[0])
    assert await yard.has("b", "c")
    assert await yard.has("a", "b", "c", name="again")
    await yard.remove(ids[1], name="again")
    async with yard.open() as old, yard.open("again") as new:
        await old.remove(ids[2])
        for client in (old, new):
            await client.enqueue(content_of("new"), queue="work")
    assert await yard.has("b", "new")
    assert await yard.has("a", "c", "new", name="again")


async def test_blob_that_is_missing_or_damaged_in_a_backup_is_named(yard: Yard) -> None:
    await yard.add("a", "b", "c", "d")
    blobs = yard.back_up().manifest.blobs
    lost, cut, long, other = (blob.object for blob in blobs)
    place = yard.place
    place.delete([lost])
    place.put(cut, place.get(cut)[:-1])
    place.put(long, place.get(long) + b"more")
    place.put(other, bytes(3_000))
    size = "it has not the 3000 bytes that were stored"
    checked = verify_place(place)
    assert checked.blobs == 4
    assert sorted(checked.findings) == sorted(
        [
            f"{place.title}: {lost} is missing; restore a backup without it",
            f"{place.title}: {cut} is damaged: {size}; restore a backup without it",
            f"{place.title}: {long} is damaged: {size}; restore a backup without it",
            f"{place.title}: {other} is damaged: its content is not what its name says; restore a backup without it",
        ]
    )


async def test_wrong_content_is_not_restored_and_nothing_is_left(yard: Yard) -> None:
    await yard.add("a", "b")
    blob = yard.back_up().manifest.blobs[1].object
    before = sorted([name async for names in open_blobs(yard.blobs).names() for name in names])
    content = yard.place.get(blob)
    yard.place.put(blob, bytes(3_000))
    with pytest.raises(BackupDamaged, match=f"{blob} is damaged"):
        yard.restore()
    yard.place.delete([blob])
    with pytest.raises(BackupDamaged, match=f"{blob} is missing"):
        yard.restore()
    assert not yard.path("again").exists()
    left = sorted([name async for names in open_blobs(yard.blobs).names() for name in names])
    assert [name for name in left if not name.startswith("restored-")] == before
    if not yard.blobs.startswith("s3:"):
        assert [path.parent.name for path in files_in(Path(yard.blobs))] == ["blobs"] * 3
    yard.place.put(blob, content)
    assert yard.back_up().new_blobs == 0
    yard.restore()
    assert await yard.has("a", "b", name="again")


async def test_blob_that_was_lost_from_the_backups_is_sent_again(yard: Yard) -> None:
    await yard.add("a", "b")
    blobs = yard.back_up().manifest.blobs
    yard.place.delete([blobs[0].object])
    assert yard.back_up().new_blobs == 1
    yard.restore()
    assert await yard.has("a", "b", name="again")


async def test_pruning_keeps_what_a_kept_backup_names(yard: Yard) -> None:
    [a, *_] = await yard.add("a", "shared")
    yard.back_up()
    await yard.remove(a)
    await yard.add("b")
    kept = yard.back_up().manifest
    rules = Rules(keep=1)
    assert len(prune(yard.place, rules, yard.clock.now.wall_ms).backups) == 1
    assert len(list_blobs(yard.place)) == 3
    yard.clock.pass_time(GRACE_MS + MINUTE_MS)
    assert prune(yard.place, rules, yard.clock.now.wall_ms).objects > 0
    assert list_blobs(yard.place).keys() == {blob.object for blob in kept.blobs}
    assert verify_place(yard.place).findings == []
    yard.restore()
    assert await yard.has("shared", "b", name="again")


async def test_backup_without_one_of_its_blobs_is_not_whole(folders: Yard) -> None:
    """Pruning keeps the newest that is."""
    await folders.add("a")
    whole = folders.back_up().manifest
    await folders.add("b")
    newest = folders.back_up().manifest
    folders.place.delete([blob.object for blob in newest.blobs if blob not in whole.blobs])
    assert prune(folders.place, Rules(keep=1), folders.clock.now.wall_ms).backups == []


async def test_blobs_that_a_running_backup_counts_on_are_not_pruned(folders: Yard) -> None:
    """The only backup that names them is pruned under it, and it takes as long as it may."""
    async with folders.open():
        pass
    shutil.copyfile(folders.path(), folders.path("early"))
    await folders.add("a")
    first = folders.back_up().manifest
    grow_old(folders.folder / "backups")
    pruned: list[str] = []

    def interfere(what: str, done_bytes: int, total_bytes: int) -> None:
        if what == "sending" and not pruned:
            back_up(Run(folders.path("early"), folders.place, folders.clock))
            pruned.extend(prune(folders.place, Rules(keep=1), folders.clock.now.wall_ms).backups)
            folders.clock.pass_time(GRACE_MS // 2)
            prune(folders.place, Rules(keep=1), folders.clock.now.wall_ms)

    made = folders.back_up(interfere)
    assert pruned == [first.name]
    assert made.new_blobs == 0
    assert verify_place(folders.place).findings == []


async def test_blob_is_not_deleted_while_a_backup_reads(folders: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job is removed after the copy was made; it goes when the backup is done."""
    monkeypatch.setattr("tenure.store.embedded.shelf.RETRY_S", 0.01)
    is_copied, is_removed = Event(), Event()

    def wait(what: str, done_bytes: int, total_bytes: int) -> None:
        if what == "copying" and done_bytes == total_bytes:
            is_copied.set()
            assert is_removed.wait(30)

    async with folders.open() as client:
        job = await client.enqueue(content_of("a"), queue="work")
        backing = asyncio.ensure_future(asyncio.to_thread(folders.back_up, wait))
        assert await asyncio.to_thread(is_copied.wait, 30)
        await client.remove(job.id)
        is_removed.set()
        made = await backing
        assert (made.new_blobs, made.manifest.lost) == (1, [])
        blob = folders.folder / "blobs" / made.manifest.blobs[0].name
        async with asyncio.timeout(30):
            while blob.exists():
                await asyncio.sleep(0)
    folders.restore()
    assert await folders.has("a", name="again")


async def test_store_without_its_place_of_blobs_is_not_backed_up(folders: Yard) -> None:
    async with folders.open():
        pass
    back_up(Run(folders.path(), folders.place, folders.clock))
    await folders.add("a")
    folders.clock.pass_time(MINUTE_MS)
    with pytest.raises(Refused, match=r"has 1 payloads or results in a blob store; .*\?blobs="):
        back_up(Run(folders.path(), folders.place, folders.clock))
    with pytest.raises(Unavailable, match="does not have the blobs of this store"):
        back_up(Run(folders.path(), folders.place, folders.clock, blobs=Folder(folders.folder / "empty")))
    assert len(list_backups(folders.place)) == 1


async def test_backup_with_blobs_is_not_restored_without_a_place_for_them(folders: Yard) -> None:
    await folders.add("a")
    folders.back_up()
    with pytest.raises(Refused, match=r"has 1 blobs; name a place for them .*again\.db\?blobs="):
        restore(folders.place, folders.path("again"), read_clock)
    assert not folders.path("again").exists()


async def test_restored_store_takes_the_place_of_the_old_one_also_without_blobs(folders: Yard) -> None:
    async with folders.open() as client:
        await client.enqueue(b"small", queue="work")
    folders.back_up()
    restore(folders.place, folders.path("again"), read_clock)
    await folders.add("a", name="again")
    assert await folders.payloads("again") == [b"small", content_of("a")]


async def test_backup_that_does_not_name_all_its_blobs_is_not_restored(folders: Yard) -> None:
    await folders.add("a", "b")
    made = folders.back_up().manifest
    made.blobs.pop()
    folders.place.put(object_of(made.name), write(made))
    with pytest.raises(BackupDamaged, match="lacks 1 blobs of its jobs"):
        folders.restore()


async def test_store_that_has_lost_a_blob_is_backed_up_and_says_so(folders: Yard) -> None:
    ids = await folders.add("a", "b")
    [lost] = [path for path in files_in(folders.folder / "blobs") if path.read_bytes() == content_of("a")]
    lost.unlink()
    made = folders.back_up()
    assert (made.new_blobs, made.manifest.lost) == (1, [lost.name])
    folders.restore()
    async with folders.open("again") as client:
        job = await client.get(ids[0])
        assert job.payload_blob is not None
        assert job.payload_blob.absent == "missing"
        [held] = await client.claim("work", n=2)
        assert held.payload == content_of("b")


async def test_blob_that_the_store_lost_comes_back_from_a_backup(folders: Yard) -> None:
    await folders.add("a", "b")
    folders.back_up()
    [lost, damaged] = [path for path in files_in(folders.folder / "blobs") if path.name != OWNER]
    lost.unlink()
    damaged.write_bytes(b"damage")
    made = folders.back_up()
    assert (made.new_blobs, made.manifest.lost) == (0, [])
    folders.restore()
    assert await folders.has("a", "b", name="again")


async def test_progress_counts_blobs(folders: Yard) -> None:
    await folders.add("a", "b")
    told: list[tuple[str, int, int]] = []
    made = folders.back_up(lambda *each: told.append(each)).manifest
    total = made.size_bytes + 6_000
    sending = [(done, of) for what, done, of in told if what == "sending"]
    assert sending[0] == (3_000, total)
    assert sending[-1] == (total, total)
    told.clear()
    restore(
        folders.place,
        folders.path("again"),
        read_clock,
        progress=lambda *each: told.append(each),
        blobs=open_blobs(folders.blobs),
    )
    fetching = [(done, of) for what, done, of in told if what == "fetching"]
    assert fetching[-1] == (total, total)
    assert (made.size_bytes, total) in fetching
    told.clear()
    checked = verify_place(folders.place, lambda *each: told.append(each))
    assert told[-1] == ("checking", checked.size_bytes, checked.size_bytes)
    assert checked.size_bytes > 6_000


@pytest.mark.slow
async def test_backup_cut_off_at_any_object_is_none(folders: Yard) -> None:
    await folders.add("a", "b", "c")
    objects = sum(1 for _ in folders.back_up().manifest.objects())
    for sent in range(objects + 1):
        root = folders.folder / f"cut-{sent}"
        blobs = open_blobs(folders.blobs)
        with pytest.raises(Unavailable, match="takes nothing more"):
            back_up(Run(folders.path(), FailingFolder(root, sent), read_clock, blobs=blobs))
        place = open_place(str(root))
        assert list_backups(place) == []
        made = back_up(Run(folders.path(), place, read_clock, blobs=blobs))
        assert made.new_blobs == 3 - min(sent, 3)
        assert verify_place(place).findings == []


@pytest.mark.slow
@pytest.mark.parametrize("bytes_max", [1_000_000, 12_000_000, 16_500_000])
async def test_large_blob_cut_off_half_way_is_not_there(
    bytes_max: int, bucket: str, s3_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes in parts."""
    yard = Yard(tmp_path, str(tmp_path / "blobs"), open_place(bucket))
    large = content_of("large", 2 * PART_BYTES + 1_000)
    async with yard.open() as client:
        job = await client.enqueue(large, queue="work")
    wire = Wire(s3_port, bytes_max)
    try:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{wire.port}")
        cut = open_place(bucket, patience_s=0.3)
        with pytest.raises(Unavailable, match="cannot be used"):
            back_up(Run(yard.path(), cut, read_clock, blobs=open_blobs(yard.blobs)))
        assert wire.cuts > 0
    finally:
        wire.close()
    assert list_blobs(yard.place) == {}
    assert list_backups(yard.place) == []
    assert yard.back_up().new_blobs == 1
    assert verify_place(yard.place).findings == []
    yard.restore()
    async with yard.open("again") as client:
        assert (await client.get(job.id)).payload == large


@pytest.mark.slow
async def test_restore_cut_off_half_way_leaves_no_store(
    bucket: str, s3_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place of its blobs is gone after the first; what it brought is cleared by the next one."""
    yard = Yard(tmp_path, f"s3://{BUCKET}/{uuid4().hex}", open_place(str(tmp_path / "backups"), create=True))
    async with yard.open() as client:
        for number in range(4):
            await client.enqueue(content_of(f"{number}", 400_000), queue="work")
    yard.back_up()
    wire = Wire(s3_port, 1_000_000)
    try:
        with monkeypatch.context() as patch:
            patch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{wire.port}")
            with pytest.raises(Unavailable, match=r"the blob store .* cannot be used"):
                yard.restore()
    finally:
        wire.close()
    assert not yard.path("again").exists()
    assert yard.path("again").with_name("again.db-restored").exists()
    home = yard.restore()
    assert not yard.path("again").with_name("again.db-restored").exists()
    assert len(await yard.payloads("again")) == 4
    names = [name async for names in open_blobs(yard.blobs).names() for name in names]
    folders = {name.partition("/")[0] for name in names if name.startswith("restored-")}
    assert folders == {home.rpartition("/")[2]}


@pytest.mark.slow
async def test_restore_killed_at_any_step_leaves_the_old_store_or_the_new_one(folders: Yard) -> None:
    await folders.add("a", "b")
    folders.back_up()
    [c, _] = await folders.add("c", "d")
    await folders.remove(c)
    before = folders.folder / "before"
    before.mkdir()
    shutil.copytree(folders.folder / "blobs", before / "blobs")
    shutil.copyfile(folders.path(), before / "jobs.db")
    command = [sys.executable, "-m", "tests.backup.child", str(folders.folder)]
    ended = await asyncio.to_thread(
        subprocess.run, command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    found = ended.stdout.splitlines()
    assert set(found) == {"a b d", "a b"}
    assert found.index("a b") > 15  # blobs are stored side by side: which step is the one that counts varies a little
    assert found[-1] == "a b"


@pytest.mark.slow
async def test_command_line(folders: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders.folder)
    await folders.add("a", "b")
    refused = run_command("backup", "jobs.db", "backups")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "name it in the URL, as in sqlite:///jobs.db?blobs=./jobs.blobs" in refused.stderr
    made = run_command("backup", "sqlite:///jobs.db?blobs=blobs", "backups")
    assert (made.returncode, made.stderr) == (0, "")
    assert "2 blobs, 2 new, " in made.stdout
    refused = run_command("restore", "backups", "again.db")
    assert refused.returncode == 1
    assert "sqlite:///again.db?blobs=./jobs.blobs" in refused.stderr
    restored = run_command("restore", "backups", "sqlite:///again.db?blobs=blobs")
    assert (restored.returncode, restored.stderr) == (0, "")
    assert "its blobs are in blobs/restored-" in restored.stdout
    assert await folders.has("a", "b", name="again")
    sound = run_command("verify", "backups")
    assert "2 blobs, " in sound.stdout
    files_in(folders.folder / "blobs")[0].unlink()
    (folders.folder / "backups" / "blobs").rename(folders.folder / "elsewhere")
    lost = run_command("backup", "sqlite:///jobs.db?blobs=blobs", "backups")
    assert lost.returncode == 1
    assert lost.stdout.startswith("backed up ")
    assert "the store has lost 1 blob, " in lost.stderr


async def test_store_that_is_stopped_while_it_looks_is_named(folders: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.store.embedded.hold.TRIES", 2)
    await folders.add("a")
    with open(f"{folders.path()}-mark", "rb") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match=r"jobs\.db-mark is locked; .* let it go on, or end it"):
            folders.back_up()
    assert folders.back_up().new_blobs == 1
