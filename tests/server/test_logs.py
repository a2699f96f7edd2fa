"""What the server writes down: who changed what, and lines that machines can read."""

import logging
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenure.server.logs import JsonLines, TextLines
from tests.server.house import serving
from tests.server.process import running
from tests.server.talk import FRAMES, talking


async def test_every_administrative_operation_is_audited_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tenure.audit")
    async with serving() as house:
        talk = await house.talk(FRAMES)
        id = (await talk.do("PUSH", queue="mail", data=1))["id"]
        await talk.do("GETJOB", id=id)
        await talk.do("QUEUE", queue="mail")
        assert caplog.records == []
        await talk.do("PAUSE", queue="mail")
        await talk.do("CANCEL", id=id, reason="mistake")
        await talk.do("DRAIN", queue="mail")
    audited: list[Any] = [getattr(record, "fields", None) for record in caplog.records]
    assert [each.get("action") or each.get("subject") for each in audited] == ["queue", "cancel", "remove"]
    assert audited[0]["name"] == "mail"
    assert audited[0]["changes"] == {"paused": True}
    assert audited[1]["ids"] == [id]
    assert audited[2]["filter"]["queue"] == "mail"
    assert "ready" in audited[2]["filter"]["states"]
    assert {each["tenant"] for each in audited} == {"default"}
    assert f"cancel jobs {id}" in caplog.messages[1]


def test_json_line_has_what_a_record_has() -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        record = logging.LogRecord("tenure.server", logging.ERROR, "", 0, "%s\nfailed", ("it",), sys.exc_info())
    record.fields = {"id": 7, "what": object}
    line = JsonLines().format(record)
    assert "\n" not in line
    found = msgspec.json.decode(line)
    assert (found["level"], found["logger"], found["message"], found["id"]) == (
        "error",
        "tenure.server",
        "it\nfailed",
        7,
    )
    assert found["what"] == "<class 'object'>"
    assert "ValueError: bad" in found["exception"]
    assert found["at"].endswith("+00:00")


@pytest.mark.slow
async def test_every_line_of_a_server_that_logs_json_is_json(tmp_path: Path) -> None:
    async with running(tmp_path, "--log-format", "json") as server:
        async with talking(server.address, FRAMES) as talk:
            await talk.do("PAUSE", queue="mail")
        assert await server.stop() == 0
    lines = [msgspec.json.decode(line) for line in server.said]
    messages = [line["message"] for line in lines]
    assert messages[0] == "settings"
    assert lines[0]["settings"]["log_format"] == "json"
    assert lines[0]["sources"]["log_format"] == "flag"
    assert messages[-2:] == ["stopping", "stopped"]
    [audited] = [line for line in lines if line["logger"] == "tenure.audit"]
    assert audited["changes"] == {"paused": True}


HOSTILE = "\x1b]0;owned\x07\r\n2026-01-01 00:00:00 INFO tenure.audit forged\u202e\x9b2J\u200b"


def raise_hostile() -> logging.LogRecord:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        return logging.LogRecord("tenure.server", logging.ERROR, "", 0, "failed: %s", (HOSTILE,), sys.exc_info())


def test_record_in_text_is_one_line_and_its_exception_is_indented() -> None:
    first, *rest = TextLines().format(raise_hostile()).split("\n")
    assert r"failed: \x1b]0;owned\x07\r\n2026-01-01" in first
    assert rest
    for line in rest:
        assert line.startswith("  ")
    for line in (first, *rest):
        assert line.isprintable()


def test_record_in_json_is_one_line_of_what_can_be_seen_and_says_the_same() -> None:
    record = raise_hostile()
    record.fields = {"name": HOSTILE}
    line = JsonLines().format(record)
    assert line.isprintable()
    found = msgspec.json.decode(line)
    assert (found["message"], found["name"]) == (f"failed: {HOSTILE}", HOSTILE)
    assert HOSTILE.split("\n")[1] in found["exception"]


@pytest.mark.parametrize("format", ["text", "json"])
async def test_names_that_others_chose_forge_no_line_of_the_log_or_the_audit(format: str, tmp_path: Path) -> None:
    async with running(tmp_path, "--log-format", format, store="memory://") as server, talking(server.address) as talk:
        await talk.do("CANCEL", filter={"queue": "mail", "worker": HOSTILE, "error": HOSTILE})
        await talk.do("LIMIT", key=HOSTILE, changes={"concurrency": 1})
        assert await server.stop() == 0
        lines = server.output.split("\n")
    audited = [line for line in lines if "tenure.audit" in line]
    assert len(audited) == 2
    for line in lines:
        assert line.isprintable(), line
