"""What the server writes down: who changed what, and lines that machines can read."""

import logging
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenure.server.logs import JsonLines
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
