"""Requests that wait: woken by what they wait for, given up with their client, answered when the server stops."""

import asyncio
from typing import Any

import httpx
import pytest

from tenure.store.embedded.memory import MemoryStore
from tests.http.conftest import Served, serving
from tests.http.raw import read_answer, request, status_of

JSON = "content-type: application/json"


class Watched(MemoryStore):
    """Says when somebody waits in it, and when a call was given up."""

    def __init__(self) -> None:
        super().__init__()
        self.began: asyncio.Queue[str] = asyncio.Queue()
        self.ended: asyncio.Queue[str] = asyncio.Queue()

    async def _note(self, verb: str, call: Any) -> Any:
        self.began.put_nowait(verb)
        try:
            return await call
        finally:
            self.ended.put_nowait(verb)

    async def claim(self, *arguments: Any) -> Any:
        return await self._note("claim", super().claim(*arguments))

    async def watch(self, *arguments: Any) -> Any:
        return await self._note("watch", super().watch(*arguments))

    async def events(self, *arguments: Any) -> Any:
        return await self._note("events", super().events(*arguments))


async def begin_claim(served: Served, body: bytes = b'{"queue":"mail"}') -> Any:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(request("POST", "/v1/claims", JSON, f"content-length: {len(body)}", body=body))
    return reader, writer


async def test_push_wakes_a_waiting_claim() -> None:
    store = Watched()
    async with serving(store) as served:
        waiting = asyncio.create_task(served.say("POST", "/v1/claims", {"queue": "mail", "timeout": 60_000}))
        assert await store.began.get() == "claim"
        id = await served.push(data="x")
        status, found = await waiting
    assert status == 200
    assert [(job["id"], job["data"]) for job in found["jobs"]] == [(id, "x")]


async def test_claim_that_waited_in_vain_answers_nothing(served: Served) -> None:
    assert await served.say("POST", "/v1/claims", {"queue": "mail", "timeout": 1}) == (200, {"jobs": []})


async def test_completion_wakes_who_waits_for_the_result() -> None:
    store = Watched()
    async with serving(store) as served:
        id = await served.push(data=1)
        waiting = asyncio.create_task(served.say("GET", f"/v1/jobs/{id}/wait?timeout=60000"))
        assert await store.began.get() == "watch"
        job = await served.claim()
        await served.say("POST", f"/v1/jobs/{id}/complete", {"token": job["token"], "result": [1, 2]})
        assert await waiting == (200, {"result": [1, 2], "state": "completed"})


async def test_client_that_went_is_leased_nothing() -> None:
    store = Watched()
    async with serving(store) as served:
        _, writer = await begin_claim(served)
        assert await store.began.get() == "claim"
        writer.close()
        assert await store.ended.get() == "claim"
        id = await served.push(data=1)
        assert (await served.say("GET", f"/v1/jobs/{id}/state"))[1] == {"state": "ready"}
        job = await served.claim()
        assert (job["id"], job["attempt"]) == (id, 1)


class Slow(Watched):
    """Leases, and is slow to say so."""

    def __init__(self) -> None:
        super().__init__()
        self.leased = asyncio.Event()
        self.go = asyncio.Event()
        self.gave_back = asyncio.Event()

    async def claim(self, *arguments: Any) -> Any:
        found = await MemoryStore.claim(self, *arguments)
        self.leased.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            pass
        return found

    async def settle(self, *arguments: Any) -> Any:
        found = await super().settle(*arguments)
        self.gave_back.set()
        return found


async def test_what_was_leased_to_a_client_that_went_goes_back() -> None:
    store = Slow()
    async with serving(store) as served:
        id = await served.push(data=1)
        _, writer = await begin_claim(served)
        await store.leased.wait()
        assert (await served.say("GET", f"/v1/jobs/{id}/state"))[1] == {"state": "running"}
        writer.close()
        await store.gave_back.wait()
        found = (await served.say("GET", f"/v1/jobs/{id}"))[1]["job"]
    assert (found["state"], found["attempt"]) == ("ready", 0)


@pytest.mark.parametrize(
    ("verb", "method", "path", "body"),
    [
        ("claim", "POST", "/v1/claims", b'{"queue":"mail","timeout":60000}'),
        ("watch", "GET", "/v1/jobs/1/wait?timeout=60000", b""),
        ("events", "GET", "/v1/events?after=end&timeout=60000", b""),
    ],
)
async def test_stop_answers_those_who_wait(verb: str, method: str, path: str, body: bytes) -> None:
    store = Watched()
    async with serving(store) as served:
        await served.push("other", data=1)
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(request(method, path, JSON, f"content-length: {len(body)}", body=body))
        assert await store.began.get() == verb
        stopping = asyncio.create_task(served.stop())
        async with asyncio.timeout(10):
            answer = await read_answer(reader)
            assert await reader.read() == b""
            await stopping
        writer.close()
    assert status_of(answer) == 503
    assert b"retry-after: 1" in answer


class Gated(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    def _is_prompt(self, durability: str) -> bool:
        return False

    async def enqueue(self, *arguments: Any) -> Any:
        self.asked.set()
        await self.go.wait()
        return await super().enqueue(*arguments)


async def test_stop_lets_a_request_finish() -> None:
    store = Gated()
    async with serving(store) as served:
        pushing = asyncio.create_task(served.ask("POST", "/v1/queues/mail/jobs", {"data": 1}))
        await store.asked.wait()
        stopping = asyncio.create_task(served.stop())
        idle, writer = await open_until_refused(served.port)
        assert idle is None
        store.go.set()
        assert (await pushing).status_code == 201
        await stopping
        assert writer is None


async def open_until_refused(port: int) -> tuple[None, None]:
    """The listener is closed first; nobody new comes in while the rest is finished."""
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return None, None
            writer.close()


async def test_stop_cuts_off_what_does_not_finish() -> None:
    store = Gated()
    async with serving(store, stop_s=0.05) as served:
        pushing = asyncio.create_task(served.ask("POST", "/v1/queues/mail/jobs", {"data": 1}))
        await store.asked.wait()
        await served.stop()
        with pytest.raises(httpx.TransportError):
            await pushing


async def test_requests_of_one_connection_one_after_another(served: Served) -> None:
    """Sent together, they are answered in their order."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    push = request("POST", "/v1/queues/mail/jobs", JSON, "content-length: 10", body=b'{"data":1}')
    writer.write(push + request("GET", "/v1/jobs/1/state") + push)
    answers = [await read_answer(reader) for _ in range(3)]
    assert [status_of(answer) for answer in answers] == [201, 200, 201]
    writer.close()
