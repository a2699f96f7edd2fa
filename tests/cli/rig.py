"""What the tests of the command line work with: a way to run it, and stores with jobs in them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from typer.testing import CliRunner

import tenure
from tenure.cli.main import app
from tests.server.process import ALONE, LISTENING, QUIET

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENT: Final = {**QUIET, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200", "TERM": "dumb"}
WAIT_S: Final = 60


class Ended(NamedTuple):
    """What a command wrote and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Its output as JSON, line by line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def json(self) -> Any:
        [line] = self.lines
        return line


def run(*arguments: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Ended:
    """In this process."""
    result = CliRunner().invoke(app, list(arguments), input=input, env=env, prog_name="tenure")
    return Ended(result.exit_code, result.stdout, result.stderr)


def spawn(*arguments: str, folder: Path, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """In a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tenure", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_process(*arguments: str, folder: Path, input: str = "", env: dict[str, str] | None = None) -> Ended:
    with spawn(*arguments, folder=folder, env=env) as process:
        out, err = process.communicate(input, timeout=WAIT_S)
        return Ended(process.returncode, out, err)


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[str]:
    """A server as people start it; its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tenure", "serve", "--store", "sqlite:///served.db", "--tcp-port", "0", *arguments],
        cwd=folder,
        env={**ENVIRONMENT, **ALONE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if found := LISTENING.search(line):
                yield f"tenure://127.0.0.1:{found[2]}"
                return
        raise AssertionError("".join(said))
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


class Place:
    """A store or server, and the tenant of one test in it."""

    def __init__(self, url: str, tenant: str) -> None:
        self.url = url
        self.tenant = tenant

    def run(self, *arguments: str, input: str | bytes | None = None, code: int = 0) -> Ended:
        ended = run(*arguments, "--url", self.url, "--tenant", self.tenant, input=input)
        assert ended.code == code, ended
        return ended

    def client(self) -> tenure.SyncClient:
        return tenure.connect_sync(self.url, tenant=self.tenant)

    def count_all(self) -> int:
        with self.client() as client:
            return sum(sum(states.values()) for states in client.count().values())

    def enqueue(self, count: int = 1, **fields: object) -> list[int]:
        with self.client() as client:
            made = client.enqueue_many([b'{"n": %d}' % number for number in range(count)], **fields)
            return [job.id for job in made]

    def fail(self, count: int = 1, queue: str = "mail", type: str = "ValueError", message: str = "bad") -> list[int]:
        """Dead letters."""
        ids = self.enqueue(count, queue=queue, task="send", max_attempts=1)
        with self.client() as client:
            for job in client.claim(queue, n=count, worker="w-1"):
                client.fail(job, type, message)
        return ids

    def count(self, queue: str) -> dict[str, int]:
        """Of the states in which there are jobs."""
        with self.client() as client:
            return {state: count for state, count in client.count(queue).get(queue, {}).items() if count}
