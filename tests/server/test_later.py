"""Calls that wait for the disk without a task: each is answered once, by what became of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

from tenure.store.embedded.file import Fenced
from tenure.store.embedded.sqlite import SqliteStore
from tests.crash.disk import UNSYNCED, Disk
from tests.server.house import House, serving
from tests.server.talk import FRAMES, LINES, Manner, Talk


@asynccontextmanager
async def waiting(path: Path, manner: Manner = LINES) -> AsyncIterator[tuple[House, Talk, Disk]]:
    """A server with three jobs, and a disk whose syncs hang from now on."""
    disk = Disk(keeps_log=False)
    store = SqliteStore(path / "jobs.db", "fsync", disk.name)
    try:
        async with serving(store) as house:
            talk = await house.talk(manner)
            for _ in range(3):
                await talk.do("PUSH", queue="mail", data=b"x" if manner is FRAMES else 1)
            disk.ready.clear()
            try:
                yield house, talk, disk
            finally:
                disk.ready.set()
    finally:
        disk.unregister()


async def go_on(house: House, disk: Disk) -> None:
    """The disk does, and everything that waited for it was told."""
    assert isinstance(house.store, SqliteStore)
    disk.ready.set()
    async with asyncio.timeout(20):
        while house.store._in_flight:
            await asyncio.sleep(0)


async def test_answer_leaves_when_the_disk_has_it_and_others_go_on(tmp_path: Path) -> None:
    for manner in (LINES, FRAMES):
        folder = tmp_path / manner.name
        folder.mkdir()
        async with waiting(folder, manner) as (house, talk, disk):
            talk.send("PULL", queue="mail", reqId=1, timeout=0)
            await house.until_calls(1)
            assert (await talk.ask("PING", reqId=2))["reqId"] == 2
            disk.ready.set()
            answer = await talk.receive()
            assert (answer["reqId"], answer["job"]["id"]) == (1, 1)
            assert all(each._calls == {} for each in house.connections)


async def test_commands_without_an_id_keep_their_order(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, disk):
        talk.send("PUSH", queue="mail", data=2)
        talk.send("PING")
        await house.until_calls(1)
        disk.ready.set()
        assert (await talk.receive())["id"] == 4
        assert (await talk.receive())["ok"] is True


async def test_sync_that_failed_is_made_good_by_the_thread(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, disk):
        talk.send("PUSH", queue="mail", data=2, reqId=1)
        await house.until_calls(1)
        disk.fail(UNSYNCED)
        disk.ready.set()
        assert (await talk.receive())["id"] == 4


async def test_error_of_a_change_is_its_answer(tmp_path: Path) -> None:
    """It was done in memory, and is written when the disk allows: to do it once more would be wrong."""
    async with waiting(tmp_path) as (house, talk, disk):
        talk.send("PUSH", queue="mail", data=2, reqId=1)
        await house.until_calls(1)
        assert isinstance(house.store, SqliteStore)
        house.store._break(OSError("disk full"))
        house.store._broken = ""
        answer = await talk.receive()
        assert (answer["reqId"], answer["code"]) == (1, "Unavailable")
        disk.ready.set()
        assert (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]["ready"] == 4


async def test_pull_that_the_disk_refused_is_refused_and_keeps_nothing(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, disk):
        talk.send("PULL", queue="mail", reqId=1, timeout=60_000)
        await house.until_calls(1)
        assert isinstance(house.store, SqliteStore)
        house.store._break(OSError("disk full"))
        answer = await talk.receive()
        assert (answer["reqId"], answer["code"]) == (1, "Unavailable")
        house.store._broken = ""
        disk.ready.set()
        assert (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]["ready"] == 3


async def test_store_that_was_passed_over_is_called_again(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, disk):
        talk.send("PUSH", queue="mail", data=2, reqId=1)
        await house.until_calls(1)
        store = house.store
        assert isinstance(store, SqliteStore)
        with mock.patch.object(store, "enqueue", wraps=store.enqueue) as enqueue:
            store._break(Fenced())
            answer = await talk.receive()
        assert enqueue.call_count == 1
        assert answer["reqId"] == 1
        assert "another process has taken" in answer["error"]
        store._is_lost = False
        store._broken = ""
        disk.ready.set()


async def test_lost_connection_and_abort_leave_no_lease(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, disk):
        other = await house.talk(LINES)
        talk.send("PULL", queue="mail", reqId=1, timeout=0)
        await house.until_calls(1)
        [lost] = [each for each in house.connections if each._calls]
        assert lost._transport is not None
        lost._transport.abort()
        while lost in house.connections:
            await asyncio.sleep(0)
        assert lost._calls == {}
        await go_on(house, disk)
        assert (await other.do("GETJOBCOUNTS", queue="mail"))["counts"]["running"] == 0


async def test_abort_ends_a_pull_and_its_job_goes_back(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, disk):
        talk.send("PULL", queue="mail", reqId=1, timeout=0)
        await house.until_calls(1)
        talk.send("ABORT", id=1, reqId=2)
        answers = {answer["reqId"]: answer for answer in (await talk.receive(), await talk.receive())}
        assert answers[1]["code"] == "Timeout"
        assert answers[2]["ended"] is True
        await go_on(house, disk)
        assert (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]["running"] == 0


async def test_stop_waits_for_what_is_being_written(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, disk):
        talk.send("PUSH", queue="mail", data=2, reqId=1)
        await house.until_calls(1)
        stopping = asyncio.ensure_future(house.server.stop())
        await asyncio.sleep(0)
        disk.ready.set()
        assert (await talk.receive())["id"] == 4
        await stopping


async def test_pings_reads_and_heartbeats_are_answered_while_the_disk_hangs(tmp_path: Path) -> None:
    """Six times the length of the lease. What was leased before is still held afterwards."""
    async with waiting(tmp_path) as (house, talk, disk):
        disk.ready.set()
        leased = (await talk.do("PULL", queue="mail", lease=10_000))["job"]
        await go_on(house, disk)
        disk.ready.clear()
        other = await house.talk(LINES)
        other.send("PUSH", queue="other", data=1, reqId=1)
        await house.until_calls(1)
        for _ in range(12):
            house.clock.passed_ms += 5_000
            assert (await talk.do("PING"))["ok"] is True
            assert (await talk.do("HEARTBEAT", id=leased["id"], token=leased["token"]))["ok"] is True
            assert (await talk.do("GETJOB", id=leased["id"]))["job"]["state"] == "running"
            counts = (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]
            assert (counts["ready"], counts["running"]) == (2, 1)
        await go_on(house, disk)
        assert (await other.receive())["ok"] is True
        assert (await talk.do("ACK", id=leased["id"], token=leased["token"]))["ok"] is True
