from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.worker.places import PLACES, place


@pytest.fixture(params=PLACES)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with place(request.param, tmp_path) as found:
        yield found
