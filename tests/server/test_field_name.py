"""An error names the field as the wire does, whatever the core calls it: with and without HELLO, over every door."""

import re
from typing import Any, Final

import msgspec
import pytest
from websockets.asyncio.client import connect

from tenure.core.error import InvalidRequest
from tenure.wire.command import COMMANDS, IN_FULL
from tenure.wire.option import CORE_NAMES, Item, JobFields, in_core_terms, in_wire_terms
from tests.http.conftest import Served
from tests.http.conftest import serving as serving_http
from tests.server.house import House, serving
from tests.server.talk import FRAMES, LINES, Message, Talk
from tests.server.test_null import NEEDED, optional

SETTINGS: Final = {"QUEUE", "LIMIT", "TENANT", "SETTINGS", "WORKERS", "SCAN"}  # settings and columns as in the core
CORE_ONLY: Final = re.compile(
    r"\b(" + "|".join(core for wire, core in CORE_NAMES.items() if "_" in core) + r"|wait_ms|percent|payloads?)\b"
)
WRONG: Final[tuple[Any, ...]] = (-1, 2**62, 0, 0.5, "", "x" * 600, "no such thing!", [], [-1], [""], {}, {"": 1}, True)


def names_of(name: str) -> set[str]:
    return {*IN_FULL[name].__struct_encode_fields__}


def is_named(field: str, names: set[str]) -> bool:
    return re.split(r"[.\[]", field)[0] in names


def wrong_of(kind: type[msgspec.Struct], field: str) -> Any:
    """A value of the right type that is out of bounds."""
    [part] = [part for part in msgspec.structs.fields(kind) if part.encode_name == field]
    return "" if "str" in str(part.type) else -1


JOB_FIELDS: Final = {wire: wrong_of(JobFields, wire) for wire in CORE_NAMES}


def named(answer: Message) -> str:
    assert answer["code"] == "InvalidRequest", answer
    field = str(answer["detail"]["field"])
    assert answer["error"].startswith(f"{field}: "), answer
    assert not CORE_ONLY.search(answer["error"] + answer["detail"]["rule"]), answer
    return field


@pytest.fixture(params=["hello", "no hello"])
def hello(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "hello")


@pytest.mark.parametrize("field", JOB_FIELDS)
async def test_field_of_a_job_is_named_as_it_was_sent(field: str, hello: bool) -> None:
    wrong = {field: JOB_FIELDS[field]}
    async with serving() as house:
        talk = await house.talk(FRAMES, hello=hello)
        assert named(await talk.ask("PUSH", queue="mail", data=1, **wrong)) == field
        assert named(await talk.ask("PUSHB", queue="mail", jobs=[{"data": 1}], **wrong)) == field
        [result] = (await talk.do("PUSHB", queue="mail", jobs=[{"data": 1, **wrong}]))["results"]
        assert named(result) == field
        followups = {"queue": "mail", "jobs": [{"data": 1, **wrong}]}
        assert named(await talk.ask("ACK", id=1, followups=followups)) == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"run_at": 5, "delay": 5}, "run_at"),
        ({"ttl": 5, "expires_at": 9_000_000_000_000}, "expires_at"),
        ({"debounce_id": "a"}, "debounce_id"),
        ({"debounce_ttl": 5}, "debounce_ttl"),
        ({"debounce_max_wait": 5}, "debounce_max_wait"),
        ({"group_id": "a", "lifo": True}, "lifo"),
    ],
)
async def test_rule_between_two_fields_names_both_as_they_are_sent(fields: Message, field: str, hello: bool) -> None:
    async with serving() as house:
        talk = await house.talk(LINES, hello=hello)
        assert named(await talk.ask("PUSH", queue="mail", data=1, **fields)) == field


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("PULLB", {"count": 0}, "count"),
        ("PULL", {"timeout": -1}, "timeout"),
        ("PULL", {"lease": 5}, "lease"),
        ("HEARTBEAT", {"lease": 5}, "lease"),
        ("PROGRESS", {"progress": 101}, "progress"),
        ("WAITJOB", {"timeout": -1}, "timeout"),
        ("EVENTS", {"after": "no cursor"}, "after"),
        ("EVENTS", {"timeout": -1}, "timeout"),
        ("STREAM", {"timeout": -1}, "timeout"),
        ("RATELIMIT", {"limit": 0}, "limit"),
        ("RATELIMIT", {"limit": 1, "period": 0}, "period"),
        ("RATELIMIT", {"limit": 1, "burst": -1}, "burst"),
        ("SETCONCURRENCY", {"limit": -1}, "limit"),
        ("RETRYDLQ", {"rate": -1}, "rate"),
        ("SNOOZE", {"delay": -1}, "delay"),
        ("FAIL", {"retry_after": -1}, "retry_after"),
        ("MOVETODELAYED", {"delay": -1}, "delay"),
        ("PUSH", {"opId": "s:0"}, "opId"),
        ("QUEUE", {"changes": {"lease_ms": 5}}, "lease_ms"),
        ("QUEUE", {"changes": {"rate": {"tokens": 0}}}, "rate.tokens"),
        ("QUEUE", {"changes": {"rate": {"tokens": 1, "period": 0}}}, "rate.period"),
        ("CANCEL", {"filter": {"state": 5}}, "filter.state"),
        ("FAILB", {"items": [{"id": 1}, {"id": 2, "retryAfter": "x"}]}, "items[1].retryAfter"),
    ],
)
async def test_field_of_a_command_is_named_as_it_was_sent(name: str, fields: Message, field: str, hello: bool) -> None:
    async with serving() as house:
        talk = await house.talk(LINES, hello=hello)
        await talk.do("PUSH", queue="mail", data=1)
        id = (await talk.do("PULL", queue="mail"))["job"]["id"]
        needed = {**NEEDED[name], "id": id} if "id" in NEEDED[name] and "filter" not in fields else NEEDED[name]
        if "filter" in fields:
            needed = {}
        answer = await talk.ask(name, **{**needed, **fields})
        assert answer["code"] == "InvalidRequest", answer
        assert answer["detail"]["field"] == field
        assert answer["error"].startswith(f"{field}: ")


async def ask_all(talk: Talk, house: House, name: str) -> int:
    """Every field of a command with every wrong value; how often one was refused."""
    names = names_of(name)
    refused = 0
    base = {"timeout": 0} if "timeout" in names and name != "PUSH" and name != "PUSHB" and name != "LOAD" else {}
    for field in sorted(names - {"reqId"}):
        for wrong in WRONG:
            answer = await talk.ask(name, **{**base, **NEEDED[name], field: wrong})
            while "event" in answer:
                answer = await talk.receive()
            if answer.get("code") != "InvalidRequest":
                continue
            refused += 1
            told = answer["detail"]["field"]
            if name in SETTINGS and field == "changes":
                continue
            assert is_named(told, names), (name, field, wrong, answer)
            if name not in SETTINGS:
                assert not CORE_ONLY.search(answer["error"]), (name, field, wrong, answer)
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"HELLO", "SUBSCRIBE", "UNSUBSCRIBE"}))
async def test_no_error_names_a_field_that_the_command_does_not_have(name: str, hello: bool) -> None:
    async with serving() as house:
        talk = await house.talk(LINES, hello=hello)
        await talk.do("PUSH", queue="mail", data=1, custom_id="four")
        await talk.do("PULL", queue="mail")
        assert await ask_all(talk, house, name) > 0


# The other doors.


@pytest.mark.parametrize("field", JOB_FIELDS)
async def test_http_names_the_field_as_it_was_sent(field: str, served: Served) -> None:
    wrong = {field: JOB_FIELDS[field]}
    status, answer = await served.say("POST", "/v1/queues/mail/jobs", {"data": 1, **wrong})
    assert (status, named(answer)) == (400, field)
    status, answer = await served.say("POST", "/v1/jobs/batch", {"queue": "mail", "jobs": [{"data": 1, **wrong}]})
    assert (status, named(answer["results"][0])) == (207, field)


@pytest.fixture
async def served() -> Any:
    async with serving_http() as made:
        yield made


async def test_http_names_other_fields_as_they_were_sent(served: Served) -> None:
    status, answer = await served.say("POST", "/v1/claims", {"queue": "mail", "count": 0, "timeout": 0})
    assert (status, answer["detail"]["field"]) == (400, "count")
    status, answer = await served.say("GET", "/v1/events?after=nonsense")
    assert (status, answer["detail"]["field"]) == (400, "after")
    status, answer = await served.say("PATCH", "/v1/queues/mail", {"changes": {"lease_ms": 1}})
    assert (status, answer["detail"]["field"]) == (400, "lease_ms")


async def test_websocket_names_the_field_as_it_was_sent(served: Served) -> None:
    async with connect(f"ws://127.0.0.1:{served.port}/v1/ws", proxy=None) as socket:
        for greet in (False, True):
            if greet:
                await socket.send('{"cmd":"HELLO"}')
                await socket.recv()
            for field, wrong in JOB_FIELDS.items():
                await socket.send(msgspec.json.encode({"cmd": "PUSH", "queue": "m", field: wrong}).decode())
                assert named(msgspec.json.decode(await socket.recv())) == field


# The way back, for Tenure's own client.


@pytest.mark.parametrize(("wire", "core"), sorted(CORE_NAMES.items()))
def test_client_has_the_names_of_the_core(wire: str, core: str) -> None:
    error = InvalidRequest(core, -1, "it must be a whole number")
    sent = in_wire_terms(error, "PUSH")
    assert isinstance(sent, InvalidRequest)
    assert sent.field == wire
    assert in_core_terms(sent, "enqueue") == error


def test_items_have_the_fields_of_jobs() -> None:
    assert set(JOB_FIELDS) <= set(optional(Item))
