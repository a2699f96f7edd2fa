"""Requests, deletions and the disk in any order: no job without its blob, at no moment, and no blob without a job."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.request import REMOVE, Change
from tenure.store.behaviour.rig import spin
from tenure.store.blob.folder import Folder
from tenure.store.embedded.writer import Writer
from tests.blob.gate import Gate
from tests.blob.shop import LARGE, OTHER, Shop
from tests.kill.test_crash import Disk, crash


def is_answered(task: "asyncio.Future[object]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


class Scene:
    """A store whose blobs, and whose disk, go on when they are told."""

    def __init__(self, folder: Path, mode: str = "write") -> None:
        self.folder = folder
        self.gate = Gate(Folder(folder / "blobs"))
        self.shop = Shop(folder / "jobs.db", self.gate, mode)
        self.disk = Disk(self.shop.store)
        self.shop.store._writer = self.disk
        self.tasks: list[asyncio.Future[object]] = []
        self.copies = 0

    async def open(self) -> None:
        await self.shop.open()
        await self.shop.shelf.idle()

    def start(self, call: Awaitable[object]) -> None:
        self.tasks.append(asyncio.ensure_future(call))

    async def enqueue(self, content: bytes) -> None:
        self.start(self.shop.rig.enqueue(content))
        await spin()

    async def remove(self, at: int) -> None:
        """One of the jobs that were answered."""
        answered = [task.result() for task in self.tasks if is_answered(task)]
        ids = [id for id in answered if isinstance(id, int)]
        if ids:
            rig = self.shop.rig
            self.start(rig.store.change(rig.context(), Change(REMOVE, [ids[at % len(ids)]]), rig.now()))
        await spin()

    async def rest(self) -> None:
        """Until everything stands before a door, or waits for the disk."""
        await spin()
        while any(self.gate.inside.values()):
            await spin()

    def let_go(self) -> None:
        self.disk.let_go()
        self.disk.held = []

    async def check_crash(self) -> None:
        """What a crash at this moment would leave has all its blobs. A deletion in a thread would make two moments."""
        if self.gate.inside["delete"]:
            return
        self.copies += 1
        copy = self.folder / f"copy-{self.copies}"
        copy.mkdir()
        crash(self.folder / "jobs.db", copy / "jobs.db")
        shutil.copytree(self.folder / "blobs", copy / "blobs")
        again = Shop(copy / "jobs.db", Folder(copy / "blobs"))
        await again.open()
        await again.names()
        for name in again.store._engine.blobs():
            assert (copy / "blobs" / name).exists(), "a job without its blob"
        await again.close()

    async def finish(self) -> None:
        for verb in ("put", "get", "delete"):
            self.gate.unlock(verb)
        self.let_go()
        await asyncio.wait_for(asyncio.gather(*self.tasks, return_exceptions=True), 20)
        assert sorted(self.shop.store._engine.blobs()) == await self.shop.names()
        await self.shop.close()


async def test_content_is_uploaded_anew_while_its_deletion_is_on_its_way(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.open()
    rig = scene.shop.rig
    first = await rig.enqueue(LARGE)
    scene.gate.shut("delete")
    await rig.change(REMOVE, first)
    await scene.gate.knock("delete")
    second = await rig.enqueue(LARGE)
    scene.gate.unlock("delete")
    await scene.shop.names()
    assert (await rig.job(second)).payload == LARGE
    await scene.finish()


async def test_nothing_is_deleted_before_the_removal_is_on_disk(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "relaxed")
    await scene.open()
    rig = scene.shop.rig
    id = await rig.enqueue(LARGE)
    await scene.shop.store._all_on_disk()
    scene.disk.is_slow = True
    await rig.change(REMOVE, id)
    await spin()
    assert await rig.get(id) is None
    assert ("delete", 1) not in scene.gate.calls
    await scene.check_crash()
    scene.let_go()
    assert await scene.shop.names() == []
    await scene.finish()


async def test_content_that_is_needed_again_while_its_deletion_waits_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "relaxed")
    await scene.open()
    rig = scene.shop.rig
    id = await rig.enqueue(LARGE)
    scene.disk.is_slow = True
    await rig.change(REMOVE, id)
    await rig.enqueue(LARGE)
    scene.let_go()
    assert len(await scene.shop.names()) == 1
    assert scene.gate.calls.count(("put", 1)) == 2  # the owner's mark, and the content once
    await scene.finish()


async def test_content_that_was_needed_and_dropped_again_waits_for_the_disk_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, "relaxed")
    await scene.open()
    store, rig = scene.shop.store, scene.shop.rig
    first = await rig.enqueue(LARGE)
    await store._all_on_disk()
    scene.disk.is_slow = True
    await rig.change(REMOVE, first)
    await spin()
    second = await rig.enqueue(LARGE)
    store._write_down()
    await rig.change(REMOVE, second)
    groups, scene.disk.held = scene.disk.held, []
    for group in groups:
        Writer.put(scene.disk, group)
    while store._synced < store._taken - len(scene.disk.held):
        await spin()
    await scene.rest()
    assert ("delete", 1) not in scene.gate.calls
    await scene.check_crash()
    await scene.finish()


async def test_upload_that_nobody_waits_for_is_deleted_when_it_is_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.open()
    scene.gate.shut("put")
    await scene.enqueue(LARGE)
    await scene.gate.knock("put")
    scene.tasks[0].cancel()
    await scene.rest()
    scene.gate.unlock("put")
    await scene.rest()
    assert await scene.shop.names() == []
    await scene.finish()


async def test_two_at_once_upload_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.open()
    scene.gate.shut("put")
    await scene.enqueue(LARGE)
    await scene.gate.knock("put")
    await scene.enqueue(LARGE)
    scene.gate.unlock("put")
    await asyncio.gather(*scene.tasks)
    assert len(await scene.shop.names()) == 1
    await scene.finish()


VERBS = st.sampled_from(["put", "delete"])
STEPS = st.one_of(
    st.tuples(st.just("enqueue"), st.sampled_from([LARGE, OTHER])),
    st.tuples(st.just("remove"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["shut", "unlock"]), VERBS),
    st.tuples(st.sampled_from(["slow", "write", "cancel", "crash"]), st.none()),
)


async def play(steps: list[tuple[str, object]], mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scene = Scene(Path(folder), mode)
        await scene.open()
        for what, how in steps:
            if what == "enqueue":
                assert isinstance(how, bytes)
                await scene.enqueue(how)
            elif what == "remove":
                assert isinstance(how, int)
                await scene.remove(how)
            elif what == "shut":
                scene.gate.shut(str(how))
            elif what == "unlock":
                scene.gate.unlock(str(how))
            elif what == "slow":
                scene.disk.is_slow = True
            elif what == "write":
                scene.let_go()
            elif what == "cancel" and scene.tasks:
                scene.tasks[-1].cancel()
            elif what == "crash":
                await scene.check_crash()
            await scene.rest()
        await scene.finish()


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(STEPS, min_size=4, max_size=30), st.sampled_from(["write", "fsync", "relaxed"]))
def test_any_order(steps: list[tuple[str, object]], mode: str) -> None:
    asyncio.run(play(steps, mode))
