"""A server that is restarted: what its clients have asked goes on with the next server, until its own deadline."""

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import tenure
from tenure.core.error import Timeout, Unavailable
from tenure.core.request import CANCEL, Change, Filter
from tenure.server.config import Settings
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore
from tests.server.process import Process, running
from tests.server.talk import MANNERS, Manner, talking

PATIENCE_S = 60.0
WAIT = "50s"
ENDS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])


async def ended(server: Process, number: signal.Signals) -> None:
    code = await server.stop(number)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0), server.output


@pytest.mark.slow
@ENDS
@pytest.mark.parametrize("format", ["msgpack", "json"])
async def test_every_wait_goes_on_with_the_next_server(format: str, number: signal.Signals, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), running(tmp_path) as first:
        url = f"tenure://127.0.0.1:{first.port}"
        async with tenure.connect(url, format=format) as client:
            id = (await client.enqueue(b"1", queue="mail")).id
            cursor = (await client.event_page()).cursor
            waits = [asyncio.create_task(client.wait(id, timeout=WAIT)) for _ in range(3)]
            items = asyncio.create_task(client.stream(id, wait=WAIT))
            events = asyncio.create_task(client.event_page(cursor, wait=WAIT))
            claim = asyncio.create_task(client.claim("later", wait=WAIT))
            await client.count()
            await client.event_page(cursor, wait=0.05)  # those who wait have a connection of their own
            await ended(first, number)
            async with running(tmp_path, port=str(first.port)):
                [job] = await client.claim("mail")
                assert (await events).events[0].type in ("worker_joined", "started")  # of the claim for mail
                await client.emit(job, b"2")
                assert [item.data for item in await items] == [b"2"]
                await client.complete(job, b"3")
                assert await asyncio.gather(*waits) == [b"3"] * 3
                later = await client.enqueue(b"4", queue="later")
                assert [job.id for job in await claim] == [later.id]


@pytest.mark.slow
@ENDS
async def test_nobody_who_enqueues_and_works_notices_a_restart(number: signal.Signals, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), running(tmp_path) as first:
        url = f"tenure://127.0.0.1:{first.port}"
        is_over = asyncio.Event()
        all_sent = asyncio.Event()
        sent: list[int] = []
        done: list[int] = []

        async def produce(client: tenure.Client) -> None:
            while not is_over.is_set():
                sent.append((await client.enqueue(b"1", queue="mail")).id)

        async def work(client: tenure.Client) -> None:
            while not all_sent.is_set() or len(done) < len(sent):
                for job in await client.claim("mail", n=5, wait=0.2):
                    await client.complete(job)
                    done.append(job.id)

        async with AsyncExitStack() as servers, tenure.connect(url) as one, tenure.connect(url) as other:
            async with asyncio.TaskGroup() as group:
                producers = [group.create_task(produce(one)) for _ in range(8)]
                for _ in range(4):
                    group.create_task(work(other))
                while len(done) < 100:
                    await asyncio.sleep(0.01)
                await ended(first, number)
                before = len(done)
                await servers.enter_async_context(running(tmp_path, port=str(first.port)))
                while len(done) < before + 100:
                    await asyncio.sleep(0.01)
                is_over.set()
                await asyncio.gather(*producers)
                all_sent.set()
            assert sorted(done) == sorted(sent)
            assert len(set(sent)) == len(sent)
            assert (await one.count("mail"))["mail"]["completed"] == len(sent)


@pytest.mark.slow
@ENDS
async def test_a_change_by_filter_goes_on_with_the_next_server(number: signal.Signals, tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), running(tmp_path) as first:
        url = f"tenure://127.0.0.1:{first.port}"
        async with tenure.connect(url) as client:
            for _ in range(3):
                await client.enqueue_many([b"1"] * 5_000, queue="many")
            sweep = asyncio.create_task(client.change_batch(Change(CANCEL, None, Filter(queue="many"))))
            await client.count("nothing")
            await ended(first, number)
            async with running(tmp_path, port=str(first.port)):
                assert (await sweep).count == 15_000
                assert (await client.count("many"))["many"]["cancelled"] == 15_000


async def serving(path: Path, store: MemoryStore) -> Server:
    server = Server(Settings(tcp=False, http=False, grpc=False, unix=str(path)), store)
    await server.start()
    return server


async def test_a_wait_with_no_server_left_ends_at_its_own_timeout(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        server = await serving(tmp_path / "socket", MemoryStore())
        async with tenure.connect(f"tenure+unix://{tmp_path}/socket") as client:
            id = (await client.enqueue(b"1")).id
            began = time.monotonic()
            wait = asyncio.create_task(client.wait(id, timeout=0.7))
            with pytest.raises(Timeout):
                await client.wait(id, timeout=0.2)
            await server.stop()
            with pytest.raises(Timeout, match="700 ms"):
                await wait
            assert 0.65 < time.monotonic() - began < 1.5


async def test_a_very_short_wait_is_asked_for_though_its_connection_has_to_be_made(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        server = await serving(tmp_path / "socket", MemoryStore())
        async with tenure.connect(f"tenure+unix://{tmp_path}/socket") as client:
            id = (await client.enqueue(b"1")).id
            [job] = await client.claim()
            await client.complete(job, b"done")
            assert await client.wait(id, timeout="1ms") == b"done"
        await server.stop()


async def test_who_has_more_time_goes_on_looking_when_others_have_given_up(tmp_path: Path) -> None:
    """The connection is made once for all calls, and each of them has its own deadline."""
    async with asyncio.timeout(PATIENCE_S):
        store = MemoryStore()
        server = await serving(tmp_path / "socket", store)
        async with tenure.connect(f"tenure+unix://{tmp_path}/socket") as client:
            id = (await client.enqueue(b"1")).id
            short = asyncio.create_task(client.wait(id, timeout=0.4))
            long = asyncio.create_task(client.wait(id, timeout=WAIT))
            with pytest.raises(Timeout):
                await client.wait(id, timeout=0.1)
            await server.stop()
            with pytest.raises(Timeout):
                await short
            server = await serving(tmp_path / "socket", MemoryStore())
            try:
                with pytest.raises(tenure.JobNotFound):  # the next server is asked; its store is another one
                    await long
            finally:
                await server.stop()


@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
async def test_a_server_that_stops_tells_waits_to_go_elsewhere(manner: Manner, tmp_path: Path) -> None:
    server = await serving(tmp_path / "socket", MemoryStore())
    async with asyncio.timeout(PATIENCE_S), talking(str(tmp_path / "socket"), manner) as talk:
        talk.send("PULL", queue="nothing", timeout=50_000, reqId=1)
        assert (await talk.do("PING", reqId=2))["reqId"] == 2
        stopping = asyncio.create_task(server.stop())
        answer = await talk.receive()
        assert (answer["code"], answer["detail"]) == ("Unavailable", {"stopping": True})
        assert await talk.ended() == b""
        await stopping


async def test_another_kind_of_unavailable_is_said_at_once(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        server = await serving(tmp_path / "socket", MemoryStore())
        async with tenure.connect(f"tenure+unix://{tmp_path}/socket") as client:
            await server._driver.store.close()  # as a store that cannot be used
            with pytest.raises(Unavailable, match="not open"):
                await client.count()
            with pytest.raises(Unavailable, match="not open"):
                await client.enqueue(b"1")
        await server.stop()
