"""Every command is tried on a server and on a file."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.cli.rig import Place, serving

TENANTS = count(1)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings but those of the test."""
    for name in ("URL", "TOKEN", "TOKEN_FILE", "TENANT", "STORE", "HOST", "TCP_PORT", "UNIX"):
        monkeypatch.delenv(f"TENURE_{name}", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as url:
        yield url


@pytest.fixture(params=["server", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "server":
        url = str(request.getfixturevalue("server"))
    else:
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
    return Place(url, f"tenant-{next(TENANTS)}")


@pytest.fixture
def served(server: str) -> Place:
    """For what is the same on both, wrong use above all."""
    return Place(server, f"tenant-{next(TENANTS)}")
