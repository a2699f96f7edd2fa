"""A push that asks for nothing but a queue goes a shorter way, and nobody can tell."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenure.store.embedded.sqlite import SqliteStore
from tenure.wire.quick import MISSES_MAX
from tests.server.house import House, serving, token
from tests.server.talk import FRAMES, Talk


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as made:
        yield made


async def ready(house: House, name: str = "") -> Talk:
    """A connection on which the next plain push can go the short way."""
    talk = await house.talk(FRAMES, name)
    await talk.ask("PUSH", queue="first", data=b"1", reqId=1)
    return talk


def count_short(house: House, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Which of the pushes from now on went the short way."""
    found: list[bool] = []
    [connection] = house.connections
    short = connection._push

    def push(body: bytes) -> bool:
        found.append(short(body))
        return found[-1]

    monkeypatch.setattr(connection, "_push", push)
    return found


async def test_answer_and_job_are_those_of_the_long_way(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)
    went = count_short(house, monkeypatch)
    short = await talk.do("PUSH", queue="mail", data={"to": "a"}, reqId="r")
    long = await talk.do("PUSH", queue="mail", data={"to": "a"}, priority=0, reqId="r")
    assert went == [True, False]
    assert {**short, "id": 0} == {**long, "id": 0}
    jobs = [(await talk.do("GETJOB", id=answer["id"]))["job"] for answer in (short, long)]
    assert {**jobs[0], "id": 0} == {**jobs[1], "id": 0}
    assert jobs[0]["data"] == {"to": "a"}


@pytest.mark.parametrize(
    "fields",
    [
        {"tenant": "acme"},
        {"opId": "s:1"},
        {"custom_id": "c"},
        {"delay": 5},
        {"nonsense": 1},
        {"queue": "no such name!"},
        {"queue": 7},
        {"reqId": None},
    ],
    ids=str,
)
async def test_whatever_else_it_says_goes_the_long_way(
    fields: dict[str, Any], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await ready(house)
    went = count_short(house, monkeypatch)
    await talk.ask("PUSH", **{"queue": "mail", "data": 1, "reqId": 1, **fields})
    assert went == [False]


async def test_refusal_is_said_once_and_stores_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)
    await talk.do("QUEUE", queue="mail", changes={"jobs_max": 1})
    went = count_short(house, monkeypatch)
    assert (await talk.ask("PUSH", queue="mail", data=1, reqId=1))["ok"] is True
    refused = await talk.ask("PUSH", queue="mail", data=1, reqId=2)
    assert went == [True, True]
    assert (refused["ok"], refused["code"], refused["reqId"]) == (False, "Overloaded", 2)
    long = await talk.ask("PUSH", queue="mail", data=1, priority=0, reqId=2)
    assert refused == long
    assert (await talk.do("COUNT", queue="mail"))["count"] == 1


async def test_requests_are_counted_as_on_the_long_way(house: House) -> None:
    talk = await ready(house)
    handler = house.server.handler
    before, requests = handler.answered.get(("tcp", "PUSH", "ok"), 0), handler.requests
    await talk.do("PUSH", queue="mail", data=1, reqId=1)
    assert handler.answered["tcp", "PUSH", "ok"] == before + 1
    assert handler.requests == requests + 1


async def test_token_with_bounds_is_checked_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {
        "few": token("few", rate=2),
        "reads": token("reads", roles=("operator",)),
        "one": token("one", queues=("mail",)),
    }
    async with serving(tokens=tokens) as house:
        reads = await ready(house, "reads")
        assert (await reads.ask("PUSH", queue="mail", data=1, reqId=1))["code"] == "Forbidden"
        one = await ready(house, "one")
        assert (await one.ask("PUSH", queue="mail", data=1, reqId=1))["ok"] is True
        assert (await one.ask("PUSH", queue="image", data=1, reqId=1))["code"] == "Forbidden"
        few = await ready(house, "few")
        codes = [(await few.ask("PUSH", queue="mail", data=1, reqId=1)).get("code", "ok") for _ in range(4)]
        assert "RateLimited" in codes


async def test_store_that_must_write_first_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(SqliteStore(tmp_path / "jobs.db", "fsync")) as house:
        talk = await ready(house)
        went = count_short(house, monkeypatch)
        assert (await talk.do("PUSH", queue="mail", data=1, reqId=1))["ok"] is True
        assert went == [False]


async def test_connection_that_pulls_too_goes_on_pushing_the_short_way(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await ready(house)
    for _ in range(MISSES_MAX + 3):
        await talk.do("PULL", queue="none", timeout=0)
    went = count_short(house, monkeypatch)
    await talk.do("PUSH", queue="mail", data=1, reqId=1)
    assert went == [True]


async def test_connection_that_asks_for_more_is_not_tried_for_ever(house: House) -> None:
    talk = await ready(house)
    [connection] = house.connections
    for _ in range(MISSES_MAX + 3):
        await talk.do("PUSH", queue="mail", data=1, priority=3, reqId=1)
    assert connection._misses == MISSES_MAX
    assert (await talk.do("PUSH", queue="mail", data=1, reqId=1))["ok"] is True


async def test_failure_inside_is_answered(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(house.server.handler, "push_at_once", broken)
    answer = await talk.ask("PUSH", queue="mail", data=1, reqId=9)
    assert (answer["ok"], answer["code"], answer["reqId"]) == (False, "Internal", 9)
