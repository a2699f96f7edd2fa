"""Obliterating a queue: one way, whoever asks, with one end; refused, it has changed nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

import tenure
from tenure.core.error import InvalidRequest
from tenure.core.tenant import Context
from tenure.store.obliterate import obliterate
from tests.server.house import House, serving
from tests.server.talk import FRAMES, LINES


class Asked(NamedTuple):
    is_done: bool
    said: Any  # how many jobs were removed, or the code of the refusal


async def over_tcp(house: House, force: bool) -> Asked:
    talk = await house.talk(FRAMES)
    answer = await talk.ask("OBLITERATE", queue="mail", force=force)
    return Asked(answer["ok"], answer["count"] if answer["ok"] else answer["code"])


async def over_the_older_protocol(house: House, force: bool) -> Asked:
    talk = await house.talk(LINES, hello=False)
    answer = await talk.ask("OBLITERATE", queue="mail", force=force)
    return Asked(answer["ok"], answer["count"] if answer["ok"] else answer["code"])


async def by_a_client(house: House, force: bool) -> Asked:
    async with tenure.connect(f"tenure://127.0.0.1:{house.server.tcp_port}") as client:
        try:
            return Asked(True, await client.obliterate("mail", force))
        except InvalidRequest as error:
            return Asked(False, error.code)


Ask = Callable[[House, bool], Awaitable[Asked]]
WAYS = (over_tcp, over_the_older_protocol, by_a_client)
each_way = pytest.mark.parametrize("ask", WAYS, ids=lambda ask: ask.__name__)


@asynccontextmanager
async def filled() -> AsyncIterator[House]:
    """A queue with a job in each of several states, one of them running, and settings."""
    async with serving() as house:
        talk = await house.talk(FRAMES)
        await talk.do("QUEUE", queue="mail", changes={"concurrency": 7})
        await talk.do("PUSH", queue="other", data=1)
        for n, fields in enumerate(({}, {"max_attempts": 1}, {}, {"delay": 3_600_000}, {})):
            await talk.do("PUSH", queue="mail", data=n, **fields)
        await talk.do("ACK", id=(await talk.do("PULL", queue="mail"))["job"]["id"])
        await talk.do("FAIL", id=(await talk.do("PULL", queue="mail"))["job"]["id"], error="bad")
        await talk.do("PULL", queue="mail")
        yield house


async def look(house: House) -> tuple[Any, ...]:
    talk = await house.talk(FRAMES)
    counts = await house.store.count(Context(), "", house.clock())
    settings = (await talk.do("QUEUE", queue="mail"))["settings"]
    return counts, settings, (await talk.do("EVENTS", limit=1_000))["events"]


@each_way
async def test_refused_it_has_changed_nothing(ask: Ask) -> None:
    async with filled() as house:
        before = await look(house)
        assert await ask(house, False) == Asked(False, "InvalidRequest")
        assert await look(house) == before


@each_way
async def test_queue_that_was_paused_stays_so_when_it_is_refused(ask: Ask) -> None:
    async with filled() as house:
        await (await house.talk(FRAMES)).do("PAUSE", queue="mail")
        before = await look(house)
        await ask(house, False)
        assert await look(house) == before


async def test_every_way_ends_the_same() -> None:
    ends = []
    for ask in WAYS:
        async with filled() as house:
            assert await ask(house, True) == Asked(True, 5)
            counts, settings, events = await look(house)
            assert not any(counts.get("mail", {}).values())
            assert settings == {}
            assert sum(counts["other"].values()) == 1
            ends.append([(event["type"], event.get("job"), event.get("reason")) for event in events])
    assert ends[1:] == ends[:-1]
    types = [type for type, _, _ in ends[0]]
    assert (types.count("removed"), types.count("cancelled")) == (5, 1)  # the one that ran was cancelled first


class Busy:
    """Steps of a queue in which a job starts between the first look and the pause."""

    def __init__(self, looks: list[int]) -> None:
        self._looks = looks
        self.paused: object = None

    async def count(self, queue: str) -> dict[str, int]:
        return {"running": self._looks.pop(0)}

    async def configure(self, queue: str, changes: dict[str, object]) -> dict[str, object]:
        self.paused = changes.get("paused", self.paused)
        return {"paused": self.paused} if self.paused else {}

    async def change(self, change: Any) -> Any:
        raise AssertionError("nothing is cancelled or removed")


async def test_job_that_started_meanwhile_is_found_and_the_pause_is_taken_back() -> None:
    steps = Busy([0, 1])
    with pytest.raises(InvalidRequest, match="1 job of mail still running"):
        await obliterate(steps, "mail", False)
    assert steps.paused is None
