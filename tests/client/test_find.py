"""Pages of `find` are full until the end, however few jobs of a store match."""

import asyncio

import pytest

import tenure
from tenure.core.request import Filter
from tenure.engine.query import SCAN_PER_PAGE

BULK = 3 * SCAN_PER_PAGE  # jobs between those that are looked for: more than one step looks at
BATCH = 10_000


async def fill(client: tenure.Client) -> list[int]:
    """Two jobs, many of another queue, and three more."""
    rare = [job.id for job in await client.enqueue_many([b"x"] * 2, queue="rare")]
    for _ in range(BULK // BATCH):
        await client.enqueue_many([b"x"] * BATCH, queue="bulk")
    return rare + [job.id for job in await client.enqueue_many([b"x"] * 3, queue="rare")]


async def sizes_of_pages(client: tenure.Client, limit: int) -> list[int]:
    sizes: list[int] = []
    cursor = ""
    for _ in range(20):
        page = await client.find(Filter(queue="rare"), limit, cursor)
        sizes.append(len(page.jobs))
        cursor = page.cursor
        if not cursor:
            return sizes
    raise AssertionError("the pages have no end")


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory://", "sqlite:///{folder}/jobs.db"])
async def test_pages_are_full_until_the_end(store: str, tmp_path: object) -> None:
    async with tenure.connect(store.format(folder=tmp_path)) as client:
        rare = await fill(client)
        page = await client.find(Filter(queue="rare"), 100)
        assert [job.id for job in page.jobs] == rare
        assert page.cursor == ""
        assert await sizes_of_pages(client, 2) == [2, 2, 1]
        assert await sizes_of_pages(client, 3) == [3, 2]
        nothing = await client.find(Filter(queue="rare", tag="none"), 1)
        assert (nothing.jobs, nothing.cursor) == ((), "")


async def test_others_have_their_turn_while_somebody_looks_for_few(tmp_path: object) -> None:
    async with tenure.connect("memory://") as client:
        await fill(client)
        order: list[str] = []

        async def look() -> None:
            await client.find(Filter(queue="none"), 10)
            order.append("found")

        async def ask() -> None:
            await client.count()
            order.append("counted")

        await asyncio.gather(look(), ask())
        assert order == ["counted", "found"]
