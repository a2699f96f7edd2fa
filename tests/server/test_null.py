"""On a connection that did not say HELLO, null for an optional field means that the field is absent: in every command,
in every part of one, in both formats. Commands and fields are taken from their structs, so new ones are covered."""

from typing import Any, Final, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Struct

from tenure.core.error import Error
from tenure.core.request import Batch
from tenure.wire import command as c
from tenure.wire.command import COMMANDS, IN_FULL, Command
from tenure.wire.format import JSON_FORMAT, MSGPACK_FORMAT, Format
from tenure.wire.message import VERBS
from tenure.wire.option import Item, JustData, WireBackoff
from tenure.wire.piece import InOnePiece
from tenure.wire.reader import Reader
from tenure.wire.speech import Speech
from tenure.wire.translate import TRANSLATORS
from tests.server.house import House, serving
from tests.server.talk import FRAMES, LINES, Manner, Message, Talk

MAIL: Final[Message] = {"queue": "mail"}
# Of every command what it cannot do without. Job 1 is leased, 2 waits, 3 is a dead letter, 4 is completed.
NEEDED: Final[dict[str, Message]] = {
    **{name: {} for name in ("HELLO", "AUTH", "PING", "LISTQUEUES", "STATS", "GETJOBS", "GETJOBCOUNTS", "DLQ")},
    **{name: {} for name in ("DLQGROUPS", "PURGEDLQ", "RETRYDLQ", "GETJOBSBATCH", "TENANT", "SETTINGS", "WORKERS")},
    **{name: {} for name in ("EVENTS", "SUBSCRIBE", "UNSUBSCRIBE", "HEARTBEATB", "ACKB")},
    **{name: {"id": 1} for name in ("ACK", "FAIL", "RELEASE", "SNOOZE", "HEARTBEAT", "PROGRESS")},
    **{name: {"id": 2} for name in ("CANCEL", "DISCARD", "PROMOTE", "REMOVE", "UPDATEJOB", "CLONE", "MOVETODELAYED")},
    **{name: {"id": 4} for name in ("GETJOB", "GETSTATE", "GETRESULT", "GETPROGRESS", "WAITJOB", "EXPLAIN")},
    **{name: {"id": 1} for name in ("GETLOGS", "STREAM", "ABORT")},
    **dict.fromkeys(("PUSH", "PULL", "PULLB", "COUNT", "DRAIN", "CLEAN", "OBLITERATE", "PAUSE", "RESUME"), MAIL),
    **dict.fromkeys(("ISPAUSED", "RATELIMITCLEAR", "CLEARCONCURRENCY", "QUEUE"), MAIL),
    **{name: {**MAIL, "limit": 5} for name in ("RATELIMIT", "SETCONCURRENCY")},
    "PUSHB": {"queue": "mail", "jobs": [{"data": 1}]},
    "LOAD": {"load_id": "night", "step": "read"},
    "FAILB": {"items": [{"id": 1}]},
    "SETTLE": {"verb": "complete", "ids": [1]},
    "GETJOBBYCUSTOMID": {"custom_id": "four"},
    "CHANGEPRIORITY": {"id": 2, "priority": 3},
    "LOG": {"id": 1, "message": "so far"},
    "PARTIAL": {"id": 1, "data": 1},
    "LIMIT": {"key": "api"},
    "SCAN": {"table": "jobs"},
}
FORMATS: Final = [JSON_FORMAT, MSGPACK_FORMAT]


def optional(kind: type[Struct]) -> list[str]:
    return [part.encode_name for part in msgspec.structs.fields(kind) if not part.required]


def test_every_command_is_here() -> None:
    assert set(NEEDED) == set(COMMANDS)


def meaning(form: Format, fields: Message) -> object:
    """What a server would do, in bytes."""
    speech = Speech(Reader(form), is_old=True)
    message: Command = speech.reader.read(form.encode(fields), False)
    assert not speech.reader.warnings
    told = (message.req_id, message.tenant, message.tenants, message.op_id, message.durability)
    translate = TRANSLATORS.get(type(message))
    if translate is None:
        return told, msgspec.structs.asdict(message)
    try:
        call = translate(speech, message)
    except Error as error:
        return told, str(error)
    if call.verb == "enqueue":
        return told, jobs_of(call.arguments[0])
    verb = VERBS.get(call.verb)
    return told, call.verb, call.arguments if verb is None else verb.pack(call.arguments)


def jobs_of(batch: Batch) -> list[bytes]:
    """Of a batch each job by itself: however it was read, they are the same."""
    rows = enumerate(batch.payloads)
    alone = [Batch(batch.each[at] if batch.each else batch.options, [row], [batch.extra(at)]) for at, row in rows]
    return [VERBS["enqueue"].pack((job,)) for job in alone]


def is_same(form: Format, plain: Message, nulled: Message) -> None:
    assert meaning(form, nulled) == meaning(form, plain)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_null_for_any_optional_field_of_a_command_is_absent(name: str, form: Format) -> None:
    plain: Message = {"cmd": name, **NEEDED[name]}
    fields = optional(IN_FULL[name])
    for field in fields:
        if field not in plain:
            is_same(form, plain, {**plain, field: None})
    is_same(form, plain, {**dict.fromkeys(fields), **plain})


def parts_of(kind: type[Struct], seen: set[type[Struct]]) -> None:
    """The structs that stand inside a command."""
    for hint in get_type_hints(kind).values():
        for found in structs_in(hint):
            if found not in seen:
                seen.add(found)
                parts_of(found, seen)


def structs_in(hint: Any) -> list[type[Struct]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        return [] if hint.__struct_config__.array_like else [hint]
    return [found for part in get_args(hint) for found in structs_in(part)]


# Where the parts stand: the command, and the fields around a part.
PARTS: Final[dict[type[Struct], tuple[str, Message, Message]]] = {
    c.Which: ("CANCEL", {"filter": ...}, {}),
    Item: ("PUSHB", {"queue": "mail", "jobs": [...]}, {}),
    c.Done: ("ACKB", {"items": [...]}, {"id": 1}),
    c.Failed: ("FAILB", {"items": [...]}, {"id": 1}),
    c.Of: ("HEARTBEATB", {"items": [...]}, {"id": 1}),
    c.Followups: ("ACK", {"id": 1, "followups": ...}, {"jobs": [{"data": 1}]}),
    WireBackoff: ("PUSH", {"queue": "mail", "backoff": ...}, {}),
    c.JobColumns: ("LOAD", {"load_id": "n", "step": "stage", "queue": "mail", "columns": ...}, {"data": []}),
    InOnePiece: (
        "LOAD",
        {"load_id": "n", "step": "stage", "queue": "mail", "columns": {"data": ...}},
        {"content": b"", "ends": b""},
    ),
}


def test_every_part_of_a_command_is_here() -> None:
    found: set[type[Struct]] = {Item}  # of a batch that is read job by job
    for kind in COMMANDS.values():
        parts_of(kind, found)
    assert found - {JustData} == set(PARTS)


def put(around: Any, part: Message) -> Any:
    if around is ...:
        return part
    if isinstance(around, dict):
        return {key: put(value, part) for key, value in around.items()}
    return [put(value, part) for value in around] if isinstance(around, list) else around


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_null_for_any_optional_field_of_a_part_is_absent(kind: type[Struct], form: Format) -> None:
    name, around, part = PARTS[kind]
    plain = {"cmd": name, **put(around, part)}
    fields = [field for field in optional(kind) if field not in part]
    for nulls in (*([field] for field in fields), fields):
        is_same(form, plain, {"cmd": name, **put(around, {**dict.fromkeys(nulls), **part})})


# Over a server.


async def staged(house: House, manner: Manner) -> Talk:
    talk = await house.talk(manner, hello=False)
    for fields in ({"max_attempts": 1}, {"custom_id": "four"}):
        await talk.do("PUSH", queue="first", data="d", **fields)
        job = (await talk.do("PULL", queue="first"))["job"]
        await talk.do("FAIL" if "max_attempts" in fields else "ACK", id=job["id"], token=job["token"])
    for _ in range(2):
        await talk.do("PUSH", queue="mail", data="d")
    await talk.do("PULL", queue="mail")
    return talk


def told(answer: Any) -> Any:
    """Without what is secret, and so never the same."""
    if isinstance(answer, dict):
        return {key: told(value) for key, value in answer.items() if key != "token"}
    return [told(value) for value in answer] if isinstance(answer, list) else answer


IDS: Final = {1: 3, 2: 4, 3: 1, 4: 2}  # of the jobs above as they are staged


@pytest.mark.parametrize("manner", [LINES, FRAMES], ids=lambda manner: manner.name)
@pytest.mark.parametrize("name", sorted(COMMANDS))
async def test_server_answers_a_command_full_of_nulls_as_one_without(name: str, manner: Manner) -> None:
    needed = {key: IDS[value] if key == "id" else value for key, value in NEEDED[name].items()}
    answers: list[Message] = []
    for nulls in ({}, dict.fromkeys(optional(IN_FULL[name]))):
        async with serving() as house:
            talk = await staged(house, manner)
            answers.append(told(await talk.ask(name, **{**nulls, **needed})))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("manner", [LINES, FRAMES], ids=lambda manner: manner.name)
async def test_batch_full_of_nulls_is_not_lost(manner: Manner) -> None:
    nulls = dict.fromkeys(optional(Item))
    async with serving() as house:
        talk = await house.talk(manner, hello=False)
        found = await talk.do("PUSHB", queue="mail", jobs=[{**nulls, "data": {"n": n}} for n in range(3)])
        assert found["ids"] == [1, 2, 3]
        jobs = (await talk.do("PULLB", queue="mail", count=3, timeout=None, worker=None))["jobs"]
        assert [job["data"] for job in jobs] == [{"n": 0}, {"n": 1}, {"n": 2}]
        job = (await talk.do("GETJOB", id=1))["job"]
        assert job["max_attempts"] == 3


@pytest.mark.parametrize("hello", [True, False], ids=["hello", "no hello"])
@pytest.mark.parametrize("name", ["ACKB", "FAILB", "HEARTBEATB"])
async def test_null_in_a_list_is_no_item(name: str, hello: bool) -> None:
    async with serving() as house:
        talk = await house.talk(LINES, hello=hello)
        assert await talk.refused(name, items=[{"id": 1}, None]) == "InvalidRequest"


@pytest.mark.parametrize("manner", [LINES, FRAMES], ids=lambda manner: manner.name)
async def test_after_hello_null_is_a_value(manner: Manner) -> None:
    async with serving() as house:
        talk = await house.talk(manner)
        id = (await talk.do("PUSH", queue="mail", data=1, max_attempts=None))["id"]
        assert "max_attempts" not in (await talk.do("GETJOB", id=id))["job"]  # no bound
        assert await talk.refused("PUSH", queue="mail", data=1, priority=None) == "InvalidRequest"
