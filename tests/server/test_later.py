"""Calls that wait for the disk without a task: each is answered once, by what became of it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from unittest import mock

from tenure.store.embedded import writer
from tenure.store.embedded.file import Fenced
from tenure.store.embedded.kernel import Done
from tenure.store.embedded.log import Log
from tenure.store.embedded.sqlite import SqliteStore
from tests.server.house import House, serving
from tests.server.talk import FRAMES, LINES, Manner, Talk


class Slow:
    """A kernel that syncs when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Done] = []
        self.is_slow = False

    def sync(self, log: Log, done: Done) -> None:
        log.sync()
        if self.is_slow:
            self.waiting.append(done)
        else:
            asyncio.get_running_loop().call_soon(done, None)

    def go_on(self, error: OSError | None = None) -> None:
        self.is_slow = False
        self.waiting.pop()(error)

    def close(self) -> None:
        pass


@contextmanager
def slow_kernel() -> Iterator[Slow]:
    slow = Slow()
    with mock.patch.object(writer, "kernel", return_value=slow), mock.patch.object(writer, "HERE_S", 60.0):
        yield slow


@asynccontextmanager
async def waiting(path: Path, manner: Manner = LINES) -> AsyncIterator[tuple[House, Talk, Slow]]:
    """A server whose one caller has been alone for a while, and a disk that is slow from now on."""
    with slow_kernel() as slow:
        store = SqliteStore(path / "jobs.db", "fsync")
        async with serving(store) as house:
            talk = await house.talk(manner)
            for _ in range(3):
                await talk.do("PUSH", queue="mail", data=b"x" if manner is FRAMES else 1)
                while store._writer._given != store._writer._ended:
                    await asyncio.sleep(0)
            slow.is_slow = True
            yield house, talk, slow


async def test_answer_leaves_when_the_disk_has_it_and_others_go_on(tmp_path: Path) -> None:
    for manner in (LINES, FRAMES):
        folder = tmp_path / manner.name
        folder.mkdir()
        async with waiting(folder, manner) as (house, talk, slow):
            talk.send("PULL", queue="mail", reqId=1, timeout=0)
            await house.until_calls(1)
            assert (await talk.ask("PING", reqId=2))["reqId"] == 2
            slow.go_on()
            answer = await talk.receive()
            assert (answer["reqId"], answer["job"]["id"]) == (1, 1)
            assert all(each._calls == {} for each in house.connections)


async def test_commands_without_an_id_keep_their_order(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, slow):
        talk.send("PUSH", queue="mail", data=2)
        talk.send("PING")
        await house.until_calls(1)
        slow.go_on()
        assert (await talk.receive())["id"] == 4
        assert (await talk.receive())["ok"] is True


async def test_sync_that_failed_is_made_good_by_the_thread(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, slow):
        talk.send("PUSH", queue="mail", data=2, reqId=1)
        await house.until_calls(1)
        slow.go_on(OSError(5, "the disk"))
        assert (await talk.receive())["id"] == 4


async def test_error_of_a_change_is_its_answer(tmp_path: Path) -> None:
    """It was done in memory, and is written when the disk allows: to do it once more would be wrong."""
    async with waiting(tmp_path) as (house, talk, slow):
        talk.send("PUSH", queue="mail", data=2, reqId=1)
        await house.until_calls(1)
        assert isinstance(house.store, SqliteStore)
        house.store._break(OSError("disk full"))
        house.store._broken = ""
        answer = await talk.receive()
        assert (answer["reqId"], answer["code"]) == (1, "Unavailable")
        slow.go_on()
        assert (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]["ready"] == 4


async def test_pull_that_the_disk_refused_is_refused_and_keeps_nothing(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, slow):
        talk.send("PULL", queue="mail", reqId=1, timeout=60_000)
        await house.until_calls(1)
        assert isinstance(house.store, SqliteStore)
        house.store._break(OSError("disk full"))
        answer = await talk.receive()
        assert (answer["reqId"], answer["code"]) == (1, "Unavailable")
        house.store._broken = ""
        slow.go_on()
        assert (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]["ready"] == 3


async def test_store_that_was_passed_over_is_called_again(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, slow):
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
        slow.go_on()


async def test_lost_connection_and_abort_leave_no_lease(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, slow):
        other = await house.talk(LINES)
        talk.send("PULL", queue="mail", reqId=1, timeout=0)
        await house.until_calls(1)
        [lost] = [each for each in house.connections if each._calls]
        assert lost._transport is not None
        lost._transport.abort()
        while lost in house.connections:
            await asyncio.sleep(0)
        assert lost._calls == {}
        slow.go_on()
        assert (await other.do("GETJOBCOUNTS", queue="mail"))["counts"]["running"] == 0


async def test_abort_ends_a_pull_and_its_job_goes_back(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, slow):
        talk.send("PULL", queue="mail", reqId=1, timeout=0)
        await house.until_calls(1)
        talk.send("ABORT", id=1, reqId=2)
        answers = {answer["reqId"]: answer for answer in (await talk.receive(), await talk.receive())}
        assert answers[1]["code"] == "Timeout"
        assert answers[2]["ended"] is True
        slow.go_on()
        assert (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]["running"] == 0


async def test_stop_waits_for_what_is_being_written(tmp_path: Path) -> None:
    async with waiting(tmp_path) as (house, talk, slow):
        talk.send("PUSH", queue="mail", data=2, reqId=1)
        await house.until_calls(1)
        stopping = asyncio.ensure_future(house.server.stop())
        await asyncio.sleep(0)
        slow.go_on()
        assert (await talk.receive())["id"] == 4
        await stopping
