from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tenure.ops.place import Place, open_place
from tests.backup.rig import BUCKET, s3_environment, s3_server


@pytest.fixture(scope="session")
def s3_port() -> Iterator[int]:
    with s3_server() as port:
        yield port


@pytest.fixture
def bucket(s3_port: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty prefix in a bucket."""
    for name, value in s3_environment(s3_port).items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid4().hex}"


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Of every kind."""
    if request.param == "s3":
        return open_place(request.getfixturevalue("bucket"))
    return open_place(str(tmp_path / "backups"), create=True)
