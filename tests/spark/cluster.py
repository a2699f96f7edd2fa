"""A standalone cluster on this machine: one master, some workers, each a process with executors below it."""

import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final

import pyspark

from tests.spark.rig import WAIT_S

CLASS: Final = Path(pyspark.__file__).parent / "bin" / "spark-class"
MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
JOINED: Final = re.compile(r"Successfully registered with master")
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
WORKER: Final = b"deploy.worker.Worker"


class Cluster:
    """Each worker runs one task at a time. All of it ends with the block."""

    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._workers = workers
        self._processes: list[subprocess.Popen[str]] = []
        self.master = ""

    def __enter__(self) -> "Cluster":
        try:
            [found] = self._start(["master.Master", "--port", "0"], said=MASTER)
            self.master = found[1]
            self._start(*[self._worker(number) for number in range(self._workers)], said=JOINED)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _worker(self, number: int) -> list[str]:
        folder = self._folder / f"worker-{number}"
        sizes = ["--cores", "1", "--memory", "700m", "--work-dir", str(folder)]
        return ["worker.Worker", "--port", "0", *sizes, self.master]

    def _start(self, *commands: list[str], said: re.Pattern[str]) -> list[re.Match[str]]:
        """All of them at once; what each says when it is up."""
        started = [self._process(*command) for command in commands]
        return [_hear(process, said) for process in started]

    def _process(self, kind: str, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [str(CLASS), f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", "--webui-port", "0", *arguments],
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # a few lines for each executor, which the pipe has room for
            text=True,
            start_new_session=True,  # executors are of its group, and end with it
        )
        self._processes.append(process)
        return process

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):  # it is not waited for yet, so that the number is its own
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=WAIT_S)


def _hear(process: "subprocess.Popen[str]", said: re.Pattern[str]) -> re.Match[str]:
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if found := said.search(line):
            return found
    raise AssertionError("".join(lines))


def take_down(what: bytes) -> None:
    """Kills the executor that this process works for, or its whole node, with all that is between it and this process,
    and this process: what an operating system does that runs out of memory, or of power."""
    chain = [os.getpid()]
    while what not in _command(chain[-1]):
        chain.append(_parent(chain[-1]))
        assert chain[-1] > 1, "this process is of no executor"
    for pid in reversed(chain):
        os.kill(pid, signal.SIGKILL)


def executors_of(application: str) -> list[int]:
    """The processes of those that run tasks of this application."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in found if EXECUTOR in (command := _command(pid)) and application.encode() in command]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("PPid:")[1].split()[0])
