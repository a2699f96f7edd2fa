"""A folder, and a bucket of a real S3 server."""

from pathlib import Path

import pytest

from tenure.lake.place import Place, open_place
from tests.blob.conftest import BUCKET, s3, server

__all__ = ["s3", "server"]


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return str(tmp_path / "lake")
    request.getfixturevalue("s3")
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def place(url: str) -> Place:
    return open_place(url, create=True)


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    return open_place(str(tmp_path / "lake"), create=True)
