"""What the shell offers when the tab key is pressed. Whatever goes wrong, it offers nothing and says nothing."""

import os
from typing import TYPE_CHECKING

from tenure.core.event import EVENT_NAMES
from tenure.core.state import STATE_NAMES

if TYPE_CHECKING:
    from tenure.cli.session import Place

PATIENCE_S = 0.5


def complete_state(incomplete: str) -> list[str]:
    return [name for name in STATE_NAMES if name.startswith(incomplete)]


def complete_event(incomplete: str) -> list[str]:
    return [name for name in EVENT_NAMES if name.startswith(incomplete)]


def complete_queue(incomplete: str) -> list[str]:
    """From a server only: a file would have to be opened, and that can take long."""
    import asyncio

    from tenure.cli.session import choose_place, read_token
    from tenure.core.error import Error

    try:
        place = choose_place(os.environ.get("TENURE_URL"))
        if not place.is_server:
            return []
        names = asyncio.run(_queues(place, read_token(os.environ.get("TENURE_TOKEN"))))
    except (Error, OSError, TimeoutError):
        return []
    return sorted(name for name in names if name.startswith(incomplete))


async def _queues(place: "Place", token: str) -> list[str]:
    import asyncio

    from tenure.client.client import connect

    async with asyncio.timeout(PATIENCE_S):
        async with connect(place.url, tenant=os.environ.get("TENURE_TENANT", ""), token=token) as client:
            return list(await client.count())
