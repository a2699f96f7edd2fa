"""`tenure worker` and `tenure dev`, as people start them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenure.app.load import load_app
from tenure.cli.worker import bytes_of, queues_of, without_secret
from tenure.core.error import InvalidRequest
from tests.server.process import QUIET, running

WAIT_S = 60.0
TASKS = """
import asyncio
import pathlib
import tenure

app = tenure.App()


@app.task(queue="email")
async def send(to: str) -> str:
    return f"sent to {to}"


@app.task(queue="slow")
async def slow(file: str) -> str:
    pathlib.Path(file).write_text("started")
    while not pathlib.Path(file + ".go").exists():
        await asyncio.sleep(0.01)
    return "done"
"""


class Command:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ended(self) -> tuple[int, str, str]:
        async with asyncio.timeout(WAIT_S):
            out, said = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, out.decode(), said.decode()

    async def line(self, wanted: str) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            while line := (await self.process.stdout.readline()).decode():
                if wanted in line:
                    return line
        raise AssertionError(f"it never said {wanted!r}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    return tmp_path


async def tenure(folder: Path, *arguments: str, **environment: str) -> Command:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tenure", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env={**QUIET, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120", "NO_COLOR": "1", **environment},
    )
    return Command(process)


@asynccontextmanager
async def started(folder: Path, *arguments: str) -> AsyncIterator[Command]:
    found = await tenure(folder, *arguments)
    try:
        yield found
    finally:
        if found.process.returncode is None:
            found.process.kill()
            await found.process.wait()


async def until(file: Path) -> None:
    async with asyncio.timeout(WAIT_S):
        while not file.exists():
            await asyncio.sleep(0.01)


async def said_by(folder: Path, *arguments: str) -> str:
    code, out, said = await (await tenure(folder, *arguments)).ended()
    assert code == 0, said
    return out


async def test_burst_works_off_what_is_there_and_ends(folder: Path) -> None:
    url = f"sqlite:///{folder}/tenure.db"
    for to in ("a", "b", "c"):
        await said_by(folder, "enqueue", "send", f'{{"to": "{to}"}}', "--queue", "email", "--url", url)
    out = await said_by(folder, "worker", "tasks:app", "--burst", "--name", "mine")
    assert "worker mine" in out
    assert f"store     {url} (beside pyproject.toml)" in out
    assert "queues    email, slow" in out
    assert "stopped after 3 jobs" in out


async def test_first_signal_lets_jobs_end(folder: Path) -> None:
    async with running(folder) as server:
        url = f"tenure://127.0.0.1:{server.port}"
        await said_by(folder, "enqueue", "slow", f'{{"file": "{folder}/file"}}', "--queue", "slow", "--url", url)
        async with started(folder, "worker", "tasks:app", "--url", url, "--queues", "s*:2,email") as worker:
            await worker.line("queues    s*:2, email")
            await until(folder / "file")
            worker.process.send_signal(signal.SIGTERM)
            assert "1 jobs may end" in await worker.line("stopping")
            (folder / "file.go").write_text("")
            code, out, _ = await worker.ended()
            assert (code, "stopped after 1 jobs" in out) == (0, True)
        assert '"state":"completed"' in await said_by(folder, "jobs", "list", "--json", "--url", url)


async def test_second_signal_gives_jobs_back_at_once(folder: Path) -> None:
    async with running(folder) as server:
        url = f"tenure://127.0.0.1:{server.port}"
        await said_by(folder, "enqueue", "slow", f'{{"file": "{folder}/file"}}', "--queue", "slow", "--url", url)
        async with started(folder, "worker", "tasks:app", "--url", url, "--stop", "1h") as worker:
            await until(folder / "file")
            worker.process.send_signal(signal.SIGINT)
            await worker.line("stopping")
            worker.process.send_signal(signal.SIGINT)
            code, _, _ = await worker.ended()
            assert code == 0
        listed = await said_by(folder, "jobs", "list", "--json", "--url", url)
        assert '"state":"ready"' in listed
        assert '"attempt":0' in listed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("task:app",), "did you mean tasks?"),
        (("tasks:appp",), "tasks has tasks:app"),
        (("tasks:app", "--concurrency", "0"), "a whole number from 1 on, or auto"),
        (("tasks:app", "--queues", "email:x"), "a weight is a whole number"),
        (("tasks:app", "--memory", "much"), "a number of bytes"),
        (("tasks:app", "--log-level", "loud"), "must be one of"),
        (("tasks:app", "--url", "tenure://127.0.0.1:1"), "is it running?"),
    ],
)
async def test_what_is_wrong_is_said_with_its_fix(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    code, _, said = await (await tenure(folder, "worker", *arguments)).ended()
    assert code in (1, 2)
    assert message in " ".join(said.split())


async def test_module_that_fails_to_import_says_where(folder: Path) -> None:
    (folder / "broken.py").write_text("import a_module_that_is_not_there\n")
    code, _, said = await (await tenure(folder, "worker", "broken:app")).ended()
    assert code == 1
    assert "a_module_that_is_not_there" in said


@pytest.mark.slow
async def test_dev_serves_works_and_reloads(folder: Path) -> None:
    async with started(folder, "dev", "tasks:app", "--tcp-port", "0", "--http-port", "0") as dev:
        where = (await dev.line("serving")).split(" at ")[1].split()[0]
        await dev.line("queues    email, slow")
        asked = ("enqueue", "send", '{"to": "a"}', "--queue", "email", "--wait", "--url", where)
        assert "sent to a" in await said_by(folder, *asked)
        (folder / "tasks.py").write_text(TASKS.replace("sent to", "mailed to"))
        await dev.line("queues    email, slow")
        assert "mailed to a" in await said_by(folder, *asked)
        dev.process.send_signal(signal.SIGINT)
        code, _, _ = await dev.ended()
        assert code == 0


def test_app_is_found_by_its_name_or_as_the_only_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    (folder / "only.py").write_text("import tenure\nmine = tenure.App('memory://')\n")
    (folder / "several.py").write_text("import tenure\na = tenure.App('memory://')\nb = tenure.App('memory://')\n")
    assert load_app("only").url == load_app("only:mine").url == "memory://"
    with pytest.raises(InvalidRequest, match="several:a, several:b"):
        load_app("several")
    with pytest.raises(InvalidRequest, match="such as tasks:app"):
        load_app(":app")


def test_words_become_values() -> None:
    assert queues_of("a, b*:3,,c") == ["a", ("b*", 3), "c"]
    assert queues_of(None) == []
    assert (bytes_of(""), bytes_of("5"), bytes_of("2k"), bytes_of("512M"), bytes_of("1G")) == (
        0,
        5,
        2048,
        512 * 1024**2,
        1024**3,
    )
    assert without_secret("tenure://user:secret@host:1") == "tenure://user:***@host:1"
