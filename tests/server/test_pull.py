"""Pulls that wait: they are answered once, whatever happens beside them, and nothing stays leased to nobody."""

import asyncio
from pathlib import Path

import pytest

from tenure.client.clock import read_clock
from tenure.server.handler import Handler
from tenure.store.embedded.memory import MemoryStore
from tenure.store.embedded.sqlite import SqliteStore
from tenure.wire import limit
from tests.server.house import House, serving, token
from tests.server.talk import FRAMES, LINES, Talk

TIMERS = 1_500  # more than one step applies
ONE, TWO = "one" * 10, "two" * 10


async def pulls_of_one_connection(house: House) -> tuple[Talk, Talk]:
    """Three of them, of which giving up the first lets the second be told: its timer is due and not yet applied."""
    producer, worker = await house.talk(LINES), await house.talk(LINES)
    await producer.do("PUSHB", queue="many", jobs=[{"data": 1, "delay": 1_000}] * TIMERS)
    await producer.do("PUSH", queue="mail", data=1, delay=1_000)
    for id, queue in enumerate(("never", "mail", "never")):
        worker.send("PULL", queue=queue, reqId=id, timeout=60_000)
    await house.until_calls(3)
    await house.advance(1_000)
    await house.until_calls(3)
    return producer, worker


async def test_stop_answers_each_pull_once() -> None:
    async with serving() as house:
        _, worker = await pulls_of_one_connection(house)
        await house.server.stop()
        assert house.store._opened is None
        answers = [await worker.receive() for _ in range(3)]
        assert sorted(answer["reqId"] for answer in answers) == [0, 1, 2]
        assert await worker.ended() == b""


async def test_lost_connection_leaves_no_pull_and_no_lease() -> None:
    async with serving() as house:
        producer, _ = await pulls_of_one_connection(house)
        [lost] = [each for each in house.connections if len(each._calls) == 3]
        assert lost._transport is not None
        lost._transport.abort()
        while lost in house.connections:
            await asyncio.sleep(0)
        await house.server.handler.settled()
        assert lost._calls == {}
        assert house.store._engine.waiting_claims() == []
        assert (await producer.do("GETJOBCOUNTS", queue="mail"))["counts"]["running"] == 0


async def test_pull_is_answered_when_the_disk_refuses_also_one_that_is_aborted_in_that_moment(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "jobs.db", "relaxed")
    async with serving(store) as house:
        talk = await house.talk(LINES)
        await talk.do("PUSH", queue="first", data=1)
        talk.send("PULL", queue="mail", reqId=1, timeout=60_000)
        await house.until_calls(1)
        store._break(OSError("disk full"))
        answer = await talk.receive()
        assert (answer["reqId"], answer["code"]) == (1, "Unavailable")
        store._broken = ""
        talk.send("PULL", queue="mail", reqId=2, timeout=60_000)
        await house.until_calls(1)
        [connection] = [each for each in house.connections if each._calls]
        store._break(OSError("disk full"))
        connection.data_received(b'{"cmd":"ABORT","id":2,"reqId":3}\n')
        answers = {answer["reqId"]: answer for answer in (await talk.receive(), await talk.receive())}
        assert answers[2]["code"] == "Timeout"
        assert answers[3]["ended"] is True
        store._broken = ""


async def test_jobs_of_an_answer_that_is_too_large_go_back() -> None:
    async with serving() as house:
        producer, worker = await house.talk(FRAMES), await house.talk(LINES)
        for _ in range(5):
            await producer.do("PUSH", queue="mail", data="\x01" * 900_000)  # six times as long in JSON
        refused = await worker.ask("PULLB", queue="mail", count=5, timeout=0)
        assert refused["code"] == "PayloadTooLarge"
        await house.server.handler.settled()
        assert (await producer.do("GETJOBCOUNTS", queue="mail"))["counts"]["ready"] == 5


async def test_wishes_of_one_pull_are_not_those_of_another() -> None:
    async with serving() as house:
        talk = await house.talk(LINES)
        assert (await talk.do("PULL", queue="mail", timeout=0))["job"] is None
        assert (await talk.ask("PULL", queue="mail", timeout=0, tasks=[]))["code"] == "InvalidRequest"


async def test_warnings_about_what_follows_are_not_told_to_a_pull_that_waits() -> None:
    tokens = {"one": token(ONE, tenants=("one",)), "two": token(TWO, tenants=("two",))}
    async with serving(tokens=tokens) as house:
        waiting, producer, other = [await house.talk(LINES, token=text, hello=False) for text in (ONE, ONE, TWO)]
        await other.do("PUSH", queue="mail", data=1)
        job = (await other.do("PULL", queue="mail"))["job"]
        waiting.send("PULL", queue="mail", reqId=1)
        await house.until_calls(1)
        follow = {"queue": "mail", "jobs": [{"data": 1, "secret": 1}]}
        done = await other.ask("ACK", id=job["id"], token=job["token"], followups=follow)
        assert done["warnings"] == ["secret is not known and was ignored"]
        await producer.do("PUSH", queue="mail", data=1)
        assert "warnings" not in await waiting.receive()


async def test_release_of_what_somebody_held_is_followed_by_a_tick() -> None:
    """It may lease the job to the next, whose lease has a timer."""
    armed: list[bool] = []
    store = MemoryStore()
    await store.open(read_clock())
    await Handler(store, read_clock, lambda: armed.append(True)).release([1], [b"x"])
    assert armed
    await store.close()


@pytest.mark.parametrize("ending", ["ACK", "FAIL"])
async def test_how_a_removed_job_out_of_reach_ended_is_not_told_by_a_dependency(ending: str) -> None:
    async with serving(tokens={"all": token(ONE), "some": token(TWO, queues=("mine",))}) as house:
        free, bound = await house.talk(LINES, token=ONE), await house.talk(LINES, token=TWO)
        gone = {"remove_on_complete": True, "remove_on_fail": True, "max_attempts": 1}
        id = (await free.do("PUSH", queue="theirs", data=1, **gone))["id"]
        job = (await free.do("PULL", queue="theirs", timeout=0))["job"]
        await free.do(ending, id=id, token=job["token"], **({"error": "broken"} if ending == "FAIL" else {}))
        assert (await bound.ask("PUSH", queue="mine", data=1, depends_on=[id]))["code"] == "DependencyNotFound"
        assert (await free.do("PUSH", queue="mine", data=1, depends_on=[id]))["ok"] is True


async def test_who_calls_is_whoever_said_so_last() -> None:
    """Also where the connection has asked for the same before."""
    tokens = {"one": token(ONE, tenants=("one",)), "two": token(TWO, tenants=("two",))}
    async with serving(tokens=tokens) as house:
        talk = await house.talk(LINES, token=ONE)
        first = (await talk.do("PUSH", queue="mail", data=1))["id"]
        await talk.do("AUTH", token=TWO)
        second = (await talk.do("PUSH", queue="mail", data=1))["id"]
        assert (await talk.do("GETJOB", id=second))["job"]["tenant"] == "two"
        assert (await talk.ask("GETJOB", id=first))["code"] == "JobNotFound"


class Clogged(asyncio.Transport):
    """Nobody reads at the other end."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def write(self, data: object) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return limit.UNSENT_BYTES_MAX + 1

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        pass

    def abort(self) -> None:
        self.is_aborted = True


async def test_connection_that_reads_nothing_is_ended_and_its_job_goes_back() -> None:
    async with serving() as house:
        talk, clogged = await house.talk(LINES), Clogged()
        connection = house.doors[0].protocol()
        connection.connection_made(clogged)
        connection.data_received(b'{"cmd":"PULL","queue":"mail","timeout":60000,"reqId":1}\n')
        connection.pause_writing()
        id = (await talk.do("PUSH", queue="mail", data=1))["id"]
        assert clogged.is_aborted
        connection.connection_lost(None)
        await house.server.handler.settled()
        assert (await talk.do("GETSTATE", id=id))["state"] == "ready"


async def test_duty_that_is_just_done_does_not_keep_the_server_from_stopping() -> None:
    """From Python 3.12 on, waiting for what is done gives the loop no turn; but at a turn it leaves the duties."""
    handler = Handler(MemoryStore(), read_clock, lambda: None)

    async def nothing() -> None:
        pass

    duty = handler.see_to(nothing())
    settled = asyncio.create_task(handler.settled())  # begins in the turn in which the duty ends
    async with asyncio.timeout(10):
        await settled
    assert duty.done()


async def test_what_comes_while_the_server_stops_is_answered() -> None:
    """Closed with something unread, the connection would be reset, and answers before it lost."""
    async with serving() as house:
        talk = await house.talk(FRAMES)
        assert await talk.do("PING") == {"ok": True}
        stopping = asyncio.create_task(house.server.stop())
        while not house.doors[0].is_closing:
            await asyncio.sleep(0)
        for n in range(50):
            talk.send("PUSH", queue="mail", data=n, reqId=n)
        answers = [await talk.receive() for _ in range(50)]
        assert [(answer["reqId"], answer["code"]) for answer in answers] == [(n, "Unavailable") for n in range(50)]
        assert await talk.ended() == b""
        await stopping
