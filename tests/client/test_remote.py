"""The client of a server when the network fails: nothing is done twice, nothing waits for ever."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import tenure
from tenure.client import remote
from tenure.core.error import InvalidRequest, JobNotFound, Overloaded, Timeout, Unauthenticated, Unavailable
from tenure.server.auth import hash_token
from tenure.server.config import Settings, Token
from tenure.server.server import Server
from tenure.store.embedded.memory import MemoryStore

PATIENCE_S = 20.0


class Wire:
    """A proxy before the server that can cut connections, before or after what a request does."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._target = target
        self.swallow_answers = 0  # so many more answers are lost, each with its connection
        self.is_deaf = False
        self.lets_through = asyncio.Event()  # what the server answers
        self.lets_through.set()
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, out = await asyncio.open_unix_connection(self._target)
        self._writers += [writer, out]
        await asyncio.gather(self._carry(reader, out, False), self._carry(there, writer, True))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, answers: bool) -> None:
        try:
            while data := await source.read(65_536):
                if answers and b"answers" in data and self.swallow_answers:
                    self.swallow_answers -= 1
                    self.cut()
                    return
                if answers:
                    await self.lets_through.wait()
                if not self.is_deaf:
                    sink.write(data)
        except OSError:
            pass
        finally:
            sink.close()


@asynccontextmanager
async def wired(tmp_path: Path, settings: Settings | None = None) -> AsyncIterator[tuple[Wire, MemoryStore]]:
    store = MemoryStore()
    chosen = settings or Settings()
    chosen.tcp, chosen.http, chosen.grpc, chosen.unix = False, False, False, str(tmp_path / "server")
    server = Server(chosen, store)
    await server.start()
    wire = Wire(tmp_path / "wire", tmp_path / "server")
    await wire.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield wire, store
    finally:
        await wire.stop()
        await server.stop()


async def test_an_answer_that_is_lost_does_not_double_the_job(tmp_path: Path) -> None:
    async with wired(tmp_path) as (wire, _), tenure.connect(f"tenure+unix://{wire.path}") as client:
        for count in (1, 2, 3):
            wire.swallow_answers = 2
            await client.enqueue(b"x", queue="q")
            assert wire.swallow_answers == 0
            assert (await client.count("q"))["q"]["ready"] == count


async def test_a_settlement_whose_answer_is_lost_is_answered_again(tmp_path: Path) -> None:
    async with wired(tmp_path) as (wire, _), tenure.connect(f"tenure+unix://{wire.path}") as client:
        await client.enqueue(b"x", queue="q")
        [job] = await client.claim("q")
        wire.swallow_answers = 1
        assert (await client.complete(job, b"done")).state == "completed"
        assert await client.wait(job.id) == b"done"


async def test_a_connection_that_is_cut_is_made_again(tmp_path: Path) -> None:
    async with wired(tmp_path) as (wire, _), tenure.connect(f"tenure+unix://{wire.path}") as client:
        made = wire.connections
        wire.cut()
        assert (await client.enqueue(b"x")).state == "ready"
        assert wire.connections > made


async def test_a_waiting_claim_goes_on_waiting_after_a_cut(tmp_path: Path) -> None:
    async with wired(tmp_path) as (wire, store), tenure.connect(f"tenure+unix://{wire.path}") as client:
        made = wire.connections
        waiting = asyncio.ensure_future(client.claim("q", wait=600))
        while not store._engine.waiting_claims():
            await asyncio.sleep(0)
        wire.cut()
        while wire.connections == made:
            await asyncio.sleep(0)
        await client.enqueue(b"x", queue="q")
        assert len(await waiting) == 1


async def test_a_claim_that_is_given_up_holds_nothing(tmp_path: Path) -> None:
    async with wired(tmp_path) as (wire, store), tenure.connect(f"tenure+unix://{wire.path}") as client:
        waiting = asyncio.ensure_future(client.claim("q", wait=600))
        while not store._engine.waiting_claims():
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await client.enqueue(b"x", queue="q")
        while (await client.count("q"))["q"]["ready"] != 1:
            await asyncio.sleep(0)
        assert len(await client.claim("q")) == 1


async def test_a_job_whose_claim_was_given_up_while_the_answer_was_on_its_way_goes_back(tmp_path: Path) -> None:
    async with wired(tmp_path) as (wire, store), tenure.connect(f"tenure+unix://{wire.path}") as client:
        waiting = asyncio.ensure_future(client.claim("q", wait=600))
        while not store._engine.waiting_claims():
            await asyncio.sleep(0)
        wire.lets_through.clear()
        async with tenure.connect(f"tenure+unix://{tmp_path / 'server'}") as other:
            id = (await other.enqueue(b"x", queue="q")).id
            assert (await other.count("q"))["q"]["running"] == 1
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            wire.lets_through.set()
            while (await other.count("q"))["q"]["ready"] != 1:
                await asyncio.sleep(0)
            assert (await other.get(id)).attempt == 0


async def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CALL_S", 0.05)
    async with wired(tmp_path) as (wire, _), tenure.connect(f"tenure+unix://{wire.path}") as client:
        wire.is_deaf = True
        with pytest.raises(Timeout):
            await client.count()


async def test_nobody_there_is_said_with_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CONNECT_S", 0.2)
    with pytest.raises(Unavailable, match="is it running"):
        await tenure.connect(f"tenure+unix://{tmp_path}/nobody").__aenter__()


async def test_a_full_queue_is_waited_for_and_then_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    async with wired(tmp_path) as (wire, _), tenure.connect(f"tenure+unix://{wire.path}") as client:
        await client.configure("queue", "q", jobs_max=1)
        await client.enqueue(b"x", queue="q")
        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(Overloaded) as said:
            await client.enqueue(b"x", queue="q")
        pauses = [seconds for seconds in waits if seconds]
        assert pauses == [said.value.retry_after_ms / 1_000] * (remote.OVERLOADED_TRIES - 1)


async def test_a_token_opens_the_door_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    settings = Settings(tokens={"shop": Token(hash_token("secret"), tenants=("acme",))})
    async with wired(tmp_path, settings) as (wire, _):
        url = f"tenure+unix://{wire.path}"
        async with tenure.connect(url, tenant="acme", token="secret") as client:
            await client.enqueue(b"x")
            with pytest.raises(tenure.Forbidden):
                await client.as_tenant("other").enqueue(b"x")
        for token in ("", "wrong"):
            with pytest.raises(Unauthenticated):
                async with tenure.connect(url, tenant="acme", token=token) as client:
                    await client.count()


@pytest.mark.parametrize("format", ["json", "msgpack"])
async def test_payloads_come_back_as_they_went(format: str, tmp_path: Path) -> None:
    payloads = [b"", b"\x00\xff", b'{"a": 1}', b"}\n{", "\u2028".encode(), os.urandom(1_000)]
    async with wired(tmp_path) as (wire, _), tenure.connect(f"tenure+unix://{wire.path}", format=format) as client:
        await client.enqueue_many(payloads, queue="q")
        assert [job.payload for job in await client.claim("q", n=10)] == payloads


@pytest.mark.parametrize(
    "url",
    [
        "tenure://",
        "tenure://h/path",
        "tenure://user:secret@h",
        "tenure://h?token=x",
        "tenure+unix://",
        "tenure+unix://h/x",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="url"):
        tenure.connect(url)


async def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    async with wired(tmp_path) as (wire, _), tenure.connect(f"tenure+unix://{wire.path}") as client:
        with pytest.raises(JobNotFound):
            await client.get(1)
