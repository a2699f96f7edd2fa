"""What goes over the wire is what went over it before. An intended difference is recorded with `make golden`."""

import difflib

import pytest

from tests.golden.files import FILES, read

SHOWN = 60


@pytest.mark.parametrize("name", FILES)
async def test_recorded(name: str) -> None:
    found = list(difflib.unified_diff(read(name), await FILES[name](), "recorded", "now", lineterm="", n=1))
    assert not found, "\n".join(found[:SHOWN])
