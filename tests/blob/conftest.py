"""A folder, and a real S3 server in a process of its own."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Event

import pytest

from tenure.store.blob.folder import Folder
from tenure.store.blob.place import Place, open_place
from tests.blob.shop import Shop

READY_S = 60.0
BUCKET = "blobs"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """moto's S3 server. It keeps everything in its memory."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_until_ready(self) -> None:
        pause = Event()
        for _ in range(int(READY_S / 0.1)):
            try:
                urllib.request.urlopen(f"{self.url}/moto-api/", timeout=5).close()
                return
            except OSError:
                assert self._process.poll() is None, "moto's server ended"
                pause.wait(0.1)
        raise AssertionError("moto's server does not answer")

    def make_bucket(self, name: str) -> None:
        request = urllib.request.Request(f"{self.url}/{name}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    try:
        server.wait_until_ready()
        server.make_bucket(BUCKET)
        yield server
    finally:
        server.stop()


@pytest.fixture
def s3(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, and the variables that lead to it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    return server


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return Folder(tmp_path / "blobs")
    request.getfixturevalue("s3")
    return open_place(f"s3://{BUCKET}/{tmp_path.name}")


@pytest.fixture
async def shop(tmp_path: Path, place: Place) -> AsyncIterator[Shop]:
    shop = Shop(tmp_path / "jobs.db", place)
    await shop.open()
    yield shop
    await shop.close()
