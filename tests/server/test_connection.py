"""A connection: how it is framed, how strict it is, and what goes on beside what."""

import asyncio
from collections.abc import AsyncIterator
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenure.core.tenant import Context
from tenure.store.embedded.memory import MemoryStore
from tests.server.house import House, serving
from tests.server.talk import FRAMES, JSON_FRAMES, LINES, MANNERS, Manner, Message, Talk, encode, wrap


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with serving() as made:
        yield made


each_manner = pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)


# Framing.


@pytest.mark.parametrize("begin", [b"", b"\n", b"\r\n", b"\n\n \n"])
async def test_brace_or_line_break_begins_json_lines(begin: bytes, house: House) -> None:
    talk = await house.talk(LINES, hello=False)
    await talk.write(begin + b'{"cmd":"PING"}\r\n')
    assert await talk.receive() == {"ok": True}


async def test_anything_else_begins_frames(house: House) -> None:
    talk = await house.talk(FRAMES, hello=False)
    await talk.write(encode({"cmd": "PING", "reqId": 1}, FRAMES))
    assert await talk.receive() == {"ok": True, "reqId": 1}


async def test_frame_may_hold_json_and_is_answered_so(house: House) -> None:
    talk = await house.talk(FRAMES, hello=False)
    await talk.write(encode({"cmd": "PING", "reqId": 1}, JSON_FRAMES) + encode({"cmd": "PING", "reqId": 2}, FRAMES))
    assert await talk._body() == b'{"ok":true,"reqId":1}'
    assert await talk.receive() == {"ok": True, "reqId": 2}


async def test_line_that_is_no_object_is_refused_in_json(house: House) -> None:
    talk = await house.talk(LINES)
    for line in (b"hello", b"[1]", b'"text"', b"\x81\xa1a\x01", b"{", b'{"cmd":1}', b"{}", b"nul\xff"):
        await talk.write(line + b"\n")
        assert (await talk.receive())["code"] == "InvalidRequest"
    assert await talk.do("PING") == {"ok": True}


@each_manner
async def test_message_may_come_in_pieces(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    for byte in encode({"cmd": "PUSH", "queue": "mail", "data": "ü"}, manner):
        await talk.write(bytes([byte]))
    assert (await talk.receive())["ok"] is True


# Names and strictness.


@each_manner
async def test_names_are_read_in_both_styles(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    for name in ("custom_id", "customId", "job_id", "jobId"):
        id = (await talk.do("PUSH", queue="mail", data=1, **{name: name}))["id"]
        assert (await talk.do("GETJOBBYCUSTOMID", customId=name))["job"]["id"] == id
    jobs = [{"data": 1, "customId": "in-batch"}, {"data": 1, "schema_version": 1}]
    assert [result["ok"] for result in (await talk.do("PUSHB", queue="mail", jobs=jobs))["results"]] == [True, True]
    assert (await talk.do("PING", req_id=7))["reqId"] == 7


@each_manner
async def test_after_hello_an_unknown_field_is_refused_by_name_with_the_nearest(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    answer = await talk.ask("PUSH", queue="mail", data=1, priorty=3, reqId=1)
    assert (answer["code"], answer["detail"]["field"], answer["reqId"]) == ("InvalidRequest", "priorty", 1)
    assert "priority" in answer["error"]
    jobs = [{"data": 1, "dealy": 5}, {"data": 1}]
    refused, taken = (await talk.do("PUSHB", queue="mail", jobs=jobs))["results"]
    assert "delay" in refused["error"]
    assert taken["ok"] is True
    assert "queue" in (await talk.ask("PULL", quue="mail"))["error"]


@each_manner
async def test_wrong_value_is_refused_by_name(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    for field, value in (("delay", "soon"), ("delay", -1), ("max_attempts", 0), ("backoff", {"kind": "odd"})):
        answer = await talk.ask("PUSH", queue="mail", data=1, **{field: value})
        assert answer["code"] == "InvalidRequest"
        assert answer["detail"]["field"].startswith(field[:5])
    answer = await talk.ask("PUSH", data=1)
    assert answer["detail"]["field"] == "queue"


@each_manner
async def test_without_hello_unknown_fields_are_ignored_with_a_warning(manner: Manner, house: House) -> None:
    talk = await house.talk(manner, hello=False)
    answer = await talk.do("PUSH", queue="mail", data=1, colour="red")
    assert answer["warnings"] == ["colour is not known and was ignored"]
    assert "warnings" not in await talk.do("PUSH", queue="mail", data=1)


async def test_warnings_of_one_request_are_not_told_to_another(house: House) -> None:
    waiting = await house.talk(LINES, hello=False)
    other = await house.talk(LINES, hello=False)
    waiting.send("PULL", queue="mail", reqId=1)
    await house.until_calls(1)
    assert "warnings" in await other.do("PUSH", queue="mail", data=1, secret="x")
    assert "warnings" not in await waiting.receive()


@each_manner
async def test_without_hello_states_have_their_older_names(manner: Manner, house: House) -> None:
    talk = await house.talk(manner, hello=False)
    ready = (await talk.do("PUSH", queue="mail", data=1))["id"]
    later = await talk.do("PUSH", queue="mail", data=1, delay=60_000)
    child = await talk.do("PUSH", queue="mail", data=1, depends_on=[later["id"]])
    assert (later["state"], child["state"]) == ("delayed", "waiting-children")
    assert (await talk.do("GETSTATE", id=ready))["state"] == "waiting"
    job = (await talk.do("PULL", queue="mail", timeout=0))["job"]
    assert (await talk.do("GETJOB", id=ready))["job"]["state"] == "active"
    counts = (await talk.do("GETJOBCOUNTS", queue="mail"))["counts"]
    assert {name: count for name, count in counts.items() if count} == {
        "active": 1,
        "delayed": 1,
        "waiting-children": 1,
    }
    assert [job["id"] for job in (await talk.do("GETJOBS", state="delayed"))["jobs"]] == [later["id"]]
    assert (await talk.do("FAIL", id=job["id"], token=job["token"], error="x"))["state"] == "delayed"
    await talk.do("CANCEL", id=child["id"])
    assert (await talk.do("GETSTATE", id=child["id"]))["state"] == "failed"


@each_manner
async def test_without_hello_no_attempts_are_the_default_and_backoff_is_a_number(manner: Manner, house: House) -> None:
    talk = await house.talk(manner, hello=False)
    id = (await talk.do("PUSH", queue="mail", data=1, max_attempts=0, backoff=2_000))["id"]
    job = (await talk.do("PULL", queue="mail", timeout=0))["job"]
    failed = await talk.do("FAIL", id=id, token=job["token"], error="x")
    assert failed["state"] == "delayed"
    assert house.clock.wall_ms < failed["run_at"] <= house.clock.wall_ms + 2_000
    assert (await talk.do("GETJOB", id=id))["job"]["max_attempts"] > 1


# Side by side and in order.


@each_manner
async def test_waiting_pull_blocks_nothing_and_answers_come_out_of_order(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    talk.send("PULL", queue="mail", reqId="slow")
    assert (await talk.do("PING", reqId="quick"))["reqId"] == "quick"
    id = (await talk.do("PUSH", queue="image", data=1, reqId="other"))["id"]
    talk.send("PUSH", queue="mail", data=2, reqId="push")
    answers = {answer["reqId"]: answer for answer in (await talk.receive(), await talk.receive())}
    assert answers["slow"]["job"]["id"] == answers["push"]["id"] != id


@each_manner
async def test_without_ids_answers_keep_the_order_of_requests(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    talk.send("PULL", queue="mail", timeout=5_000)
    talk.send("PING")
    talk.send("LISTQUEUES")
    await house.until_calls(1)
    await house.advance(5_000)
    answers = [await talk.receive() for _ in range(3)]
    assert ["job" in answers[0], answers[1] == {"ok": True}, "queues" in answers[2]] == [True, True, True]


@each_manner
async def test_thousand_requests_in_one_write(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    sent = [encode({"cmd": "PUSH", "queue": "mail", "data": n, "reqId": n}, manner) for n in range(1_000)]
    await talk.write(b"".join(sent))
    answers = [await talk.receive() for _ in range(1_000)]
    assert [answer["reqId"] for answer in answers] == list(range(1_000))
    assert len({answer["id"] for answer in answers}) == 1_000


@each_manner
async def test_thousand_waiting_requests_in_one_write_are_all_answered(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    sent = [encode({"cmd": "PULL", "queue": "mail", "timeout": 1_000, "reqId": n}, manner) for n in range(1_000)]
    await talk.write(b"".join(sent))
    await house.until_calls(500)
    await house.advance(1_000)
    first = [await talk.receive() for _ in range(500)]
    await house.until_calls(500)
    await house.advance(1_000)
    second = [await talk.receive() for _ in range(500)]
    assert sorted(answer["reqId"] for answer in (*first, *second)) == list(range(1_000))


@each_manner
async def test_two_requests_may_have_the_same_id(manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    talk.send("PULL", queue="a", reqId=1, timeout=1_000)
    talk.send("PULL", queue="b", reqId=1, timeout=1_000)
    await house.until_calls(2)
    await house.advance(1_000)
    assert [(await talk.receive())["reqId"] for _ in range(2)] == [1, 1]


@each_manner
async def test_waiting_pull_is_woken_by_a_push_on_another_connection(manner: Manner, house: House) -> None:
    worker, producer = await house.talk(manner), await house.talk(LINES)
    worker.send("PULL", queue="mail")
    await house.until_calls(1)
    id = (await producer.do("PUSH", queue="mail", data="hi"))["id"]
    answer = await worker.receive()
    assert (answer["job"]["id"], answer["job"]["data"]) == (id, "hi")


async def test_aborted_pull_takes_no_job(house: House) -> None:
    """Nor when both come in one write, so that the wait has not begun."""
    talk = await house.talk(LINES)
    talk.send("PULL", queue="mail", reqId=1)
    talk.send("ABORT", id=1, reqId=2)
    assert {(await talk.receive())["reqId"] for _ in range(2)} == {1, 2}
    id = (await talk.do("PUSH", queue="mail", data=1))["id"]
    assert (await talk.do("GETSTATE", id=id))["state"] == "ready"


async def test_pull_of_a_connection_that_ended_takes_no_job(house: House) -> None:
    gone, talk = await house.talk(LINES), await house.talk(LINES)
    gone.send("PULL", queue="mail")
    await house.until_calls(1)
    await gone.close()
    await house.until_calls(0)
    id = (await talk.do("PUSH", queue="mail", data=1))["id"]
    assert (await talk.do("GETSTATE", id=id))["state"] == "ready"


# Being told.


@each_manner
async def test_cancel_is_pushed_to_the_connection_of_the_worker(manner: Manner, house: House) -> None:
    worker, other = await house.talk(manner), await house.talk(LINES)
    id = (await other.do("PUSH", queue="mail", data=1))["id"]
    await worker.do("PULL", queue="mail", timeout=0, worker="w")
    await other.do("CANCEL", id=id)
    assert await worker.receive() == {"event": "cancelled", "id": id}


async def test_worker_name_of_another_connection_hides_nothing(house: House) -> None:
    """Names of workers are not unique: whoever claims under the same name afterwards takes nothing away."""
    worker, namesake, other = [await house.talk(LINES) for _ in range(3)]
    id = (await other.do("PUSH", queue="mail", data=1))["id"]
    await worker.do("PULL", queue="mail", timeout=0, worker="w")
    await namesake.do("PULL", queue="mail", timeout=0, worker="w")
    await other.do("CANCEL", filter={"queue": "mail"})
    assert await worker.receive() == {"event": "cancelled", "id": id}


async def test_names_of_workers_are_remembered_within_bounds(house: House) -> None:
    talk = await house.talk(LINES)
    for n in range(100):
        await talk.do("PULL", queue="mail", timeout=0, worker=f"w{n}")
    [door] = house.doors
    assert len(door.workers) == 16
    await talk.close()
    other = await house.talk(LINES)
    await other.do("PING")
    assert not door.workers


async def test_subscription_begins_with_its_answer(house: House) -> None:
    """What the same write asks for afterwards is heard."""
    talk = await house.talk(LINES)
    asked: list[Message] = [
        {"cmd": "SUBSCRIBE", "reqId": "s"},
        {"cmd": "PUSH", "queue": "mail", "data": 1, "reqId": "p"},
    ]
    await talk.write(b"".join(encode(message, LINES) for message in asked))
    answers = [await talk.receive() for _ in range(3)]
    assert [answer["reqId"] for answer in answers] == ["s", "p", "s"]
    assert answers[2]["event"]["job"] == answers[1]["id"]


async def test_subscription_can_begin_in_the_past(house: House) -> None:
    talk = await house.talk(LINES)
    ids = [(await talk.do("PUSH", queue="mail", data=n))["id"] for n in range(3)]
    await talk.do("SUBSCRIBE", after="", reqId="s")
    assert [(await talk.receive())["event"]["job"] for _ in range(3)] == ids


@pytest.mark.parametrize("after", [2**63 - 1, "e9223372036854775807", "e9999999999999999999", 2**70, -1])
async def test_cursor_that_no_event_can_have_is_refused(after: int | str, house: House) -> None:
    talk = await house.talk(LINES)
    await talk.do("PUSH", queue="mail", data=1)
    for command in ("EVENTS", "SUBSCRIBE"):
        assert await talk.refused(command, after=after, reqId=1) == "InvalidRequest"
    assert await talk.do("PING") == {"ok": True}


async def test_subscriptions_are_bounded(house: House) -> None:
    talk = await house.talk(LINES)
    for n in range(16):
        await talk.do("SUBSCRIBE", reqId=n)
    assert await talk.refused("SUBSCRIBE", reqId=3) == "InvalidRequest"
    assert await talk.refused("SUBSCRIBE", reqId=99) == "InvalidRequest"
    assert (await talk.do("UNSUBSCRIBE"))["ended"] is True


# Tokens of leases.


async def test_connection_that_claimed_may_leave_out_the_token(house: House) -> None:
    talk, other = await house.talk(LINES), await house.talk(FRAMES)
    await talk.do("PUSH", queue="mail", data=1)
    job = (await talk.do("PULL", queue="mail", timeout=0))["job"]
    assert await other.refused("ACK", id=job["id"]) == "InvalidRequest"
    assert (await talk.do("ACK", id=job["id"]))["state"] == "completed"


async def test_connections_of_two_doors_are_never_taken_for_one(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    async with serving(unix=path) as house:
        by_tcp = await house.talk(LINES)
        by_unix = await house.talk(LINES, address=path)
        await by_tcp.do("PUSH", queue="mail", data=1)
        job = (await by_tcp.do("PULL", queue="mail", timeout=0))["job"]
        assert await by_unix.refused("ACK", id=job["id"]) == "InvalidRequest"


# Payloads.


SAID_IN_BOTH: list[Any] = [None, True, 0, -5, 2**53, 1.5, "", "ü\n\"'", [], {}, [[1], {"a": [None]}], {"$bin": 1}]


@pytest.mark.parametrize("data", SAID_IN_BOTH, ids=repr)
async def test_payload_is_the_same_for_readers_of_both_formats(data: object, house: House) -> None:
    talks = [await house.talk(manner) for manner in MANNERS]
    for writer in talks:
        id = (await writer.do("PUSH", queue="mail", data=data))["id"]
        for reader in talks:
            assert (await reader.do("GETJOB", id=id))["job"]["data"] == data


async def test_bytes_are_said_in_json_as_base64(house: House) -> None:
    lines, frames = await house.talk(LINES), await house.talk(FRAMES)
    id = (await frames.do("PUSH", queue="mail", data={"image": b"\x00\xff"}))["id"]
    assert (await lines.do("GETJOB", id=id))["job"]["data"] == {"image": {"$bin": "AP8="}}
    id = (await lines.do("PUSH", queue="mail", data={"image": {"$bin": "AP8="}}))["id"]
    assert (await frames.do("GETJOB", id=id))["job"]["data"] == {"image": b"\x00\xff"}
    assert (await lines.do("PULL", queue="mail", timeout=0))["job"]["data"] == {"image": {"$bin": "AP8="}}


@pytest.mark.parametrize(
    "payload",
    [b'{} ,"ok":false', b'{"a":\n1}\n{"ok":true}', b'"', b"\xff\xfe", b"", b"nul", b'{"a":"\x01"}', b'"\xed\xa0\x80"'],
    ids=repr,
)
async def test_payload_that_is_not_the_json_it_says_it_is_breaks_no_line(payload: bytes, house: House) -> None:
    lines, frames = await house.talk(LINES), await house.talk(FRAMES)
    id = (await frames.do("PUSH", queue="mail", data=payload, codec="json"))["id"]
    for command, fields in (("GETJOB", {"id": id}), ("PULL", {"queue": "mail", "timeout": 0})):
        answer = await lines.do(command, **fields)
        assert answer["ok"] is True
        found = answer["job"]["data"]
        assert found == {"a": 1} if payload == b'{"a":\n1}' else set(found) == {"$bin"}
    assert (await frames.do("GETJOB", id=id))["job"]["data"] == payload


@pytest.mark.parametrize("payload", [b"\xd6\x05aaaa", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91", b"\xa1\xff"], ids=repr)
async def test_payload_that_json_cannot_say_goes_as_binary(payload: bytes, house: House) -> None:
    lines = await house.talk(LINES)
    frames = await house.talk(FRAMES)
    id = (await frames.do("PUSH", queue="mail", data=payload, codec="msgpack"))["id"]
    assert set((await lines.do("PULL", queue="mail", timeout=0))["job"]["data"]) == {"$bin"}
    assert (await frames.do("GETSTATE", id=id))["state"] == "running"


async def test_text_that_is_no_text_breaks_no_message(house: House) -> None:
    frames = await house.talk(FRAMES)
    await frames.write(wrap(b"\x83\xa3cmd\xa4PUSH\xa5queue\xa4mail\xa4data\xa1\xff", FRAMES))
    id = (await frames.receive())["id"]
    assert (await frames.do("GETJOB", id=id))["job"]["data"] == b"\xa1\xff"


async def test_extension_type_sent_as_a_value_reaches_a_reader_of_json_as_binary(house: House) -> None:
    frames, lines = await house.talk(FRAMES), await house.talk(LINES)
    await frames.do("PUSH", queue="mail", data={"x": msgspec.msgpack.Ext(5, b"abcd")})
    assert set((await lines.do("PULL", queue="mail", timeout=0))["job"]["data"]) == {"$bin"}


async def test_number_that_messagepack_cannot_say_goes_as_binary(house: House) -> None:
    frames, lines = await house.talk(FRAMES), await house.talk(LINES)
    id = (await lines.do("PUSH", queue="mail", data=10**30))["id"]
    assert (await frames.do("GETJOB", id=id))["job"]["data"] == b"1" + b"0" * 30
    assert (await lines.do("GETJOB", id=id))["job"]["data"] == 10**30


async def test_codec_of_ones_own_needs_binary(house: House) -> None:
    frames = await house.talk(FRAMES)
    assert await frames.refused("PUSH", queue="mail", data={"a": 1}, codec="cloudpickle") == "InvalidRequest"
    id = (await frames.do("PUSH", queue="mail", data=b"\x80\x05.", codec="cloudpickle"))["id"]
    assert (await frames.do("GETJOB", id=id))["job"]["data"] == b"\x80\x05."
    lines = await house.talk(LINES)
    assert (await lines.do("GETJOB", id=id))["job"]["data"] == {"$bin": "gAUu"}


@each_manner
@pytest.mark.parametrize("codec", ["", "json", "msgpack"])
async def test_job_without_data_has_null(codec: str, manner: Manner, house: House) -> None:
    talk = await house.talk(manner)
    fields = {"codec": codec} if codec else {}
    ids = [(await talk.do("PUSH", queue="mail", **fields))["id"]]
    ids += (await talk.do("PUSHB", queue="mail", jobs=[{}, {**fields}], **fields))["ids"]
    for reader in [talk, await house.talk(LINES), await house.talk(FRAMES)]:
        found = (await reader.do("GETJOBSBATCH", ids=ids))["jobs"]
        assert [job["data"] for job in found] == [None, None, None]


# Repeats.


async def test_op_id_of_another_operation_is_refused_and_nothing_is_done(house: House) -> None:
    """Also where the verb is the same: by filter and by id, and with another number of jobs."""
    talk = await house.talk(LINES)
    for counter, (first, second) in enumerate(permutations(range(3), 2), start=1):
        ids = [(await talk.do("PUSH", queue="mail", data=n))["id"] for n in range(3)]
        which: list[Message] = [{"filter": {"queue": "other"}}, {"id": ids[0]}, {"ids": ids[1:]}]
        await talk.do("CANCEL", **which[first], opId=f"c:{counter}")
        answer = await talk.ask("CANCEL", **which[second], opId=f"c:{counter}")
        assert answer.get("code") == "InvalidRequest", (first, second, answer)
        assert "opId" in answer["error"]
    await talk.do("PUSH", queue="mail", data=1, opId="p:1")
    assert await talk.refused("PUSHB", queue="mail", jobs=[{"data": 1}, {"data": 2}], opId="p:1") == "InvalidRequest"
    leased = (await talk.do("PULLB", queue="mail", count=3, timeout=0))["jobs"]
    items = [{"id": job["id"], "token": job["token"]} for job in leased]
    await talk.do("ACK", **items[0], opId="a:1")
    assert await talk.refused("ACKB", items=items[1:], opId="a:1") == "InvalidRequest"
    states = [(await talk.do("GETSTATE", id=job["id"]))["state"] for job in leased]
    assert states == ["completed", "running", "running"]


async def test_repeat_with_the_same_op_id_is_answered_and_not_done_again(house: House) -> None:
    talk, other = await house.talk(LINES), await house.talk(FRAMES)
    first = await talk.do("PUSH", queue="mail", data=1, opId="session:1")
    assert (await other.do("PUSH", queue="mail", data=1, op_id="session:1"))["id"] == first["id"]
    assert (await talk.do("COUNT", queue="mail"))["count"] == 1
    for wrong in ("session", ":1", "session:-1", "session:x", "s:99999999999999999999", "s" * 300 + ":1"):
        assert await talk.refused("PUSH", queue="mail", data=1, opId=wrong) == "InvalidRequest"


async def test_duplicate_key_has_its_last_value(house: House) -> None:
    talk = await house.talk(LINES)
    await talk.write(b'{"cmd":"PING","cmd":"PUSH","queue":"a","data":1,"queue":"b"}\n')
    id = (await talk.receive())["id"]
    assert (await talk.do("GETJOB", id=id))["job"]["queue"] == "b"


# The end.


async def test_stop_ends_waits_and_lets_work_finish() -> None:
    async with serving() as house:
        talk = await house.talk(LINES)
        talk.send("PULL", queue="mail", reqId="wait")
        await talk.do("SUBSCRIBE", reqId="sub")
        await house.until_calls(1)
        await house.server.stop()
        answer: Message = await talk.receive()
        assert (answer["reqId"], answer["code"]) == ("wait", "Unavailable")
        assert await talk.ended() == b""


class SlowStore(MemoryStore):
    """Its changes are safe when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_safe = asyncio.Event()

    def _is_prompt(self, durability: str) -> bool:
        return False

    async def _sure(self, context: Context) -> None:
        await self.is_safe.wait()


async def test_request_that_works_is_not_cut_off_by_a_stop() -> None:
    """A push whose journal is being written when the stop comes is answered as done."""
    store = SlowStore()
    async with serving(store) as house:
        talk: Talk = await house.talk(LINES, hello=False)
        talk.send("PUSH", queue="mail", data=1, reqId=1)
        await house.until_calls(1)
        stopping = asyncio.create_task(house.server.stop())
        while not house.doors[0].is_closing:
            await asyncio.sleep(0)
        assert not stopping.done()
        talk.send("PUSH", queue="mail", data=2, reqId=2)
        refused = await talk.receive()
        assert (refused["reqId"], refused["code"]) == (2, "Unavailable")
        store.is_safe.set()
        assert (await talk.receive())["ok"] is True
        await stopping


async def test_empty_frame_is_refused(house: House) -> None:
    talk = await house.talk(FRAMES)
    await talk.write(wrap(b"", FRAMES))
    assert (await talk.receive())["code"] == "InvalidRequest"
