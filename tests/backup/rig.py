"""What the tests of backups work with: stores with jobs in them, a clock, an S3 server, and a wire that can be cut."""

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from urllib.request import Request, urlopen

import tenure
from tenure.core.clock import Now
from tenure.core.error import Unavailable
from tenure.ops.place import Folder

ROOT = Path(__file__).parents[2]
READY = re.compile(rb"Running on http://127\.0\.0\.1:(\d+)")
PAYLOAD_BYTES = 1_000
BUCKET = "backups"


class Clock:
    """Time that passes when it is told to; it may begin at the real one, for places that have a clock of their own."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self.now = Now(wall_ms, 5_000)

    def __call__(self) -> Now:
        return self.now

    def pass_time(self, ms: int) -> None:
        self.now = Now(self.now.wall_ms + ms, self.now.elapsed_ms + ms)


def connect(path: Path) -> tenure.Client:
    return tenure.connect(f"sqlite:///{path}")


async def fill(path: Path, jobs: int, seed: int = 1, queue: str = "work") -> list[int]:
    """So many jobs, of a kilobyte that does not compress, in a store that is closed afterwards."""
    random = Random(seed)
    async with connect(path) as client:
        made = await client.enqueue_many([random.randbytes(PAYLOAD_BYTES) for _ in range(jobs)], queue=queue)
    return [job.id for job in made]


class FailingFolder(Folder):
    """Refuses to store after so many objects."""

    def __init__(self, root: Path, objects_max: int) -> None:
        root.mkdir(exist_ok=True)
        super().__init__(root)
        self._left = objects_max
        self._lock = threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        with self._lock:
            self._left -= 1
            is_full = self._left < 0
        if is_full:
            raise Unavailable(f"{self.title} takes nothing more")
        super().put(name, data)


@contextmanager
def s3_server() -> Iterator[int]:
    """A process that speaks S3 on a port of the loopback, with one bucket."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            assert server.stdout is not None
            port = next(int(found[1]) for line in server.stdout if (found := READY.search(line)))
            # Its log has to be read, or it would stand still when the pipe is full.
            threading.Thread(target=server.stdout.read, daemon=True).start()
            with urlopen(Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT"), timeout=10):
                pass
            yield port
        finally:
            server.kill()


def s3_environment(port: int) -> dict[str, str]:
    return {
        "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "not-to-be-shown",
    }


class Wire:
    """A proxy in front of a port that cuts every connection once so many bytes went through, until it is mended."""

    def __init__(self, to_port: int, bytes_max: int) -> None:
        self._to_port = to_port
        self._left = bytes_max
        self._is_brief = False
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self.is_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def mend(self) -> None:
        self._left = 1 << 60

    def mend_when_cut(self) -> None:
        self._is_brief = True

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to_port))
                threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, to: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while data := source.recv(16_384):
                if counts and not self._let_through(len(data)):
                    break
                to.sendall(data)
        for end in (source, to):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _let_through(self, size: int) -> bool:
        with self._lock:
            self._left -= size
            if self._left >= 0:
                return True
            self.cuts += 1
            self.is_cut.set()
            if self._is_brief:
                self.mend()
            return False


def run_command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line, as a process of its own."""
    return subprocess.run(command(*arguments), env=environment(**variables), capture_output=True, text=True, timeout=60)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tenure", *arguments]


def environment(**variables: str) -> dict[str, str]:
    """This process's build of Tenure, and a screen that is wide enough for any line."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "200", "TERM": "dumb", **variables}
