"""The examples of docs/http.md do what they say: each is run as it stands but for the port and the lease's token."""

import asyncio
import re
import shlex
from typing import Final

from tests.docs.page import ROOT, Block, read
from tests.http.conftest import Served

PAGE: Final = ROOT / "docs" / "http.md"
STATUS = "\n%{http_code}"


def examples() -> list[Block]:
    return [block for block in read(PAGE)[1] if block.info == ("sh",)]


async def curl(served: Served, command: str, token: str) -> tuple[int, str]:
    text = command.replace("localhost:6790", f"127.0.0.1:{served.port}").replace("TOKEN", token)
    arguments = [*shlex.split(text), "-w", STATUS, "--noproxy", "*"]
    child = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    body, _, status = out.decode().rpartition("\n")
    return int(status), body


async def test_examples_do_what_they_say(served: Served) -> None:
    token = ""
    assert len(examples()) >= 8
    for block in examples():
        command, _, said = block.text.partition("\n# ")
        status, body = await curl(served, command.replace("\\\n", " "), token)
        wanted, _, begins = said.strip().partition(" ")
        assert (status, body[: len(begins)]) == (int(wanted), begins), str(block)
        found = re.search(r'"token":"([^"]+)"', body)
        token = found[1] if found else token
