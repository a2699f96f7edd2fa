"""A reader at a terminal: keeps the files of a page, types its commands, and compares what is printed.

```python title=FILE is the file, ```python add=FILE what is added to it. In ```console, a line after `$ ` is a command
and the lines below it are what it prints. A command that goes on (`tenure worker`, `tenure serve`) is left running; a
worker that is started again replaces the one before, and before a server the worker is stopped.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.docs.page import Block

PATIENCE_S: Final = 60
PORT: Final = "6789"
LISTENING: Final = re.compile(r"listening on 127\.0\.0\.1:(\d+)$")
SECONDS: Final = re.compile(r" in [0-9.]+s$")


class Terminal:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._worker: subprocess.Popen[str] | None = None
        self._server: subprocess.Popen[str] | None = None
        self._port = PORT
        self.commands: list[str] = []

    def follow(self, block: Block) -> None:
        kind, *rest = block.info or ("",)
        if kind == "python" and rest:
            how, _, name = rest[0].partition("=")
            with (self.folder / name).open("a" if how == "add" else "w") as file:
                file.write(block.text)
        elif kind == "console":
            for command, printed in commands_of(block):
                self.commands.append(command)
                assert self.type(command) == printed, f"{block}: {command}"

    def type(self, command: str) -> list[str]:
        environment, words = self._parse(command)
        match words:
            case ["pip", "install", "tenure"]:
                return []
            case ["tenure", "worker", place]:
                self._stop_worker()
                self._worker = self._start(environment, "-m", "tenure", "worker", place)
                return []
            case ["tenure", "serve", *arguments]:
                self._stop_worker()
                self._serve(environment, arguments)
                return []
            case ["python", "-m", "pytest", *arguments]:
                return [SECONDS.sub("", self._run(environment, "-m", "pytest", "-p", "no:asyncio", *arguments)[-1])]
            case ["python", *arguments]:
                return self._run(environment, *arguments)
        raise AssertionError(f"what does {command!r} do?")

    def _parse(self, command: str) -> tuple[dict[str, str], list[str]]:
        words = shlex.split(command)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("TENURE_", "PYTEST"))}
        environment.pop("PYTHONSAFEPATH", None)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        while words and "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            environment[name] = value.replace(PORT, self._port)
        return environment, words

    def _run(self, environment: dict[str, str], *arguments: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout.splitlines()

    def _start(self, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True
        )

    def _serve(self, environment: dict[str, str], arguments: list[str]) -> None:
        anywhere = {f"TENURE_{door}_PORT": "0" for door in ("TCP", "HTTP", "GRPC")}
        self._server = self._start({**environment, **anywhere, "COLUMNS": "200"}, "-m", "tenure", "serve", *arguments)
        assert self._server.stdout is not None
        for line in self._server.stdout:
            if found := LISTENING.search(line.rstrip()):
                self._port = found[1]
                return
        raise AssertionError("the server does not listen")

    def _stop_worker(self) -> None:
        if self._worker is not None:
            stop(self._worker)
            self._worker = None

    def leave(self) -> None:
        self._stop_worker()
        if self._server is not None:
            stop(self._server)


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    assert process.returncode == 0


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found
