"""A push that asks for nothing but a queue, and a pull that does not wait, go a shorter way; so does the
answer to a pull that waited. Nobody can tell."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenure.server import tcp
from tenure.store.embedded.sqlite import SqliteStore
from tenure.wire import limit, work
from tenure.wire.quick import MISSES_MAX, PULL, PUSH
from tests.server.house import House, serving, token
from tests.server.talk import FRAMES, JSON_FRAMES, LINES, Talk, encode


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
    """Which of the pushes and pulls from now on went the short way."""
    found: list[bool] = []
    [connection] = house.connections
    short = connection._quickly

    def quickly(kind: bytes, body: bytes) -> bool:
        found.append(short(kind, body))
        return found[-1]

    monkeypatch.setattr(connection, "_quickly", quickly)
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
    await talk.do("TENANT", tenant="default", changes={"queues_max": 2})
    handler = house.server.handler
    before, requests = handler.answered.get(("tcp", "PUSH", "ok"), 0), handler.requests
    await talk.do("PUSH", queue="mail", data=1, reqId=1)
    assert handler.answered["tcp", "PUSH", "ok"] == before + 1
    assert handler.requests == requests + 1
    for more in ({}, {"priority": 0}):
        assert await talk.refused("PUSH", queue="third", data=1, reqId=1, **more) == "Overloaded"
    assert handler.answered["tcp", "PUSH", "Overloaded"] == 2
    assert handler.requests == requests + 3


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
    assert connection._misses == {PUSH: MISSES_MAX, PULL: 0}
    assert (await talk.do("PUSH", queue="mail", data=1, reqId=1))["ok"] is True


async def test_failure_inside_is_answered(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(house.server.handler, "quickly", broken)
    for command, fields in (("PUSH", {"data": 1}), ("PULL", {"timeout": 0})):
        answer = await talk.ask(command, queue="mail", reqId=9, **fields)
        assert (answer["ok"], answer["code"], answer["reqId"]) == (False, "Internal", 9)


async def test_what_cannot_be_answered_is_not_done_twice(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)

    def broken(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(tcp, "encode_quickly", broken)
    answer = await talk.ask("PUSH", queue="mail", data=1, reqId=9)
    assert (answer["ok"], answer["code"], answer["reqId"]) == (False, "Internal", 9)
    assert (await talk.do("COUNT", queue="mail"))["count"] == 1


@pytest.mark.parametrize("fields", [{}, {"lease": 0}], ids=["short", "long"])
@pytest.mark.parametrize("waits", [False, True])
async def test_job_that_is_too_large_to_be_said_goes_back(
    fields: dict[str, Any], waits: bool, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, other = await ready(house), await house.talk(FRAMES)
    with monkeypatch.context() as patch:
        patch.setattr(limit, "MESSAGE_BYTES_MAX", 1_000)
        if waits:
            talk.send("PULL", queue="mail", timeout=60_000, reqId=9, **fields)
            await until_waiting(house)
        id = (await other.do("PUSH", queue="mail", data=bytes(2_000), reqId=1))["id"]
        if not waits:
            talk.send("PULL", queue="mail", timeout=0, reqId=9, **fields)
        answer = await talk.receive()
    assert (answer["ok"], answer["code"], answer["reqId"]) == (False, "PayloadTooLarge", 9)
    await house.server.handler.settled()
    assert (await talk.do("PULL", queue="mail", timeout=0, reqId=1))["job"]["id"] == id


async def test_pulled_job_is_that_of_the_long_way(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)
    for _ in range(2):
        await talk.do("PUSH", queue="mail", data={"to": "a"}, timeout=5_000, schema_version=2, reqId=1)
    went = count_short(house, monkeypatch)
    short = await talk.do("PULL", queue="mail", timeout=0, reqId="r")
    long = await talk.do("PULL", queue="mail", timeout=0, lease=0, reqId="r")
    assert went == [True, False]
    own = {"id", "token", "lease_until"}
    assert {name: value for name, value in short["job"].items() if name not in own} == {
        name: value for name, value in long["job"].items() if name not in own
    }
    assert short.keys() == long.keys()
    assert (await talk.do("ACK", id=short["job"]["id"]))["ok"] is True  # no token: on the connection that claimed it
    jobs = [(await talk.do("GETJOB", id=each["job"]["id"]))["job"] for each in (short, long)]
    assert jobs[0]["worker"] == jobs[1]["worker"]


async def test_nothing_to_pull_is_said_as_on_the_long_way(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)
    went = count_short(house, monkeypatch)
    short = await talk.do("PULL", queue="none", timeout=0, reqId="r")
    long = await talk.do("PULL", queue="none", timeout=0, lease=0, reqId="r")
    assert went == [True, False]
    assert short == long
    assert short["job"] is None


@pytest.mark.parametrize(
    "fields", [{}, {"timeout": 1}, {"timeout": 0, "queue": "no such name!"}, {"timeout": 0, "reqId": None}], ids=str
)
async def test_other_pulls_go_the_long_way(
    fields: dict[str, Any], house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await ready(house)
    await talk.do("PUSH", queue="mail", data=1, reqId=1)
    went = count_short(house, monkeypatch)
    answer = await talk.ask("PULL", **{"queue": "mail", "reqId": 1, **fields})
    assert went == [False]
    assert answer["ok"] is ("!" not in str(fields))


async def test_who_may_not_pull_is_told_so() -> None:
    async with serving(tokens={"producer": token("producer", roles=("producer",))}) as house:
        talk = await ready(house, "producer")
        answer = await talk.ask("PULL", queue="first", timeout=0, reqId=1)
        assert (answer["ok"], answer["code"]) == (False, "Forbidden")
        assert house.server.handler.answered["tcp", "PULL", "Forbidden"] == 1


async def until_waiting(house: House) -> None:
    while not house.server.handler.store._waiting:  # type: ignore[attr-defined]
        await asyncio.sleep(0)


async def wait_and_wake(waits: Talk, house: House, **fields: Any) -> dict[str, Any]:
    """What a pull is told that waits when a job is pushed."""
    other = await house.talk(FRAMES)
    waits.send("PULL", queue="later", timeout=60_000, **fields)
    await until_waiting(house)
    await other.do("PUSH", queue="later", data={"to": "a"}, timeout=5_000, reqId=1)
    return await waits.receive()


async def test_woken_pull_is_told_the_same_in_every_manner(house: House) -> None:
    told = [await wait_and_wake(await house.talk(FRAMES), house, reqId="r")]
    told.append(await wait_and_wake(await house.talk(FRAMES), house))
    told.append(await wait_and_wake(await house.talk(JSON_FRAMES), house, reqId="r"))
    told.append(await wait_and_wake(await house.talk(LINES), house, reqId="r"))
    assert [answer.pop("reqId", None) for answer in told] == ["r", None, "r", "r"]
    own = {"id", "token", "lease_until"}
    jobs = [{name: value for name, value in answer["job"].items() if name not in own} for answer in told]
    assert all(answer.keys() == {"ok", "job"} and own <= answer["job"].keys() for answer in told)
    assert jobs == [jobs[0]] * 4
    assert jobs[0]["data"] == {"to": "a"}
    assert house.server.handler.answered["tcp", "PULL", "ok"] == 4


async def test_line_that_looks_like_a_frame_is_no_command(house: House) -> None:
    talk = await house.talk(LINES)
    await talk.do("PUSH", queue="mail", data=1, reqId=1)
    body = encode({"cmd": "PUSH", "queue": "mail", "data": 1, "reqId": 2}, FRAMES)[4:]
    await talk.write(body + b"\n")
    assert (await talk.receive())["code"] == "InvalidRequest"
    assert (await talk.do("COUNT", queue="mail"))["count"] == 1


async def test_job_that_a_woken_pull_cannot_be_told_goes_back(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await house.talk(FRAMES)

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(work, "leased", broken)
        answer = await wait_and_wake(talk, house, reqId=9)
        assert (answer["ok"], answer["code"], answer["reqId"]) == (False, "Internal", 9)
    await house.server.handler.settled()
    assert (await talk.do("PULL", queue="later", timeout=0, reqId=1))["job"]["data"] == {"to": "a"}


async def test_job_that_cannot_be_said_goes_back(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await ready(house)
    id = (await talk.do("PUSH", queue="mail", data=1, reqId=1))["id"]

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(work, "leased", broken)
        answer = await talk.ask("PULL", queue="mail", timeout=0, reqId=9)
        assert (answer["ok"], answer["code"], answer["reqId"]) == (False, "Internal", 9)
    await house.server.handler.settled()
    assert (await talk.do("GETSTATE", id=id))["state"] == "ready"
    assert (await talk.do("PULL", queue="mail", timeout=0, reqId=1))["job"]["id"] == id
