"""Where an app's connection lives: there is one, whoever opens it and how many do so at once."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.client.client import Client, connect
from tenure.core.error import Unavailable
from tenure.task.home import Home

PATIENCE_S = 30.0
RACE_S = 0.5  # long enough for another to make a client, if it does


class Made:
    """Makes clients, and keeps the first from being open before there is a second or none is to come."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.first = threading.Event()
        self.second = threading.Event()

    def __call__(self) -> Client:
        client = connect("memory://")
        self.clients.append(client)
        if len(self.clients) == 1:
            self.first.set()
            real = client._driver.open

            async def open_late() -> None:
                await asyncio.to_thread(self.second.wait, RACE_S)
                await real()

            client._driver.open = open_late  # type: ignore[method-assign]
        else:
            self.second.set()
        return client


def same(client: Client) -> Client:
    return client


async def test_a_loop_and_a_thread_that_open_at_once_have_one_client() -> None:
    made = Made()
    home = Home(made)
    async with asyncio.timeout(PATIENCE_S):
        opening = asyncio.create_task(home.open())
        await asyncio.to_thread(made.first.wait, PATIENCE_S)
        from_thread = asyncio.create_task(asyncio.to_thread(home.run_sync, same, count))
        client = await opening
        assert await from_thread == {}
        assert made.clients == [client]
        await home.close()


async def test_a_thread_that_opens_first_gives_its_place_to_the_loop() -> None:
    made = Made()
    home = Home(made)
    async with asyncio.timeout(PATIENCE_S):
        from_thread = asyncio.create_task(asyncio.to_thread(home.run_sync, same, count))
        await asyncio.to_thread(made.first.wait, PATIENCE_S)
        client = await home.open()
        await asyncio.gather(from_thread, return_exceptions=True)
        assert home.here is client
        assert len(made.clients) == 2  # the first one was closed, in its thread
        with pytest.raises(Unavailable):
            await made.clients[0].count()
        await home.close()


def test_threads_that_call_at_once_have_one_client() -> None:
    made = Made()
    home = Home(made)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: home.run_sync(same, count), range(8))) == [{}] * 8
    assert len(made.clients) == 1
    home.close_sync()


async def test_opening_that_is_given_up_or_fails_leaves_the_way_free() -> None:
    made = Made()
    home = Home(made)
    async with asyncio.timeout(PATIENCE_S):
        opening = asyncio.create_task(home.open())
        await asyncio.to_thread(made.first.wait, PATIENCE_S)
        waiting = asyncio.create_task(home.open())
        await asyncio.sleep(0)
        for task in (waiting, opening):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        client = await home.open()
        assert home.here is client
        await home.close()


async def count(client: Client) -> dict[str, dict[str, int]]:
    return await client.count()
