"""Server-sent events: each once, in order, from where a client was; and nothing is held for who does not read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from tenure.core.clock import Now
from tenure.server.config import Token
from tenure.store.embedded.memory import MemoryStore
from tests.http.conftest import Served, serving

STREAM = {"accept": "text/event-stream"}


class Stream:
    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines: AsyncIterator[str] = answer.aiter_lines()

    async def next(self) -> dict[str, str]:
        """The next event; comments are passed over."""
        found: dict[str, str] = {}
        async with asyncio.timeout(20):
            async for line in self._lines:
                if line.startswith(":"):
                    continue
                if not line:
                    if found:
                        return found
                    continue
                name, _, value = line.partition(": ")
                found[name] = value
        return found

    async def comment(self) -> str:
        async with asyncio.timeout(20):
            async for line in self._lines:
                if line.startswith(":"):
                    return line
        return ""

    async def events(self, count: int) -> list[Any]:
        return [msgspec.json.decode((await self.next())["data"]) for _ in range(count)]


def open_stream(served: Served, path: str = "/v1/events", **headers: str) -> Any:
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.client.stream("GET", path, headers={**STREAM, **more})


async def test_events_come_as_they_happen(served: Served) -> None:
    await served.push(data="before")
    async with open_stream(served) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = Stream(answer)
        assert await stream.comment() == ": events"
        id = await served.push(data="after")
        found = await stream.next()
        event = msgspec.json.decode(found["data"])
        assert (event["type"], event["job"]) == ("enqueued", id)
        assert found["id"] == str(event["seq"])
        assert found["event"] == "enqueued"


async def test_client_that_comes_again_goes_on_where_it_was(served: Served) -> None:
    for n in range(5):
        await served.push(data=n)
    async with open_stream(served, "/v1/events?after=0") as answer:
        stream = Stream(answer)
        first = [await stream.next() for _ in range(2)]
    await served.push(data="meanwhile")
    async with open_stream(served, last_event_id=first[-1]["id"]) as answer:
        rest = await Stream(answer).events(4)
    assert [int(found["id"]) for found in first] + [event["seq"] for event in rest] == [1, 2, 3, 4, 5, 6]


async def test_only_what_is_asked_for_comes(served: Served) -> None:
    await served.push("other", data=1)
    await served.push("mail", data=1)
    await served.claim("mail")
    async with open_stream(served, "/v1/events?after=0&queue=mail&events=started") as answer:
        [event] = await Stream(answer).events(1)
    assert (event["type"], event["queue"]) == ("started", "mail")


async def test_wrong_place_to_begin_is_refused_before_the_stream(served: Served) -> None:
    async with open_stream(served, last_event_id="nonsense") as answer:
        assert answer.status_code == 400


class Quiet(MemoryStore):
    """Whose waits for events end at once, as if their time were over."""

    async def events(self, context: Any, cursor: str, limit: int, wait_ms: int, now: Now) -> Any:
        return await super().events(context, cursor, limit, 0, now)


async def test_quiet_stream_is_kept_alive() -> None:
    async with serving(Quiet()) as served, open_stream(served) as answer:
        stream = Stream(answer)
        assert await stream.comment() == ": events"
        assert await stream.comment() == ": "


async def test_stop_ends_a_stream(served: Served) -> None:
    async with open_stream(served) as answer:
        stream = Stream(answer)
        await stream.comment()
        stopping = asyncio.create_task(served.stop())
        found = await stream.next()
        await stopping
    assert found["event"] == "ended"
    assert msgspec.json.decode(found["data"])["code"] == "Unavailable"


async def test_stream_of_a_tenant_has_nothing_of_another() -> None:
    tokens = {"acme": Token("", tenants=("acme",)), "globex": Token("", tenants=("globex",))}
    async with serving(tokens=tokens) as served:
        await served.ask("POST", "/v1/queues/secret/jobs", {"data": 1}, "globex")
        await served.ask("POST", "/v1/queues/mine/jobs", {"data": 1}, "acme")
        async with open_stream(served, "/v1/events?after=0", authorization="Bearer acme") as answer:
            [event] = await Stream(answer).events(1)
    assert event["queue"] == "mine"


class Counted(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.pages = 0
        self.asked = asyncio.Event()

    async def events(self, *arguments: Any) -> Any:
        self.pages += 1
        self.asked.set()
        return await super().events(*arguments)


async def test_reader_that_does_not_read_holds_nothing_up() -> None:
    """Pages are read only as fast as they are taken: the server holds one, and what the sockets hold."""
    store = Counted()
    async with serving(store) as served:
        jobs = [{"data": 1, "custom_id": f"{n:0200d}", "group_id": "g" * 400} for n in range(10_000)]
        assert (await served.say("POST", "/v1/jobs/batch", {"queue": "q" * 200, "jobs": jobs}))[0] == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1)
        writer.write(b"GET /v1/events?after=0 HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")
        while store.pages < 2:
            store.asked.clear()
            await store.asked.wait()
        for _ in range(200):
            await served.say("GET", "/livez")
        assert store.pages < 20
        writer.transport.abort()
        del reader


@pytest.mark.parametrize("last", ["²", "٣", "1²", "-1", "1_000", "9" * 30])
async def test_last_event_that_is_no_number_is_refused(last: str, served: Served) -> None:
    headers = {b"accept": b"text/event-stream", b"last-event-id": last.encode()}
    answer = await served.client.get("/v1/events", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["code"] == "InvalidRequest"
